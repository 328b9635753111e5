"""Small programs of numpy calls, which run a kernel's first calls: made in microseconds, where XLA takes milliseconds.

A jaxpr becomes such a program if each of its primitives moves data, or computes what IEEE 754 or the integers leave no
choice about: the results are those of compiled code but for contractions (``a * b + c`` rounded once). What reorders
sums, or approximates functions, is left to XLA; a sum along short dimensions is one loop there, from the first element
to the last, and what divides several elements is inverted first.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from torchlike._base.jaxprs import Literal
from torchlike._executor import numpy_indexing

if TYPE_CHECKING:
    from torchlike._base.jaxprs import ClosedJaxpr
    from torchlike._decl.typed import Value
    from torchlike._executor.typed import Rule

STEPS = 400  # the longest program
CONSTANT = 1 << 10  # bytes of the largest constant
SUMMED = 32  # elements of a dimension, beyond which XLA adds up parts of it first

_FLOATS = frozenset({"float32", "float64"})
_TINY = {name: float(np.finfo(name).smallest_normal) for name in _FLOATS}
_WHOLE = frozenset({f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)})
_COMPLEX = frozenset({"complex64", "complex128"})
_ALL = _FLOATS | _WHOLE | _COMPLEX | {"bool"}


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


def _product(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The product; of complex numbers part by part: numpy may round a product and a sum once."""
    if x.dtype.kind != "c":
        return np.multiply(x, y)
    return _complex(x.real * y.real - x.imag * y.imag, x.real * y.imag + x.imag * y.real)


def _complex(real: np.ndarray, imag: np.ndarray) -> np.ndarray:
    out = np.empty(np.broadcast(real, imag).shape, np.result_type(real, np.complex64))
    out.real, out.imag = real, imag
    return out


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


