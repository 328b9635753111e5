"""Running sums, products and extremes along one dimension, and differences."""

from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from torchlike._base.dims import broadcast_shapes
from torchlike._base.dtypes import get_default_dtype
from torchlike._base.result_layouts import differences
from torchlike._decl.op import op
from torchlike._decl.rules import common_dtype
from torchlike._decl.words import aten
from torchlike._ops import _composed, _composed_sums, _derivatives
from torchlike._ops._axes import axis_of, cast, is_floating, put_along, refuse
from torchlike._ops._elementwise import kind, widely

_SCAN: dict[str, Any] = {"variants": "function method inplace out", "dtype": "bool_to_int"}


def _scan(name, x, dim, dtype, run):
    if dtype is not None and dtype.name == "bool":
        raise NotImplementedError(f"\"{name}_out_cpu\" not implemented for 'Bool'; use dtype=torch.int64")
    x = cast(x, dtype)
    axis = axis_of(dim, x.ndim)
    return run(x, axis) if x.ndim else x


def _cumsum_vjp(grad, dim):
    if grad.ndim == 0 or not grad.size or grad.shape[dim] == 1:
        return grad
    return aten.flip(aten.cumsum(aten.flip(grad, (dim,)), dim), (dim,))


@op(
    "cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
    out="computes",
    **_SCAN,
    vjp={"self": _cumsum_vjp},
    jvp="kernel",
    autocast={"cuda": "fp32"},
)
def cumsum(self, dim, dtype):
    """The running sum along ``dim``; bool and integers as int64 unless ``dtype`` says otherwise.

    >>> import torchlike as torch
    >>> torch.cumsum(torch.tensor([1, 2, 3]), 0)
    tensor([1, 3, 6])
    """
    return _scan("cumsum", self, dim, dtype, lambda x, axis: _precise(lax.cumsum, x, axis))


_WIDER = {"float32": np.float64, "complex64": np.complex128}


def _products(x, axis):
    return _precise(lax.cumprod, x, axis)


def _precise(run, x, axis):
    """Running sums or products, rounded once: errors of each step would add up."""
    wide = _WIDER.get(x.dtype.name)
    plain = partial(run, axis=axis)
    if wide is None:
        return widely(plain, x)
    return lax.platform_dependent(x, cpu=lambda x: plain(x.astype(wide)).astype(x.dtype), default=plain)


def _cumprod_vjp(grad, self, dim, dtype):
    """The product before each element times ``S[i] = grad[i] + x[i + 1] * S[i + 1]``; exact at zeros."""
    x = cast(self, dtype)
    if not x.ndim or not x.size:
        return grad
    x = jnp.conj(x) if jnp.iscomplexobj(x) else x
    return widely(lambda grad, x: _cumprod_grad(grad, x, axis_of(dim, x.ndim)), grad, x)


def _cumprod_grad(grad, x, axis):
    n = x.shape[axis]
    one = jnp.ones_like(lax.slice_in_dim(x, 0, 1, axis=axis))
    before = lax.concatenate([one, _products(lax.slice_in_dim(x, 0, n - 1, axis=axis), axis)], axis)
    following = lax.concatenate([lax.slice_in_dim(x, 1, n, axis=axis), one], axis)
    join = lambda later, here: (later[0] * here[0], here[1] + here[0] * later[1])  # noqa: E731
    sums = lax.associative_scan(join, (following, grad), reverse=True, axis=axis)[1]
    return before * sums


@op("cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor", **_SCAN, vjp={"self": _cumprod_vjp},
    out="computes", saved="dim result! self", autocast={"cuda": "fp32"},
    backward=_derivatives.running_product)  # fmt: skip
def cumprod(self, dim, dtype):
    """The running product along ``dim``; bool and integers as int64 unless ``dtype`` says otherwise.

    >>> import torchlike as torch
    >>> torch.cumprod(torch.tensor([1., 2., 3.]), 0)
    tensor([1., 2., 6.])
    """
    return _scan("cumprod", self, dim, dtype, _products)


@op("logcumsumexp(Tensor self, int dim) -> Tensor", variants="function method out", saved="dim result! self")
def logcumsumexp(self, dim):
    """The logarithm of the running sum of exponentials along ``dim``, without overflow.

    >>> import torchlike as torch
    >>> torch.logcumsumexp(torch.tensor([0., 0.]), 0)
    tensor([0.0000, 0.6931])
    """
    if not is_floating(self):
        refuse("logcumsumexp_out_cpu", self, "b", "i", "u")
    axis = axis_of(dim, self.ndim)
    if not self.ndim or not self.size:
        return self
    return widely(lambda x: lax.associative_scan(_logaddexp, x, axis=axis), self)


