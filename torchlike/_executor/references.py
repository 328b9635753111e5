"""How many references a value has, measured: memory is overwritten only where nobody else holds it.

Interpreters differ in what counts besides the holders (Python 3.14 lends references to calls). So values are counted by
``map(getrefcount, values)``, where no variable of ours holds them, and what one holder more makes of the count is
measured once. Where it is not one more, the numbers are 0: then everything counts as held, and nothing is overwritten.

Note [Shared pieces]
~~~~~~~~~~~~~~~~~~~~
Arrays over several devices may have a piece in common with the array that they were made of. jax does not count that:
to overwrite one is to delete the other. So ``sharing`` lets the new one hold the old one, which counts, and who would
overwrite the new one asks ``shared``.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import starmap
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


def in_slot_and_variable() -> int:
    """The same of a value that a slot of an object holds, and the variable which is counted."""
    holder = _Holder()
    holder.value = object()

    def count() -> int:
        value = holder.value
        return getrefcount(value)

    return _beside_another(count, holder)


def in_variable() -> int:
    """The same of a value that only the variable holds which is counted."""
    value = object()
    return getrefcount(value)


def in_call() -> int:
    """The same of a value that a slot, two lists and the arguments of ``starmap`` hold; ``map`` counts the second."""
    holder, values = _Holder(), [object()]
    holder.value, pieces = values[0], [values[0]]

    def count() -> int:
        return next(starmap(lambda *given: max(map(getrefcount, pieces)), [values]))

    return _beside_another(count, holder)


def _beside_another(count: Callable[[], int], holder: _Holder) -> int:
    """What is believed of a count: that of a value once with, once without a list that holds it beside."""
    alone, others = count(), []
    others.append(holder.value)
    shared = count()
    others.clear()
    return _believed(alone, shared, count())


def _believed(alone: int, shared: int, again: int) -> int:
    return alone if alone == again == shared - 1 else 0


ONE = in_list()  # holder, for map(getrefcount, values)
TWO = ONE and ONE + 1
SLOT = in_slot()  # holds it alone, for getrefcount(holder.value)
KNOWN = in_slot_and_variable()  # a slot holds it, and a variable, for getrefcount(variable)
IN_CALL = in_call()  # a slot and two lists hold it, one of them given to starmap, for map(getrefcount, the other one)
VARIABLE = in_variable()  # a variable holds it alone, for getrefcount(variable)

SHARING: list[bool] = []  # not empty once arrays have had a piece in common


def sharing(new: Any, old: Any) -> Any:
    """``new``, an array that may have a piece in common with ``old``; see Note [Shared pieces]."""
    if new is not old:
        new._source = old
        SHARING[:] = [True]
    return new


def owned(array: Any) -> None:
    """Note that ``array`` is the result of a kernel, which nobody else has been given."""
    array._owned = True


def lent(array: Any) -> Any:
    """``array``, which somebody is given who may let other arrays have its memory: that counts no reference."""
    if getattr(array, "_owned", False):
        array._owned = False
    return array


def shared(value: Any) -> bool:
    """Whether somebody holds an array that has a piece in common with this one, which was made of it."""
    while (source := getattr(value, "_source", None)) is not None:
        if getrefcount(source) > VARIABLE + 1:  # the new array and the variable
            return True
        value = source
        del source
    return False
