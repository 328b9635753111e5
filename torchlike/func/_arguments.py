"""Which arguments a transform differentiates with respect to."""

from typing import Any

from torchlike._base.state import state


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


def made(tree: Any) -> Any:
    """``tree``, whose containers this library has made, as a user's function is to get it: a capture knows of that."""
    if state.interpreter is not None:
        _note(tree)
    return tree


def _note(x: Any) -> None:
    if isinstance(x, dict | list | tuple):
        state.interpreter.new(x)
        for part in x.values() if isinstance(x, dict) else x:
            _note(part)
