"""Norms of vectors, and distances."""

import math
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jax.export import is_symbolic_dim

from torchlike._base.dims import broadcast_shapes
from torchlike._base.dtypes import from_np
from torchlike._base.promotion import promote_types
from torchlike._decl.op import op
from torchlike._decl.words import aten, spelled
from torchlike._ops import _composed, _derivatives
from torchlike._ops._axes import axes_of, axis_of, cast, count, is_floating, spread, type_name
from torchlike._ops._elementwise import direction
from torchlike._ops.matmul import demand_same


def _real_dtype(x):
    return jnp.real(x).dtype


@op(
    "linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *,"
    " ScalarType? dtype=None) -> Tensor",
    static="ord",
    variants="out",
    vjp={
        "self": lambda grad, self, result, ord, dim, keepdim: _norm_back(grad, self, result, ord, dim, keepdim),
    },
    jvp={"self": lambda dot, self, result, ord, dim, keepdim: _norm_jvp(dot, self, result, ord, dim, keepdim)},
    autocast={"cuda": "fp32"},
)
def vector_norm(self, ord, dim, keepdim, dtype):
    """The ``ord``-norm over ``dim`` (all by default): the ``ord``-th root of the sum of powers; real."""
    if not is_floating(self):
        raise RuntimeError(
            "linalg.vector_norm: Expected a floating point or complex tensor as input. Got "
            f"{from_np(self.dtype).scalar_name}"
        )
    _check_norm_dtype(self, dtype)
    self = cast(self, dtype)
    axes = axes_of(dim, self.ndim)
    ord = float(ord)
    if (ord < 0 or ord == math.inf) and not count(self.shape, axes) and not _all_lengths(self.shape, axes):
        raise RuntimeError(
            f"linalg.vector_norm cannot compute the {ord:g} norm on an empty tensor because the operation "
            "does not have an "
            "identity"
        )
    size = jnp.abs(self.astype(jnp.promote_types(self.dtype, jnp.float32)))
    return _norm_of(size, ord, axes, keepdim).astype(_real_dtype(self))


def _check_norm_dtype(x, dtype):
    """Refuse a dtype of another kind than that of ``x``, or that does not hold its numbers."""
    if dtype is None:
        return
    if not (dtype.is_complex or dtype.is_floating_point):
        raise RuntimeError(
            f"linalg.vector_norm: dtype should be floating point or complex, but got {dtype.scalar_name}"
        )
    if dtype.is_complex is not bool(jnp.iscomplexobj(x)):
        kind = "real" if dtype.is_complex else "complex"
        raise RuntimeError(f"linalg.vector_norm: dtype should be {kind} for {kind} inputs, but got {dtype.scalar_name}")
    own = from_np(x.dtype)
    if promote_types(own, dtype) is not dtype:
        raise RuntimeError(
            f"linalg.vector_norm: the dtype of the input ({own.scalar_name}) should be convertible without narrowing "
            f"to the specified dtype ({dtype.scalar_name})"
        )


def _all_lengths(shape, axes):
    """Whether each reduced dimension has elements (the emptiness is elsewhere)."""
    return bool(axes) and 0 not in [shape[a] for a in axes]


def _norm_of(size, ord, axes, keepdim):
    if ord == math.inf:
        return jnp.max(size, axes, keepdims=keepdim)
    if ord == -math.inf:
        return jnp.min(size, axes, keepdims=keepdim)
    if ord == 0:
        return jnp.sum(size != 0, axes, keepdims=keepdim, dtype=size.dtype)
    if ord == 1:
        return jnp.sum(size, axes, keepdims=keepdim)
    if ord == 2:
        return jnp.sqrt(jnp.sum(size * size, axes, keepdims=keepdim))
    return jnp.power(jnp.sum(jnp.power(size, ord), axes, keepdims=keepdim), 1 / ord)


def _norm_back(grad, self, result, ord, dim, keepdim):
    return None if ord == 0 else _norm_vjp(grad, self, result, ord, dim, keepdim)  # a count has no gradient


def _norm_vjp(grad, self, result, ord, dim, keepdim):
    """Zero at zero vectors; ties of the infinity norms share the gradient evenly.

    What is masked, and after which division, decides where the second derivative is NaN.
    """
    axes = axes_of(dim, self.ndim)
    whole = dim in (None, ())  # then they broadcast as they are
    grad, result = spread(grad, axes, keepdim or whole), spread(result, axes, keepdim or whole)
    ord = float(ord)
    if ord == 0:
        return jnp.zeros_like(self)
    if ord == 1:
        return aten.sgn(self) * grad
    if ord == 2:
        unit = self / result
        return grad * aten["masked_fill_.Scalar"](unit, result == 0, 0)
    size = aten.abs(self)
    sign = (lambda x: spelled("sgn", direction, x)) if jnp.iscomplexobj(self) else aten.sgn
    if math.isinf(ord):
        tie = aten.logical_or(size == result, aten.isnan(size))
        share = grad / aten["sum.dim_IntList"](tie, [] if whole else [*axes], True)
        share = share * tie
        return sign(self) * share
    if ord < 1:
        slope = aten["masked_fill_.Scalar"](aten["pow_.Scalar"](size, ord - 1), self == 0, 0)
        slope = sign(self) * slope
        root = aten["pow.Tensor_Scalar"](result, 1 - ord)
        return slope * grad * root
    power = aten["pow_.Scalar"](size, ord - (1 if ord < 2 else 2))
    slope = (sign(self) if ord < 2 else self) * power
    share = grad / aten["pow.Tensor_Scalar"](result, ord - 1)
    return slope * aten["masked_fill_.Scalar"](share, result == 0, 0)