def _logaddexp(a, b):
    """log(exp(a) + exp(b)); equal infinities are their own sum, and NaN spreads."""
    swap = jnp.real(a) < jnp.real(b)
    low, high = jnp.where(swap, a, b), jnp.where(swap, b, a)
    same = (jnp.real(low) == jnp.real(high)) & jnp.isinf(jnp.real(low))
    gap = jnp.where(same, 0, low - high)
    return jnp.where(same & (low == high), high, high + jnp.log1p(jnp.exp(gap)))


def _running(name, x, dim, best):
    """(values, places) of the best so far; of equal ones the last, and NaN is best."""
    refuse(f"{name}_cpu", x, "c")
    axis = axis_of(dim, x.ndim)
    if not x.ndim or not x.size:
        return x, jnp.zeros(x.shape, jnp.int64)
    values = best(x.astype(jnp.uint8) if x.dtype == bool else x, axis).astype(x.dtype)
    leads = (x == values) | (x != x)
    return values, lax.cummax(jnp.where(leads, lax.broadcasted_iota(jnp.int64, x.shape, axis), 0), axis)


def _running_vjp(grads, indices, self_aval, dim):
    shape = self_aval.shape
    if not shape:
        return grads[0]
    axis = axis_of(dim, len(shape))
    return widely(lambda grad: put_along(shape, axis, indices, grad, unique=False), grads[0])


@op("cummax(Tensor self, int dim) -> (Tensor values, Tensor indices)", variants="function method out",
    vjp={"self": _running_vjp}, nondiff=(1,), saved="dim indices self?",
    backward=_derivatives.running_extreme)  # fmt: skip
def cummax(self, dim):
    """The largest element so far along ``dim`` and its place (the last of equal ones). NaN is largest.

    >>> import torchlike as torch
    >>> torch.cummax(torch.tensor([1., 3., 2.]), 0).values
    tensor([1., 3., 3.])
    """
    return _running("cummax", self, dim, lax.cummax)


@op("cummin(Tensor self, int dim) -> (Tensor values, Tensor indices)", variants="function method out",
    vjp={"self": _running_vjp}, nondiff=(1,), saved="dim indices self?",
    backward=_derivatives.running_extreme)  # fmt: skip
def cummin(self, dim):
    """The smallest element so far along ``dim`` and its place (the last of equal ones). NaN is smallest.

    >>> import torchlike as torch
    >>> torch.cummin(torch.tensor([3., 1., 2.]), 0).values
    tensor([3., 1., 1.])
    """
    return _running("cummin", self, dim, lax.cummin)


@op(
    "diff(Tensor self, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) -> Tensor",
    aten={"calls": _composed.diff},
    out="cast",
    dtype="promote",
    node="SubBackward",
    variants="function method out",
    layout=differences,
    saved={"alpha": lambda: 1},
)
def diff(self, n, dim, prepend, append):
    """The ``n``-th differences of neighbours along ``dim``, between ``prepend`` and ``append``.

    For bool, whether they differ.

    >>> import torchlike as torch
    >>> torch.diff(torch.tensor([1, 4, 9]))
    tensor([3, 5])
    """
    if not self.ndim:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n} (diff)")
    axis = axis_of(dim, self.ndim)
    parts = [x for x in (prepend, self, append) if x is not None]
    for x in parts:
        if x.ndim != self.ndim:
            raise RuntimeError(
                f"diff expects prepend or append to be the same dimension as input, got {x.ndim}-D and {self.ndim}-D"
            )
        if any(a != b for i, (a, b) in enumerate(zip(x.shape, self.shape, strict=True)) if i != axis):
            raise RuntimeError(
                "diff expects the shape of tensor to prepend or append to match that of input except along "
                "the differencing "
                f"dimension; input.size = {list(self.shape)}, got {list(x.shape)} (dimension {axis})"
            )
    out = lax.concatenate(parts, axis) if len(parts) > 1 and n else self
    for _ in range(min(n, out.shape[axis])):
        high = lax.slice_in_dim(out, 1, None, axis=axis)
        low = lax.slice_in_dim(out, 0, max(out.shape[axis] - 1, 0), axis=axis)
        out = high ^ low if out.dtype == bool else high - low
    return out


# -- integrals by the trapezoidal rule ---------------------------------------------------------------


def _ends(x, axis):
    """All but the last and all but the first of one axis."""
    n = x.shape[axis]
    return lax.slice_in_dim(x, 0, max(n - 1, 0), axis=axis), lax.slice_in_dim(x, min(n, 1), n, axis=axis)


