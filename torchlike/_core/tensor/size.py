"""torch.Size: the tuple of a shape."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, SupportsIndex, overload


class Size(tuple):
    """A tuple of dimension lengths, with ``numel``.

    >>> import torchlike as torch
    >>> torch.ones(2, 3).shape.numel()
    6
    """

    __slots__ = ()

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
        return Size(tuple.__add__(self, tuple(other)))

    def __radd__(self, other: Iterable[int]) -> Size:
        return Size(tuple(other) + tuple(self))

    def __mul__(self, n: SupportsIndex) -> Size:
        return Size(tuple.__mul__(self, n))

    __rmul__ = __mul__

    @overload
    def __getitem__(self, i: SupportsIndex) -> int: ...
    @overload
    def __getitem__(self, i: slice) -> Size: ...
    def __getitem__(self, i: Any) -> Any:
        got = tuple.__getitem__(self, i)
        return Size(got) if isinstance(i, slice) else got

    def __reduce__(self) -> tuple[Any, ...]:
        return Size, (tuple(self),)
