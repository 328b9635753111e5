"""Reductions: sums, products, moments, norms and their like."""

import math

import jax.numpy as jnp
from jax import lax
from jax.export import is_symbolic_dim

from torchlike._base.dtypes import from_np
from torchlike._decl.op import reduction
from torchlike._decl.rules import total as total_of
from torchlike._decl.words import aten, spelled
from torchlike._ops import _composed, _derivatives
from torchlike._ops._axes import axes_of, cast, count, is_floating, reduced_axis, spread
from torchlike._ops._elementwise import demand, per
from torchlike._ops.shape import cast as cast_to


def _restored(grad, shape, dim, keepdim):
    """The gradient of a sum, which broadcasts against the summands."""
    return spread(grad, axes_of(dim, len(shape)), keepdim)


def _evenly(grad, shape, dim, keepdim):
    """The gradient of a mean."""
    axes = axes_of(dim, len(shape))
    whole = aten.expand(grad if dim is None else spread(grad, axes, keepdim), shape)
    return spelled("div.Scalar", jnp.divide, whole, max(count(shape, axes), 1))


def _sum(x, axes, keepdim):
    return total_of(x, axes, keepdim)


@reduction("sum(Tensor self, *, ScalarType? dtype=None) -> Tensor", dtype="bool_to_int", out="exact",
           vjp={"self": lambda grad: grad}, jvp="kernel", saved="self_sym_sizes",
           backward=_derivatives.expand,
           autocast={"cuda": "fp32"})  # fmt: skip
def sum(self, dtype):
    """The sum of all elements, or over the dimensions ``dim``; ``keepdim`` leaves them with length 1.

    Bool and integers are summed as int64 unless ``dtype`` says otherwise. No dimensions means all.

    >>> import torchlike as torch
    >>> torch.tensor([[1., 2.], [3., 4.]]).sum(0)
    tensor([4., 6.])
    """
    self = cast(self, dtype)
    return _sum(self, tuple(range(self.ndim)), False)


@reduction(
    "sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    out="computes",
    aten={"out": "IntList_out"},
    dtype="bool_to_int",
    node="SumBackward1",
    vjp={"self": lambda grad, self_aval, dim, keepdim: _restored(grad, self_aval.shape, dim, keepdim)},
    jvp="kernel",
    saved="dim keepdim self_sym_sizes",
    autocast={"cuda": "fp32"},
)
def sum_dim(self, dim, keepdim, dtype):
    self = cast(self, dtype)
    return _sum(self, axes_of(dim, self.ndim), keepdim)


def _demand_mean(name, dtype):
    if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
        raise RuntimeError(
            f"{name}(): could not infer output dtype. Optional dtype must be either a floating point or complex "
            f"dtype. Got: {dtype.scalar_name}"
        )


def _mean(name, x, dim, keepdim, dtype):
    if dtype is None and not is_floating(x):
        raise RuntimeError(
            f"{name}(): could not infer output dtype. Input dtype must be either a floating point or "
            "complex dtype. "
            f"Got: {from_np(x.dtype).scalar_name}; cast it with .float() or give dtype="
        )
    _demand_mean(name, dtype)
    result = x.dtype if dtype is None else dtype.np
    axes = axes_of(dim, x.ndim)
    wide = cast_to(x, jnp.promote_types(result, jnp.float32))  # halves are summed in float32
    total, n = total_of(wide, axes, keepdim), count(x.shape, axes)
    return (per(total, n) if n else total + jnp.nan).astype(result)  # 1 / 0 would spoil the second derivative


@reduction("mean(Tensor self, *, ScalarType? dtype=None) -> Tensor",
    out="cast widens",
    aten={"out": "dtype_out"}, saved="self_sym_numel self_sym_sizes",
           vjp={"self": lambda grad, self_aval: _evenly(grad, self_aval.shape, None, False)}, jvp="kernel")  # fmt: skip
def mean(self, dtype):
    """The mean of all elements, or over the dimensions ``dim``; ``keepdim`` leaves them with length 1.

    Raises RuntimeError for integers and bool, unless a floating ``dtype`` is given.

    >>> import torchlike as torch
    >>> torch.tensor([[1., 2.], [3., 5.]]).mean(1)
    tensor([1.5000, 4.0000])
    """
    return _mean("mean", self, None, False, dtype)


