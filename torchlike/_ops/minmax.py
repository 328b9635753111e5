"""Extreme values, their places, and order statistics that pick one element."""

import jax.numpy as jnp

from torchlike._decl.op import op, reduction
from torchlike._ops._axes import axes_of, axis_of, refuse, spread


def even_split(grad, self, result, axes, keepdim):
    """Ties share the gradient evenly; a NaN result is tied with the NaN elements."""
    result = spread(result, axes, keepdim)
    tie = (self == result) | ((self != self) & (result != result))
    n = jnp.sum(tie, axes, keepdims=True)
    return jnp.where(tie, spread(grad, axes, keepdim) / n, 0)


def place(grad, indices, axis, keepdim, shape):
    """The gradient at the elements that were picked along one axis, zero elsewhere."""
    if not shape:
        return grad.reshape(())
    if not keepdim:
        grad, indices = jnp.expand_dims(grad, axis), jnp.expand_dims(indices, axis)
    here = jnp.arange(shape[axis]).reshape([-1 if i == axis else 1 for i in range(len(shape))])
    return jnp.where(indices == here, grad, 0)


def _all_vjp(grad, self, result):
    return even_split(grad, self, result, tuple(range(self.ndim)), False)


def _axes_vjp(grad, self, result, dim, keepdim):
    return even_split(grad, self, result, axes_of(dim, self.ndim), keepdim)


def _dim_vjp(grads, indices, self_aval, dim, keepdim):
    shape = self_aval.shape
    return place(grads[0], indices, axis_of(dim, len(shape)), keepdim, shape)


def _non_empty(name, x, axes, error=RuntimeError):
    if x.size:
        return
    if len(axes) == x.ndim:
        raise error(
            f"{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the "
            "'dim' argument."
        )
    for a in axes:
        if not x.shape[a]:
            raise IndexError(f"{name}(): Expected reduction dim {a} to have non-zero size, got shape {list(x.shape)}.")


def _whole(name, x, reduce):
    refuse(f"{name}_all", x, "c")
    _non_empty(name, x, tuple(range(x.ndim)))
    return reduce(x)


def _along(name, x, dim, keepdim, arg):
    """(values, first places) of the extreme along one axis."""
    refuse(name, x, "c")
    axis = axis_of(dim, x.ndim)
    if not x.ndim:
        return x, jnp.zeros((), jnp.int64)
    if not x.shape[axis]:
        raise IndexError(f"{name}(): Expected reduction dim {axis} to have non-zero size, got shape {list(x.shape)}.")
    indices = arg(x, axis, keepdims=True).astype(jnp.int64)
    values = jnp.take_along_axis(x, indices, axis)
    return (values, indices) if keepdim else (values.squeeze(axis), indices.squeeze(axis))


def _pair(self, other, pick):
    refuse("maximum or minimum", self, "c")
    return pick(self, other)


def _pair_vjp(greater):
    """Where the operands are equal each takes half."""

    def split(grad, self, other):
        half = jnp.where(self == other, grad / 2, grad)
        mine = greater(self, other) | (self != self)
        theirs = greater(other, self) | (other != other)
        return jnp.where(mine, half, 0), jnp.where(theirs, half, 0)

    return {"self, other": split}


@reduction("max(Tensor self) -> Tensor", node="MaxBackward1", vjp={"self": _all_vjp})
def max(self):
    """The largest element; with ``dim``, (values, indices) along it; with a tensor, the elementwise maximum.

    NaN wins. Equal elements share the gradient of the whole maximum evenly.
    Raises RuntimeError for an empty tensor, NotImplementedError for complex numbers.

    >>> import torchlike as torch
    >>> torch.max(torch.tensor([[1., 5.], [7., 3.]]), 1).values
    tensor([5., 7.])
    """
    return _whole("max", self, jnp.max)


@reduction("max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)", node="MaxBackward",
           vjp={"self": _dim_vjp}, nondiff=(1,))  # fmt: skip
def max_dim(self, dim, keepdim):
    return _along("max", self, dim, keepdim, jnp.argmax)


