"""Reductions: sums, products, moments, norms and their like."""

import jax.numpy as jnp

from torchlike._base.dtypes import from_np
from torchlike._decl.op import reduction
from torchlike._ops._axes import axes_of, axis_of, cast, count, is_floating


def _sum(x, axes, keepdim):
    return jnp.sum(x, axes, keepdims=keepdim, dtype=x.dtype)


@reduction("sum(Tensor self, *, ScalarType? dtype=None) -> Tensor", dtype="bool_to_int")
def sum(self, dtype):
    """The sum of all elements, or over the dimensions ``dim``; ``keepdim`` leaves them with length 1.

    Bool and integers are summed as int64 unless ``dtype`` says otherwise. No dimensions means all.

    >>> import torchlike as torch
    >>> torch.tensor([[1., 2.], [3., 4.]]).sum(0)
    tensor([4., 6.])
    """
    self = cast(self, dtype)
    return _sum(self, tuple(range(self.ndim)), False)


@reduction("sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
           dtype="bool_to_int", node="SumBackward1")  # fmt: skip
def sum_dim(self, dim, keepdim, dtype):
    self = cast(self, dtype)
    return _sum(self, axes_of(dim, self.ndim), keepdim)


def _mean(name, x, dim, keepdim, dtype):
    if dtype is None and not is_floating(x):
        raise RuntimeError(
            f"{name}(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. "
            f"Got: {from_np(x.dtype).scalar_name}; cast it with .float() or give dtype="
        )
    if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
        raise RuntimeError(
            f"{name}(): could not infer output dtype. Optional dtype must be either a floating point or complex dtype. "
            f"Got: {dtype.scalar_name}"
        )
    x = cast(x, dtype)
    axes = axes_of(dim, x.ndim)
    wide = jnp.promote_types(x.dtype, jnp.float32)  # halves are summed in float32
    return (jnp.sum(x, axes, keepdims=keepdim, dtype=wide) / count(x.shape, axes)).astype(x.dtype)


@reduction("mean(Tensor self, *, ScalarType? dtype=None) -> Tensor")
def mean(self, dtype):
    """The mean of all elements, or over the dimensions ``dim``; ``keepdim`` leaves them with length 1.

    Raises RuntimeError for integers and bool, unless a floating ``dtype`` is given.

    >>> import torchlike as torch
    >>> torch.tensor([[1., 2.], [3., 5.]]).mean(1)
    tensor([1.5000, 4.0000])
    """
    return _mean("mean", self, None, False, dtype)


@reduction("mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
           node="MeanBackward1")  # fmt: skip
def mean_dim(self, dim, keepdim, dtype):
    return _mean("mean", self, dim, keepdim, dtype)


@reduction("prod(Tensor self, *, ScalarType? dtype=None) -> Tensor", dtype="bool_to_int")
def prod(self, dtype):
    """The product of all elements, or over one dimension ``dim``.

    Bool and integers are multiplied as int64 unless ``dtype`` says otherwise.

    >>> import torchlike as torch
    >>> torch.tensor([[1., 2.], [3., 4.]]).prod(1)
    tensor([ 2., 12.])
    """
    self = cast(self, dtype)
    return jnp.prod(self, dtype=self.dtype)


@reduction("prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
           dtype="bool_to_int", node="ProdBackward1")  # fmt: skip
def prod_dim(self, dim, keepdim, dtype):
    self = cast(self, dtype)
    axis = axis_of(dim, self.ndim)
    return jnp.prod(self, axis if self.ndim else None, keepdims=keepdim, dtype=self.dtype)