@reduction("mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    out="cast widens",
    aten={"out": "out"},
           node="MeanBackward1", saved="dim keepdim self_sym_numel self_sym_sizes", jvp="kernel",
           vjp={"self": lambda grad, self_aval, dim, keepdim:
                _evenly(grad, self_aval.shape, dim, keepdim)})  # fmt: skip
def mean_dim(self, dim, keepdim, dtype):
    return _mean("mean", self, dim, keepdim, dtype)


@reduction("prod(Tensor self, *, ScalarType? dtype=None) -> Tensor", dtype="bool_to_int", out="exact",
           saved="result! self!", autocast="fp32", backward=_derivatives.product)  # fmt: skip
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
           out="computes", aten={"out": "int_out"},
           dtype="bool_to_int", node="ProdBackward1", saved="dim keepdim result! self!", autocast="fp32",
           backward=_derivatives.product_along)  # fmt: skip
def prod_dim(self, dim, keepdim, dtype):
    self = cast(self, dtype)
    axis = reduced_axis(dim, self.ndim)
    return jnp.prod(self, axis if self.ndim else None, keepdims=keepdim, dtype=self.dtype)


@reduction("nansum(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
           out="cast widens", backward=_derivatives.nansum,
           dtype="bool_to_int")  # fmt: skip
def nansum(self, dim, keepdim, dtype):
    """The sum over ``dim`` (all dimensions by default) with NaN counted as zero.

    >>> import torchlike as torch
    >>> torch.nansum(torch.tensor([1., torch.nan, 2.]))
    tensor(3.)
    """
    _no_complex("nansum", self)
    self = cast(_nan_to_zero(self), dtype)
    demand("nansum", self, "bif")
    return _sum(_nan_to_zero(self), axes_of(dim, self.ndim), keepdim)


@reduction(
    "nanmean(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    aten={"calls": _composed.nanmean},
    out="cast widens",
    node="DivBackward",
    vjp={"self": lambda grad, self, dim, keepdim: _nanmean_vjp(grad, self, dim, keepdim)},
    saved="",
)
def nanmean(self, dim, keepdim, dtype):
    """The mean over ``dim`` (all dimensions by default) of the elements that are not NaN.

    Raises RuntimeError for integers.

    >>> import torchlike as torch
    >>> torch.nanmean(torch.tensor([1., torch.nan, 2.]))
    tensor(1.5000)
    """
    if not is_floating(self):
        raise RuntimeError(
            "nanmean(): expected input to have floating point or complex dtype but got "
            f"{from_np(self.dtype).scalar_name}"
        )
    _demand_mean("nanmean", dtype)
    _no_complex("nansum", self)
    axes = axes_of(dim, self.ndim)
    there = jnp.sum(self == self, axes, keepdims=keepdim, dtype=jnp.int64)
    self = cast(self, dtype)
    demand("nansum", self, "bif")
    total = _sum(_nan_to_zero(self), axes, keepdim)
    return total / there.astype(total.dtype)


def _nanmean_vjp(grad, self, dim, keepdim):
    """NaN where there is nothing but NaN, as in PyTorch."""
    axes = axes_of(dim, self.ndim)
    there = self == self
    n = jnp.sum(there, axes, keepdims=True)
    share = spread(grad, axes, keepdim) / n
    return jnp.where(there, share, share * jnp.where(n == 0, jnp.nan, 0))


def _nan_to_zero(x):
    return jnp.where(x != x, jnp.zeros((), x.dtype), x) if is_floating(x) else x


def _no_complex(name, x):
    if jnp.iscomplexobj(x):
        raise RuntimeError(f"{name} does not support complex inputs; take the sums of .real and .imag")


def _truth(x, axes, keepdim, reduce):
    out = reduce(x != 0, axes, keepdims=keepdim)
    return out.astype(jnp.uint8) if x.dtype == jnp.uint8 else out


_PLAIN = {"out": "out"}


