"""Small programs of numpy calls, which run a kernel's first calls: made in microseconds, where XLA takes milliseconds.

A jaxpr becomes such a program if each of its primitives moves data, or computes what IEEE 754 or the integers leave no
choice about: the results are those of compiled code but for contractions (``a * b + c`` rounded once). Functions that
are approximated are steps that XLA computes (``elements.py``). What reorders sums is left to it; a sum along short
dimensions is one loop there, from the first element to the last, and what divides several elements is inverted first.
Where XLA's simplifier would make one instruction of two, which rounds differently, ``_Builder.apart`` says so.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from torchlike._base.jaxprs import Literal
from torchlike._executor import elements, numpy_exact, numpy_indexing
from torchlike._executor.numpy_steps import (
    ALL,
    COMPLEX,
    DOES,
    FLOATS,
    HALVES,
    ROUNDING,
    UFUNCS,
    WHOLE,
    Subnormal,
    suspect,
)  # fmt: skip
from torchlike._executor.pending import NUMPYS, as_numpy

if TYPE_CHECKING:
    from torchlike._base.jaxprs import ClosedJaxpr
    from torchlike._decl.typed import Value
    from torchlike._executor.typed import Rule

STEPS = 400  # the longest program
CONSTANT = 1 << 10  # bytes of the largest constant
SUMMED = 32  # elements of a dimension, beyond which XLA adds up parts of it first


class _Unknown(Exception):
    """Something in a jaxpr is none of numpy's business."""


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
    _demand(to.name in ALL and (x.aval.dtype.name not in HALVES or to.name in FLOATS))
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
        _demand(all(x.shape[a] for a in axes) or name in ("every", "any", "sum"))
        return (name, (axes,)) if axes else ("reshape", (tuple(x.shape),))

    return rule


def _rule_arg(eqn: Any) -> tuple[str, tuple[Any, ...]]:
    (axis,), x = eqn.params["axes"], eqn.invars[0].aval
    _demand(x.shape[axis] and x.dtype.kind not in "cV")
    return eqn.primitive.name, (axis, np.dtype(eqn.params["index_dtype"]).name)


def _rule_round(eqn: Any) -> tuple[str, tuple[Any, ...]]:
    _demand(eqn.params["rounding_method"].name == "TO_NEAREST_EVEN")
    return "round", ()


def _rule_power(eqn: Any) -> tuple[str, tuple[Any, ...]]:
    _demand(eqn.params["y"] and eqn.invars[0].aval.dtype.name in FLOATS)
    return "power", (eqn.params["y"],)


def _rule_index(rule: Callable[[Any], tuple[str, tuple[Any, ...]] | None]) -> Rule:
    def demanded(eqn: Any) -> tuple[str, tuple[Any, ...]]:
        made = rule(eqn)
        if made is None:
            raise _Unknown
        return made

    return demanded


def _rule_scatter_add(eqn: Any) -> tuple[str, tuple[Any, ...]]:
    _demand(eqn.invars[0].aval.dtype.name in _NUMBERS | COMPLEX)
    return _rule_index(numpy_indexing.rule_scatter)(eqn)


def _rule_concatenate(eqn: Any) -> tuple[str, tuple[Any, ...]]:
    return "concatenate", (eqn.params["dimension"],)


