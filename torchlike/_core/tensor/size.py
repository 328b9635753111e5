"""torch.Size: the tuple of a shape."""

from __future__ import annotations

from collections.abc import Iterable
from operator import index
from typing import Any, SupportsIndex, overload

from jax.export import is_symbolic_dim


class SymbolicLength:
    """A length that is not one number, as that of the ragged dimension of nested tensors."""


class Size(tuple):
    """A tuple of dimension lengths, with ``numel``.

    >>> import torchlike as torch
    >>> torch.ones(2, 3).shape.numel()
    6
    """

    __slots__ = ()

    def __new__(cls, lengths: Iterable[Any] = (), /) -> Size:
        """A size from ints, or what stands for them; TypeError for anything else."""
        return tuple.__new__(cls, [n if n.__class__ is int else _length(i, n) for i, n in enumerate(lengths)])

    def numel(self) -> int:
        """The product of the lengths."""
        n = 1
        for s in self:
            n *= s
        return n

    def __repr__(self) -> str:
        return f"torch.Size({list(self)})"

    __str__ = __repr__

    def __add__(self, other: Iterable[int]) -> Size:  # type: ignore[override]
        if not isinstance(other, tuple):
            raise TypeError(f"can only concatenate tuple (not {type(other).__name__}) to torch.Size")
        return Size(tuple.__add__(self, other))

    def __radd__(self, other: Iterable[int]) -> Size:
        return Size(tuple(other) + tuple(self))

    def __mul__(self, n: SupportsIndex) -> Size:
        return sized(tuple.__mul__(self, n))

    __rmul__ = __mul__

    @overload
    def __getitem__(self, i: SupportsIndex) -> int: ...
    @overload
    def __getitem__(self, i: slice) -> Size: ...
    def __getitem__(self, i: Any) -> Any:
        got = tuple.__getitem__(self, i)
        return sized(got) if isinstance(i, slice) else got

    def __reduce__(self) -> tuple[Any, ...]:
        return Size, (tuple(self),)


def _length(position: int, n: Any) -> Any:
    if is_symbolic_dim(n) or isinstance(n, SymbolicLength):
        return n
    try:
        return int(index(n))
    except TypeError:
        raise TypeError(f"torch.Size() takes an iterable of 'int' (item {position} is '{type(n).__name__}')") from None


def sized(lengths: tuple[int, ...]) -> Size:
    """A size from a tuple of lengths that are known to be ints."""
    return tuple.__new__(Size, lengths)
