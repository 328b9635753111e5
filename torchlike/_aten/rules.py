"""What each primitive of jax is in aten, and each word of a formula."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from torchlike._aten.jaxpr import (
    CHECKS,
    FUNCTIONS,
    RULES,
    Cast,
    Spread,
    Wrapped,
    bare,
    cast,
    is_number,
    real_or_imaginary,
    reshaped,
    whole,
)  # fmt: skip
from torchlike._aten.lower import redispatch
from torchlike._aten.packets import ops
from torchlike._base import promotion
from torchlike._base.dtypes import FROM_NP
from torchlike._core.tensor.tensor import strided
from torchlike._decl.words import arguments

_aten = ops.aten


def rule(*names: str, check: Callable | None = None) -> Callable[[Callable], Callable]:
    def register(function: Callable) -> Callable:
        for name in names:
            RULES[name] = function
            if check is not None:
                CHECKS[name] = check
        return function

    return register


@rule("word")
def _word(eqn: Any, *values: Any) -> list:
    p = eqn.params
    args, kwargs = arguments([bare(whole(v)) for v in values], p["tree"], p["fixed"])
    name, _, overload = p["word"].name.partition(".")
    if name == "scalar_tensor":
        return [_tensor(args[0], args[1], eqn.outvars[0].aval.dtype)]
    if name in ("zeros", "ones"):
        options = {"dtype": args[1].dtype, "layout": strided, "device": args[1].device}
        return [redispatch(getattr(_aten, name).default, args[0], **options)]
    if name == "view":
        return [reshaped(*args)]
    if kwargs.pop("options", False):
        kwargs = {"dtype": args[0].dtype, "layout": strided, "device": args[0].device}
    out = redispatch(getattr(getattr(_aten, name), overload or "default"), *args, **kwargs)
    return [t for t in out if t is not None] if isinstance(out, list | tuple) else [out]


# -- element by element ----------------------------------------------------------------------------------------------


def _out(eqn: Any) -> tuple:
    return tuple(eqn.outvars[0].aval.shape)


def _operands(eqn: Any, args: tuple) -> list:
    """Operands as PyTorch would be given them: not broadcast and not cast where the operator does that itself."""
    found = [x.source if isinstance(x, Spread) and is_number(x.source) else x for x in args]
    loose = [_loose(x) for x in found]
    shapes = [() if is_number(x) else tuple(_source(x).shape) for x in loose]
    if np.broadcast_shapes(*shapes) != _out(eqn):
        loose = [x if is_number(x) or i else whole(found[0]) for i, x in enumerate(loose)]
        shapes = [() if is_number(x) else tuple(_source(x).shape) for x in loose]
        if all(map(is_number, loose)) or np.broadcast_shapes(*shapes) != _out(eqn):
            loose = [whole(x) for x in args]
    casts = [x for x in loose if isinstance(x, Cast)]
    others = [x for x in loose if not isinstance(x, Cast) and not is_number(x)]
    if len(casts) == 1 and others and eqn.primitive.name != "sub" and _promotes(casts[0], others):
        return [_source(x) for x in loose]
    return [whole(x) for x in loose]


def _loose(x: Any) -> Any:
    if not isinstance(x, Spread):
        return x
    first = len(x.shape) - len(x.dims)
    if x.dims == tuple(range(first, len(x.shape))):
        return x.source
    return x.aligned()


def _source(x: Any) -> Any:
    return x.source if isinstance(x, Cast) else x


def _promotes(made: Cast, others: list) -> bool:
    """Whether PyTorch's promotion of the sources gives the dtype of the cast."""
    tensors = [made.source, *others]
    pairs = [(t.dtype, promotion.TENSOR if t.ndim else promotion.ZERO_DIM) for t in tensors]
    return promotion.result_type(pairs).np == made.dtype


def _unary(**names: str) -> None:
    for primitive, name in names.items():
        RULES[primitive] = lambda eqn, x, _n=name: redispatch(getattr(_aten, _n).default, whole(x))


