"""Small programs of numpy calls, which run a kernel's first calls: made in microseconds, where XLA takes milliseconds.

A jaxpr becomes such a program if each of its primitives moves data, or computes what IEEE 754 or the integers leave no
choice about: the results are those of compiled code but for contractions (``a * b + c`` rounded once) and for
quotients by constants, which XLA makes products. What reorders sums, or approximates functions, is left to XLA.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from torchlike._base.jaxprs import Literal

if TYPE_CHECKING:
    from torchlike._base.jaxprs import ClosedJaxpr
    from torchlike._decl.typed import Value
    from torchlike._executor.typed import Rule

STEPS = 400  # the longest program
CONSTANT = 1 << 10  # bytes of the largest constant

_FLOATS = frozenset({"float32", "float64"})
_TINY = {name: float(np.finfo(name).smallest_normal) for name in _FLOATS}
_WHOLE = frozenset({f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)})
_ALL = _FLOATS | _WHOLE | {"bool"}


class Subnormal(Exception):
    """Numbers so small that XLA takes them for 0: it has to compute the results."""


class _Unknown(Exception):
    """Something in a jaxpr is none of numpy's business."""


# -- what a step does: {name: (values, parameters) -> value} -------------------------------------------


def _larger(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The maximum; zeros have signs in XLA: 0. is larger than -0."""
    found = np.maximum(x, y)
    return found if found.dtype.kind != "f" else np.where((x == y) & (x == 0), x + y, found)


def _smaller(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    found = np.minimum(x, y)
    return found if found.dtype.kind != "f" else np.where((x == y) & (x == 0), -(-x - y), found)


def _largest(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    found = np.maximum.reduce(x, axes)
    if x.dtype.kind != "f":
        return found
    return np.where(found == 0, np.where(((x == 0) & ~np.signbit(x)).any(axes), x.dtype.type(0), found), found)


def _smallest(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    return -_largest(-x, axes) if x.dtype.kind == "f" else np.minimum.reduce(x, axes)


def _integer_power(x: np.ndarray, y: int) -> np.ndarray:
    found: Any = None
    rest = abs(y)
    while rest:
        if rest & 1:
            found = x if found is None else found * x
        rest >>= 1
        if rest:
            x = x * x
    return found if y > 0 else np.divide(x.dtype.type(1), found)


def _pad(
    x: np.ndarray, fill: np.ndarray, before: Sequence[int], steps: Sequence[int], shape: Sequence[int]
) -> np.ndarray:
    out = np.full(shape, fill, x.dtype)
    ends = [b + (n - 1) * s + 1 for b, n, s in zip(before, x.shape, steps, strict=True)]
    if x.size:
        out[tuple(map(slice, before, ends, steps))] = x
    return out


def _start(x: np.ndarray, starts: Sequence[Any], sizes: Sequence[int]) -> tuple[slice, ...]:
    """The part of ``x`` from ``starts`` on, moved so that it is inside."""
    firsts = [min(max(int(s), 0), n - m) for s, n, m in zip(starts, x.shape, sizes, strict=True)]
    return tuple([slice(s, s + m) for s, m in zip(firsts, sizes, strict=True)])


def _updated(x: np.ndarray, new: np.ndarray, *starts: Any) -> np.ndarray:
    out = x.copy()
    out[_start(x, starts, new.shape)] = new
    return out


def _gather(
    x: np.ndarray,
    starts: np.ndarray,
    axes: tuple[int, ...],
    batch: tuple[tuple[int, int], ...],
    order: tuple[int, ...],
    fill: str,
) -> np.ndarray:
    """Elements of ``x`` at ``starts[..., k]`` along each of ``axes``, and along with the others in ``batch``.

    ``fill``: what is outside, as text; "" if places are moved inside.
    """
    found, inside = [], np.ones(starts.shape[:-1], bool)
    for k, axis in enumerate(axes):
        place, last = starts[..., k], x.shape[axis] - 1
        if fill:
            inside &= (place >= 0) & (place <= last)
        found.append(np.clip(place, 0, last))
    for axis, along in batch:
        between = [1] * inside.ndim
        between[along] = x.shape[axis]
        found.append(np.arange(x.shape[axis]).reshape(between))
    first = (*axes, *[axis for axis, _ in batch])
    rest = [i for i in range(x.ndim) if i not in first]
    out = x.transpose(*first, *rest)[tuple(np.broadcast_arrays(*found))]
    if not inside.all():
        out[~inside] = np.nan if fill == "nan" else int(fill)
    return out.transpose(order)


_UFUNCS = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "max": _larger, "min": _smaller,
    "neg": np.negative, "abs": np.absolute, "square": np.square, "sqrt": np.sqrt, "floor": np.floor, "ceil": np.ceil,
    "is_finite": np.isfinite, "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "not": np.invert, "shift_left": np.left_shift, "shift_right_logical": np.right_shift, "add_any": np.add,
}  # fmt: skip
_DOES = _UFUNCS | {
    "select": lambda which, no, yes: np.where(which, yes, no),
    "clamp": lambda low, x, high: _smaller(_larger(x, low), high),
    "power": _integer_power,
    "round": np.rint,
    "cast": lambda x, dtype: x.astype(dtype),
    "reshape": lambda x, shape: x.reshape(shape),
    "broadcast": lambda x, between, shape: np.broadcast_to(x.reshape(between), shape),
    "transpose": lambda x, order: x.transpose(order),
    "slice": lambda x, *parts: x[tuple(map(slice, *parts))],
    "reverse": lambda x, axes: np.flip(x, axes),
    "concatenate": lambda *args: np.concatenate(args[:-1], args[-1]),
    "pad": _pad,
    "dynamic_slice": lambda x, *rest: x[_start(x, rest[:-1], rest[-1])],
    "dynamic_update_slice": _updated,
    "largest": _largest,
    "smallest": _smallest,
    "every": lambda x, axes: np.logical_and.reduce(x, axes),
    "any": lambda x, axes: np.logical_or.reduce(x, axes),
    "sum": lambda x, axes: np.add.reduce(x, axes, x.dtype),
    "argmax": lambda x, axis, dtype: np.argmax(x, axis).astype(dtype),
    "argmin": lambda x, axis, dtype: np.argmin(x, axis).astype(dtype),
    "gather": _gather,
}


# -- from a jaxpr to steps -----------------------------------------------------------------------------


def _rule_ufunc(allowed: Collection[str]) -> Rule:
    def rule(eqn: Any) -> tuple[str, tuple[Any, ...]]:
        name = eqn.primitive.name
        _demand({v.aval.dtype.name for v in eqn.invars} <= allowed)
        return name, ()

    return rule


def _demand(holds: bool) -> None:
    if not holds:
        raise _Unknown


def _rule_select(eqn: Any) -> tuple[str, tuple[Any, ...]]:
    _demand(len(eqn.invars) == 3 and eqn.invars[0].aval.dtype == np.bool_)
    return "select", ()


def _rule_cast(eqn: Any) -> tuple[str, tuple[Any, ...]]:
    (x,), to = eqn.invars, np.dtype(eqn.params["new_dtype"])
    # a float outside the range of integers is the largest of them in XLA, and nothing in particular in C
    _demand(eqn.params.get("sharding") is None and not (x.aval.dtype.kind == "f" and to.kind in "iu"))
    return "cast", (to.name,)


def _rule_broadcast(eqn: Any) -> tuple[str, tuple[Any, ...]]:
    between = [1] * len(eqn.params["shape"])
    _demand(len(eqn.invars) == 1)
    for size, place in zip(eqn.invars[0].aval.shape, eqn.params["broadcast_dimensions"], strict=True):
        between[place] = size
    return "broadcast", (tuple(between), tuple(eqn.params["shape"]))


def _rule_reshape(eqn: Any) -> tuple[str, tuple[Any, ...]]:
    _demand(len(eqn.invars) == 1 and eqn.params.get("dimensions", None) is None or eqn.primitive.name == "squeeze")
    return "reshape", (tuple(eqn.outvars[0].aval.shape),)


def _rule_slice(eqn: Any) -> tuple[str, tuple[Any, ...]]:
    starts, ends = eqn.params["start_indices"], eqn.params["limit_indices"]
    return "slice", (tuple(starts), tuple(ends), tuple(eqn.params["strides"] or (1,) * len(starts)))


def _rule_pad(eqn: Any) -> tuple[str, tuple[Any, ...]]:
    config = eqn.params["padding_config"]
    _demand(all(low >= 0 and high >= 0 for low, high, _ in config))
    before, steps = tuple(low for low, _, _ in config), tuple(inner + 1 for _, _, inner in config)
    return "pad", (before, steps, tuple(eqn.outvars[0].aval.shape))


def _rule_reduce(name: str, allowed: Collection[str]) -> Rule:
    def rule(eqn: Any) -> tuple[str, tuple[Any, ...]]:
        x, axes = eqn.invars[0].aval, tuple(eqn.params["axes"])
        _demand(x.dtype.name in allowed or not axes)
        _demand(all(x.shape[a] for a in axes))
        return (name, (axes,)) if axes else ("reshape", (tuple(x.shape),))

    return rule


def _rule_arg(eqn: Any) -> tuple[str, tuple[Any, ...]]:
    (axis,), x = eqn.params["axes"], eqn.invars[0].aval
    _demand(x.shape[axis])
    return eqn.primitive.name, (axis, np.dtype(eqn.params["index_dtype"]).name)


def _rule_round(eqn: Any) -> tuple[str, tuple[Any, ...]]:
    _demand(eqn.params["rounding_method"].name == "TO_NEAREST_EVEN")
    return "round", ()


def _rule_power(eqn: Any) -> tuple[str, tuple[Any, ...]]:
    _demand(eqn.params["y"] and eqn.invars[0].aval.dtype.name in _FLOATS)
    return "power", (eqn.params["y"],)


def _rule_concatenate(eqn: Any) -> tuple[str, tuple[Any, ...]]:
    return "concatenate", (eqn.params["dimension"],)


def _rule_gather(eqn: Any) -> tuple[str, tuple[Any, ...]]:
    """Single elements along some axes, all of the others: ``x[i]``, ``take``, ``take_along_axis``."""
    (x, starts), p = (v.aval for v in eqn.invars), eqn.params
    d, mode = p["dimension_numbers"], p["mode"].name
    batch = tuple(zip(d.operand_batching_dims, d.start_indices_batching_dims, strict=True))
    single = {*d.start_index_map, *d.operand_batching_dims}
    _demand({*d.start_index_map} == {*d.collapsed_slice_dims} and bool(single) and starts.dtype.kind in "iu")
    _demand(all(size == (1 if i in single else x.shape[i]) for i, size in enumerate(p["slice_sizes"])))
    _demand(all(x.shape[i] for i in single) and mode in ("CLIP", "PROMISE_IN_BOUNDS", "FILL_OR_DROP"))
    fill = str(p["fill_value"]) if x.dtype.kind == "f" else str(int(p["fill_value"] or 0))
    _demand(mode != "FILL_OR_DROP" or fill == "nan" or x.dtype.kind != "f")
    before, inner, order = starts.ndim - 1, 0, []
    for place in range(eqn.outvars[0].aval.ndim):
        order.append(before + inner if place in d.offset_dims else place - inner)
        inner += place in d.offset_dims
    return "gather", (tuple(d.start_index_map), batch, tuple(order), fill if mode == "FILL_OR_DROP" else "")


_NUMBERS, _BITS = _FLOATS | _WHOLE, _WHOLE | {"bool"}
_UNSIGNED = frozenset(name for name in _WHOLE if name[0] == "u")
_RULES = {
    **{name: _rule_ufunc(_NUMBERS) for name in ("add", "sub", "mul", "max", "min", "neg", "abs", "square", "add_any")},
    **{name: _rule_ufunc(_FLOATS) for name in ("div", "sqrt", "floor", "ceil", "is_finite")},
    **{name: _rule_ufunc(_ALL) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    **{name: _rule_ufunc(_BITS) for name in ("and", "or", "xor", "not")},
    **{name: _rule_ufunc(_UNSIGNED) for name in ("shift_left", "shift_right_logical")},
    "select_n": _rule_select,
    "clamp": lambda eqn: ("clamp", ()),
    "integer_pow": _rule_power,
    "round": _rule_round,
    "convert_element_type": _rule_cast,
    "reshape": _rule_reshape, "squeeze": _rule_reshape, "expand_dims": _rule_reshape,
    "broadcast_in_dim": _rule_broadcast,
    "transpose": lambda eqn: ("transpose", (tuple(eqn.params["permutation"]),)),
    "slice": _rule_slice,
    "rev": lambda eqn: ("reverse", (tuple(eqn.params["dimensions"]),)),
    "concatenate": _rule_concatenate,
    "pad": _rule_pad,
    "dynamic_slice": lambda eqn: ("dynamic_slice", (tuple(eqn.params["slice_sizes"]),)),
    "dynamic_update_slice": lambda eqn: ("dynamic_update_slice", ()),
    "reduce_max": _rule_reduce("largest", _NUMBERS), "reduce_min": _rule_reduce("smallest", _NUMBERS),
    "reduce_and": _rule_reduce("every", {"bool"}), "reduce_or": _rule_reduce("any", {"bool"}),
    "reduce_sum": _rule_reduce("sum", _WHOLE),
    "argmax": _rule_arg, "argmin": _rule_arg,
    "gather": _rule_gather,
}  # fmt: skip
_INLINED = {"jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr", "custom_jvp_call": "call_jaxpr"}
_SAME = frozenset({"copy", "copy_p", "stop_gradient", "optimization_barrier"})


def _plain(x: Any) -> Any:
    """Parameters as Python's own numbers, texts and tuples, which can be kept."""
    if isinstance(x, tuple):
        return tuple(map(_plain, x))
    return x if x.__class__ is str else operator.index(x)


class _Builder:
    """The steps of a program, in the order of the equations; every value has a number."""

    def __init__(self, closed: ClosedJaxpr) -> None:
        self.steps, self.constants, self.values = [], [], len(closed.in_avals)
        self.outs = self.jaxpr(closed, range(self.values))

    def new(self) -> int:
        self.values += 1
        return self.values - 1

    def constant(self, value: Value) -> int:
        value = np.asarray(value)
        _demand(value.nbytes <= CONSTANT and value.dtype.name in _ALL)
        number = self.new()
        self.constants.append((number, value.dtype.name, value.shape, value.tobytes()))
        return number

    def jaxpr(self, closed: ClosedJaxpr, arguments: Iterable[int]) -> list[int]:
        """The numbers of the results of a jaxpr."""
        jaxpr, known = closed.jaxpr, {}
        known |= zip(jaxpr.invars, arguments, strict=True)
        known |= {v: self.constant(c) for v, c in zip(jaxpr.constvars, closed.consts, strict=True)}

        def read(atom: Any) -> int:
            return self.constant(np.asarray(atom.val, atom.aval.dtype)) if isinstance(atom, Literal) else known[atom]

        for eqn in jaxpr.eqns:
            known |= zip(eqn.outvars, self.equation(eqn, [read(v) for v in eqn.invars]), strict=True)
        return [read(v) for v in jaxpr.outvars]

    def equation(self, eqn: Any, arguments: list[int]) -> list[int]:
        name = eqn.primitive.name
        if name in _INLINED:
            return self.jaxpr(eqn.params[_INLINED[name]], arguments)
        if name in _SAME:
            return arguments
        _demand({v.aval.dtype.name for v in (*eqn.invars, *eqn.outvars)} <= _ALL and len(self.steps) < STEPS)
        if name == "iota":
            shape, axis = eqn.params["shape"], eqn.params["dimension"]
            _demand(not eqn.invars)
            row = (1,) * axis + (shape[axis],) + (1,) * (len(shape) - axis - 1)
            made = "iota", (np.dtype(eqn.params["dtype"]).name, row, tuple(shape))
        else:
            made = _RULES[name](eqn)
        out = self.new()
        self.steps.append((made[0], _plain(made[1]), tuple(arguments), out))
        return [out]


_DOES["iota"] = lambda dtype, row, shape: np.broadcast_to(np.arange(math.prod(row), dtype=dtype).reshape(row), shape)


def written(closed: ClosedJaxpr) -> tuple[Any, ...] | None:
    """The program of a jaxpr, as values that can be kept; None if only XLA can run it."""
    try:
        if any(a.dtype.name not in _ALL for a in closed.in_avals):
            return None
        found = _Builder(closed)
    except (_Unknown, KeyError):
        return None
    last = {}
    for i, (_, _, arguments, _) in enumerate(found.steps):
        last |= dict.fromkeys(arguments, i)
    kept = {*found.outs}
    steps = [
        (name, params, ins, out, tuple({v for v in ins if last[v] == i and v not in kept}))
        for i, (name, params, ins, out) in enumerate(found.steps)
    ]
    kinds = tuple(a.dtype.name for a in closed.in_avals)
    return kinds, found.values, tuple(found.constants), tuple(steps), tuple(found.outs)


class Program:
    """A program from :func:`written`, ready to be run."""

    __slots__ = ("kinds", "values", "steps", "outs", "computes")

    def __init__(self, kept: tuple[Any, ...]) -> None:
        kinds, values, constants, steps, self.outs = kept
        self.kinds = tuple(map(np.dtype, kinds))
        self.values = [None] * values
        for number, dtype, shape, data in constants:
            self.values[number] = np.frombuffer(data, dtype).reshape(shape)
        self.steps = [(_DOES[name], params, ins, out, dead) for name, params, ins, out, dead in steps]
        self.computes = any(name in _UFUNCS or name in _ROUNDING for name, *_ in steps)

    def __call__(self, arguments: Sequence[Any]) -> list[np.ndarray]:
        """The results, as numpy arrays that may share memory with arguments.

        Raises Subnormal where numbers are met that XLA takes for 0.
        """
        values: list[Any] = self.values.copy()
        values[: len(arguments)] = map(np.asarray, arguments, self.kinds)
        if self.computes and any(map(_subnormal, values[: len(arguments)])):
            raise Subnormal
        try:
            with np.errstate(divide="ignore", over="ignore", invalid="ignore", under="raise"):
                for does, params, ins, out, dead in self.steps:
                    values[out] = does(*[values[i] for i in ins], *params)
                    for i in dead:
                        values[i] = None
        except FloatingPointError as error:
            raise Subnormal from error
        results = [values[i] for i in self.outs]
        if self.computes and any(map(_subnormal, results)):
            raise Subnormal
        return results


_ROUNDING = ("power", "cast")  # of the others, the steps whose results may be too small


def _subnormal(x: np.ndarray) -> bool:
    """Whether a number other than 0 is below the normal ones."""
    return x.dtype.kind == "f" and bool(((np.abs(x) < _TINY[x.dtype.name]) & (x != 0)).any())