def _norm_jvp(dot, self, result, ord, dim, keepdim):
    slope = _norm_vjp(jnp.ones_like(result), self, result, ord, dim, keepdim)
    return jnp.sum(jnp.real(jnp.conj(slope) * dot), axes_of(dim, self.ndim), keepdims=keepdim)


@partial(jax.custom_jvp, nondiff_argnums=(1, 2))
def norm_along(x, ord, axes):
    """The norm with ones for the reduced axes, and the derivatives of ``linalg_vector_norm``."""
    return _norm_of(jnp.abs(x), ord, axes, True)


@norm_along.defjvp
def _norm_along_jvp(ord, axes, primals, tangents):
    (x,), (dx,) = primals, tangents
    result = norm_along(x, ord, axes)
    return result, _norm_jvp(dx, x, result, ord, axes, True)


def _normalize_back(grad, self, dim, eps):
    axes = (axis_of(dim, self.ndim),)
    length = _norm_of(jnp.abs(self), 2, axes, True)
    least = jnp.asarray(eps).astype(self.dtype)
    scale = jnp.maximum(length, least)
    unit = self / scale
    along = jnp.where((length >= least) & (length > 0), jnp.sum(grad * unit, axes, keepdims=True), 0)
    return (grad - unit * along) / scale


@op("_normalize(Tensor self, int dim, float eps) -> Tensor", variants="", node="DivBackward",
    aten={"own": True, "calls": _composed.normalize},
    vjp={"self": _normalize_back}, saved="")  # fmt: skip
def normalize(self, dim, eps):
    """The vectors along ``dim`` over their lengths, or over ``eps`` where that is larger."""
    if not jnp.issubdtype(self.dtype, jnp.floating):
        raise RuntimeError(f"_normalize: expected a real floating point tensor, got {type_name(self)}")
    length = norm_along(self, 2.0, (axis_of(dim, self.ndim),))
    return self / jnp.maximum(length, jnp.asarray(eps).astype(self.dtype))


def _negative_limit(self, p, dim, maxnorm):
    return ~(maxnorm >= 0), lambda: RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm}")


@op("renorm(Tensor self, Scalar p, int dim, Scalar maxnorm) -> Tensor", static="p", check=_negative_limit,
    variants="function method inplace out", autocast={"cuda": "fp32"})  # fmt: skip
def renorm(self, p, dim, maxnorm):
    """The slices of ``dim`` scaled down so that their ``p``-norm is at most ``maxnorm``.

    >>> import torchlike as torch
    >>> torch.renorm(torch.tensor([[3., 4.], [0., 1.]]), 2, 0, 1.)
    tensor([[0.6000, 0.8000],
            [0.0000, 1.0000]])
    """
    for name, number in (("p", p), ("maxnorm", maxnorm)):
        if jnp.iscomplexobj(number):
            raise RuntimeError(f"renorm: {name} must be real-valued")
    if not p > 0:
        raise RuntimeError(f"renorm: non-positive-norm not supported, got p={p}")
    if self.ndim < 2:
        raise RuntimeError(f"renorm: input needs at least 2 dimensions, got {self.ndim} dimensions")
    if not is_floating(self):
        raise RuntimeError(f"renorm: Expected a floating point or complex tensor as input. Got {from_np(self.dtype)}")
    axis = axis_of(dim, self.ndim)
    axes = tuple(i for i in range(self.ndim) if i != axis)
    size = norm_along(self.astype(jnp.promote_types(self.dtype, jnp.float32)), float(p), axes)
    limit = maxnorm.astype(size.dtype)
    # The small constant is part of PyTorch's definition.
    return self * jnp.where(size > limit, limit / (size + 1e-7), 1).astype(_real_dtype(self))


@op(
    "cdist(Tensor x1, Tensor x2, float p=2., int? compute_mode=None) -> Tensor",
    aten={"out": None, "calls": _composed.renamed("_cdist_forward")},
    static="p compute_mode",
    variants="",
    vjp={"x1, x2": lambda grad, x1, x2, result, p: _cdist_vjp(grad, x1, x2, result, p)},
    backward=_derivatives.CDIST,
    autocast="fp32",
)
def cdist(x1, x2, p, compute_mode):
    """The ``p``-norm distances between the rows of two (batches of) matrices, [p, m] and [r, m] to [p, r].

    >>> import torchlike as torch
    >>> torch.cdist(torch.zeros(1, 2), torch.tensor([[3., 4.], [0., 1.]]))
    tensor([[5., 1.]])
    """
    for i, x in ((1, x1), (2, x2)):
        if x.ndim < 2:
            raise RuntimeError(f"cdist only supports at least 2D tensors, X{i} got: {x.ndim}D")
        if not is_floating(x) or jnp.iscomplexobj(x):
            raise RuntimeError(f"cdist only supports floating-point dtypes, X{i} got: {type_name(x)}")
    if x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError(f"X1 and X2 must have the same number of columns. X1: {x1.shape[-1]} X2: {x2.shape[-1]}")
    if not p >= 0:
        raise RuntimeError(f"cdist only supports non-negative p values, got {p}")
    demand_same("cdist", x1, x2)
    return _distances(x1, x2, p)


