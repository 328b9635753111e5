"""Steps with habits of eager code: compiled they do what eager does, and eager does what PyTorch does."""

import numpy as np
import pytest
import torch as pytorch
from both import plain

import torchlike

CALLS = 3


def identity(function):
    return function


def told(story, t, wrap):
    """What ``story(t, wrap)`` sees, with the exceptions it meets by type."""
    seen = []
    for x in story(t, wrap):
        seen.append(plain(x))
    return seen


def vector(t, *values, grad=False):
    return t.tensor([float(v) for v in values], requires_grad=grad)


STORIES = {}


def story(f):
    STORIES[f.__name__] = f
    return f


def repeated(t, wrap, function, *given):
    """``CALLS`` calls of a function: results, and the type of the error where it raises."""
    run = wrap(function)
    for i in range(CALLS):
        try:
            yield run(*[g(i) for g in given])
        except RuntimeError as error:
            yield type(error).__name__


# -- hooks and containers --------------------------------------------------------------------------------
@story
def a_hook_registered_and_removed_inside(t, wrap):
    w, seen = vector(t, 1, 2, grad=True), []

    def step(x):
        w.grad = None
        handle = w.register_hook(lambda g: g * 3)
        (w * x).sum().backward()
        handle.remove()
        return w.grad * 1

    yield from repeated(t, wrap, step, lambda i: vector(t, i, 5))
    (w * 2).sum().backward()
    yield w.grad, seen


@story
def a_hook_that_stays(t, wrap):
    w = vector(t, 1, 2, grad=True)
    handles = []

    def step(x):
        handles.append(w.register_hook(lambda g: g * 2))
        return w * x

    run = wrap(step)
    for i in range(CALLS):
        w.grad = None
        run(vector(t, i, 1)).sum().backward()
        yield w.grad
    [h.remove() for h in handles]


@story
def a_hook_of_a_result(t, wrap):
    w = vector(t, 1, 2, grad=True)

    def step(x):
        w.grad = None
        y = w * x
        y.register_hook(lambda g: g + 1)
        (y * 2).sum().backward()
        return w.grad

    yield from repeated(t, wrap, step, lambda i: vector(t, i, 5))


@story
def a_container_that_keeps_tensors(t, wrap):
    state = {"hist": []}

    def step(x):
        state["hist"].append(x * 2)
        return x + len(state["hist"])

    yield from repeated(t, wrap, step, lambda i: vector(t, i, 5))
    yield list(state["hist"])


@story
def a_tensor_kept_in_an_attribute(t, wrap):
    class Cache:
        last = None

    def step(x):
        y = x * 3
        Cache.last = y
        return y + 1

    run = wrap(step)
    for i in range(CALLS):
        yield run(vector(t, i, 2)), Cache.last


# -- modes and errors ------------------------------------------------------------------------------------
@story
def grads_switched_by_a_global(t, wrap):
    w, mode = vector(t, 1, 2, grad=True), {"no_grad": False}

    def step(x):
        w.grad = None
        with t.set_grad_enabled(not mode["no_grad"]):
            loss = (w * x).sum()
        loss.backward()
        return w.grad * 1

    run = wrap(step)
    for off in (False, True, False, True):
        mode["no_grad"] = off
        try:
            yield run(vector(t, 3, 4))
        except RuntimeError as error:
            yield "RuntimeError", "does not require grad" in str(error)


@story
def an_exception_in_the_middle_of_a_step(t, wrap):
    w, fail = vector(t, 1, 2, grad=True), {"now": False}
    optimizer = t.optim.SGD([w], lr=0.5)

    def step(x):
        (w * x).sum().backward()
        if fail["now"]:
            raise ValueError("stop")
        optimizer.step()
        optimizer.zero_grad()
        return w * 1

    run = wrap(step)
    for now in (False, True, False):
        fail["now"] = now
        try:
            yield run(vector(t, 1, 3)).detach()
        except ValueError as error:
            yield str(error), w.grad, w.detach()
    yield w.grad, w.detach()


@story
def cholesky_of_the_upper_half(t, wrap):
    given = t.tensor([[4.0, 1.0], [1.0, 3.0]])
    odd = t.tensor([[4.0, 1.0], [9.0, 3.0]])  # its lower half is not that of a positive matrix
    yield from repeated(t, wrap, lambda x: t.linalg.cholesky(x, upper=True), lambda i: odd if i else given)
    yield from repeated(t, wrap, lambda x: t.linalg.cholesky(x), lambda i: given * (i + 1))


# -- gradients -------------------------------------------------------------------------------------------
@story
def retain_grad_of_an_intermediate_result(t, wrap):
    w = vector(t, 1, 2, grad=True)

    def step(x):
        y = w * x
        y.retain_grad()
        (y * y).sum().backward()
        return y.grad, y.retains_grad, w.grad

    yield from repeated(t, wrap, step, lambda i: vector(t, i, 5))


