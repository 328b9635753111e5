"""Anomaly mode: what it warns of, what its errors say, and which lines it shows."""

import os
import re
import threading
import warnings
from pathlib import Path

import pytest
import torch
from both import agree, attempt
from story_kit import leaf, said, story, tell, warned

import torchlike

HEAD = re.compile(r"\s*((Error detected in|Previous calculation was induced by) [\w:]+)\. (No forward pass|Traceback)")


@pytest.fixture(autouse=True)
def as_before():
    """A test that leaves anomaly mode on fails."""
    yield
    for t in (torch, torchlike):
        assert (t.is_anomaly_enabled(), t.is_anomaly_check_nan_enabled()) == (False, True)


def state(t):
    return t.is_anomaly_enabled(), t.is_anomaly_check_nan_enabled()


OURS = f"{Path(torchlike.__file__).parent}{os.sep}"


def anomaly(t, check_nan=True):
    return t.autograd.set_detect_anomaly(True, check_nan)


def explained(f):
    """What became of ``f()``, and of each warning what it says and the last lines of this file that it shows."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        got = attempt(f)
    return [tell(got) if isinstance(got, Exception) else got, *(shown(str(w.message)) for w in caught)]


def shown(text):
    frames = re.findall(r'File "(.*?)", line \d+, in (\S+)\n    (.*)\n', text)
    assert not [file for file, *_ in frames if file.startswith(OURS) or file.startswith("<torchlike")], text
    lines = [frame[1:] for frame in frames if frame[0].endswith("test_anomaly.py")]
    head = HEAD.match(text)
    return (head.group(1), head.group(3), lines[-2:]) if head else text


def not_a_number(t, x):
    y = x.sqrt() * 0  # the line
    return y.sum()


# -- the switches --------------------------------------------------------------------------------------


@story
def test_the_switches(t):
    seen = [state(t)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with t.autograd.detect_anomaly() as entered:
            seen += [entered, state(t)]
            with t.autograd.detect_anomaly(check_nan=False):
                seen.append(state(t))
            seen.append(state(t))
            with t.autograd.set_detect_anomaly(False) as entered:
                seen += [entered, state(t)]
                with t.autograd.set_detect_anomaly(True, check_nan=False):
                    seen.append(state(t))
                seen.append(state(t))
            seen.append(state(t))
    seen.append(state(t))
    switch = t.autograd.set_detect_anomaly(True, False)
    seen += [state(t), switch.prev, switch.prev_check_nan]
    t.autograd.set_detect_anomaly(False)
    return seen, state(t)


@story
def test_an_error_restores(t):
    def failing():
        with anomaly(t, False):
            raise KeyError("x")

    return said(failing), state(t)


@story
def test_the_mode_is_that_of_the_process(t):
    seen = []
    with anomaly(t):
        thread = threading.Thread(target=lambda: seen.append((state(t), explained(lambda: failing(t))[0])))
        thread.start()
        thread.join()
    return seen


def failing(t):
    not_a_number(t, leaf(t, 0)).backward()


@story
def test_entering_it_warns(t):
    why = "Anomaly Detection has been enabled. This mode will increase the runtime"
    return (warned(lambda: t.autograd.detect_anomaly(), why), warned(lambda: t.autograd.detect_anomaly(False), why),
            warned(lambda: t.autograd.set_detect_anomaly(False)))  # fmt: skip


@pytest.mark.parametrize("wrong", [1, None, "a"])
def test_the_switch_is_a_bool(wrong):
    def f(t):
        why = r"argument '\w+' \(position \d\) must be bool, not \w+"
        switch = t.autograd.set_detect_anomaly
        return said(lambda: switch(wrong), why), said(lambda: switch(True, wrong), why), state(t)

    agree(f)


# -- NaN -----------------------------------------------------------------------------------------------

NAN = {
    "sqrt": lambda t: not_a_number(t, leaf(t, 0, 1)),
    "div": lambda t: (leaf(t, 0) / leaf(t, 0)).sum(),
    "second output": lambda t: (leaf(t, 1) * leaf(t, 0) / leaf(t, 0)).sum(),
    "log": lambda t: (leaf(t, 0).log() * 0).sum(),
    "no NaN": lambda t: (leaf(t, 1) * leaf(t, 0)).sum(),
    "inf": lambda t: leaf(t, 0, 1).sqrt().sum(),
    "complex": lambda t: (t.zeros(1, dtype=t.complex128, requires_grad=True).log() * 0).abs().sum(),
    "where": lambda t: t.where(leaf(t, 0, 1) > 0, leaf(t, 0, 1).sqrt(), 0.0).sum(),
}


@pytest.mark.parametrize("name", NAN)
@pytest.mark.parametrize("forward, backward", [(True, True), (False, True), (True, False)])
def test_not_a_number(name, forward, backward):
    def f(t):
        with t.autograd.set_detect_anomaly(forward):
            y = NAN[name](t)
        with t.autograd.set_detect_anomaly(backward):
            return explained(lambda: y.backward())

    agree(f)


@pytest.mark.parametrize("name", NAN)
def test_not_a_number_unchecked(name):
    def f(t):
        with anomaly(t, check_nan=False):
            return explained(lambda: NAN[name](t).backward())

    agree(f)


@story
def test_not_a_number_comes_in(t):
    g = t.tensor([float("nan"), 1, 1], dtype=t.float64)
    with anomaly(t):
        return [explained(lambda: (leaf(t) * 2).backward(g)), explained(lambda: leaf(t).backward(g)),
                explained(lambda: (-leaf(t)).relu().backward(g))]  # fmt: skip


@story
def test_nothing_reaches_the_leaves(t):
    x, w = leaf(t, 0, 1), leaf(t, 1, 1)
    with anomaly(t):
        seen = explained(lambda: ((x.sqrt() * 0).sum() + w.sum()).backward())
    return seen, x.grad


# -- errors --------------------------------------------------------------------------------------------


@story
def test_a_saved_tensor_changed(t):
    def f():
        y = leaf(t).exp()
        y.add_(1)
        y.sum().backward()

    with anomaly(t):
        shown = explained(f)
    y = leaf(t).exp()
    y.add_(1)
    y = y.sum()
    with anomaly(t):
        bare = explained(lambda: y.backward())
    # of the message only which hint it ends with is compared
    return [(s[0].partition("Hint:")[2][:40], s[1:]) for s in (shown, bare)]


@story
def test_backward_twice(t):
    def f():
        y = (leaf(t) ** 3).sum()
        y.backward()
        y.backward()

    with anomaly(t):
        seen = explained(f)
    return seen[0][:70], seen[1:]


@story
def test_an_error_in_an_unpack_hook(t):
    def unpack(v):
        raise ValueError("unpack")

    def f():
        with t.autograd.graph.saved_tensors_hooks(lambda v: v, unpack):
            y = leaf(t).exp()
        y.sum().backward()

    with anomaly(t):
        return explained(f)


HOOKS = {
    "tensor": lambda x, y, hook: y.register_hook(hook),
    "pre": lambda x, y, hook: y.grad_fn.register_prehook(hook),
    "post": lambda x, y, hook: y.grad_fn.register_hook(hook),
    "leaf": lambda x, y, hook: x.register_hook(hook),
    "post accumulate": lambda x, y, hook: x.register_post_accumulate_grad_hook(hook),
}


@pytest.mark.parametrize("where", HOOKS)
def test_an_error_in_a_hook(where):
    def f(t):
        def hook(*args):
            raise ValueError("hook")

        x = leaf(t)
        with anomaly(t):
            y = x.exp()
            HOOKS[where](x, y, hook)
            seen = explained(lambda: y.sum().backward())
        return [s[0] if isinstance(s, tuple) else s for s in seen]

    agree(f)


@story
def test_the_calls_before_it(t):
    x = leaf(t, 0, 1)

    def f():
        y = x * x
        (g,) = t.autograd.grad(y.sum(), x, create_graph=True)
        z = (g + 0).sqrt() * 0
        z.sum().backward()

    with anomaly(t):
        return explained(f)


@story
def test_double_backward_shows_the_forward_call_too(t):
    x = leaf(t, 0, 1)

    def f():
        y = x.sqrt() * 0
        (g,) = t.autograd.grad(y.sum(), x, create_graph=True, grad_outputs=t.ones((), dtype=t.float64))
        g.sum().backward()

    with anomaly(t, check_nan=False):
        before = explained(f)
    with anomaly(t):
        return before, explained(f)


@story
def test_an_error_in_double_backward(t):
    x = leaf(t)

    def f():
        y = x**3
        (g,) = t.autograd.grad(y.sum(), x, create_graph=True)
        t.autograd.grad(g.sum(), x)
        t.autograd.grad(g.sum(), x)

    with anomaly(t):
        got = explained(f)
    return got[0][:60], got[-1]


# -- metadata ------------------------------------------------------------------------------------------


@story
def test_what_a_node_remembers(t):
    x = leaf(t)
    with anomaly(t):
        y = x.exp()
    z = x.exp()
    with anomaly(t):
        (g,) = t.autograd.grad(y.sum(), x, create_graph=True)
    metadata = y.grad_fn.metadata
    stack = metadata["traceback_"]
    return (sorted(metadata), type(stack).__name__, all(isinstance(s, str) for s in stack), stack[-1].split("\n")[1],
            sorted(z.grad_fn.metadata), metadata is y.grad_fn.metadata, sorted(g.grad_fn.metadata),
            g.grad_fn.metadata["parent_"] is y.grad_fn)  # fmt: skip


@story
def test_a_sum_of_gradients_remembers_the_node_before_it(t):
    x = leaf(t)
    with anomaly(t):
        y = x * x
        (g,) = t.autograd.grad(y.sum(), x, create_graph=True)
    return g.grad_fn.metadata["parent_"] is y.grad_fn


@story
def test_metadata_is_the_users_too(t):
    y = leaf(t).exp()
    y.grad_fn.metadata["mine"] = 3
    return y.grad_fn.metadata, (y * 1).grad_fn.metadata
