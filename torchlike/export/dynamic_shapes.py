"""Dimensions whose length an exported program takes as it comes: ``Dim``, and the reading of ``dynamic_shapes``."""

import math
import re
from typing import Any, ClassVar, NamedTuple

from jax.export import SymbolicScope, symbolic_shape

from torchlike._core.tensor.tensor import Tensor
from torchlike.export._errors import ConstraintViolationError, UserError
from torchlike.utils._pytree import tree_flatten


class Extent(NamedTuple):
    """A length that is ``factor * symbol + offset``."""

    factor: int
    symbol: str
    offset: int

    def __str__(self) -> str:
        text = self.symbol if self.factor == 1 else f"{self.factor}*{self.symbol}"
        return f"{text} + {self.offset}" if self.offset else text

    def symbol_at(self, length: int) -> int | None:
        """The symbol's value where the length is this; None if there is none."""
        value, rest = divmod(length - self.offset, self.factor)
        return None if rest else value


class ValueRanges(NamedTuple):
    """The least and the largest value of a symbol."""

    lower: int
    upper: float

    def __repr__(self) -> str:
        return f"VR[{self.lower}, {'int_oo' if self.upper == math.inf else self.upper}]"


class DimHint:
    """A dimension without a name: AUTO (dynamic if possible), DYNAMIC, or STATIC; called, with a range."""

    def __init__(self, kind: str, min: int | None = None, max: int | None = None) -> None:
        self.kind, self.min, self.max = kind, min, max

    def __call__(self, min: int | None = None, max: int | None = None) -> "DimHint":
        if self.kind == "STATIC":
            raise AssertionError("Dim.STATIC has no range")
        return DimHint(self.kind, min, max)

    def __repr__(self) -> str:
        parts = [self.kind] + [f"{k}={v}" for k, v in (("min", self.min), ("max", self.max)) if v is not None]
        return f"DimHint({', '.join(parts)})"


class Dim:
    """A dimension of unknown length: the same ``Dim`` stands for the same length wherever it is used.

    ``2 * dim + 1`` is a length derived from it. ``Dim.AUTO``, ``Dim.DYNAMIC`` and ``Dim.STATIC`` need no name.

    Args:
        name: an identifier. min, max: the range of lengths. A call outside of it raises AssertionError. Without min it
            is 1, or 2 if the exported code has to know that the length is not 1; ``range_constraints`` tells.

    Raises:
        AssertionError: a name that is no identifier, or an empty range.

    >>> import torchlike as torch
    >>> batch = torch.export.Dim("batch", min=2, max=64)
    >>> batch, 2 * batch
    (Dim('batch', max=64), 2*batch)
    """

    AUTO: ClassVar[DimHint] = DimHint("AUTO")
    DYNAMIC: ClassVar[DimHint] = DimHint("DYNAMIC")
    STATIC: ClassVar[DimHint] = DimHint("STATIC")

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        self.min, self.max = 0 if min is None else min, math.inf if max is None else max
        if self.max < self.min:
            raise AssertionError(f"Cannot create Dim with inconsistent min={self.min}, max={self.max}")
        if not name.isidentifier():
            raise AssertionError(f"Dim name must be a valid identifier, got {name}")
        self.__name__ = name
        self.extent = Extent(1, name, 0)
        self.root = self

    def __mul__(self, other: int) -> "Dim":
        if type(other) is not int or other <= 0:
            raise NotImplementedError(
                f"Attempted to multiply {other} with {self.__name__}, where a positive integer was expected. A derived "
                "length is factor * dim + offset."
            )
        return _derived(self, self.extent.factor * other, self.extent.offset * other)

    __rmul__ = __mul__

    def __add__(self, other: int) -> "Dim":
        if type(other) is not int:
            raise NotImplementedError(
                f"Attempted to add {other} to {self.__name__}, where an integer was expected. A derived length is "
                "factor * dim + offset."
            )
        return _derived(self, self.extent.factor, self.extent.offset + other)

    __radd__ = __add__

    def __sub__(self, other: int) -> "Dim":
        return self + (-other if type(other) is int else other)

    def __repr__(self) -> str:
        if self.root is not self:
            return self.__name__
        parts = [f"{k}={v}" for k, v in (("min", self.min), ("max", self.max)) if v != math.inf]
        if self.min == 2:
            parts.pop(0)
        return f"Dim({', '.join([repr(self.__name__), *parts])})"


def _derived(dim: Dim, factor: int, offset: int) -> Dim:
    root, new = dim.root, object.__new__(Dim)
    new.root, new.extent = root, Extent(factor, root.__name__, offset)
    new.min, new.max = factor * root.min + offset, factor * root.max + offset
    new.__name__ = str(new.extent)
    return new


