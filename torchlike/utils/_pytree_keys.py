"""The steps of paths into nested containers."""

import dataclasses
from typing import Any, Protocol


class KeyEntry(Protocol):
    """A step of a path: it can be compared, written as code, and followed."""

    def __hash__(self) -> int: ...
    def __eq__(self, other: object) -> bool: ...
    def __str__(self) -> str: ...
    def get(self, parent: Any) -> Any:
        """What stands there in a container."""


@dataclasses.dataclass(frozen=True)
class MappingKey:
    """A step of a path: into a mapping."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        """What stands at the key."""
        return mapping[self.key]


@dataclasses.dataclass(frozen=True)
class SequenceKey:
    """A step of a path: into a sequence."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        """What stands at the index."""
        return sequence[self.idx]


@dataclasses.dataclass(frozen=True)
class GetAttrKey:
    """A step of a path: to an attribute."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        """The attribute."""
        return getattr(obj, self.name)