_unary(
    neg="neg", sin="sin", cos="cos", tan="tan", asin="asin", acos="acos", atan="atan", sinh="sinh", cosh="cosh",
    tanh="tanh", asinh="asinh", acosh="acosh", atanh="atanh", exp="exp", exp2="exp2", log="log", log1p="log1p",
    expm1="expm1", logistic="sigmoid", sqrt="sqrt", rsqrt="rsqrt", floor="floor", ceil="ceil", is_finite="isfinite",
    erf="erf", erfc="erfc", erf_inv="erfinv", lgamma="lgamma", digamma="digamma", abs="abs", conj="_conj",
    bessel_i0e="special_i0e", bessel_i1e="special_i1e", log2="log2",
)  # fmt: skip
rule("round", check=lambda eqn: int(eqn.params["rounding_method"]) == 1)(
    lambda eqn, x: redispatch(_aten.round.default, whole(x))
)
rule("copy", "copy_p", "stop_gradient")(lambda eqn, x: x)
rule("optimization_barrier")(lambda eqn, *xs: list(xs))


@rule("not")
def _not(eqn: Any, x: Any) -> Any:
    x = whole(x)
    return redispatch((_aten.logical_not if eqn.invars[0].aval.dtype == bool else _aten.bitwise_not).default, x)


@rule("sign")
def _sign(eqn: Any, x: Any) -> Any:
    x = whole(x)
    sign = redispatch(_aten.sgn.default, x)
    if not x.dtype.is_floating_point:
        return sign
    return redispatch(_aten.where.self, redispatch(_aten.isnan.default, x), x, sign)  # jax's sign of NaN is NaN


RULES["real"] = lambda eqn, x: real_or_imaginary(whole(x), 0)
RULES["imag"] = lambda eqn, x: real_or_imaginary(whole(x), 1)
RULES["square"] = lambda eqn, x: redispatch(_aten.pow.Tensor_Scalar, whole(x), 2)


@rule("one_minus_square")
def _one_minus_square(eqn: Any, x: Any) -> Any:
    x = whole(x)  # from jax 0.12 on; exact where x is almost 1
    return redispatch(_aten.mul.Tensor, redispatch(_aten.add.Scalar, x, 1), redispatch(_aten.rsub.Scalar, x, 1))


@rule("integer_pow")
def _integer_pow(eqn: Any, x: Any) -> Any:
    x, n = whole(x), eqn.params["y"]
    if n in (2, 3):
        return redispatch(_aten.pow.Tensor_Scalar, x, n)
    got = _power(x, abs(n))
    return redispatch(_aten.reciprocal.default, got) if n < 0 else got


def _power(x: Any, n: int) -> Any:
    """``x`` to the ``n``-th by squaring, as XLA computes it."""
    got = None
    while n:
        if n & 1:
            got = x if got is None else redispatch(_aten.mul.Tensor, got, x)
        n >>= 1
        x = redispatch(_aten.mul.Tensor, x, x) if n else x
    return got if got is not None else redispatch(_aten.ones_like.default, x)


def _tensor(x: Any, like: Any, dtype: np.dtype) -> Any:
    """A number as a tensor without dimensions, for operators that take no number."""
    if not is_number(x):
        return x
    return redispatch(_aten.scalar_tensor.default, x, dtype=FROM_NP[dtype], layout=strided, device=like.device)


_TURNED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne", "mul": "mul", "add": "add"}


def _binary(primitive: str, name: str, scalar: bool = True) -> None:
    def rule(eqn: Any, x: Any, y: Any) -> Any:
        x, y = _operands(eqn, (x, y))
        dtype, packet = eqn.invars[0].aval.dtype, name
        if scalar and is_number(x) and packet in _TURNED:
            x, y, packet = y, x, _TURNED[packet]
        if isinstance(y, Wrapped) and packet in ("add", "mul"):
            return redispatch(getattr(_aten, packet).Tensor, x, bare(y))
        if scalar and is_number(y):
            return redispatch(getattr(_aten, packet).Scalar, x, bare(y))
        x, y = _tensor(x, y, dtype), _tensor(y, x, dtype)
        func = getattr(_aten, packet)
        return redispatch(func.Tensor if "Tensor" in func.overloads() else func.default, x, y)

    RULES[primitive] = rule


for _p in ("add", "mul", "lt", "gt", "le", "ge", "eq", "ne"):
    _binary(_p, _p)
_binary("add_any", "add")
_binary("rem", "fmod")
for _p, _n in (("max", "maximum"), ("min", "minimum"), ("atan2", "atan2"), ("nextafter", "nextafter"),
               ("complex", "complex"), ("igamma", "igamma"), ("igammac", "igammac")):  # fmt: skip
    _binary(_p, _n, False)