def _total(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """The sum of floats, added up one after the other; numpy's own sum adds up parts first."""
    kept = [n for i, n in enumerate(x.shape) if i not in axes]
    added = math.prod([x.shape[i] for i in axes])  # not -1, which an empty array leaves open
    rows = x.transpose([*axes, *[i for i in range(x.ndim) if i not in axes]]).reshape(added, *kept)
    return np.add.accumulate(rows)[-1] + x.dtype.type(0)  # XLA begins with 0, to which -0. adds nothing


def _pad(
    x: np.ndarray, fill: np.ndarray, before: Sequence[int], steps: Sequence[int], shape: Sequence[int]
) -> np.ndarray:
    out = np.full(shape, fill, x.dtype)
    firsts = [max(0, -(b // s)) for b, s in zip(before, steps, strict=True)]  # of what is not cut off
    counts = [(m - 1 - b) // s + 1 for b, s, m in zip(before, steps, shape, strict=True)]
    part = x[tuple(map(slice, firsts, [max(n, 0) for n in counts]))]
    if part.size:
        starts = [b + i * s for b, i, s in zip(before, firsts, steps, strict=True)]
        ends = [b + (n - 1) * s + 1 for b, n, s in zip(starts, part.shape, steps, strict=True)]
        out[tuple(map(slice, starts, ends, steps))] = part
    return out


def _start(x: np.ndarray, starts: Sequence[Any], sizes: Sequence[int]) -> tuple[slice, ...]:
    """The part of ``x`` from ``starts`` on, moved so that it is inside."""
    firsts = [min(max(int(s), 0), n - m) for s, n, m in zip(starts, x.shape, sizes, strict=True)]
    return tuple([slice(s, s + m) for s, m in zip(firsts, sizes, strict=True)])


def _updated(x: np.ndarray, new: np.ndarray, *starts: Any) -> np.ndarray:
    out = x.copy()
    out[_start(x, starts, new.shape)] = new
    return out


_UFUNCS = {
    "add": np.add, "sub": np.subtract, "mul": _product, "div": np.divide, "max": _larger, "min": _smaller,
    "neg": np.negative, "abs": np.absolute, "square": np.square, "sqrt": np.sqrt, "floor": np.floor, "ceil": np.ceil,
    "is_finite": np.isfinite, "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "not": np.invert, "shift_left": np.left_shift, "shift_right_logical": np.right_shift, "add_any": np.add,
}  # fmt: skip
_DOES = _UFUNCS | {
    "select": lambda which, no, yes: np.where(which, yes, no),
    "clamp": lambda low, x, high: _smaller(_larger(x, low), high),
    "power": _integer_power,
    "real": lambda x: x.real,
    "imag": lambda x: x.imag,
    "complex": _complex,
    "conj": lambda x: np.conjugate(x),
    "round": np.rint,
    "cast": lambda x, dtype: x.astype(dtype),
    "bits": lambda x, dtype, shape: np.ascontiguousarray(x).view(dtype).reshape(shape),
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
    "total": _total,
    "stack": lambda *args: np.stack(args[:-1], args[-1]),
    "argmax": lambda x, axis, dtype: np.argmax(x, axis).astype(dtype),
    "argmin": lambda x, axis, dtype: np.argmin(x, axis).astype(dtype),
    **numpy_indexing.DOES,
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
    _demand(x.aval.dtype.kind != "c" or to.kind == "c")
    return "cast", (to.name,)


def _rule_bits(eqn: Any) -> tuple[str, tuple[Any, ...]]:
    out = eqn.outvars[0].aval
    return "bits", (out.dtype.name, tuple(out.shape))


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
    _demand(x.shape[axis] and x.dtype.kind != "c")
    return eqn.primitive.name, (axis, np.dtype(eqn.params["index_dtype"]).name)


def _rule_round(eqn: Any) -> tuple[str, tuple[Any, ...]]:
    _demand(eqn.params["rounding_method"].name == "TO_NEAREST_EVEN")
    return "round", ()


def _rule_power(eqn: Any) -> tuple[str, tuple[Any, ...]]:
    _demand(eqn.params["y"] and eqn.invars[0].aval.dtype.name in _FLOATS)
    return "power", (eqn.params["y"],)


def _rule_index(rule: Callable[[Any], tuple[str, tuple[Any, ...]] | None]) -> Rule:
    def demanded(eqn: Any) -> tuple[str, tuple[Any, ...]]:
        made = rule(eqn)
        if made is None:
            raise _Unknown
        return made

    return demanded


def _rule_scatter_add(eqn: Any) -> tuple[str, tuple[Any, ...]]:
    _demand(eqn.invars[0].aval.dtype.name in _NUMBERS | _COMPLEX)
    return _rule_index(numpy_indexing.rule_scatter)(eqn)


def _rule_concatenate(eqn: Any) -> tuple[str, tuple[Any, ...]]:
    return "concatenate", (eqn.params["dimension"],)


_NUMBERS, _BITS = _FLOATS | _WHOLE, _WHOLE | {"bool"}
_UNSIGNED = frozenset(name for name in _WHOLE if name[0] == "u")
_RULES = {
    **{name: _rule_ufunc(_NUMBERS) for name in ("max", "min", "abs", "square", "clamp")},
    **{name: _rule_ufunc(_NUMBERS | _COMPLEX) for name in ("add", "sub", "mul", "neg", "add_any")},
    **{name: _rule_ufunc(_COMPLEX) for name in ("real", "imag", "conj")},
    **{name: _rule_ufunc(_FLOATS) for name in ("div", "sqrt", "floor", "ceil", "is_finite", "complex")},
    **{name: _rule_ufunc(_ALL) for name in ("eq", "ne")},
    **{name: _rule_ufunc(_ALL - _COMPLEX) for name in ("lt", "le", "gt", "ge")},
    **{name: _rule_ufunc(_BITS) for name in ("and", "or", "xor", "not")},
    **{name: _rule_ufunc(_UNSIGNED) for name in ("shift_left", "shift_right_logical")},
    "select_n": _rule_select,
    "integer_pow": _rule_power,
    "round": _rule_round,
    "convert_element_type": _rule_cast, "bitcast_convert_type": _rule_bits,
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
    "stack": lambda eqn: ("stack", (eqn.params["axis"],)),
    "gather": _rule_index(numpy_indexing.rule_gather),
    "scatter": _rule_index(numpy_indexing.rule_scatter), "scatter-add": _rule_scatter_add,
    "argmax": _rule_arg, "argmin": _rule_arg,
}  # fmt: skip
_INLINED = {"jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr", "custom_jvp_call": "call_jaxpr"}
# What gives a value of its own to each element, so that XLA can add them up in no other way, if one of the inputs does.
_EACH = frozenset(
    {*_UFUNCS, "real", "imag", "complex", "conj", "integer_pow", "convert_element_type", "select_n", "slice", "gather"}
)
_KEEPS_REAL = frozenset({"convert_element_type", "broadcast_in_dim", "reshape", "squeeze", "transpose"})
_SAME = frozenset({"copy", "copy_p", "stop_gradient", "optimization_barrier"})
# Beside these XLA has nothing to simplify but a quotient.
_BESIDE_QUOTIENTS = {
    *_SAME,
    "mul",
    "neg",
    "convert_element_type",
    "broadcast_in_dim",
    "reshape",
    "squeeze",
    "transpose",
}


def only_divides(jaxpr: Any) -> bool:
    """Whether a jaxpr does little more than divide floats: it is compiled so that quotients are rounded once."""
    found = {*_primitives(jaxpr)}
    return "div" in found and found <= _BESIDE_QUOTIENTS | {"div"}


def _primitives(jaxpr: Any) -> Iterator[str]:
    for eqn in jaxpr.eqns:
        name = eqn.primitive.name
        if name in _INLINED:
            yield from _primitives(eqn.params[_INLINED[name]].jaxpr)
        else:
            yield "whole div" if name == "div" and eqn.outvars[0].aval.dtype.name not in _FLOATS else name


def _plain(x: Any) -> Any:
    """Parameters as Python's own numbers, texts and tuples, which can be kept."""
    if isinstance(x, tuple):
        return tuple(map(_plain, x))
    return x if x.__class__ is str else operator.index(x)


class _Builder:
    """The steps of a program, in the order of the equations; every value has a number."""

    def __init__(self, closed: ClosedJaxpr) -> None:
        self.steps, self.constants, self.values = [], [], len(closed.in_avals)
        # The dimensions along which the elements of a value differ, if it repeats others; of constants all.
        self.repeated: dict[int, tuple[int, ...]] = {}
        self.exact = only_divides(closed.jaxpr)
        self.each = set(range(self.values))  # values whose elements are independent of each other
        self.given = set(range(self.values))  # values that depend on arguments
        self.zeros: set[int] = set()  # constants that are 0
        self.real: set[int] = set()  # complex values whose imaginary parts are 0, that depend on arguments
        self.outs = self.jaxpr(closed, range(self.values))

    def new(self) -> int:
        self.values += 1
        return self.values - 1

    def constant(self, value: Value) -> int:
        value = np.asarray(value)
        _demand(value.nbytes <= CONSTANT and value.dtype.name in _ALL)
        number = self.new()
        self.constants.append((number, value.dtype.name, value.shape, value.tobytes()))
        self.repeated[number] = tuple(range(value.ndim))
        if not value.any():
            self.zeros.add(number)
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
        if name == "add" and eqn.outvars[0].aval.dtype.kind in "fc" and not self.zeros.isdisjoint(arguments):
            place = int(arguments[0] in self.zeros)
            _demand(eqn.invars[place].aval.shape == eqn.outvars[0].aval.shape)
            return [arguments[place]]  # XLA leaves the sum out: -0. stays
        _demand({v.aval.dtype.name for v in (*eqn.invars, *eqn.outvars)} <= _ALL and len(self.steps) < STEPS)
        if name == "iota":
            shape, axis = eqn.params["shape"], eqn.params["dimension"]
            _demand(not eqn.invars)
            row = (1,) * axis + (shape[axis],) + (1,) * (len(shape) - axis - 1)
            made = "iota", (np.dtype(eqn.params["dtype"]).name, row, tuple(shape))
        elif name == "reduce_sum" and eqn.invars[0].aval.dtype.name in _FLOATS | _COMPLEX:
            made = self.total(eqn, arguments[0])
        elif name == "div" and self.inverts(eqn, arguments[1]):
            one = self.constant(np.ones((), eqn.invars[1].aval.dtype))
            inverse = self.step(_RULES[name](eqn), (one, arguments[1]))
            made, arguments = ("mul", ()), [arguments[0], inverse]
        else:
            made = _RULES[name](eqn)
            if name == "mul" and eqn.outvars[0].aval.dtype.kind == "c":
                # XLA rounds a product and a sum once, and leaves a factor 1 out: all the same with parts that are 0
                _demand(not self.real.isdisjoint(arguments))
        out = self.step(made, tuple(arguments))
        self.describe(eqn, arguments, out)
        return [out]

    def describe(self, eqn: Any, arguments: list[int], out: int) -> None:
        """Note how the elements of a new value depend on each other."""
        name, size = eqn.primitive.name, eqn.outvars[0].aval.size
        if name in _KEEPS_REAL and arguments[0] in self.given:
            if eqn.invars[0].aval.dtype.kind != "c" or arguments[0] in self.real:
                self.real.add(out)
        if name == "broadcast_in_dim" and eqn.invars[0].aval.size != size:
            self.repeated[out] = tuple(eqn.params["broadcast_dimensions"])
        elif name == "iota" and eqn.params["shape"][eqn.params["dimension"]] != size:
            self.repeated[out] = (eqn.params["dimension"],)
        elif name == "slice" and arguments[0] in self.repeated:
            self.repeated[out] = self.repeated[arguments[0]]
        elif name == "transpose" and arguments[0] in self.repeated:
            kept = self.repeated[arguments[0]]
            self.repeated[out] = tuple([i for i, d in enumerate(eqn.params["permutation"]) if d in kept])
        elif name in _EACH:
            if any(i in self.each and v.aval.size >= size for v, i in zip(eqn.invars, arguments, strict=True)):
                self.each.add(out)
            found = {self.varies(v.aval, number, size) for v, number in zip(eqn.invars, arguments, strict=True)} - {()}
            if size != 1 and None not in found and len(found) <= 1:
                self.repeated[out] = found.pop() if found else ()  # type: ignore[assignment]

    def varies(self, aval: Any, number: int, size: int) -> tuple[int, ...] | None:
        """The dimensions along which an input's elements differ, if it is broadcast to ``size`` elements."""
        if aval.size == 1 or number in self.repeated:
            return () if aval.size == 1 else self.repeated[number]
        return tuple([i for i, n in enumerate(aval.shape) if n != 1]) if aval.size < size else None

    def step(self, made: tuple[str, tuple[Any, ...]], arguments: tuple[int, ...]) -> int:
        """The number of what a new step gives."""
        out = self.new()
        self.steps.append((made[0], _plain(made[1]), arguments, out))
        if not self.given.isdisjoint(arguments):
            self.given.add(out)
        if made[0] == "broadcast" and arguments[0] in self.zeros:
            self.zeros.add(out)
        return out

    def inverts(self, eqn: Any, divisor: int) -> bool:
        """Whether XLA multiplies by the inverse instead: of a constant, and of what is divided by more than once."""
        if self.exact:
            return False
        aval, size = eqn.invars[1].aval, eqn.outvars[0].aval.size
        return divisor in self.repeated or size != 1 and self.varies(aval, divisor, size) is not None

    def total(self, eqn: Any, argument: int) -> tuple[str, tuple[Any, ...]]:
        """The step of a sum of floats; XLA turns that of equal elements into a product, and may join two sums."""
        shape, axes = eqn.invars[0].aval.shape, eqn.params["axes"]
        if all(shape[a] == 1 for a in axes):
            return "reshape", (tuple(eqn.outvars[0].aval.shape),)
        _demand(argument in self.each and all(shape[a] <= SUMMED for a in axes))
        name, params = _rule_reduce("total", _FLOATS | _COMPLEX)(eqn)
        return name, params


_DOES["iota"] = lambda dtype, row, shape: np.broadcast_to(np.arange(math.prod(row), dtype=dtype).reshape(row), shape)


def written(closed: ClosedJaxpr) -> tuple[Any, ...] | None:
    """The program of a jaxpr, as values that can be kept; None if only XLA can run it."""
    try:
        if any(a.dtype.name not in _ALL for a in closed.in_avals):
            return None
        found = _Builder(closed)
    except (_Unknown, KeyError):
        return None
    does = {name for name, *_ in found.steps}
    if "bits" in does and not does.isdisjoint({*_UFUNCS, *_ROUNDING}):
        return None  # bits may be a number that XLA takes for 0
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


_ROUNDING = ("power", "cast", "total", "scatter")  # of the others, the steps whose results may be too small


def _subnormal(x: np.ndarray) -> bool:
    """Whether a number other than 0 is below the normal ones."""
    if x.dtype.kind == "c":
        return _subnormal(x.real) or _subnormal(x.imag)
    return x.dtype.kind == "f" and bool(((np.abs(x) < _TINY[x.dtype.name]) & (x != 0)).any())