def _truth_family(name, reduce, doc):
    """The three overloads of ``all`` or ``any``."""

    def whole(self):
        return _truth(self, tuple(range(self.ndim)), False, reduce)

    def along(self, dim, keepdim):
        return _truth(self, axes_of(dim, self.ndim), keepdim, reduce)

    def over(self, dim, keepdim):
        axes = () if dim == () else axes_of(dim, self.ndim)  # here an empty list means no dimension
        return _truth(self, axes, keepdim, reduce)

    whole.__doc__ = doc
    return (
        reduction(f"{name}(Tensor self) -> Tensor", aten={"out": "all_out"}, out="truths", vjp={})(whole),
        reduction(f"{name}.dim(Tensor self, int dim, bool keepdim=False) -> Tensor", aten=_PLAIN, out="truths", vjp={})(
            along
        ),
        reduction(f"{name}.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor", out="truths", vjp={})(
            over
        ),
    )


all, all_dim, all_dims = _truth_family(
    "all",
    jnp.all,
    """Whether all elements (over ``dim``) are true, that is not zero.

    Bool, but uint8 for uint8.

    >>> import torchlike as torch
    >>> torch.all(torch.tensor([[1, 0], [2, 3]]), 1)
    tensor([False,  True])
    """,
)
any, any_dim, any_dims = _truth_family(
    "any",
    jnp.any,
    """Whether any element (over ``dim``) is true, that is not zero.

    Bool, but uint8 for uint8.

    >>> import torchlike as torch
    >>> torch.any(torch.tensor([[1, 0], [0, 0]]), 1)
    tensor([ True, False])
    """,
)


def _count_nonzero(x, axes):
    return jnp.sum(x != 0, axes, dtype=jnp.int64)


@reduction("count_nonzero(Tensor self, int? dim=None) -> Tensor", vjp={}, variants="function method")
def count_nonzero(self, dim):
    """How many elements (over ``dim``) are not zero, as int64.

    >>> import torchlike as torch
    >>> torch.count_nonzero(torch.tensor([[0, 1], [2, 3]]), dim=0)
    tensor([1, 2])
    """
    return _count_nonzero(self, axes_of(dim, self.ndim))


@reduction("count_nonzero.dim_IntList(Tensor self, int[] dim) -> Tensor", vjp={}, variants="function method")
def count_nonzero_dims(self, dim):
    return _count_nonzero(self, axes_of(dim, self.ndim))


@reduction("logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor", dtype="int_to_float",
           out="cast widens", vjp={
    "self": lambda grad, self, result, dim, keepdim: _logsumexp_vjp(grad, self, result, dim, keepdim),
}, autocast={"cuda": "fp32"})  # fmt: skip
def logsumexp(self, dim, keepdim):
    """The logarithm of the sum of exponentials over ``dim``, without overflow.

    >>> import torchlike as torch
    >>> torch.logsumexp(torch.tensor([1000., 1000.]), 0)
    tensor(1000.6932)
    """
    axes = axes_of(dim, self.ndim)
    size = count(self.shape, axes)
    if not size:
        return jnp.log(jnp.sum(self, axes, keepdims=keepdim))
    top = jnp.max(jnp.real(self), axes, keepdims=True)
    top = jnp.where(jnp.abs(top) == jnp.inf, jnp.zeros((), top.dtype), top)
    total = jnp.log(jnp.sum(jnp.exp(self - top), axes, keepdims=keepdim))
    return total + (top if keepdim else jnp.squeeze(top, axes))


def _logsumexp_vjp(grad, self, result, dim, keepdim):
    axes = axes_of(dim, self.ndim)
    return spread(grad, axes, keepdim) * jnp.conj(jnp.exp(self - spread(result, axes, keepdim)))


# -- variance and standard deviation ---------------------------------------------------------------


def _correction(unbiased=True, correction=None):
    return (1 if correction is None else correction) if unbiased else 0


def _divided(total, n):
    """``total / n``: the parts of complex numbers apart, of which one may be infinite."""
    return lax.complex(total.real / n, total.imag / n) if jnp.iscomplexobj(total) else total / n


def _freedom(n, correction, dtype):
    """``n - correction`` as a float, or 0; a length that a program takes as it comes has a value only there."""
    freedom = n - correction if n > max(correction, 0) else 0
    return jnp.asarray(freedom, dtype) if is_symbolic_dim(freedom) else float(freedom)