def dims(*names: str, min: int | None = None, max: int | None = None) -> tuple[Dim, ...]:
    """Several dimensions with one range.

    >>> import torchlike as torch
    >>> torch.export.dims("rows", "columns", max=9)
    (Dim('rows', min=0, max=9), Dim('columns', min=0, max=9))
    """
    return tuple(Dim(name, min=min, max=max) for name in names)


Shape = tuple[int | Extent, ...]


class Shapes:
    """``dynamic_shapes`` read for some arguments, whose leaves stand in ``arguments`` as their numbers.

    Attributes:
        shapes: {number of a tensor leaf: its lengths, ints and Extents}. ranges: {symbol: ValueRanges}.
        hinted: the symbols that stand for ``Dim.AUTO`` and ``Dim.DYNAMIC``. automatic: for the first of them.
        open: those for which no least length was asked.
    """

    def __init__(self, spec: Any, arguments: dict[str, Any], leaves: list) -> None:
        self.shapes: dict[int, Shape] = {i: tuple(x.shape) for i, x in enumerate(leaves) if isinstance(x, Tensor)}
        self.ranges: dict[str, ValueRanges] = {}
        self.hinted: list[str] = []
        self.automatic: set[str] = set()
        self.open: set[str] = set()
        self.values: dict[str, int] = {}
        self.leaves = leaves
        if spec is None:
            return
        if isinstance(spec, dict):
            if set(spec) != set(arguments):
                raise UserError(
                    "When `dynamic_shapes` is specified as a dict, its top-level keys must be the arg names "
                    f"{list(arguments)} of `inputs`, but here they are {list(spec)}. A tuple gives them by position."
                )
            spec = [spec[name] for name in arguments]
        self._walk(spec, list(arguments.values()), "inputs")

    def _walk(self, spec: Any, x: Any, where: str) -> None:
        if spec is None:
            return
        if isinstance(x, dict):
            if not isinstance(spec, dict) or set(spec) != set(x):
                raise _mismatch(where, f"the keys {list(x)}", spec)
            for key in x:
                self._walk(spec[key], x[key], f"{where}[{key!r}]")
        elif (children := children_of(x)) is not None:
            if not isinstance(spec, list | tuple) or len(spec) != len(children):
                raise _mismatch(where, f"{len(children)} elements", spec)
            for i, (s, y) in enumerate(zip(spec, children, strict=True)):
                self._walk(s, y, f"{where}[{i}]")
        elif isinstance(self.leaves[x], Tensor):
            self._tensor(spec, x, self.leaves[x], where)
        else:
            kind = type(self.leaves[x]).__name__
            raise UserError(f"`dynamic_shapes` gives {spec} for {where}, which is {kind}, not a tensor")

    def _tensor(self, spec: Any, i: int, t: Tensor, where: str) -> None:
        if isinstance(spec, dict):
            wrong = [d for d in spec if type(d) is not int or not -t.ndim <= d < t.ndim]
            if wrong:
                raise IndexError(f"`dynamic_shapes` gives dimension {wrong[0]!r} of {where}, which has {t.ndim}")
            entries = {d % t.ndim: entry for d, entry in spec.items()}
        elif isinstance(spec, list | tuple) and len(spec) == t.ndim:
            entries = dict(enumerate(spec))
        else:
            raise _mismatch(where, f"the shape {list(t.shape)}: a dict or {t.ndim} entries", spec)
        lengths = [self._length(entries.get(d), n, f"{where}.size()[{d}]", (i, d)) for d, n in enumerate(t.shape)]
        self.shapes[i] = tuple(lengths)

    def _length(self, entry: Any, length: int, where: str, key: tuple[int, int]) -> int | Extent:
        if entry is None or (isinstance(entry, DimHint) and entry.kind == "STATIC"):
            return length
        if type(entry) is int:
            if entry != length:
                raise UserError(f"`dynamic_shapes` fixes {where} to {entry}, but the example has {length}")
            return length
        if isinstance(entry, DimHint):
            return self._hinted(entry, length, where, key)
        if not isinstance(entry, Dim):
            raise UserError(f"`dynamic_shapes` has {entry!r} for {where}; expected a Dim, a hint, an int or None")
        self._note(entry.root.__name__, entry.root.min, entry.root.max)
        if entry.root.min < 1:
            self.open.add(entry.root.__name__)
        self._demand(entry.extent, length, where)
        return entry.extent

    def _hinted(self, hint: DimHint, length: int, where: str, key: tuple[int, int]) -> int | Extent:
        if hint.kind == "AUTO" and length < 2:
            return length
        name = f"s{key[0]}_{key[1]}"
        self._note(name, 2 if hint.min is None else hint.min, math.inf if hint.max is None else hint.max)
        self.hinted.append(name)
        if hint.kind == "AUTO":
            self.automatic.add(name)
        self._demand(Extent(1, name, 0), length, where)
        return Extent(1, name, 0)

    def _note(self, name: str, least: int, most: float) -> None:
        new = ValueRanges(max(least, 1), most)  # an empty batch would need programs of its own
        if self.ranges.setdefault(name, new) != new:
            raise UserError(f"two Dims are called {name}, with ranges {self.ranges[name]} and {new}")

    def _demand(self, extent: Extent, length: int, where: str) -> None:
        value, (least, most) = extent.symbol_at(length), self.ranges[extent.symbol]
        if value is None or not least <= value <= most:
            raise ConstraintViolationError(
                f"{length} is not in range: {where} = {extent} with {extent.symbol} in {self.ranges[extent.symbol]}"
            )
        if self.values.setdefault(extent.symbol, value) != value:
            raise UserError(
                f"Constraints violated ({extent.symbol})! {where} = {extent} = {length}, but elsewhere "
                f"{extent.symbol} = {self.values[extent.symbol]} in the example arguments"
            )

    def narrow(self, reason: str) -> bool:
        """Ask for less, as the function cannot be traced for these lengths for a ``reason``; False if nothing is left.

        Symbols without a least length get 2, as many operators treat a length of 1 in their own way; then those without
        a name that have one length in the example are one; then those that were to be dynamic only if possible get the
        lengths of the example.
        """
        names = {name for name in self.open if self.values[name] > 1}
        self.open = set()
        if names:
            self.ranges |= {name: self.ranges[name]._replace(lower=2) for name in names if self.ranges[name].upper > 1}
            return True
        if self._unite(set(re.findall(r"\bs\d+_\d+\b", reason))) or self._unite({*self.hinted}):
            return True
        fixed, self.automatic = self.automatic, set()
        for i, shape in self.shapes.items():
            self.shapes[i] = tuple([_fixed(n, fixed, self.values) for n in shape])
        for name in fixed:
            del self.ranges[name]
        return bool(fixed)

    def _unite(self, names: set[str]) -> bool:
        """Let those of the hinted dimensions that are equally long be one; False if none are."""
        one: dict[int, str] = {}
        named = [n for n in self.hinted if n in names]
        others = {n: first for n in named if (first := one.setdefault(self.values[n], n)) != n}
        for name, first in others.items():
            a, b = self.ranges[first], self.ranges.pop(name)
            self.ranges[first] = ValueRanges(max(a.lower, b.lower), min(a.upper, b.upper))
            if name not in self.automatic:
                self.automatic.discard(first)
            self.automatic.discard(name)
            del self.values[name]
        for i, shape in self.shapes.items():
            self.shapes[i] = tuple([_renamed(n, others) for n in shape])
        self.hinted = [n for n in self.hinted if n not in others]
        return bool(others)


