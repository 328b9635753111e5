"""Arithmetic on tensors and numbers."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from torchlike._base.dtypes import get_default_dtype
from torchlike._decl.op import op, pointwise
from torchlike._ops._elementwise import conj, demand, is_reduced, kind, widely


def _scale(name, self, alpha):
    """``alpha`` as an array of the result's dtype, after PyTorch's checks of its type."""
    given = alpha if isinstance(alpha, int) else kind(alpha)
    if given == "b" and self.dtype != np.bool_:
        raise RuntimeError(f"Boolean alpha only supported for Boolean results; {name}() has {self.dtype} ones")
    if given == "f" and kind(self) in "bi":
        raise RuntimeError(
            f"For integral input tensors, argument alpha must not be a floating point number in {name}(); "
            "convert the tensors first with .to(torch.float32)"
        )
    if given == "c" and kind(self) != "c":
        raise RuntimeError(
            f"For non-complex input tensors, argument alpha must not be a complex number in {name}(); "
            "convert the tensors first with .to(torch.complex64)"
        )
    return jnp.asarray(alpha, self.dtype)


def _plus(name, self, other, alpha, sign):
    if isinstance(alpha, int) and alpha == 1:  # the default; a given alpha is a traced value
        return self + other if sign > 0 else self - other
    scale = _scale(name, self, alpha)
    combine = lax.add if sign > 0 else lax.sub
    return widely(lambda a, b, s: combine(*jnp.broadcast_arrays(a, b * s)), self, other, scale)


@pointwise("add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", dtype="promote", operator="+")
def add(self, other, alpha):
    """Elementwise ``input + alpha * other``; shapes broadcast, dtypes promote.

    RuntimeError if ``alpha`` is floating (or complex) and the result is not.

    >>> import torchlike as torch
    >>> torch.add(torch.tensor([1, 2]), torch.tensor([10, 20]), alpha=3)
    tensor([31, 62])
    """
    if self.dtype == np.bool_:
        return self | (other & jnp.asarray(alpha, np.bool_))
    return _plus("add", self, other, alpha, 1)


def _refuse_bools(self, other, self_aval=None):
    if self.dtype == np.bool_ or other.dtype == np.bool_:
        both = "two bool tensors" if self.dtype == other.dtype else "a bool tensor"
        raise RuntimeError(
            f"Subtraction, the `-` operator, with {both} is not supported. Use `^` or logical_xor() for the "
            "difference of two masks, `~` or logical_not() to invert one."
        )


def _promoted(*arrays):
    """The arrays in their common dtype, for kernels that look at the original ones first."""
    bound = dict(enumerate(arrays))
    rules.promote(bound, tuple(bound), dict(bound))
    return tuple(bound.values())


@pointwise("sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", operator="-")
def sub(self, other, alpha):
    """Elementwise ``input - alpha * other``; shapes broadcast, dtypes promote.

    RuntimeError if either is a bool tensor.

    >>> import torchlike as torch
    >>> torch.sub(torch.tensor([5, 6]), 1)
    tensor([4, 5])
    """
    _refuse_bools(self, other)
    self, other = _promoted(self, other)
    return _plus("sub", self, other, alpha, -1)
