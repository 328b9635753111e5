"""What is checked by gradcheck and gradgradcheck on both libraries, and how the results are compared."""

import importlib
import re

import pytest
from both import attempt

MODES = pytest.mark.parametrize("fast", [False, True], ids=["slow", "fast"])


def module(t):
    return importlib.import_module(f"{t.__name__}.autograd.gradcheck")


def gradcheck(t, *args, **keywords):
    return module(t).gradcheck(*args, **keywords)


def gradgradcheck(t, *args, **keywords):
    return module(t).gradgradcheck(*args, **keywords)


def real(t, *values, grad=True):
    return t.tensor(values or (1.0, 2.0, 3.0), dtype=t.float64, requires_grad=grad)


def cplx(t):
    return t.tensor([1 + 2j, 3 - 1j], dtype=t.complex128, requires_grad=True)


def backward_times(factor, offset=0.0):
    """The identity, with another gradient."""

    def f(a):
        out = a.clone()
        out.register_hook(lambda g: g if g is None else g * factor + offset)
        return out

    return f


wrong = backward_times(1.5)


def summary(error):
    """Type and first line of an error; the result itself if there was none."""
    if not isinstance(error, Exception):
        return error
    return type(error).__name__, re.split(r"[,\n]\s*numerical|\n", str(error))[0]


def verdict(check, *args, **keywords):
    """A script that runs the check."""
    return lambda t: summary(attempt(lambda: check(t, *[a(t) if callable(a) else a for a in args], **keywords)))


# name: t -> (function, inputs)
RIGHT = {
    "one tensor": lambda t: (lambda a: a**2, real(t)),
    "a tuple": lambda t: (lambda a: a.exp(), (real(t),)),
    "a list": lambda t: (lambda a: a.sin(), [real(t)]),
    "two in, two out": lambda t: (lambda a, b: (a * b, a + b), (real(t), real(t))),
    "a list out": lambda t: (lambda a: [a * 2, a.sum()], real(t)),
    "numbers, None and integers in": lambda t: (
        lambda a, n, i, none: a[i] * n,
        (real(t), 3, t.tensor([0, 0, 2]), None),
    ),
    "one input requires no grad": lambda t: (lambda a, b: a * b, (real(t), real(t, grad=False))),
    "an input is not used": lambda t: (lambda a, b: a * 2, (real(t), real(t))),
    "not a leaf": lambda t: (lambda a: a * a, real(t) * 2),
    "the input itself out": lambda t: (lambda a: a, real(t)),
    "a view out": lambda t: (lambda a: a.view(-1).expand(2, 3), real(t)),
    "one output twice": lambda t: (lambda a: (a * 2,) * 2, real(t)),
    "not contiguous": lambda t: (lambda a: a**3, t.ones(2, 3, dtype=t.float64).t().requires_grad_()),
    "stride 0 of one element": lambda t: (lambda a: a**2, t.ones(1, dtype=t.float64).expand(1, 1).requires_grad_()),
    "stride 0 without grad": lambda t: (lambda a, b: a * b, (real(t), t.ones(1, dtype=t.float64).expand(3))),
    "0-dim": lambda t: (lambda a: a**2, t.tensor(2.0, dtype=t.float64, requires_grad=True)),
    "empty in": lambda t: (lambda a: a**2, t.ones(0, dtype=t.float64, requires_grad=True)),
    "empty out": lambda t: (lambda a: a[:0], real(t)),
    "empty sum": lambda t: (lambda a: a.sum(1), t.ones(2, 0, dtype=t.float64, requires_grad=True)),
    "nothing out": lambda t: (lambda a: (), real(t)),
    "a constant out": lambda t: (lambda a: t.ones(2), real(t)),
    "one detached output": lambda t: (lambda a: (a * 2, a.detach()), real(t)),
    "integers too": lambda t: (lambda a: t.sort(a), real(t, 3.0, 1.0, 2.0)),
    "in place on a copy": lambda t: (lambda a: a.clone().mul_(a), real(t)),
    "a kink with the middle slope": lambda t: (lambda a: a.abs(), real(t, 0.0, 1.0)),
    "complex": lambda t: (lambda a: a**2, cplx(t)),
    "complex, not holomorphic": lambda t: (lambda a: a.conj() * a * 1j, cplx(t)),
    "complex to real": lambda t: (lambda a: a.abs(), cplx(t)),
    "real to complex": lambda t: (lambda a: a * (1 + 2j), real(t)),
    "complex and real out": lambda t: (lambda a, b: (t.complex(a, b), a + 1), (real(t), real(t))),
    "the parts": lambda t: (lambda a: (a, a.real), cplx(t)),
    "complex and real in": lambda t: (lambda a, b: a * b, (cplx(t), real(t, 1.0, 2.0))),
    "a matrix product": lambda t: (lambda a, b: a @ b, (real(t).view(1, 3), real(t).view(3, 1))),
}


def function(t, backward, outputs=1, materialize=True):
    """Twice each input, with this backward."""

    class Twice(t.autograd.Function):
        @staticmethod
        def forward(ctx, *args):
            ctx.set_materialize_grads(materialize)
            ctx.save_for_backward(*args)
            return args[0] * 2 if outputs == 1 else tuple(a * 2 for a in args)

    Twice.backward = staticmethod(backward)
    return Twice.apply


TWICE = {
    "cube": lambda t: (lambda a: a**3, real(t)),
    "linear": lambda t: (lambda a: a * 3, real(t)),
    "two": lambda t: (lambda a, b: (a * b, a), (real(t), real(t))),
    "numbers too": lambda t: (lambda a, n: a**n, [real(t), 3]),
    "one not used": lambda t: (lambda a, b: a**2, (real(t), real(t))),
    "one output detached": lambda t: (lambda a: (a.detach() * 2, a**2, a.long()), real(t)),
    "complex": lambda t: (lambda a: a**3, cplx(t)),
    "complex to real": lambda t: (lambda a: a.abs(), cplx(t)),
    "given seeds": lambda t: (lambda a: a**3, real(t), real(t)),
    "given seeds without grad": lambda t: (lambda a: a**3, real(t), real(t, grad=False)),
    "given seeds of two": lambda t: (lambda a, b: (a**3, a * b), (real(t), real(t)), [real(t), real(t)]),
    "wrong": lambda t: (lambda a: wrong(a) ** 2, real(t)),
    "history cut": lambda t: (function(t, lambda ctx, g: 2 * g * ctx.saved_tensors[0].detach() ** 0), real(t)),
    "depends on what it was cut from": lambda t: (lambda a: _cut(t)(a), real(t)),
    "no input requires grad": lambda t: (lambda a: a**3, real(t, grad=False)),
    "a number out": lambda t: (lambda a: 3, real(t)),
}


def _cut(t):
    class Square(t.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            ctx.save_for_backward(a)
            return a**2

        @staticmethod
        def backward(ctx, g):
            return 2 * ctx.saved_tensors[0].detach() * g

    return Square.apply