for _p, _n in (("and", "and"), ("or", "or"), ("xor", "xor")):
    _binary(_p, f"logical_{_n}", False)
    CHECKS[_p] = lambda eqn: eqn.invars[0].aval.dtype == bool


@rule("sub")
def _sub(eqn: Any, x: Any, y: Any) -> Any:
    x, y = _operands(eqn, (x, y))
    if is_number(x):
        return redispatch(_aten.rsub.Scalar, y, x)
    return redispatch(_aten.sub.Scalar if is_number(y) else _aten.sub.Tensor, x, y)


@rule("div")
def _div(eqn: Any, x: Any, y: Any) -> Any:
    x, y = _operands(eqn, (x, y))
    dtype = eqn.invars[0].aval.dtype
    if np.issubdtype(dtype, np.integer):
        return redispatch(_aten.div.Tensor_mode, _tensor(x, y, dtype), _tensor(y, x, dtype), rounding_mode="trunc")
    if is_number(x):
        return (
            redispatch(_aten.reciprocal.default, y) if x == 1 else redispatch(_aten.div.Tensor, _tensor(x, y, dtype), y)
        )
    return redispatch(_aten.div.Scalar if is_number(y) and not isinstance(y, Wrapped) else _aten.div.Tensor, x, bare(y))


@rule("pow")
def _pow(eqn: Any, x: Any, y: Any) -> Any:
    x, y = _operands(eqn, (x, y))
    if is_number(y):
        return redispatch(_aten.pow.Tensor_Scalar, x, y)
    return redispatch(_aten.pow.Scalar if is_number(x) else _aten.pow.Tensor_Tensor, x, y)


@rule("select_n", check=lambda eqn: eqn.invars[0].aval.dtype == bool and len(eqn.invars) == 3)
def _select(eqn: Any, which: Any, *cases: Any) -> Any:
    if is_number(which):
        return cases[bool(which)]
    which, *rest = _operands(eqn, (which, *cases))
    dtype = eqn.invars[1].aval.dtype
    no, yes = [_tensor(x, which, dtype) for x in rest]
    return redispatch(_aten.where.self, which, yes, no)


@rule("clamp")
def _clamp(eqn: Any, low: Any, x: Any, high: Any) -> Any:
    x, dtype = whole(x), eqn.invars[1].aval.dtype
    low, high = [_tensor(whole(b), x, dtype) for b in (low, high)]
    return redispatch(_aten.minimum.default, redispatch(_aten.maximum.default, x, low), high)


@rule("convert_element_type")
def _convert(eqn: Any, x: Any) -> Any:
    return cast(x, eqn.outvars[0].aval.dtype)


# -- shapes ----------------------------------------------------------------------------------------------------------


@rule("broadcast_in_dim")
def _broadcast(eqn: Any, x: Any) -> Any:
    shape, dims = _out(eqn), tuple(eqn.params["broadcast_dimensions"])
    if is_number(x) and not shape:
        return x
    if isinstance(x, Spread):
        return Spread(x.source, shape, tuple([dims[d] for d in x.dims]), x.dtype)
    if not is_number(x) and dims == tuple(range(len(shape))) and tuple(_source(x).shape) == shape:
        return x
    return Spread(x, shape, dims, eqn.outvars[0].aval.dtype)


@rule("reshape", check=lambda eqn: eqn.params["dimensions"] is None)
def _reshape(eqn: Any, x: Any) -> Any:
    if is_number(x):
        return Spread(x, _out(eqn), (), eqn.outvars[0].aval.dtype) if _out(eqn) else x
    if isinstance(x, Spread) and is_number(x.source):
        return Spread(x.source, _out(eqn), (), x.dtype)
    x = whole(x)
    return x if tuple(x.shape) == _out(eqn) else reshaped(x, list(_out(eqn)))


@rule("squeeze")
def _squeeze(eqn: Any, x: Any) -> Any:
    x = whole(x)
    for d in sorted((d % x.ndim for d in eqn.params["dimensions"]), reverse=True):
        x = redispatch(_aten.squeeze.dim, x, d)
    return x


@rule("expand_dims")
def _expand_dims(eqn: Any, x: Any) -> Any:
    x = whole(x)
    for d in sorted(eqn.params["dimensions"]):
        x = redispatch(_aten.unsqueeze.default, x, d)
    return x