@partial(jax.custom_jvp, nondiff_argnums=(2,))
def _distances(x1, x2, p):
    size = jnp.abs(_differences(x1, x2))
    if p == 0:
        return jnp.sum(size != 0, -1, dtype=size.dtype)
    if p == math.inf:
        return jnp.max(size, -1, initial=0)
    if p == 1:
        return jnp.sum(size, -1)
    return jnp.sqrt(jnp.sum(size * size, -1)) if p == 2 else jnp.power(jnp.sum(jnp.power(size, p), -1), 1 / p)


@_distances.defjvp
def _distances_jvp(p, values, dots):
    """JAX's derivative, as of all differences at once, which are held for a few rows of ``x2`` at a time."""
    x1, x2 = values
    plain, rows = _distances.fun, x2.shape[-2]
    of_a_row = math.prod(broadcast_shapes(x1.shape[:-2], x2.shape[:-2])) * x1.shape[-2] * x1.shape[-1]
    if is_symbolic_dim(rows * of_a_row) or rows * of_a_row <= _AT_ONCE:
        return jax.jvp(partial(plain, p=p), values, dots)
    count = max(1, _AT_ONCE // of_a_row)
    # The last part is filled with the last row, which has no other kinks than it has itself.
    full = jnp.minimum(jnp.arange(-(-rows // count) * count), rows - 1)

    def in_parts(x1, x2):
        some = jax.checkpoint(lambda part: plain(x1, part, p))
        parts = _rows_in_parts(jnp.take(x2, full, -2), -2, count)
        found = jnp.moveaxis(lax.scan(lambda _, part: (None, some(part)), None, parts)[1], 0, -2)
        return found.reshape(*found.shape[:-2], -1)[..., :rows]

    return _distances(x1, x2, p), jax.jvp(in_parts, values, dots)[1]


def _differences(x1, x2):
    broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    return x1[..., :, None, :] - x2[..., None, :, :]


_AT_ONCE = 1 << 20  # differences between two arrays of rows


def _cdist_vjp(grad, x1, x2, result, p):
    """The sums of :func:`_pulls`, over a few rows of ``x2`` at a time: all differences at once may take gigabytes."""
    rows, of_a_row = x2.shape[-2], math.prod(grad.shape[:-1]) * x1.shape[-1]
    if rows * of_a_row <= _AT_ONCE:
        return _pulls(grad, x1, x2, result, p)
    count = max(1, _AT_ONCE // of_a_row)
    parts = _rows_in_parts(x2, -2, count), _rows_in_parts(grad, -1, count), _rows_in_parts(result, -1, count)

    @jax.checkpoint
    def add(total, part):
        x2, grad, result = part
        first, second = _pulls(grad, x1, x2, result, p)
        return total + first, second

    start = jnp.zeros((*grad.shape[:-1], x1.shape[-1]), grad.dtype)
    first, second = lax.scan(add, start, parts)
    second = jnp.moveaxis(second, 0, -3)
    return first, second.reshape(*second.shape[:-3], -1, second.shape[-1])[..., :rows, :]


def _rows_in_parts(x, axis, count):
    """``x`` cut along ``axis`` into parts of ``count``, the last filled with zeros, in front."""
    axis += x.ndim
    x = jnp.pad(x, [(0, -n % count) if i == axis else (0, 0) for i, n in enumerate(x.shape)])
    return jnp.moveaxis(x.reshape(*x.shape[:axis], -1, count, *x.shape[axis + 1 :]), axis, 0)


def _pulls(grad, x1, x2, result, p):
    """Zero between equal rows; of several largest differences each counts (as in PyTorch)."""
    d = _differences(x1, x2)
    grad, far = grad[..., None], (result != 0)[..., None]
    size, norm = jnp.abs(d), jnp.where(far, result[..., None], 1)
    if p == 0:
        g = jnp.zeros_like(d)
    elif p == math.inf:
        g = jnp.where(size == result[..., None], jnp.sign(d) * grad, 0)
    elif p == 1:
        g = jnp.sign(d) * grad
    elif p == 2:
        g = jnp.where(far, d / norm * grad, 0)
    else:
        apart = size != 0
        g = jnp.sign(d) * jnp.power(jnp.where(apart, size, 1) / norm, p - 1) * grad
        g = jnp.where(far & apart, g, 0)
    return jnp.sum(g, -2), -jnp.sum(g, -3)
