"""TorchDispatchMode: the note's example, order and nesting, results of a mode's own, errors, and what stays outside."""

from __future__ import annotations

import threading

import pytest
import torch
from both import agree, agree_error, attempt
from dispatch_kit import calls, dispatch, log_mode, shown
from function_kit import doubled

import torchlike
from torchlike.utils._python_dispatch import TorchDispatchMode


def test_the_note_s_log(capsys):
    def printed(t):
        class DispatchLog(dispatch(t).TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args, kwargs=None):
                print(f"Dispatch Log: {func}(*{shown(list(args))}, **{kwargs})")
                return func(*args, **(kwargs or {}))

        def f():
            a = t.rand(10, requires_grad=True)
            b = a * 2
            b.sum().backward()

        with DispatchLog():
            f()
        return capsys.readouterr().out

    assert printed(torchlike) == printed(torch)
    assert printed(torchlike).splitlines()[0] == (
        "Dispatch Log: aten.rand.default(*[[10]], **{'device': device(type='cpu'), 'pin_memory': False})"
    )


def numbered(t, log, number, answer=None):
    """A mode that notes its number, and answers by itself if it is given an answer."""

    class Mode(dispatch(t).TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            log.append((number, str(func)))
            return func(*args, **(kwargs or {})) if answer is None else answer(func, args)

    return Mode()


def nested(t):
    log = []
    x = t.ones(2)
    with numbered(t, log, 1), numbered(t, log, 2), numbered(t, log, 3):
        x + 1
    return log


def answered(t):
    log = []
    x = t.ones(2)
    with numbered(t, log, 1), numbered(t, log, 2, lambda func, args: args[0] * 10):
        y = x + 1
    return log, y


def again(t):
    seen = []

    class Mode(dispatch(t).TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            if str(func) == "aten.add.Tensor":
                with self:
                    args[0] * 2
            return func(*args, **(kwargs or {}))

    with Mode():
        t.ones(2) + 1
    return seen


def current(t):
    d, found = dispatch(t), []

    class Mode(d.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            found.append((d._get_current_dispatch_mode() is None, len(d._get_current_dispatch_mode_stack())))
            return func(*args, **(kwargs or {}))

    a, b = Mode(), Mode()
    with a, b:
        found.append((d._get_current_dispatch_mode() is b, d._len_torch_dispatch_stack()))
        t.ones(1)
        with d._pop_mode_temporarily() as popped:
            found.append((popped is b, d._get_current_dispatch_mode() is a))
        with d._disable_current_modes():
            found.append(d._get_current_dispatch_mode())
            t.ones(1)
        found.append(d.is_in_torch_dispatch_mode())
    return found, d._get_current_dispatch_mode()


def of_requires_grad(t):
    """A result that the mode made requires grad like any other, and backward goes through it."""
    log = []
    x = t.ones(2, requires_grad=True)
    with numbered(t, log, 1, lambda func, args: t.full((2,), 7.0) if str(func) == "aten.exp.default" else func(*args)):
        y = x.exp()
        facts = y.requires_grad, y.grad_fn.name(), y
    y.sum().backward()
    return facts, x.grad


def of_views(t):
    x = t.zeros(4)
    with log_mode(t):
        v = x.view(2, 2)[0]
        v.add_(1)
    return x, v._is_view(), v._base is x, x._version, v._version


def after_an_error(t):
    class Mode(dispatch(t).TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            raise ValueError("no")

    error = None
    try:
        with Mode():
            t.ones(2)
    except ValueError as e:
        error = str(e)
    return error, dispatch(t)._get_current_dispatch_mode(), t.is_grad_enabled(), t.ones(1) + 1


def of_identity(t):
    """In-place calls return the tensor itself, views of no change are new tensors."""
    x = t.ones(2)
    with log_mode(t):
        return x.add_(1) is x, x.view(2) is x, x.detach() is x, x.to(t.float32) is x, x.contiguous() is x


def of_tensor_arguments(t):
    types = []

    class Mode(dispatch(t).TorchDispatchMode):
        def __torch_dispatch__(self, func, types_, args=(), kwargs=None):
            types.append((types_, type(args).__name__, type(kwargs).__name__))
            return func(*args, **(kwargs or {}))

    with Mode():
        t.ones(2) + t.ones(2)
    return types


def of_push(t):
    log = []

    class Mode(dispatch(t).BaseTorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            log.append(str(func))
            return super().__torch_dispatch__(func, types, args, kwargs)

    with Mode():
        y = t.ones(2) * 3
    return log, y


@pytest.mark.parametrize(
    "f",
    [nested, answered, again, current, of_requires_grad, of_views, after_an_error, of_identity, of_tensor_arguments,
     of_push],
)  # fmt: skip
def test_as_in_pytorch(f):
    agree(f)


def not_implemented(t):
    class Mode(dispatch(t).TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return NotImplemented

    with Mode():
        t.ones(2)


def without_method(t):
    with dispatch(t).TorchDispatchMode():
        t.ones(2)


def test_errors():
    agree_error(not_implemented, r"Multiple dispatch failed for 'torch._ops.aten.ones.default'.*- mode object <.*Mode ")
    agree_error(without_method, "")
    with pytest.raises(NotImplementedError, match="dispatch keys"):
        TorchDispatchMode("key")


@pytest.mark.parametrize("hook", ["tensor", "node", "post"])
def test_hooks_of_a_watched_backward(hook):
    def run(t):
        got = []
        x = t.ones(2, requires_grad=True)
        y = x * 3
        if hook == "tensor":
            y.register_hook(lambda g: got.append(g) or g * 2)
        elif hook == "node":
            y.grad_fn.register_hook(lambda gi, go: got.append((gi, go)))
        else:
            x.register_post_accumulate_grad_hook(lambda p: got.append(p.grad.clone()))
        with log_mode(t):
            y.sum().backward()
        return got, x.grad

    agree(run)


@pytest.mark.parametrize("create", [False, True])
def test_grad_and_inputs(create):
    def run(t):
        x, w = t.ones(3, requires_grad=True), t.full((3,), 2.0, requires_grad=True)
        with log_mode(t):
            y = (x * w).exp().sum()
            g = t.autograd.grad(y, (x, w), create_graph=create, retain_graph=True)
            y.backward(inputs=[x], retain_graph=True)
            unused = attempt(lambda: t.autograd.grad(x.sum(), w))
        again = t.autograd.grad(g[0].sum(), w) if create else None
        return g, x.grad, w.grad, again, unused

    agree(run)


def test_a_second_backward_is_refused():
    def run(t):
        x = t.ones(3, requires_grad=True)
        y = x.exp().sum()
        with log_mode(t):
            y.backward()
            y.backward()

    agree_error(run, "backward through the graph a second time")


def test_a_changed_saved_tensor_is_refused():
    def run(t):
        x = t.ones(3, requires_grad=True)
        with log_mode(t):
            y = x * 1
            z = y.exp()
            z.add_(1)
            z.sum().backward()

    agree_error(run, "modified by an inplace operation")


def test_custom_functions_are_seen_by_their_parts():
    def run(t):
        x = t.ones(2, requires_grad=True)
        with log_mode(t, arguments=False) as log:
            doubled(t).apply(x).sum().backward()
        return [line.strip() for line in log.lines if "detach" not in line], x.grad

    agree(run)


def test_threads_have_modes_of_their_own():
    seen = []
    with log_mode(torchlike) as log:
        thread = threading.Thread(target=lambda: seen.append(torchlike.ones(2) + 1))
        thread.start()
        thread.join()
    assert len(seen) == 1 and log.lines == []


def test_random_numbers_are_the_same_with_and_without_a_mode():
    def numbers():
        torchlike.manual_seed(3)
        x = torchlike.empty(3).uniform_(1, 2)
        return torchlike.cat([torchlike.rand(2), x, torchlike.nn.functional.dropout(x), torchlike.bernoulli(x / 2)])

    bare = numbers()
    with log_mode(torchlike):
        watched = numbers()
    assert bare.tolist() == watched.tolist()


def test_a_failed_call_changes_nothing():
    x = torchlike.ones(2)
    with log_mode(torchlike), pytest.raises(RuntimeError):
        x.add_(torchlike.ones(3))
    assert x.tolist() == [1, 1] and x._version == 0


def test_a_compiled_function_is_seen_while_it_is_traced():
    @torchlike.compile
    def f(x):
        return (x * 2).sum()

    with log_mode(torchlike, arguments=False) as log:
        assert f(torchlike.ones(3)).item() == 6
    names = [line.strip() for line in log.lines]
    assert "aten.mul.Tensor" in names and "aten.sum.default" in names
    assert f(torchlike.ones(3)).item() == 6


def test_a_mode_inside_a_compiled_function_sees_the_trace():
    names = []

    @torchlike.compile
    def f(x):
        with log_mode(torchlike, arguments=False) as log:
            y = x.exp().sum()
        names.extend(log.lines)
        return y

    f(torchlike.ones(3))
    f(torchlike.zeros(3))
    assert [n.strip() for n in names][:2] == ["aten.exp.default", "aten.sum.default"]


def test_scripts_are_run_as_they_are():
    assert calls(torchlike, "x + 1") == ["aten.add.Tensor T[3, 4], 1"]
    assert calls(torchlike, "z.sum() # z = x * 2", arguments=False) == ["aten.sum.default"]


def test_the_library_has_the_mode_class():
    assert dispatch(torch).TorchDispatchMode is not TorchDispatchMode