@rule("transpose")
def _transpose(eqn: Any, x: Any) -> Any:
    x, dims = whole(x), list(eqn.params["permutation"])
    moved = [i for i, d in enumerate(dims) if i != d]
    if dims == [1, 0]:
        return redispatch(_aten.t.default, x)
    if len(moved) == 2:
        return redispatch(_aten.transpose.int, x, *moved)
    return redispatch(_aten.permute.default, x, dims) if moved else x


@rule("rev")
def _rev(eqn: Any, x: Any) -> Any:
    return redispatch(_aten.flip.default, whole(x), list(eqn.params["dimensions"]))


@rule("slice")
def _slice(eqn: Any, x: Any) -> Any:
    p, x = eqn.params, whole(x)
    steps = p["strides"] or (1,) * len(p["start_indices"])
    for d, (start, end, step) in enumerate(zip(p["start_indices"], p["limit_indices"], steps, strict=True)):
        if (start, end, step) != (0, x.shape[d], 1):
            x = redispatch(_aten.slice.Tensor, x, d, start, end, step)
    return x


@rule("split")
def _split(eqn: Any, x: Any) -> Any:
    x, d, at, found = whole(x), eqn.params["axis"], 0, []
    for n in eqn.params["sizes"]:
        found.append(redispatch(_aten.slice.Tensor, x, d, at, at + n))
        at += n
    return found


@rule("concatenate")
def _concatenate(eqn: Any, *args: Any) -> Any:
    found = [_filled(a, v.aval) for a, v in zip(args, eqn.invars, strict=True)]
    return redispatch(_aten.cat.default, found, eqn.params["dimension"])


@rule("stack")
def _stack(eqn: Any, *args: Any) -> Any:
    return redispatch(
        _aten.stack.default, [_filled(a, v.aval) for a, v in zip(args, eqn.invars, strict=True)], eqn.params["axis"]
    )


def _filled(x: Any, aval: Any) -> Any:
    x = whole(x)
    return whole(Spread(x, tuple(aval.shape), (), aval.dtype)) if is_number(x) else x


@rule("pad")
def _pad(eqn: Any, x: Any, value: Any) -> Any:
    sizes: list[int] = []
    x, value = _filled(x, eqn.invars[0].aval), whole(value)
    for d, (low, high, between) in reversed(list(enumerate(eqn.params["padding_config"]))):
        sizes += [low, high]
        if between and x.shape[d]:
            x = _apart(x, d, between, value)
    if is_number(value):
        return redispatch(_aten.constant_pad_nd.default, x, sizes, *(() if repr(value) in ("0", "0.0") else (value,)))
    inside = redispatch(
        _aten.constant_pad_nd.default, redispatch(_aten.ones_like.default, x, dtype=FROM_NP[np.dtype(bool)]), sizes
    )
    return redispatch(_aten.where.self, inside, redispatch(_aten.constant_pad_nd.default, x, sizes), value)


def _apart(x: Any, d: int, between: int, value: Any) -> Any:
    """A tensor with ``between`` elements of this value between its own along a dimension."""
    if not is_number(value):
        raise NotImplementedError("a padding inside of a tensor with what is no constant cannot be shown to a mode")
    n, shape = x.shape[d], list(x.shape)
    x = redispatch(_aten.unsqueeze.default, x, d + 1)
    x = redispatch(_aten.constant_pad_nd.default, x, [0, 0] * (len(shape) - 1 - d) + [0, between], value)
    x = reshaped(x, [*shape[:d], n * (between + 1), *shape[d + 1 :]])
    return redispatch(_aten.slice.Tensor, x, d, 0, n * (between + 1) - between)


@rule("iota")
def _iota(eqn: Any) -> Any:
    p, shape = eqn.params, _out(eqn)
    d = p["dimension"]
    count = redispatch(_aten.arange.default, shape[d], dtype=FROM_NP[np.dtype(p["dtype"])], pin_memory=False)
    return count if len(shape) == 1 else Spread(count, shape, (d,), np.dtype(p["dtype"]))


# -- reductions and products -----------------------------------------------------------------------------------------


@rule("reduce_sum")
def _sum(eqn: Any, x: Any) -> Any:
    if isinstance(x, Cast) and x.source.dtype.np.kind == "b" and x.dtype == np.int64:
        x = x.source  # sums of bools are int64
    x, dims = whole(x), [int(d) for d in eqn.params["axes"]]
    kind = eqn.outvars[0].aval.dtype
    options = {"dtype": FROM_NP[kind]} if kind.kind in "iu" and kind != np.int64 else {}
    if not dims:
        return x
    if len(dims) == x.ndim:
        return redispatch(_aten.sum.default, x, **options)
    return redispatch(_aten.sum.dim_IntList, x, dims, **options)


