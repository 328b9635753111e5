"""How many references a value has, measured: memory is overwritten only where nobody else holds it.

Interpreters differ in what counts besides the holders (Python 3.14 lends references to calls). So values are counted by
``map(getrefcount, values)``, where no variable of ours holds them, and what one holder more makes of the count is
measured once. Where it is not one more, the numbers are 0: then everything counts as held, and nothing is overwritten.
"""

from __future__ import annotations

from collections.abc import Callable
from sys import getrefcount
from typing import Any


class _Holder:
    __slots__ = ("value",)


def _steps(count: Callable[[], int], hold: Callable[[], Any]) -> tuple[int, int, int]:
    """The counts of a value with one holder, with two, and with one again."""
    alone = count()
    holder = hold()
    shared = count()
    del holder
    return alone, shared, count()


def in_list() -> int:
    """The count of a value that only a list holds, or 0 where counts do not tell."""
    values = [object()]
    return _believed(*_steps(lambda: max(map(getrefcount, values)), lambda: [*values]))


def in_slot() -> int:
    """The same of a value that only a slot of an object holds."""
    holder = _Holder()
    holder.value = object()
    return _believed(*_steps(lambda: getrefcount(holder.value), lambda: [holder.value]))


def in_variable() -> int:
    """The same of a value that only the variable holds which is counted."""
    value = object()
    return getrefcount(value)


def _believed(alone: int, shared: int, again: int) -> int:
    return alone if alone == again == shared - 1 else 0


ONE = in_list()  # holder, for map(getrefcount, values)
TWO = ONE and ONE + 1
SLOT = in_slot()  # holds it alone, for getrefcount(holder.value)
VARIABLE = in_variable()  # a variable holds it alone, for getrefcount(variable)