def _moments(x, dim, correction, keepdim):
    """(variance, mean) over the dimensions, halves computed in float32."""
    if not is_floating(x):
        raise RuntimeError(
            f"std and var only support floating point and complex dtypes, got {from_np(x.dtype)}; use .float()"
        )
    axes = axes_of(dim, x.ndim)
    n = count(x.shape, axes)
    wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    mean = _divided(total_of(wide, axes, True), n)
    off = wide - mean
    off = off - total_of(off, axes, True) / n  # the mean was rounded, which counts where numbers are far from 0
    square = jnp.square(off) if not jnp.iscomplexobj(off) else jnp.square(off.real) + jnp.square(off.imag)
    real = jnp.real(x).dtype
    var = jnp.sum(square, axes, keepdims=keepdim) / _freedom(n, correction, square.dtype)
    return var.astype(real), (mean if keepdim else jnp.squeeze(mean, axes)).astype(x.dtype), var


def _var_vjp(grads, self, result, dim, correction, keepdim):
    axes = axes_of(dim, self.ndim)
    n = count(self.shape, axes)
    wide = self.astype(jnp.promote_types(self.dtype, jnp.float32))
    grad = spread(grads[0], axes, keepdim or dim in (None, ()))
    mean = aten.mean(wide) if dim in (None, ()) else aten["mean.dim"](wide, axes, True)
    if dim is None and n <= correction:  # without degrees of freedom all of a tensor is unlike its rows
        return grad * jnp.where(wide == mean, math.nan, math.inf)
    scale = 2 / (n - correction) if n != correction else math.inf
    gap = wide - mean
    return grad * scale * gap


def _std_vjp(grads, self, result, dim, correction, keepdim):
    """Zero where the standard deviation is zero, as in PyTorch."""
    half = grads[0] / (2 * result)
    half = aten["masked_fill_.Scalar"](half, result == 0, 0)
    return _var_vjp([half], self, None, dim, correction, keepdim)


def _std_jvp(dot, self, result, dim, correction, keepdim):
    slope = _std_vjp([jnp.ones_like(result)], self, result, dim, correction, keepdim)
    return jnp.sum(jnp.real(jnp.conj(slope) * dot), axes_of(dim, self.ndim), keepdims=keepdim)


_STD_TANGENTS = (
    lambda dot, self, result, unbiased: _std_jvp(dot, self, result, None, _correction(unbiased), False),
    lambda dot, self, result, dim, unbiased, keepdim: _std_jvp(dot, self, result, dim, _correction(unbiased), keepdim),
    lambda dot, self, result, dim, correction, keepdim: _std_jvp(
        dot, self, result, dim, _correction(correction=correction), keepdim
    ),
)


def _mean_vjp(grad, self, dim, keepdim):
    axes = axes_of(dim, self.ndim)
    grad = grad if dim in (None, ()) else spread(grad, axes, keepdim)
    return _derivatives.spread_mean(grad, self.shape, count(self.shape, axes))


def _with_mean(rule):
    """The rule of (variance or deviation, mean) from that of the first."""

    def both(grads, self, result, dim, correction, keepdim):
        first = rule(grads[:1], self, result, dim, correction, keepdim)
        return first + _mean_vjp(grads[1], self, dim, keepdim)

    return both


def _formulas(rule, result):
    """The rule as a formula for each of the three overloads; ``result`` says whether it is saved."""
    if result:
        return (
            lambda grads, self, result, unbiased: rule(grads, self, result, None, _correction(unbiased), False),
            lambda grads, self, result, dim, unbiased, keepdim: rule(
                grads, self, result, dim, _correction(unbiased), keepdim
            ),
            lambda grads, self, result, dim, correction, keepdim: rule(
                grads, self, result, dim, _correction(correction=correction), keepdim
            ),
        )
    return (
        lambda grads, self, unbiased: rule(grads, self, None, None, _correction(unbiased), False),
        lambda grads, self, dim, unbiased, keepdim: rule(grads, self, None, dim, _correction(unbiased), keepdim),
        lambda grads, self, dim, correction, keepdim: rule(
            grads, self, None, dim, _correction(correction=correction), keepdim
        ),
    )


