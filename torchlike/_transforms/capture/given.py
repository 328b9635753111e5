"""Containers among the arguments of a captured function: which are the same one, and what they held when it began."""

from __future__ import annotations

import dataclasses
from typing import Any

from torchlike._transforms.capture.structure import containers


class Given:
    """The containers of a capture's arguments, which are copies of the caller's.

    Attributes:
        found: them, as ``containers`` orders them. numbers: {id: the place among them}. before: for each, what it held
            and its attributes.
    """

    def __init__(self, arguments: Any) -> None:
        self.found = containers(arguments)
        self.numbers = {id(c): n for n, c in reversed([*enumerate(self.found)])}
        self.before = [(held(c), attributes(c)) for c in self.found]

    def changed(self) -> bool:
        """Whether any holds something else, or in another order."""
        now = [(held(c), attributes(c)) for c in self.found]
        return any([not _same(a, b) for pair in zip(self.before, now, strict=True) for a, b in zip(*pair, strict=True)])


def held(x: Any) -> Any:
    """A copy of what a list or dict holds; None for others."""
    if isinstance(x, dict):
        return dict(dict.items(x))
    return list(list.__iter__(x)) if isinstance(x, list) else None


def attributes(x: Any) -> dict[str, Any]:
    """{name: value} of the attributes of a container."""
    if hasattr(x, "__dict__"):
        return dict(vars(x))
    fields = dataclasses.fields(x) if dataclasses.is_dataclass(x) else ()
    return {f.name: getattr(x, f.name) for f in fields if hasattr(x, f.name)}


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return list(a) == list(b) and all([a[k] is b[k] for k in a])
    return a is b or (len(a) == len(b) and all([x is y for x, y in zip(a, b, strict=True)]))


def joints(x: Any) -> tuple[int, ...] | None:
    """For each container of ``x``, the arguments or a result, the first that is it; None if each is there once."""
    found = [*map(id, containers(x))]
    return None if len({*found}) == len(found) else tuple(map(found.index, found))


def join(arguments: Any, pattern: tuple[int, ...]) -> Any:
    """``arguments`` (or a result) with one container where ``pattern``, of ``joints``, has one."""
    found = containers(arguments)
    swaps = {id(c): found[k] for c, k in zip(found, pattern, strict=True) if found[k] is not c}
    return _swapped(arguments, swaps)


def _swapped(x: Any, swaps: dict[int, Any]) -> Any:
    if id(x) in swaps:
        return swaps[id(x)]
    if type(x) is tuple:
        return tuple([_swapped(v, swaps) for v in x])
    if isinstance(x, tuple):
        parts = [_swapped(v, swaps) for v in x]
        return x if all([a is b for a, b in zip(parts, x, strict=True)]) else tuple.__new__(type(x), parts)
    if isinstance(x, list):
        list.__setitem__(x, slice(None), [_swapped(v, swaps) for v in x])
    elif isinstance(x, dict):
        for key, value in [*dict.items(x)]:
            dict.__setitem__(x, key, _swapped(value, swaps))
    elif dataclasses.is_dataclass(x) and not isinstance(x, type):
        for name, value in attributes(x).items():
            object.__setattr__(x, name, _swapped(value, swaps))
    return x
