"""The arguments of an exported program: their structure and shapes, checked at every call."""

import dataclasses
import math
from typing import Any

from torchlike._base import dtypes
from torchlike._core.tensor.tensor import Tensor
from torchlike.export.dynamic_shapes import Extent, Shape, ValueRanges
from torchlike.utils._pytree import TreeSpec, tree_is_leaf, tree_structure


@dataclasses.dataclass
class Input:
    """One leaf of the arguments: a tensor with a dtype and a shape, or a constant (``dtype`` is None)."""

    name: str
    dtype: str | None
    shape: Shape
    value: Any = None


@dataclasses.dataclass
class Inputs:
    """All arguments.

    Attributes:
        spec: their structure, of (args, kwargs). entries: their leaves. ranges: of the symbols in shapes.
    """

    spec: TreeSpec
    entries: list[Input]
    ranges: dict[str, ValueRanges]

    def leaves(self, args: tuple, kwargs: dict) -> tuple[list, dict[str, int]]:
        """The leaves of a call's arguments, and the values of the symbols.

        Raises:
            ValueError: another structure. AssertionError: another length or constant. RuntimeError: another dtype.
        """
        expected = self.spec.child(1).context
        if set(kwargs) != set(expected):
            raise ValueError(
                f"Ran into a kwarg keyword mismatch: Got the following keywords {list(kwargs)} but expected {expected}"
            )
        leaves = self._flat((args, kwargs))
        values: dict[str, int] = {}
        for entry, x in zip(self.entries, leaves, strict=True):
            if entry.dtype is None:
                _demand_equal(entry, x)
            else:
                self._check(entry, x, values)
        return leaves, values

    def _flat(self, given: tuple) -> list:
        try:
            leaves = self.spec.flatten_up_to(given)
        except ValueError:
            leaves = [given]
        if len(leaves) != len(self.entries) or not all(map(tree_is_leaf, leaves)):
            raise ValueError(
                f"the arguments do not have the exported input tree spec:\n{self.spec}\nbut the tree spec:\n"
                f"{tree_structure(given)}\nGive as many, of the same types, as in the call to export"
            )
        return leaves

    def _check(self, entry: Input, x: Any, values: dict[str, int]) -> None:
        if not isinstance(x, Tensor):
            raise AttributeError(f"'{type(x).__name__}' object has no attribute 'size': {entry.name} is to be a tensor")
        shape = x.shape
        if len(shape) != len(entry.shape):
            raise AssertionError(f"Guard failed: {entry.name}.ndim == {len(entry.shape)}, but it is {len(shape)}")
        for d, (got, wanted) in enumerate(zip(shape, entry.shape, strict=True)):
            if got != wanted:
                self._solve(f"{entry.name}.size()[{d}]", got, wanted, values)
        if x.dtype.name != entry.dtype:
            raise RuntimeError(
                f"{entry.name} has dtype {x.dtype}, but the program was exported for torch.{entry.dtype}; convert it "
                f"with .to(torch.{entry.dtype})"
            )

    def _solve(self, where: str, got: int, wanted: int | Extent, values: dict[str, int]) -> None:
        if not isinstance(wanted, Extent):
            raise AssertionError(f"Guard failed: {where} == {wanted}, but it is {got}")
        if type(got) is not int:  # the program is being exported again, for lengths that jax compares
            values.setdefault(wanted.symbol, (got - wanted.offset) // wanted.factor)
            return
        value, (least, most) = wanted.symbol_at(got), self.ranges[wanted.symbol]
        if value is None:
            raise AssertionError(f"Guard failed: {where} == {wanted} for an integer {wanted.symbol}, but it is {got}")
        ends = [wanted.factor * n + wanted.offset for n in (least, most)]
        if value < least:
            raise AssertionError(f"Guard failed: {where} >= {ends[0]}, but it is {got}")
        if value > most:
            raise AssertionError(f"Guard failed: {where} <= {ends[1]}, but it is {got}")
        before = values.setdefault(wanted.symbol, value)
        if before != value:
            raise AssertionError(
                f"Guard failed: {where} == {wanted}, but it is {got} where elsewhere {wanted.symbol} is {before}"
            )


def _demand_equal(entry: Input, x: Any) -> None:
    if entry.value is None:  # as in PyTorch, what stands where None stood is not looked at
        return
    if isinstance(x, Tensor) or type(x) is not type(entry.value) and isinstance(x, str) or x != entry.value:
        shown = f"a tensor of shape {list(x.shape)}" if isinstance(x, Tensor) else repr(x)
        raise AssertionError(f"Guard failed: {entry.name} == {entry.value!r}, but it is {shown}")


def names_of(spec: TreeSpec, prefix: str) -> list[str]:
    """A name for each leaf: that of the argument, and the keys and numbers on the way."""
    if spec.is_leaf():
        return [prefix]
    keys = spec.context[1] if spec.type.__name__ == "defaultdict" else spec.context
    named = isinstance(keys, list) and len(keys) == len(spec.children())
    parts = [str(k) for k in keys] if named else [str(i) for i in range(len(spec.children()))]
    found = [names_of(c, f"{prefix}_{k}" if prefix else k) for c, k in zip(spec.children(), parts, strict=True)]
    return [name for names in found for name in names]


def packed_shape(shape: Shape) -> list:
    """Lengths as ints and [factor, symbol, offset]."""
    return [list(n) if isinstance(n, Extent) else n for n in shape]


def unpacked_shape(packed: list) -> Shape:
    return tuple([Extent(*n) if isinstance(n, list) else n for n in packed])


def packed_ranges(ranges: dict[str, ValueRanges]) -> dict:
    return {name: [r.lower, None if r.upper == math.inf else r.upper] for name, r in ranges.items()}


def unpacked_ranges(packed: dict) -> dict[str, ValueRanges]:
    return {name: ValueRanges(low, math.inf if high is None else high) for name, (low, high) in packed.items()}


def dtype_name(t: Tensor) -> str:
    return dtypes.FROM_NP[t.dtype.np].name