def _moment_family(name, pick, rule, doc, saves_result=False, tangents=(None,) * 3):
    """The three overloads of ``var`` and its like; ``pick`` takes (variance, mean, unrounded variance)."""
    returns = "(Tensor, Tensor)" if name.endswith("_mean") else "Tensor"
    variants = "function" if name.endswith("_mean") else "function method out"
    node = "".join(part.capitalize() for part in name.split("_")) + "Backward"

    def whole(self, unbiased):
        return pick(*_moments(self, None, _correction(unbiased), False))

    def along(self, dim, unbiased, keepdim):
        return pick(*_moments(self, dim, _correction(unbiased), keepdim))

    def corrected(self, dim, correction, keepdim):
        return pick(*_moments(self, dim, _correction(correction=correction), keepdim))

    whole.__doc__ = doc
    signatures = (
        (f"{name}(Tensor self, bool unbiased=True)", whole),
        (f"{name}.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False)", along),
        (
            f"{name}.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False)",
            corrected,
        ),
    )
    moment = f"{name}.correction"
    outs = (
        {"out": None, "calls": lambda aten, self, unbiased: (
            aten[moment](self) if unbiased else aten[moment](self, correction=0))},
        (_PLAIN if "out" in variants else {}) | {"calls": lambda aten, self, dim, unbiased, keepdim: (
            aten[moment](self, dim, correction=int(unbiased), keepdim=keepdim))},
        None,
    )  # fmt: skip
    return tuple(
        reduction(f"{text} -> {returns}", node=node, aten=aten, vjp={"self": formula}, variants=variants, out="cast",
                  static="correction" if "correction" in text else "",
                  saved=_moment_names(text, saves_result, returns), jvp=tangent and {"self": tangent})(kernel)
        for (text, kernel), formula, tangent, aten in zip(
            signatures, _formulas(rule, saves_result), tangents, outs, strict=True
        )
    )  # fmt: skip


def _moment_names(text, saves_result, returns):
    """What nodes show: of every overload the arguments of the last one."""
    shown = {"dim": "dim", "keepdim": "keepdim", "correction": lambda unbiased: int(unbiased)}
    if "correction" in text:
        shown["correction"] = "correction"
    elif "dim" not in text:
        shown |= {"dim": lambda: None, "keepdim": lambda: False,
                  "correction": lambda unbiased: None if unbiased else 0}  # fmt: skip
    if saves_result:
        shown["result" if returns == "Tensor" else "result0"] = "result"
    return shown | {"self": "self"}


def _deviation(var, mean, wide):
    return jnp.sqrt(wide).astype(var.dtype)


var, var_dim, var_correction = _moment_family(
    "var",
    lambda v, m, w: v,
    _var_vjp,
    """The variance over ``dim`` (all by default).

    Divides by the number of elements less ``correction`` (1; 0 with ``unbiased=False``); NaN where
    that is zero. Raises RuntimeError for integers.

    >>> import torchlike as torch
    >>> torch.var(torch.tensor([1., 2., 4.]), correction=0)
    tensor(1.5556)
    """,
)
std, std_dim, std_correction = _moment_family(
    "std",
    _deviation,
    _std_vjp,
    """The standard deviation over ``dim``.

    All dimensions by default. The square root of :func:`var`; its gradient where it is zero is zero.

    >>> import torchlike as torch
    >>> torch.std(torch.tensor([1., 2., 3.]))
    tensor(1.)
    """,
    True,
    _STD_TANGENTS,
)
_moment_family(
    "var_mean",
    lambda v, m, w: (v, m),
    _with_mean(_var_vjp),
    """The variance and the mean over ``dim``, as a pair.

    >>> import torchlike as torch
    >>> torch.var_mean(torch.tensor([1., 2., 3.]))
    (tensor(1.), tensor(2.))
    """,
)
_moment_family(
    "std_mean",
    lambda v, m, w: (_deviation(v, m, w), m),
    _with_mean(_std_vjp),
    """The standard deviation and the mean.

    Over ``dim`` (all dimensions by default), as a pair.

    >>> import torchlike as torch
    >>> torch.std_mean(torch.tensor([1., 2., 3.]))
    (tensor(1.), tensor(2.))
    """,
    True,
)