_NUMBERS, _BITS = FLOATS | WHOLE, WHOLE | {"bool"}
_UNSIGNED = frozenset(name for name in WHOLE if name[0] == "u")
_RULES = {
    **{name: _rule_ufunc(_NUMBERS) for name in ("max", "min", "abs", "square", "clamp")},
    **{name: _rule_ufunc(_NUMBERS | COMPLEX) for name in ("add", "sub", "mul", "add_any")},
    "neg": _rule_ufunc(_NUMBERS | COMPLEX | HALVES),
    **{name: _rule_ufunc(COMPLEX) for name in ("real", "imag", "conj")},
    **{name: _rule_ufunc(FLOATS) for name in ("div", "sqrt", "floor", "ceil", "is_finite", "complex")},
    **{name: _rule_ufunc(ALL | HALVES) for name in ("eq", "ne")},
    **{name: _rule_ufunc((ALL - COMPLEX) | HALVES) for name in ("lt", "le", "gt", "ge")},
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
    "reduce_sum": _rule_reduce("sum", WHOLE),
    "stack": lambda eqn: ("stack", (eqn.params["axis"],)),
    "gather": _rule_index(numpy_indexing.rule_gather),
    "scatter": _rule_index(numpy_indexing.rule_scatter), "scatter-add": _rule_scatter_add,
    "argmax": _rule_arg, "argmin": _rule_arg,
}  # fmt: skip
_INLINED = {"jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr", "custom_jvp_call": "call_jaxpr"}
# What gives a value of its own to each element, so that XLA can add them up in no other way, if one of the inputs does.
_EACH = frozenset(
    {*UFUNCS, "real", "imag", "complex", "conj", "integer_pow", "convert_element_type", "select_n", "slice", "gather",
     "round", "reduce_precision", "bitcast_convert_type", "shift_right_arithmetic", *elements.NAMES}
)  # fmt: skip
_KEEPS_REAL = frozenset({"convert_element_type", "broadcast_in_dim", "reshape", "squeeze", "transpose"})
_RESHAPES = frozenset({"broadcast_in_dim", "reshape", "squeeze", "expand_dims"})
_MOVES = frozenset({"broadcast_in_dim", "reshape", "squeeze", "expand_dims", "transpose", "slice", "rev", "concatenate",
                    "pad", "dynamic_slice", "dynamic_update_slice", "stack", "gather", "scatter", "select_n", "split",
                    "sort"})  # fmt: skip