def _reduction(primitive: str, name: str, overload: str = "default") -> None:
    def rule(eqn: Any, x: Any) -> Any:
        x, dims = whole(x), [int(d) for d in eqn.params["axes"]]
        return redispatch(getattr(getattr(_aten, name), overload), x, dims) if dims else x

    RULES[primitive] = rule


_reduction("reduce_max", "amax")
_reduction("reduce_min", "amin")
_reduction("reduce_and", "all", "dims")
_reduction("reduce_or", "any", "dims")


@rule("reduce_prod")
def _prod(eqn: Any, x: Any) -> Any:
    x = whole(x)
    for d in sorted(map(int, eqn.params["axes"]), reverse=True):
        x = redispatch(_aten.prod.dim_int, x, d)
    return x


@rule("argmax", "argmin", check=lambda eqn: len(eqn.params["axes"]) == 1)
def _place(eqn: Any, x: Any) -> Any:
    got = redispatch(getattr(_aten, eqn.primitive.name).default, whole(x), int(eqn.params["axes"][0]))
    return cast(got, np.dtype(eqn.params["index_dtype"]))


def _scan(primitive: str, name: str) -> None:
    def rule(eqn: Any, x: Any) -> Any:
        x, d, back = whole(x), eqn.params["axis"], eqn.params["reverse"]
        x = redispatch(_aten.flip.default, x, [d]) if back else x
        got = redispatch(getattr(_aten, name).default, x, d)
        return redispatch(_aten.flip.default, got, [d]) if back else got

    RULES[primitive] = rule


_scan("cumsum", "cumsum")
_scan("cumprod", "cumprod")
_scan("cumlogsumexp", "logcumsumexp")


@rule("dot_general")
def _dot(eqn: Any, x: Any, y: Any) -> Any:
    (left, right), (batch_x, batch_y) = eqn.params["dimension_numbers"]
    kind = eqn.outvars[0].aval.dtype
    x, y = (whole(cast(whole(v), kind)) for v in (x, y))
    x, outer_x = _stacked(x, batch_x, left, last=True)
    y, outer_y = _stacked(y, batch_y, right, last=False)
    shape = [*outer_x[0], *outer_x[1], *outer_y[1]]
    out = redispatch(_aten.bmm.default if batch_x else _aten.mm.default, x, y)
    return out if list(out.shape) == shape else reshaped(out, shape)


def _stacked(x: Any, batch: tuple, inner: tuple, last: bool) -> tuple:
    """A factor as a (stack of) matrices whose summed dimensions come last, or first; its other lengths."""
    free = [d for d in range(x.ndim) if d not in batch and d not in inner]
    order = [*batch, *free, *inner] if last else [*batch, *inner, *free]
    lengths = [[x.shape[d] for d in dims] for dims in (batch, free)]
    n = len(batch)
    rows, columns = (free, inner) if last else (inner, free)
    shape = [
        *([math.prod(lengths[0])] if n else []),
        *(math.prod([x.shape[d] for d in dims]) for dims in (rows, columns)),
    ]
    if order == [1, 0]:
        x = redispatch(_aten.t.default, x)
    elif order != sorted(order):
        x = redispatch(_aten.permute.default, x, order)
    return (x if list(x.shape) == shape else reshaped(x, shape)), lengths


# jax's functions, not primitives, that are operators of aten.
FUNCTIONS["copysign"] = lambda x, y: redispatch(_aten.copysign.Tensor, whole(x), whole(y))


@rule("triangular_solve")
def _triangular(eqn: Any, a: Any, b: Any) -> Any:
    p, a, b = eqn.params, whole(a), whole(b)
    upper = not p["lower"]
    if p["transpose_a"]:
        a, upper = redispatch(_aten.transpose.int, a, -2, -1), not upper
    a = redispatch(_aten._conj.default, a) if p["conjugate_a"] and a.is_complex() else a
    options = {"left": p["left_side"], "unitriangular": p["unit_diagonal"]}
    return redispatch(_aten.linalg_solve_triangular.default, a, b, upper=upper, **options)
