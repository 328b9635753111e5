"""``torch.fx.experimental.symbolic_shapes``: what libraries ask of sizes, which are plain numbers here.

torchlike compiles for the sizes that it meets, so no size is unknown: a condition is what it is, and nothing has free
symbols. A comparison of the sizes of a ``torchlike.export`` that nothing decides raises where it is made.
"""

from collections.abc import Callable
from typing import Any

__all__ = [
    "GuardOnDataDependentSymNode", "ShapeEnv", "expect_true", "free_symbols", "free_unbacked_symbols",
    "guard_bool", "guard_float", "guard_int", "guard_or_false", "guard_or_true", "guard_scalar",
    "guard_size_oblivious", "has_free_symbols", "has_free_unbacked_symbols", "is_concrete_bool",
    "is_concrete_float", "is_concrete_int", "is_symbolic", "statically_known_false", "statically_known_true",
    "sym_and", "sym_eq", "sym_or",
]  # fmt: skip


class GuardOnDataDependentSymNode(RuntimeError):
    """A condition on a size that only data decide. torchlike never raises it."""


class ShapeEnv:
    """What PyTorch keeps of sizes that are symbols. No size is one here: NotImplementedError when it is made."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(
            "ShapeEnv(): sizes are numbers here, not symbols of an environment. torchlike.export(..., dynamic_shapes=) "
            "makes programs for any size, torchlike.compile() one for each size that it meets, and make_fx() traces "
            'with tracing_mode="real" or "fake"'
        )


def _demand(kind: type) -> Callable[[Any], Any]:
    def given(x: Any) -> Any:
        if x.__class__ is not kind:
            raise AssertionError(f"Expected {kind.__name__}, got {x!r}")
        return x

    given.__doc__ = f"``x``, of class {kind.__name__}; AssertionError for anything else."
    return given


guard_bool, guard_int, guard_float = _demand(bool), _demand(int), _demand(float)


def guard_scalar(x: Any) -> Any:
    """``x``, a bool, an int or a float; AssertionError for anything else."""
    if not isinstance(x, bool | int | float):
        raise AssertionError(f"unrecognized scalar {x!r}")
    return x


def guard_or_false(a: bool) -> bool:
    """The condition ``a``: what is not known would be False, but all sizes are known.

    >>> from torchlike.fx.experimental.symbolic_shapes import guard_or_false
    >>> guard_or_false(2 < 3)
    True
    """
    return guard_bool(a)


def guard_or_true(a: bool) -> bool:
    """The condition ``a``, as :func:`guard_or_false`."""
    return guard_bool(a)


def guard_size_oblivious(expr: bool) -> bool:
    """The condition ``expr``."""
    return guard_bool(expr)


def expect_true(a: bool, skip: int = 0) -> bool:
    """The condition ``a``, which the caller expects to hold."""
    return guard_bool(a)


def statically_known_true(x: bool) -> bool:
    """Whether ``x`` holds for all sizes: whether it holds."""
    return guard_bool(x)


def statically_known_false(x: bool) -> bool:
    """Whether ``x`` holds for no sizes: whether it does not hold."""
    return not guard_bool(x)


def free_symbols(val: Any) -> set[Any]:
    """The symbols in a number, a tensor or a sequence of them: none."""
    return set()


def free_unbacked_symbols(x: Any) -> set[Any]:
    """As :func:`free_symbols`: none."""
    return set()


def has_free_symbols(val: Any) -> bool:
    """False."""
    return False


def has_free_unbacked_symbols(x: Any) -> bool:
    """False."""
    return False


def is_symbolic(val: Any) -> bool:
    """Whether ``val``, a number, is symbolic: False."""
    return False


def is_concrete_int(a: Any) -> bool:
    """Whether ``a``, an int, is known: True."""
    guard_int(a)
    return True


def is_concrete_bool(a: Any) -> bool:
    """Whether ``a``, a bool, is known: True."""
    guard_bool(a)
    return True


def is_concrete_float(a: Any) -> bool:
    """Whether ``a``, a float, is known: True."""
    guard_float(a)
    return True


def sym_eq(x: Any, y: Any) -> bool:
    """Whether two sizes, or tuples or lists of them, are equal."""
    if isinstance(x, list | tuple) and isinstance(y, list | tuple):
        return len(x) == len(y) and all(map(sym_eq, x, y))
    if isinstance(x, int) and isinstance(y, int):
        return x == y
    raise AssertionError(f"unexpected sym_eq between {type(x)} {type(y)}")


def sym_and(*conditions: bool) -> bool:
    """Whether all of ``conditions`` hold."""
    return all(conditions)


def sym_or(*conditions: bool) -> bool:
    """Whether one of ``conditions`` holds."""
    return any(conditions)
