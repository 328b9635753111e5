"""Custom functions and custom operators under autocast."""

import functools
import itertools

import pytest
import torch
from both import agree
from story_kit import said

import torchlike

_numbers = itertools.count()


def values(t):
    return (t.arange(1.0, 10.0) / 8).reshape(3, 3)


def product(t, seen, **how):
    """A custom function that tells what it sees."""

    def state(*tensors):
        found = [x.dtype if isinstance(x, t.Tensor) else x for x in tensors]
        return [t.is_autocast_enabled("cpu"), t.get_autocast_dtype("cpu"), *found]

    class Product(t.autograd.Function):
        @staticmethod
        @t.amp.custom_fwd(device_type="cpu", **how)
        def forward(ctx, a, *others):
            seen.append(state(a, *(y for x in others for y in (x if isinstance(x, list) else [x]))))
            ctx.save_for_backward(a)
            return a.mm(a)

        @staticmethod
        @t.amp.custom_bwd(device_type="cpu")
        def backward(ctx, grad):
            (a,) = ctx.saved_tensors
            seen.append([*state(grad), ctx._fwd_used_autocast, ctx._dtype])
            return grad.mm(a.t()) + a.t().mm(grad), *([None] * (len(ctx.needs_input_grad) - 1))

    return Product.apply


DTYPES = [None, "float32", "bfloat16", "float64"]


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("forward", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_forward_and_backward_in_one_state(dtype, forward, backward):
    def run(t):
        seen = []
        apply = product(t, seen, **({} if dtype is None else {"cast_inputs": getattr(t, dtype)}))
        x = values(t).requires_grad_()
        with t.autocast("cpu", enabled=forward):
            y = apply(x)
        with t.autocast("cpu", enabled=backward):
            y.sum().backward()
        return seen, y.dtype, x.grad

    agree(run)


def test_what_is_cast_among_the_arguments():
    def run(t):
        seen = []
        x = values(t).requires_grad_()
        others = [t.ones(1).half(), t.ones(1).double(), t.ones(1, dtype=t.int32), "text", None, 3.5]
        with t.autocast("cpu"):
            product(t, seen, cast_inputs=t.float32)(x, *others, list(others))
        return seen

    agree(run)


def test_casting_by_hand():
    def run(t):
        x = values(t)
        found = t.amp.autocast_mode._cast([x, (x.double(), 3), {"a": x.int(), "b": x.half()}, "a"], "cpu", t.bfloat16)
        return found, t.amp.autocast_mode._cast(x, "cuda", t.float16)

    agree(run)


WRONG = {
    "fwd of no type": (lambda t: t.amp.custom_fwd(device_type=1), "Expected `device_type` of type `str`"),
    "bwd of no type": (lambda t: t.amp.custom_bwd(device_type=1), "Expected `device_type` of type `str`"),
    "no type": (lambda t: t.amp.custom_fwd(abs), "missing 1 required keyword-only argument: 'device_type'"),
    "no forward": (lambda t: t.amp.custom_bwd(abs, device_type="cpu")(type("C", (), {})(), 1), "_fwd_used_autocast"),
    "an unknown type": (lambda t: t.amp.custom_fwd(abs, device_type="foo")(type("C", (), {})(), 1), "Expected one of"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls(name):
    call, message = WRONG[name]
    agree(lambda t: said(lambda: call(t), message))


# -- operators ------------------------------------------------------------------------------------------------------


def copied(t, seen):
    """A custom operator that tells what it sees; its name, and itself."""
    name = f"amp{next(_numbers)}::copied"

    def kernel(xs, y=None):
        x = values(t)
        seen.append([t.is_autocast_enabled("cpu"), (x @ x).dtype, *[x.dtype for x in xs], y is not None and y.dtype])
        return xs[0].clone()

    schema = "(Tensor[] xs, Tensor? y=None) -> Tensor"
    op = t.library.custom_op(name, kernel, mutates_args=(), schema=schema)
    op.register_autograd(lambda ctx, grad: ([grad, None, None], None))
    return name, op


HOW = {
    "not registered": lambda t, name, op: None,
    "by name": lambda t, name, op: t.library.register_autocast(name, "cpu", t.float16),
    "of the operator": lambda t, name, op: op.register_autocast("cpu", t.bfloat16),
    "for another device": lambda t, name, op: op.register_autocast("cuda", t.bfloat16),
    "twice": lambda t, name, op: [op.register_autocast("cpu", d) for d in (t.float16, t.bfloat16)] and None,
}


@pytest.mark.parametrize("how", HOW)
def test_registered_operators(how):
    def run(t):
        seen = []
        name, op = copied(t, seen)
        HOW[how](t, name, op)
        x = values(t).requires_grad_()
        mixed = [x, values(t).double(), t.ones(2, dtype=t.int32)]
        with t.autocast("cpu"):
            y = op(mixed, values(t).half())
        y.sum().backward()
        op([values(t)] * 3)
        return seen, y.dtype, x.grad

    agree(run)


def test_an_operator_that_changes_its_argument_changes_the_cast():
    def run(t):
        op = t.library.custom_op(f"amp{next(_numbers)}::more", functools.partial(add, t), mutates_args=("x",),
                                 schema="(Tensor(a!) x) -> ()")  # fmt: skip
        op.register_autocast("cpu", t.float16)
        x = values(t)
        with t.autocast("cpu"):
            op(x)
        return x

    agree(run)


def add(t, x):
    x.add_(1)


REFUSED = {
    "a number": lambda t, op: op.register_autocast(1, t.float16),
    "no device": lambda t, op: op.register_autocast("foo", t.float16),
    "no autocast": lambda t, op: op.register_autocast("meta", t.float16),
    "no autocast, by name": lambda t, op: t.library.register_autocast(op._qualname, "meta", t.float16),
    "no operator": lambda t, op: t.library.register_autocast("nowhere::op", "cpu", t.float16),
    "an int": lambda t, op: t.library.register_autocast(3, "cpu", t.float16),
}


@pytest.mark.parametrize("name", REFUSED)
def test_registrations_that_are_refused(name):
    agree(lambda t: said(lambda: REFUSED[name](t, copied(t, [])[1]), "^$").partition(":")[0])


def test_a_dtype_is_asked_for_at_once():
    with pytest.raises(TypeError, match="cast_inputs must be a torch.dtype, not int"):
        copied(torchlike, [])[1].register_autocast("cpu", 3)


assert torch
