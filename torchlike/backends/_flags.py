"""Flags of a library that torchlike does not use: kept, so that scripts can set them and read them back."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any


def set_flags(module: MutableMapping[str, Any], names: tuple[str, ...]) -> Callable[..., tuple]:
    """The ``set_flags`` of a module: sets those that are given, returns what all were."""

    def set_flags(*values: Any, **named: Any) -> tuple:
        before = tuple(module[name] for name in names)
        for name, value in [*zip(names, values, strict=False), *named.items()]:
            _demand(name.removeprefix("_"), names)
            if value is not None:
                module[name.removeprefix("_")] = value
        return before

    set_flags.__doc__ = f"Set {', '.join(names)}; returns what they were."
    return set_flags


def flags(module: MutableMapping[str, Any], names: tuple[str, ...]) -> Callable[..., Any]:
    """The ``flags`` of a module: a context in which those that are given are set."""

    @contextlib.contextmanager
    def flags(*values: Any, **named: Any) -> Iterator[None]:
        before = {name: module[name] for name in names}
        for name, value in [*zip(names, values, strict=False), *named.items()]:
            _demand(name, names)
            if value is not None:
                module[name] = value
        try:
            yield
        finally:
            module.update(before)

    flags.__doc__ = f"A context with other values of {', '.join(names)}."
    return flags


def _demand(name: str, names: tuple[str, ...]) -> None:
    if name not in names:
        raise TypeError(f"there is no flag {name!r}, only {', '.join(names)}")


def disable_global_flags() -> None:
    """Forbid plain assignments to flags; without effect, since these flags change nothing."""


@contextlib.contextmanager
def __allow_nonbracketed_mutation() -> Iterator[None]:  # what undoes it for a while
    yield