@story
def retain_grad_of_a_result(t, wrap):
    w = vector(t, 1, 2, grad=True)

    def step(x):
        y = w * x
        y.retain_grad()
        return y

    run = wrap(step)
    for i in range(CALLS):
        y = run(vector(t, i, 2))
        (y * y).sum().backward()
        yield y.retains_grad, y.grad, w.grad


@story
def ties(t, wrap):
    w = vector(t, 3, 3, 1, 3, grad=True)

    def step(x):
        w.grad = None
        (w.max() + (w.cummax(0)[0] * x).sum() + w.amax() + w.min()).backward()
        return w.grad * 1, w.cummax(0)[1], w.argmax()

    yield from repeated(t, wrap, step, lambda i: vector(t, i, 2, 3, 4))


@story
def backward_for_integers(t, wrap):
    w, n = vector(t, 1, 2, grad=True), t.tensor([1, 2])
    yield from repeated(t, wrap, lambda x: (w * x).sum().backward(inputs=[n]), lambda i: vector(t, i, 2))


# -- views and writes ------------------------------------------------------------------------------------
@story
def narrow_then_logical_not(t, wrap):
    def step(x):
        y = x * 1
        part = y.narrow(0, 0, 2)
        part.logical_not_()
        return y, part, y.is_leaf, part.is_leaf

    yield from repeated(t, wrap, step, lambda i: vector(t, i, 0, 2))


@story
def narrow_of_an_argument_then_logical_not(t, wrap):
    def step(x):
        part = x.narrow(0, 0, 2)
        part.logical_not_()
        return part

    given = [vector(t, i, 0, 2) for i in range(CALLS)]
    for part, x in zip(repeated(t, wrap, step, lambda i: given[i]), given, strict=True):
        yield part, x, part.is_leaf, part._is_view(), x.is_leaf


@story
def expand_as_of_an_input_that_is_written(t, wrap):
    def step(x, y):
        wide = x.expand_as(y)
        x.add_(1)
        return wide * 2, wide

    given = [vector(t, i) for i in range(CALLS)]
    yield from repeated(t, wrap, step, lambda i: given[i], lambda i: vector(t, 1, 2, 3))
    yield given


@story
def unfold_of_an_input_that_is_written(t, wrap):
    def step(x):
        windows = x.unfold(0, 2, 1)
        x.mul_(2)
        return windows + 0, windows

    given = [vector(t, i, 2, 3) for i in range(CALLS)]
    yield from repeated(t, wrap, step, lambda i: given[i])
    yield given


@story
def a_view_that_is_returned(t, wrap):
    def step(x):
        y = x * 2
        return y, y[1:], x[:1]

    given = [vector(t, i, 2, 3) for i in range(CALLS)]
    for i, (y, part, head) in enumerate(repeated(t, wrap, step, lambda i: given[i])):
        part.add_(10)
        head.fill_(7)
        yield y, part, given[i], head._is_view()


@story
def a_view_that_is_kept(t, wrap):
    base, kept = vector(t, 1, 2, 3), []

    def step(x):
        kept.append(base[1:])
        base.add_(x)
        return base * 1

    yield from repeated(t, wrap, step, lambda i: vector(t, i, i, i))
    base.add_(1)
    yield kept, base


@story
def set_of_a_result(t, wrap):
    def step(x):
        y, z = t.zeros(2), x * 2
        y.set_(z)
        z.add_(1)
        return y, z

    yield from repeated(t, wrap, step, lambda i: vector(t, i, 2))


@story
def set_of_a_tensor_from_outside(t, wrap):
    held = vector(t, 0, 0)

    def step(x):
        held.set_(x * 2)
        return held + 1

    yield from repeated(t, wrap, step, lambda i: vector(t, i, 2))
    yield held


@story
def masked_fill_and_out(t, wrap):
    out = t.zeros(3)

    def step(x):
        t.add(x, 1, out=out)
        out.masked_fill_(out > 2, 0.0)
        y = t.empty(0)
        t.mul(x, 2, out=y)
        return out * 1, y

    yield from repeated(t, wrap, step, lambda i: vector(t, i, 2, 3))
    yield out


@story
def data_of_a_parameter(t, wrap):
    w = vector(t, 1, 2, grad=True)

    def step(x):
        w.data.add_(x)
        w.data = w.data * 2
        return (w * x).sum()

    yield from repeated(t, wrap, step, lambda i: vector(t, i, 2))
    yield w.detach(), w._version


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", STORIES)
def test_compiled_is_as_eager_is_as_pytorch(name):
    theirs = told(STORIES[name], pytorch, identity)
    ours = told(STORIES[name], torchlike, identity)
    compiled = told(STORIES[name], torchlike, torchlike.compile)
    _same(ours, theirs, "eager")
    _same(compiled, ours, "compiled")


def _same(a, b, where):
    if isinstance(a, list | tuple):
        assert len(a) == len(b), where
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            _same(x, y, f"{where}[{i}]")
    elif isinstance(a, np.ndarray):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6, err_msg=where)
    else:
        assert a == b, f"{where}: {a} for {b}"
