"""Weighted sums of a tensor and a product: ``beta * self + alpha * product``."""

import jax.numpy as jnp

from torchlike._base.dtypes import from_np
from torchlike._decl import rules
from torchlike._ops._elementwise import rounded_product


def scale(x, number):
    """``number * x`` in the dtype of ``x``; a number left at its default 1 costs nothing."""
    if isinstance(number, int):
        return x
    return rounded_product(_as(number, x.dtype), x)


def scaled(grad, number):
    """The gradient through ``number * x``."""
    return grad if isinstance(number, int) else grad * rules.conj(_as(number, grad.dtype))


def _as(number, dtype):
    if jnp.iscomplexobj(number) and not jnp.issubdtype(dtype, jnp.complexfloating):
        raise RuntimeError(
            f"value cannot be converted to type {from_np(dtype).name} without overflow: beta and alpha must be real"
        )
    return number.astype(dtype)


def blended(name, self, product, kind, beta, alpha, skips=False):
    """``beta * self + alpha * product`` as ``kind``; ``self`` counts for nothing, NaN included, where beta is 0.

    ``skips``: so does the product where alpha is 0.
    """
    expandable(name, self, product.shape)
    if self.dtype != kind:
        raise RuntimeError(
            f"{name}: self and mat2 must have the same dtype, but got {from_np(self.dtype)} and {from_np(kind)}"
        )
    old = scale(self.astype(product.dtype), beta)
    if not isinstance(beta, int):
        old = jnp.where(_as(beta, self.dtype) == 0, jnp.zeros((), old.dtype), old)
    new = scale(product, alpha)
    if skips and not isinstance(alpha, int):
        new = jnp.where(alpha == 0, jnp.zeros((), new.dtype), new)
    return (old + new).astype(kind)


def long(dtype):
    """Whether PyTorch leaves products of matrices of this dtype to a library, which skips those of 0."""
    return dtype.kind in "fc" and dtype.itemsize > 2


def expandable(name, x, shape):
    """RuntimeError unless ``x`` can be expanded to ``shape``."""
    lead = len(shape) - x.ndim
    for i in range(x.ndim):
        if lead < 0 or x.shape[i] not in (1, shape[lead + i]):
            raise RuntimeError(
                f"The expanded size of the tensor ({shape[max(lead + i, 0)] if shape else 1}) must match "
                "the existing size "
                f"({x.shape[i]}) at non-singleton dimension {max(lead + i, 0)}.  Target sizes: "
                f"{list(shape)}.  Tensor sizes: "
                f"{list(x.shape)} ({name})"
            )
