"""TorchFunctionMode: what a mode sees, in which order, nesting, re-entry, and the note's FunctionLog."""

from __future__ import annotations

import contextlib
import copy
import io
import threading

import pytest
import torch
from agreement import agree
from both import agree_error

import torchlike


def log(t, seen, name="", types=True):
    """A mode that notes what it is told and goes on."""

    class Log(t.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            line = [name, t.overrides.resolve_name(func), None if kwargs is None else sorted(kwargs)]
            seen.append([*line, [k.__name__ for k in types]] if types_too else line)
            return func(*args, **(kwargs or {}))

    types_too = types
    return Log()


def logged(t, f, **options):
    seen: list = []
    with log(t, seen, **options):
        f()
    return seen


# -- the note ---------------------------------------------------------------------------------------


def function_log(t):
    class FunctionLog(t.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args, kwargs=None):
            print(f"Function Log: {t.overrides.resolve_name(func)}(*{args}, **{kwargs})")
            return func(*args, **(kwargs or {}))

    return FunctionLog()


def test_note():
    """The lines that the note prints, with values that both libraries share."""

    def run(t):
        def f():
            a = t.ones(10, requires_grad=True)
            b = a * 2
            b.sum().backward()

        out = io.StringIO()
        with contextlib.redirect_stdout(out), function_log(t):
            f()
        return out.getvalue()

    agree(run)


def test_note_random_numbers_are_seen():
    agree(lambda t: logged(t, lambda: t.rand(10, requires_grad=True)))


# -- what is seen -------------------------------------------------------------------------------------

SEEN = {
    "factories": lambda t: (
        t.ones(2),
        t.zeros(1),
        t.empty(1),
        t.full((1,), 2),
        t.arange(3),
        t.eye(2),
        t.linspace(0, 1, 3),
    ),
    "random": lambda t: (t.rand(2), t.randn(1), t.randint(3, (2,)), t.randperm(3), t.normal(0.0, 1.0, (2,))),
    "data": lambda t: (t.tensor([1.0]), t.as_tensor([1]), t.asarray([1])),
    "of another": lambda t: (t.zeros_like(X[t]), t.ones_like(X[t]), X[t].new_ones(2)),
    "questions": lambda t: (
        t.is_floating_point(X[t]),
        t.numel(X[t]),
        t.result_type(X[t], 1),
        t.can_cast(t.int, t.float),
    ),
    "operators": lambda t: (
        X[t] + 1,
        1 - X[t],
        X[t] / 2,
        X[t] ** 2,
        X[t] == X[t],
        -X[t],
        X[t] @ X[t],
        2 * X[t],
        X[t] > 0,
    ),
    "index": lambda t: (X[t][0], X[t].clone().__setitem__(0, 1.0), X[t][X[t] > 0]),
    "properties": lambda t: (X[t].shape, X[t].dtype, X[t].T, X[t].grad, X[t].requires_grad, X[t].is_leaf, X[t].data),
    "setters": lambda t: setattr(t.ones(1), "grad", None),
    "functional": lambda t: (t.nn.functional.relu(X[t]), t.nn.functional.softmax(X[t], 0), t.nn.functional.gelu(X[t])),
    "loss": lambda t: t.nn.functional.mse_loss(X[t], X[t]),
    "lists": lambda t: (t.cat([X[t], X[t]]), t.stack([X[t]]), X[t].split(1), t.einsum("ij->j", X[t])),
    "linalg": lambda t: (t.linalg.norm(X[t]), t.linalg.det(X[t]), t.special.erf(X[t])),
    "composite": lambda t: (
        t.flatten(X[t]),
        t.reshape(X[t], (4,)),
        X[t].view(4),
        t.movedim(X[t], 0, 1),
        t.swapaxes(X[t], 0, 1),
    ),
    "module": lambda t: LINEAR[t](X[t]),
    "training": lambda t: LINEAR[t](X[t]).sum().backward(),
    "no questions of state": lambda t: (
        t.is_grad_enabled(),
        t.get_default_dtype(),
        t.manual_seed(0),
        t.is_tensor(X[t]),
    ),
    "repr": lambda t: (repr(X[t]), str(X[t]), f"{X[t]}"),
    "in": lambda t: 1.0 in X[t],
    "inplace": lambda t: X[t].clone().add_(1).mul_(2),
    "out": lambda t: t.add(X[t], 1, out=t.empty(2, 2)),
    "hooks": lambda t: (lambda x: (x.register_hook(lambda g: g * 2), x.sum().backward()))(
        t.ones(2, requires_grad=True)
    ),
    "isinstance": lambda t: isinstance(X[t], t.nn.Parameter),
    "max": lambda t: (t.max(X[t]), t.max(X[t], 0), X[t].max(0, keepdim=True)),
    "to": lambda t: (X[t].to(t.float64), X[t].double(), X[t].cpu()),
    "a transform": lambda t: t.vmap(lambda x: x * 2)(X[t]),
    "copies": lambda t: (copy.deepcopy(X[t]), copy.deepcopy(LINEAR[t].weight)),
}
X = {t: t.tensor([[1.0, 2.0], [3.0, 4.0]]) for t in (torch, torchlike)}
LINEAR = {t: t.nn.Linear(2, 2) for t in (torch, torchlike)}


@pytest.mark.parametrize("code", SEEN.values(), ids=list(SEEN))
def test_seen(code):
    agree(lambda t: logged(t, lambda: code(t), types=False))


CALLER = """
import operator
def f(t, x):
    return t.add(x, 1), x.mul(2), operator.neg(x), x.shape, t.nn.functional.relu(x), t.ones(1)
"""


@pytest.mark.parametrize("name", ["contrib", "nn.functional", "_core.own"])
def test_callers_of_any_name_are_seen(name):
    """Which module a call comes from does not matter, though it be called as one of the library's own."""

    def run(t):
        space = {"__name__": f"{t.__name__}.{name}"}
        exec(CALLER, space)
        return logged(t, lambda: space["f"](t, X[t]), types=False)

    agree(run)


SHORT = {
    "plain": lambda t: t.add(X[t], 1),
    "getter": lambda t: X[t].shape,
    "python": lambda t: t.nn.functional.relu(X[t]),
    "backward": lambda t: LINEAR[t](X[t]).sum().backward(),
    "subclass": lambda t: t.add(X[t].as_subclass(t.nn.Parameter), 1),
}


@pytest.mark.parametrize("code", SHORT.values(), ids=list(SHORT))
def test_types(code):
    agree(lambda t: logged(t, lambda: code(t)))


# -- order ----------------------------------------------------------------------------------------------


def nested(t, depth, f):
    seen: list = []
    with contextlib.ExitStack() as stack:
        for i in range(depth):
            stack.enter_context(log(t, seen, f"mode {i}"))
        f(seen)
    return [(line[0], line[1]) for line in seen]


def subclass(t, seen):
    class Seen(t.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(["subclass", t.overrides.resolve_name(func)])
            return super().__torch_function__(func, types, args, kwargs)

    return Seen


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_innermost_first(depth):
    agree(lambda t: nested(t, depth, lambda seen: X[t] + 1))


@pytest.mark.parametrize("depth", [1, 2])
def test_modes_before_subclasses(depth):
    agree(lambda t: nested(t, depth, lambda seen: X[t].as_subclass(subclass(t, seen)) + 1))


def test_the_result_of_a_mode_is_the_result():
    def run(t):
        class Seven(t.overrides.TorchFunctionMode):
            def __torch_function__(self, func, types, args=(), kwargs=None):
                return 7

        with Seven():
            return X[t] + 1, t.ones(3), X[t].shape, t.nn.functional.relu(X[t])

    agree(run)


def test_a_mode_can_replace_the_function():
    def run(t):
        class Meta(t.overrides.TorchFunctionMode):
            def __torch_function__(self, func, types, args=(), kwargs=None):
                return {t.add: t.sub, t.ones: t.zeros}.get(func, func)(*args, **(kwargs or {}))

        with Meta():
            return t.add(X[t], 1).tolist(), t.ones(2).tolist(), t.mul(X[t], 2).tolist()

    agree(run)


def test_with_self():
    """The handler runs with its mode off; ``with self:`` turns it on."""

    def run(t):
        depths = []

        class Again(t.overrides.TorchFunctionMode):
            def __torch_function__(self, func, types, args=(), kwargs=None):
                depths.append(len(depths))
                if len(depths) < 3:
                    with self:
                        return func(*args, **(kwargs or {}))
                return func(*args, **(kwargs or {}))

        with Again():
            return (X[t] + 1).tolist(), depths

    agree(run)


def test_one_mode_entered_twice():
    def run(t):
        seen: list = []
        mode = log(t, seen)
        with mode, mode:
            X[t].add(1)
        return len(seen)

    agree(run)


def test_base_mode():
    def run(t):
        seen: list = []
        with log(t, seen), t.overrides.BaseTorchFunctionMode():
            t.add(X[t], 1)
        return [line[1] for line in seen]

    agree(run)


def test_handler_calls_are_seen_by_the_outer_mode():
    def run(t):
        seen: list = []

        class Doubling(t.overrides.TorchFunctionMode):
            def __torch_function__(self, func, types, args=(), kwargs=None):
                return func(*args, **(kwargs or {})) * 2

        with log(t, seen), Doubling():
            out = t.add(X[t], 1)
        return out.tolist(), [line[1] for line in seen]

    agree(run)


# -- the stack --------------------------------------------------------------------------------------------


def test_stack():
    def run(t):
        overrides, a, b = t.overrides, log(t, []), log(t, [])
        states = []
        note = lambda: states.append(  # noqa: E731
            (overrides._get_current_function_mode() is b, len(overrides._get_current_function_mode_stack()))
        )
        note()
        with a:
            note()
            with b:
                note()
                with overrides._pop_mode_temporarily() as popped:
                    states.append(popped is b)
                    note()
            note()
        note()
        return states

    agree(run)


def test_pushed_and_popped_by_calls():
    def run(t):
        seen: list = []
        t._C._push_on_torch_function_stack(log(t, seen))
        X[t].add(1)
        lengths = [t._C._len_torch_function_stack()]
        t._C._pop_torch_function_stack()
        X[t].add(1)
        return len(seen), [*lengths, t._C._len_torch_function_stack()]

    agree(run)


SWITCHES = {
    "subclasses off": ("DisableTorchFunctionSubclass", True),
    "all off": ("DisableTorchFunction", False),
}


@pytest.mark.parametrize(("switch", "seen_then"), SWITCHES.values(), ids=list(SWITCHES))
def test_switches(switch, seen_then):
    def run(t):
        def f():
            with getattr(t._C, switch)():
                X[t].add(1)

        return bool(logged(t, f)), t._C._is_torch_function_mode_enabled()

    agree(run)
    assert bool(logged(torchlike, lambda: _switched(torchlike, switch))) is seen_then


def _switched(t, switch):
    with getattr(t._C, switch)():
        X[t].add(1)


def test_an_error_leaves_the_mode():
    def run(t):
        seen: list = []
        with contextlib.suppress(ValueError), log(t, seen):
            raise ValueError
        X[t].add(1)
        return len(seen), t.overrides._get_current_function_mode()

    agree(run)


def test_an_error_in_a_handler_puts_the_mode_back():
    def run(t):
        class Failing(t.overrides.TorchFunctionMode):
            def __torch_function__(self, func, types, args=(), kwargs=None):
                raise KeyError("from the handler")

        with Failing() as mode:
            for _ in range(2):
                with contextlib.suppress(KeyError):
                    X[t].add(1)
            return t.overrides._get_current_function_mode() is mode

    agree(run)


def test_other_threads_do_not_see_it():
    def run(t):
        seen: list = []
        with log(t, seen):
            thread = threading.Thread(target=lambda: X[t].add(1))
            thread.start()
            thread.join()
        return len(seen)

    agree(run)


def test_hooks_run_under_the_mode():
    """The mode that sees backward is off while hooks run; the one around it sees what they call."""

    def run(t):
        x = t.ones(2, requires_grad=True)
        x.register_hook(lambda g: t.mul(g, 2))
        y = x.sum()
        return [line[1] for line in logged(t, lambda: nested(t, 1, lambda: t.autograd.backward(y)))]

    agree(run)


# -- errors -----------------------------------------------------------------------------------------------


def refusing(t):
    class Refusing(t.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return NotImplemented

    return Refusing()


ERRORS = {
    "function": (lambda t: t.add(X[t], 1), r"'torch.add'.*mode.*Refusing"),
    "factory": (lambda t: t.ones(1), r"'torch.ones'.*mode.*Refusing"),
    "python": (
        lambda t: t.nn.functional.relu(X[t]),
        r"no implementation found for 'torch.nn.functional.relu'.*nor in mode",
    ),
    "operator": (lambda t: X[t] + 1, r"unsupported operand type\(s\) for \+: 'Tensor' and 'int'"),
}


@pytest.mark.parametrize(("code", "match"), ERRORS.values(), ids=list(ERRORS))
def test_refused(code, match):
    def run(t):
        with refusing(t):
            code(t)

    agree_error(run, match)


def test_a_mode_without_handler():
    def run(t):
        with t.overrides.TorchFunctionMode():
            t.add(X[t], 1)

    agree_error(run, "")


def test_enable_reentrant_dispatch_outside_of_a_handler():
    def run(t):
        with t.overrides.enable_reentrant_dispatch():
            pass

    agree_error(run, "__torch_dispatch__")
