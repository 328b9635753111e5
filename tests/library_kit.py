"""Operators for tests of torch.library, defined with whichever library is given."""

import itertools

import numpy as np

_numbers = itertools.count()


def space():
    """A namespace that no other test has."""
    return f"space{next(_numbers)}"


def defined(t, function, name=None, mutates_args=(), **more):
    """``function`` as a custom operator."""
    return t.library.custom_op(name or f"{space()}::op", function, mutates_args=mutates_args, **more)


def scale_of(t, name=None):
    """An operator with a default, and one by keyword."""

    def scale(x: t.Tensor, s: float = 2.0, *, k: int = 1) -> t.Tensor:
        return x * s * k

    return t.library.custom_op(name or f"{space()}::scale", scale, mutates_args=())


def plus(n):
    """A function that adds a number."""
    return lambda x: x + n


def no_result(body):
    """``body`` without its result."""
    return lambda x: (body(x), None)[1]


def through_numpy(t):
    """PyTorch's tutorial: a kernel that writes into the memory of an argument."""

    def sine(x, out):
        np.sin(x.numpy(), out=out.numpy())

    sine.__annotations__ = {"x": t.Tensor, "out": t.Tensor, "return": None}
    return defined(t, sine, mutates_args=("out",))