@op("max.other(Tensor self, Tensor other) -> Tensor", dtype="promote", node="MaximumBackward", strides=True,
    variants="function method out", vjp=_pair_vjp(jnp.greater_equal))  # fmt: skip
def max_other(self, other):
    return _pair(self, other, jnp.maximum)


@reduction("min(Tensor self) -> Tensor", node="MinBackward1", vjp={"self": _all_vjp})
def min(self):
    """The smallest element; with ``dim``, (values, indices) along it; with a tensor, the elementwise minimum.

    NaN wins. Equal elements share the gradient of the whole minimum evenly.
    Raises RuntimeError for an empty tensor, NotImplementedError for complex numbers.

    >>> import torchlike as torch
    >>> torch.min(torch.tensor([[1., 5.], [7., 3.]]), 0).indices
    tensor([0, 1])
    """
    return _whole("min", self, jnp.min)


@reduction("min.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)", node="MinBackward",
           vjp={"self": _dim_vjp}, nondiff=(1,))  # fmt: skip
def min_dim(self, dim, keepdim):
    return _along("min", self, dim, keepdim, jnp.argmin)


@op("min.other(Tensor self, Tensor other) -> Tensor", dtype="promote", node="MinimumBackward", strides=True,
    variants="function method out", vjp=_pair_vjp(jnp.less_equal))  # fmt: skip
def min_other(self, other):
    return _pair(self, other, jnp.minimum)


def _extreme_place(name, x, dim, keepdim, arg):
    refuse(name, x, "c")
    if x.dtype == bool:
        raise RuntimeError(f"{name}(): does not support bool input; cast it with .int()")
    if dim is None:
        _non_empty(name, x, tuple(range(x.ndim)), IndexError)
        return jnp.broadcast_to(arg(x), (1,) * x.ndim if keepdim else ()).astype(jnp.int64)
    axis = axis_of(dim, x.ndim)
    if not x.ndim:
        return jnp.zeros((), jnp.int64)
    if not x.shape[axis]:
        raise IndexError(f"{name}(): Expected reduction dim {axis} to have non-zero size, got shape {list(x.shape)}.")
    return arg(x, axis, keepdims=keepdim).astype(jnp.int64)


@reduction("argmax(Tensor self, int? dim=None, bool keepdim=False) -> Tensor", vjp={})
def argmax(self, dim, keepdim):
    """The place of the first largest element, along ``dim`` or in the flattened tensor; NaN is largest.

    >>> import torchlike as torch
    >>> torch.argmax(torch.tensor([[1., 5.], [7., 3.]]), dim=1)
    tensor([1, 0])
    """
    return _extreme_place("argmax", self, dim, keepdim, jnp.argmax)


@reduction("argmin(Tensor self, int? dim=None, bool keepdim=False) -> Tensor", vjp={})
def argmin(self, dim, keepdim):
    """The place of the first smallest element, along ``dim`` or in the flattened tensor; NaN is smallest.

    >>> import torchlike as torch
    >>> torch.argmin(torch.tensor([[1., 5.], [7., 3.]]))
    tensor(0)
    """
    return _extreme_place("argmin", self, dim, keepdim, jnp.argmin)


def _extreme(name, x, dim, keepdim, reduce):
    refuse(name, x, "c")
    axes = axes_of(dim, x.ndim)
    _non_empty(name, x, axes)
    return reduce(x, axes, keepdims=keepdim)


@reduction("amax(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor", vjp={"self": _axes_vjp})
def amax(self, dim, keepdim):
    """The largest element over the dimensions ``dim`` (all by default); equal elements share the gradient.

    >>> import torchlike as torch
    >>> torch.amax(torch.tensor([[1., 5.], [7., 3.]]), dim=(0, 1))
    tensor(7.)
    """
    return _extreme("amax", self, dim, keepdim, jnp.max)


@reduction("amin(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor", vjp={"self": _axes_vjp})
def amin(self, dim, keepdim):
    """The smallest element over the dimensions ``dim`` (all by default); equal elements share the gradient.

    >>> import torchlike as torch
    >>> torch.amin(torch.tensor([[1., 5.], [7., 3.]]), dim=0)
    tensor([1., 3.])
    """
    return _extreme("amin", self, dim, keepdim, jnp.min)
