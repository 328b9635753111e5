"""Which arguments a transform differentiates with respect to."""

import functools
from collections.abc import Callable
from typing import Any


def selected(args: tuple, argnums: int | tuple[int, ...]) -> Any:
    """The arguments ``argnums``: one, or a tuple of them."""
    if isinstance(argnums, int):
        return args[_in_range(argnums, len(args))]
    return tuple(args[i] for i in positions(argnums, len(args)))


def replaced(args: tuple, argnums: int | tuple[int, ...], new: Any) -> tuple:
    """The arguments, those of ``argnums`` replaced by ``new``."""
    found = list(args)
    if isinstance(argnums, int):
        found[argnums] = new
    else:
        for i, x in zip(positions(argnums, len(args)), new, strict=True):
            found[i] = x
    return tuple(found)


def positions(argnums: Any, count: int) -> tuple[int, ...]:
    """The tuple of argnums, none of them negative, after the checks."""
    if not isinstance(argnums, tuple):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    if not argnums:
        raise RuntimeError("argnums must be non-empty")
    for i in argnums:
        if not isinstance(i, int):
            raise RuntimeError(f"argnum must be int, got: {type(i)}")
    found = tuple(_in_range(i, count) for i in argnums)
    if len(set(found)) != len(found):
        raise RuntimeError(f"argnums elements must be unique, got {found}")
    return found


def _in_range(argnum: int, count: int) -> int:
    if not -count <= argnum < count:
        raise RuntimeError(f"Got argnum={argnum}, but only {count} positional inputs")
    return argnum % count


def name_of(func: Callable) -> str:
    """What messages call a function."""
    if hasattr(func, "__name__"):
        return func.__name__
    if isinstance(func, functools.partial):
        return f"functools.partial({name_of(func.func)}, ...)"
    return repr(func)