def _renamed(n: int | Extent, names: dict[str, str]) -> int | Extent:
    return n._replace(symbol=names.get(n.symbol, n.symbol)) if isinstance(n, Extent) else n


def children_of(x: Any) -> list | None:
    """What a container holds; None of what is no container."""
    children, spec = tree_flatten(x, is_leaf=lambda y: y is not x)
    return None if spec.is_leaf() else children


def _fixed(n: int | Extent, names: set[str], values: dict[str, int]) -> int | Extent:
    if isinstance(n, Extent) and n.symbol in names:
        return n.factor * values[n.symbol] + n.offset
    return n


def _mismatch(where: str, has: str, spec: Any) -> UserError:
    return UserError(
        f"Detected mismatch between the structure of `inputs` and `dynamic_shapes`: {where} has {has}, but "
        f"`dynamic_shapes` has {spec}"
    )


def limits_of(ranges: dict[str, ValueRanges]) -> list[str]:
    """The ranges in jax's terms."""
    limits = [f"{name} >= {r.lower}" for name, r in ranges.items()]
    return limits + [f"{name} <= {r.upper}" for name, r in ranges.items() if r.upper != math.inf]


def symbolic(shape: Shape, scope: SymbolicScope) -> tuple:
    """A shape with jax's symbolic lengths for Extents."""
    if not any(isinstance(n, Extent) for n in shape):
        return shape
    return tuple(symbolic_shape(", ".join(map(str, shape)), scope=scope))