def _halved(x):
    """Half of it, of integers as float."""
    return x / 2 if kind(x) in "fc" else x.astype(get_default_dtype().np) / 2


def _sum(x, axis):
    return jnp.sum(x, axis, dtype=None if kind(x) in "fc" else jnp.int64)


def _accumulated(x, axis):
    return lax.cumsum(x if kind(x) in "fc" else x.astype(jnp.int64), axis)


def _check_samples(name, y, x=None):
    if y.dtype == np.bool_ or (x is not None and x.dtype == np.bool_):
        which = "`y`" if x is None else "`x` or `y`"
        raise RuntimeError(f"{name}: received a bool input for {which}, but bool is not supported")
    if not y.ndim:
        raise IndexError(f"Dimension specified as -1 but tensor has no dimensions ({name} needs at least a 1-D tensor)")


def _by_dx(name, y, dx, dim, total):
    _check_samples(name, y)
    if jnp.iscomplexobj(dx):
        raise RuntimeError(f"{name}: Currently, we only support dx as a real number.")
    axis = axis_of(dim, y.ndim)
    low, high = _ends(y, axis)
    if not total:
        return _halved(_accumulated(low + high, axis)) * jnp.asarray(dx)
    if not y.shape[axis]:
        return _halved(_sum(y, axis))
    ends = _halved(jnp.take(y, 0, axis) + jnp.take(y, -1, axis))  # in the dtype of the samples, as PyTorch adds them
    return (_sum(y, axis) - ends) * jnp.asarray(dx)


def _by_x(name, y, x, dim, total):
    _check_samples(name, y, x)
    axis = axis_of(dim, y.ndim)
    if x.ndim == 1:
        if x.shape[0] != y.shape[axis]:
            raise RuntimeError(
                f"{name}: There must be one `x` value for each sample point, got {x.shape[0]} for "
                f"{y.shape[axis]} points"
            )
        x = x.reshape([-1 if i == axis else 1 for i in range(y.ndim)])
    elif x.ndim < y.ndim:
        x = x.reshape((1,) * (y.ndim - x.ndim) + x.shape)
    if not x.ndim:
        x = x.reshape((1,) * y.ndim)
    (left, right), (low, high) = _ends(x, axis if x.ndim > y.ndim else axis_of(dim, x.ndim)), _ends(y, axis)
    pair, width = low + high, right - left  # in their own dtypes, which may wrap
    broadcast_shapes(pair.shape, width.shape)
    common = common_dtype((pair, width)).np
    area = pair.astype(common) * width.astype(common)
    return _halved(_sum(area, axis) if total else _accumulated(area, axis))


def _integral(name, total, doc):
    """The two overloads of ``trapezoid`` or its running form."""

    def over(y, x, dim):
        return _by_x(name, y, x, dim, total)

    def even(y, dx, dim):
        return _by_dx(name, y, dx, dim, total)

    over.__doc__ = doc
    settings = {"dtype": "same", "policy": "y", "variants": "function", "autocast": {"cuda": "fp32"}}
    settings["aten"] = {"out": None, "calls": partial(_composed_sums.even_integral, total)}
    of_x = {"policy": "y x", "aten": {"out": None, "calls": partial(_composed_sums.integral, total)}}
    of_x |= {"node": "DivBackward1", "saved": {"other": lambda: 2.0, "~y": "y", "~x": "x"}}
    of_dx = {"node": "MulBackward1" if total else "CumsumBackward", "saved": "~y"}
    return (
        op(f"{name}.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor", **settings | of_x)(over),
        op(f"{name}.dx(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor", **settings | of_dx)(even),
    )


trapezoid, trapezoid_dx = _integral("trapezoid", True, """The integral along ``dim`` by the trapezoidal rule.

    The samples ``y`` are at ``x`` (of one dimension or broadcast), or ``dx`` apart (1 by default).

    >>> import torchlike as torch
    >>> torch.trapezoid(torch.tensor([1., 5., 10.]))
    tensor(10.5000)
    """)  # fmt: skip
trapz, trapz_dx = _integral("trapz", True, "Another name of :func:`trapezoid`.")
cumulative_trapezoid, cumulative_trapezoid_dx = _integral(
    "cumulative_trapezoid",
    False,
    """The running integral along ``dim``.

    By the trapezoidal rule; one element fewer than ``y``. See :func:`trapezoid`.

    >>> import torchlike as torch
    >>> torch.cumulative_trapezoid(torch.tensor([1., 5., 10.]))
    tensor([ 3.0000, 10.5000])
    """,
)
