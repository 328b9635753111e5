"""How long the rows of a nested tensor are: what all tensors of one ragged structure share."""

from __future__ import annotations

import itertools
import threading
import weakref
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from torchlike._checks import SymInt
from torchlike._core.conversion.convert import host
from torchlike._core.sparse.value import put_on
from torchlike._core.tensor.size import SymbolicLength
from torchlike._functions._install import FUNCTIONS as _F
from torchlike.utils.weak import WeakIdKeyDictionary

if TYPE_CHECKING:
    from torchlike._core.tensor.tensor import Tensor

_numbers = itertools.count(1)


class NestedInt(SymInt, SymbolicLength):
    """The length of a ragged dimension, ``j1``: the same object for tensors of one structure, and no number.

    It equals itself alone, and can be multiplied by ints. As in PyTorch it is taken for 2 at least: other comparisons
    with numbers are a ValueError, and arithmetic an AttributeError.
    """

    def __init__(self, number: int, coefficient: int = 1) -> None:
        self.number, self.coefficient = number, coefficient

    def __repr__(self) -> str:
        return f"j{self.number}" if self.coefficient == 1 else f"{self.coefficient}*j{self.number}"

    def __hash__(self) -> int:
        return hash((self.number, self.coefficient)) if self.coefficient != 1 else hash(self.number)

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, NestedInt) and other.number == self.number
        return same and other.coefficient == self.coefficient  # type: ignore[attr-defined]

    def __mul__(self, n: Any) -> NestedInt:
        if isinstance(n, NestedInt):
            self._refuse("the product of two ragged lengths")
        return self if n == 1 else NestedInt(self.number, self.coefficient * n)

    __rmul__ = __mul__

    def __ge__(self, other: Any) -> bool:
        if isinstance(other, NestedInt) and other.number == self.number:
            return self.coefficient >= other.coefficient
        if isinstance(other, int) and other <= 2:
            return True
        raise ValueError(f"{self} >= {other}: relation is indeterminate: {self} stands for several lengths")

    def __gt__(self, other: Any) -> bool:
        return self != other and self >= (other + 1 if isinstance(other, int) else other)

    def __lt__(self, other: Any) -> bool:
        return not self >= other

    def __le__(self, other: Any) -> bool:
        return not self > other

    def _refuse(self, what: str) -> NoReturn:
        raise AttributeError(
            f"{self} is the length of a ragged dimension, not a number: it has no {what}; see offsets()"
        )

    def __int__(self) -> int:
        self._refuse("value as an int")

    __index__ = __int__

    def __bool__(self) -> bool:
        return True

    def __add__(self, other: Any) -> Any:
        self._refuse("sum or difference")

    __radd__ = __sub__ = __rsub__ = __add__

    def __floordiv__(self, other: Any) -> Any:
        self._refuse("quotient")

    __truediv__ = __mod__ = __floordiv__


class Ragged:
    """Where the rows of a batch begin and how long they are.

    Attributes:
        offsets: int64 [batch + 1], where the rows begin within the values, and where the last one ends.
        lengths: int64 [batch], or None where a row goes on to the beginning of the next.
        symbol: what stands for the length in shapes.
    """

    def __init__(self, offsets: Tensor, lengths: Tensor | None = None) -> None:
        self.offsets, self.lengths = offsets, lengths
        self.symbol = NestedInt(next(_numbers))
        self._read: tuple[Any, np.ndarray, np.ndarray] | None = None

    def fits(self, other: Ragged) -> bool:
        """Whether the rows lie as those of another structure."""
        pairs = zip(self.rows(), other.rows(), strict=True)
        return self is other or all([np.array_equal(a, b) for a, b in pairs])

    def __len__(self) -> int:
        return self.offsets.shape[0] - 1

    def rows(self) -> tuple[np.ndarray, np.ndarray]:
        """The beginnings and lengths of the rows, on the host; read anew when their tensors have changed."""
        version = self.offsets._version, None if self.lengths is None else self.lengths._version
        if self._read is None or self._read[0] != version:
            ends = np.asarray(host(self.offsets.detach()))
            lengths = np.diff(ends) if self.lengths is None else np.asarray(host(self.lengths.detach()))
            self._read = version, ends[:-1], lengths
        return self._read[1:]

    @property
    def longest(self) -> int:
        """The length of the longest row."""
        return int(self.rows()[1].max(initial=0))

    @property
    def shortest(self) -> int:
        """The length of the shortest row."""
        lengths = self.rows()[1]
        return int(lengths.min()) if lengths.size else 0

    def total(self) -> int:
        """The sum of the lengths."""
        return int(self.rows()[1].sum())

    def batch_numbers(self) -> Tensor:
        """int64 [total], the row that each of the values is in."""
        return self._put(np.repeat(np.arange(len(self)), self.rows()[1]))

    def places(self, width: int) -> tuple[Tensor, Tensor]:
        """int64 and bool [batch, width]: which of the values stands where in the padded tensor, and where any does."""
        starts, lengths = self.rows()
        steps = np.arange(width)[None]
        there = steps < lengths[:, None]
        return self._put(np.where(there, starts[:, None] + steps, 0)), self._put(there)

    def padded_places(self, width: int) -> Tensor:
        """int64 [total], where the values stand in the padded tensor [batch * width]."""
        return self._counted(np.arange(len(self)) * width)

    def own_places(self) -> Tensor:
        """int64 [total], where the values that are in rows stand among all values."""
        return self._counted(self.rows()[0])

    def _counted(self, starts: np.ndarray) -> Tensor:
        """int64 [total]: of each row as many numbers as it is long, from its start on."""
        lengths = self.rows()[1]
        within = np.arange(self.total()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        return self._put(np.repeat(starts, lengths) + within)

    def _put(self, numbers: np.ndarray) -> Tensor:
        return put_on(numbers, self.offsets.device)


_known: WeakIdKeyDictionary = WeakIdKeyDictionary()
_lock = threading.Lock()


def ragged_of(offsets: Tensor, lengths: Tensor | None = None) -> Ragged:
    """The structure of these offsets and lengths: the same for the same tensors, whose nested tensors go together."""
    key = offsets if lengths is None else lengths
    with _lock:
        weak = _known.get(key)
        found = weak() if weak is not None else None
        if found is None or found.offsets is not offsets or found.lengths is not lengths:
            found = Ragged(offsets, lengths)
            _known[key] = weakref.ref(found)  # which holds the key
    return found


def of_lengths(lengths: np.ndarray, device: Any = None) -> Ragged:
    """A new structure of rows that follow on each other."""
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return ragged_of(_F["tensor"](offsets, device=device))