_LOOKS = frozenset({"eq", "ne", "lt", "le", "gt", "ge", "is_finite", "real", "imag"})
_CHAINS = {"mul": "mul", "div": "mul", "add": "add", "sub": "add"}  # two of them by numbers become one
_SAME = frozenset({"copy", "copy_p", "stop_gradient"})
# Beside these XLA has nothing to simplify but a quotient.
_BESIDE_QUOTIENTS = {
    *_SAME,
    "optimization_barrier",
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
            yield "whole div" if name == "div" and eqn.outvars[0].aval.dtype.name not in FLOATS else name


def _plain(x: Any) -> Any:
    """Parameters as Python's own numbers, texts and tuples, which can be kept."""
    if isinstance(x, tuple):
        return tuple(map(_plain, x))
    return x if x.__class__ is str else operator.index(x)


class _Builder:
    """The steps of a program, in the order of the equations; every value has a number."""

    def __init__(self, closed: ClosedJaxpr, compiled: bool) -> None:
        self.compiled, self.arguments = compiled, len(closed.in_avals)  # whether XLA may compute steps
        self.steps, self.constants, self.values = [], [], len(closed.in_avals)
        self.plain = set(range(self.values))  # arguments, moved at most
        self.alone: set[int] = set()  # what several instructions of XLA made, which it may join with others
        self.marks: dict[str, set[int]] = {"mul": set(), "add": set(), "div": set(), "sqrt": set()}  # made by these
        self.rounded: set[int] = set()  # halves that were computed: XLA may go on with what they were before
        self.joined: set[int] = set()  # what XLA may join with what is done to it
        # The dimensions along which the elements of a value differ, if it repeats others; of constants all.
        self.repeated: dict[int, tuple[int, ...]] = {}
        self.unstable: set[int] = set()  # what depends on functions whose last bits depend on others of the loop
        self.beside: dict[int, frozenset[int]] = {}  # the results of such others that a value depends on
        self.exact = only_divides(closed.jaxpr)
        self.each = set(range(self.values))  # values whose elements are independent of each other
        self.given = set(range(self.values))  # values that depend on arguments
        self.zeros: set[int] = set()  # constants that are 0
        self.moved: dict[int, int] = {}  # {an argument in another shape: what it was made of}
        self.single: set[int] = set()  # what XLA inverts only if nothing else is made of it
        self.real: set[int] = set()  # complex values whose imaginary parts are 0, that depend on arguments
        self.outs = self.jaxpr(closed, range(self.values))
        uses = Counter(chain(self.outs, *[arguments for _, _, arguments, _ in self.steps]))
        _demand(all(uses[i] == 1 for i in self.single))

    def new(self) -> int:
        self.values += 1
        return self.values - 1

    def constant(self, value: Value) -> int:
        value = np.asarray(value)
        _demand(value.nbytes <= CONSTANT and value.dtype.name in ALL | HALVES)
        number = self.new()
        self.constants.append((number, value.dtype.name, value.shape, value.tobytes()))
        self.repeated[number] = tuple(range(value.ndim))
        if not value.any():
            self.zeros.add(number)
        return number

    def jaxpr(self, closed: ClosedJaxpr, arguments: Iterable[int]) -> list[int]:
        """The numbers of the results of a jaxpr."""
        jaxpr, known = closed.jaxpr, {}
        _demand(all(v.aval.ndim <= NUMPYS for v in jaxpr.invars))
        known |= zip(jaxpr.invars, arguments, strict=True)
        known |= {v: self.constant(c) for v, c in zip(jaxpr.constvars, closed.consts, strict=True)}

        def read(atom: Any) -> int:
            return self.constant(np.asarray(atom.val, atom.aval.dtype)) if isinstance(atom, Literal) else known[atom]

        for eqn in jaxpr.eqns:
            known |= zip(eqn.outvars, self.equation(eqn, [read(v) for v in eqn.invars]), strict=True)
        return [read(v) for v in jaxpr.outvars]

    def equation(self, eqn: Any, arguments: list[int]) -> list[int]:
        name = eqn.primitive.name
        _demand(all(v.aval.ndim <= NUMPYS for v in (*eqn.invars, *eqn.outvars)))
        if name in _INLINED:
            return self.jaxpr(eqn.params[_INLINED[name]], arguments)
        if name in _SAME:
            return arguments
        if name == "optimization_barrier":  # XLA knows nothing of what is behind it
            return [
                self.step(("reshape", (tuple(v.aval.shape),)), (i,)) for v, i in zip(eqn.invars, arguments, strict=True)
            ]
        if name == "add" and eqn.outvars[0].aval.dtype.kind in "fc" and not self.zeros.isdisjoint(arguments):
            place = int(arguments[0] in self.zeros)
            _demand(eqn.invars[place].aval.shape == eqn.outvars[0].aval.shape)
            return [arguments[place]]  # XLA leaves the sum out: -0. stays
        _demand(len(self.steps) < STEPS and self.apart(eqn, arguments))
        if name == "iota":
            shape, axis = eqn.params["shape"], eqn.params["dimension"]
            _demand(not eqn.invars and np.dtype(eqn.params["dtype"]).name in _NUMBERS)
            row = (1,) * axis + (shape[axis],) + (1,) * (len(shape) - axis - 1)
            made = "iota", (np.dtype(eqn.params["dtype"]).name, row, tuple(shape))
        elif name == "reduce_sum" and eqn.invars[0].aval.dtype.name in FLOATS | COMPLEX:
            made = self.total(eqn, arguments[0])
        elif name == "div" and self.inverts(eqn, *arguments):
            self.alone_in(arguments[1])
            one = self.constant(np.ones((), eqn.invars[1].aval.dtype))
            inverse = self.step(_RULES[name](eqn), (one, arguments[1]))
            made, arguments = ("mul", ()), [arguments[0], inverse]
        elif name == "split":
            return self.split(eqn, arguments[0])
        elif name == "sort":
            return self.sort(eqn, arguments)
        else:
            made = self.rule(eqn, arguments)
        out = self.step(made, tuple(arguments))
        self.describe(eqn, arguments, out)
        return [out]

    def rule(self, eqn: Any, arguments: list[int]) -> tuple[str, tuple[Any, ...]]:
        """The step of an equation by numpy, or else by XLA for each element."""
        name = eqn.primitive.name
        # XLA rounds a product and a sum once, and leaves a factor 1 out: all the same with parts that are 0
        complex_product = name == "mul" and eqn.outvars[0].aval.dtype.kind == "c" and self.real.isdisjoint(arguments)
        if name in _RULES and not complex_product:
            try:
                return _RULES[name](eqn)
            except _Unknown:
                pass
        if name == "rem" and eqn.outvars[0].aval.dtype.kind == "f":
            # LLVM rounds products and sums once beside a call
            _demand(self.plain.issuperset([i for i in arguments if i in self.given]))
        return numpy_exact.step(eqn) or self.element(eqn, arguments)

    def element(self, eqn: Any, arguments: list[int]) -> tuple[str, tuple[Any, ...]]:
        """The step of what XLA computes for each element. Of numbers in a program it knows more than of arguments."""
        name, function = eqn.primitive.name, elements.parameters(eqn) if self.compiled else None
        _demand(function is not None and eqn.outvars[0].aval.size <= elements.ROWS[-1])
        known = [i for i in arguments if i not in self.given]
        _demand(len(known) < len(arguments) and (not known or name not in elements.ALGEBRA))
        if name in elements.MADE or any(v.aval.dtype.kind == "c" for v in eqn.invars):
            _demand(self.plain.issuperset(arguments) and self.repeated.keys().isdisjoint(arguments))
        return "element", (function,)

    def apart(self, eqn: Any, arguments: list[int]) -> bool:
        """Whether XLA computes an equation by itself."""
        name, kinds = eqn.primitive.name, {v.aval.dtype.name for v in (*eqn.invars, *eqn.outvars)}
        if not kinds <= ALL | HALVES or name not in _MOVES and not self.rounded.isdisjoint(arguments):
            return False
        if name not in _MOVES and name not in _LOOKS and not self.alone.isdisjoint(arguments):
            return False
        if name == "div" and not self.marks["div"].isdisjoint(arguments):
            return False
        chain = _CHAINS.get(name)
        if chain is not None and not self.given.issuperset(arguments):
            factor = self.marks["add"] & self.given if chain == "mul" else set()  # (x + 1) * 3 becomes x * 3 + 3
            if not (self.marks[chain] | factor).isdisjoint(arguments):
                return False
        if name == "mul" and not self.marks["mul"].isdisjoint(arguments):  # x * 7 * row becomes x * (7 * row)
            size = eqn.outvars[0].aval.size
            if any(self.varies(v.aval, i, size) is not None for v, i in zip(eqn.invars, arguments, strict=True)):
                return False
        loop = {self.beside[i] for i in arguments if i in self.beside}
        if any(i in self.unstable for i in arguments) and (len(loop) > 1 or name in elements.BESIDE):
            return False
        joined = [i in self.joined for i in arguments]
        if name in elements.JOINS:
            return not any(joined) and (name != "log" or self.marks["sqrt"].isdisjoint(arguments))
        if name == "div":
            return not joined[1] and arguments[1] not in self.marks["sqrt"]
        return name != "mul" or not all(joined)

    def split(self, eqn: Any, argument: int) -> list[int]:
        """The parts of an array."""
        axis, shape, outs, start = eqn.params["axis"], eqn.invars[0].aval.shape, [], 0
        for size in eqn.params["sizes"]:
            starts, ends = [0] * len(shape), [*shape]
            starts[axis], ends[axis] = start, start + size
            outs.append(self.step(("slice", (tuple(starts), tuple(ends), (1,) * len(shape))), (argument,)))
            start += size
            if argument in self.rounded:
                self.rounded.add(outs[-1])
        return outs

    def sort(self, eqn: Any, arguments: list[int]) -> list[int]:
        """Arrays in the order of the first one."""
        key = eqn.invars[0].aval
        _demand(eqn.params["num_keys"] == 1 and eqn.params["is_stable"] and key.dtype.name in _NUMBERS | {"bool"})
        axis = eqn.params["dimension"]
        return [self.step(("sorted", (axis,)), (number, arguments[0])) for number in arguments]

    def describe(self, eqn: Any, arguments: list[int], out: int) -> None:
        """Note how the elements of a new value depend on each other."""
        name, size = eqn.primitive.name, eqn.outvars[0].aval.size
        if eqn.outvars[0].aval.dtype.name in HALVES and name != "neg":
            if name not in _MOVES or not self.rounded.isdisjoint(arguments):
                self.rounded.add(out)
        if name in elements.UNSTABLE or not self.unstable.isdisjoint(arguments):
            self.unstable.add(out)
        others = frozenset({out} if name in elements.BESIDE else ()).union(*[self.beside.get(i, ()) for i in arguments])
        if others:
            self.beside[out] = others
        moves = name in _KEEPS_REAL and len(arguments) == 1
        if name in elements.JOINED or moves and arguments[0] in self.joined:
            self.joined.add(out)
        if name in _MOVES and self.plain.issuperset(arguments):
            self.plain.add(out)
        if self.steps[-1][0] == "element" and (name in elements.MADE or eqn.invars[0].aval.dtype.kind == "c"):
            self.alone.add(out)
        elif name in _MOVES and not self.alone.isdisjoint(arguments):
            self.alone.add(out)
        for mark, numbers in self.marks.items():
            made = name == mark if mark in ("div", "sqrt") else _CHAINS.get(name) == mark
            made = made and (mark in ("div", "sqrt") or not self.given.issuperset(arguments))
            if made or (moves or name == "neg") and arguments[0] in numbers:
                numbers.add(out)
        if name in _RESHAPES and (arguments[0] in self.moved or arguments[0] < self.arguments):
            sizes = eqn.invars[0].aval.shape  # XLA itself reshapes what is one element along a dimension
            places = eqn.params.get("broadcast_dimensions", ())
            if all(sizes[i] == eqn.outvars[0].aval.shape[k] for i, k in enumerate(places)):
                self.moved[out] = arguments[0]
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

    def inverts(self, eqn: Any, dividend: int, divisor: int) -> bool:
        """Whether XLA multiplies by the inverse instead: of a constant, and of what is divided by more than once."""
        if self.exact:
            return False
        aval, size = eqn.invars[1].aval, eqn.outvars[0].aval.size
        if size != 1 and dividend in self.repeated and divisor in self.repeated and dividend in self.given:
            raise _Unknown
        return divisor in self.repeated or size != 1 and self.varies(aval, divisor, size) is not None

    def alone_in(self, divisor: int) -> None:
        """Note that an argument, and what is moved of it to be a divisor, may have no other use."""
        if divisor in self.moved or divisor < self.arguments:
            self.single.add(divisor)
        if divisor in self.moved:
            self.alone_in(self.moved[divisor])

    def total(self, eqn: Any, argument: int) -> tuple[str, tuple[Any, ...]]:
        """The step of a sum of floats; XLA turns that of equal elements into a product, and may join two sums."""
        shape, axes = eqn.invars[0].aval.shape, eqn.params["axes"]
        if all(shape[a] == 1 for a in axes):
            return "reshape", (tuple(eqn.outvars[0].aval.shape),)
        _demand(argument in self.each and all(shape[a] <= SUMMED for a in axes))
        name, params = _rule_reduce("total", FLOATS | COMPLEX)(eqn)
        return name, params


def written(closed: ClosedJaxpr, compiled: bool = True) -> tuple[Any, ...] | None:
    """The program of a jaxpr, as values that can be kept; None if only XLA can run it.

    Args:
        compiled: whether XLA may compute steps of it.
    """
    try:
        if any(a.dtype.name not in ALL | HALVES for a in closed.in_avals):
            return None
        found = _Builder(closed, compiled)
    except (_Unknown, KeyError):
        return None
    does = {name for name, *_ in found.steps}
    if "bits" in does and not does.isdisjoint({*UFUNCS, *ROUNDING}):
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


class HostProgram:
    """A program from :func:`written`, ready to be run."""

    __slots__ = ("kinds", "values", "steps", "outs", "computes", "compiled")

    def __init__(self, kept: tuple[Any, ...]) -> None:
        kinds, values, constants, steps, self.outs = kept
        self.kinds = tuple(map(np.dtype, kinds))
        self.values = [None] * values
        for number, dtype, shape, data in constants:
            self.values[number] = np.frombuffer(data, dtype).reshape(shape)
        self.steps = [(DOES[name], params, ins, out, dead) for name, params, ins, out, dead in steps]
        self.compiled = any(name == "element" for name, *_ in steps)
        self.computes = any(name in UFUNCS or name in ROUNDING for name, *_ in steps)

    def __call__(self, arguments: Sequence[Any]) -> list[np.ndarray]:
        """The results, as numpy arrays that may share memory with arguments.

        Raises Subnormal where numbers are met that XLA takes for 0.
        """
        values: list[Any] = self.values.copy()
        values[: len(arguments)] = map(as_numpy, arguments, self.kinds)
        outs, computes = self.outs, self.computes
        try:
            with np.errstate(divide="ignore", over="ignore", invalid="ignore", under="raise"):
                if computes and any(map(suspect, values[: len(arguments)])):
                    raise Subnormal
                for does, params, ins, out, dead in self.steps:
                    values[out] = does(*[values[i] for i in ins], *params)
                    for i in dead:
                        values[i] = None
                results = [values[i] for i in outs]
                if computes and any(map(suspect, results)):
                    raise Subnormal
        except FloatingPointError as error:
            raise Subnormal from error
        return results
