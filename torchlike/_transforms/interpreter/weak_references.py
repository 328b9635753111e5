"""Weak references that captured functions make and call: a capture keeps alive what eager code lets go."""

from __future__ import annotations

import weakref
from sys import getrefcount
from typing import TYPE_CHECKING, Any

from torchlike._executor.references import ONE

if TYPE_CHECKING:
    from torchlike._transforms.interpreter.calls import Calls

_OURS = 2  # holders of an object that a capture made: its list of them, and the variable below


def referent(interpreter: Calls, reference: Any) -> Any:
    """What a weak reference refers to."""
    found = reference()
    if found is not None and interpreter.is_made(found):
        if not ONE or next(map(getrefcount, [found])) < ONE + _OURS + 1:
            interpreter.refuse("asks a weak reference for an object that the capture alone keeps alive")
        return found
    # no program remembers what the body of a loop or branch reads
    return found if interpreter.function is None else interpreter.reads.referent(reference)


def demand_no_callback(interpreter: Calls, cls: type, args: tuple[Any, ...]) -> None:
    """Refuse to make a weak reference that tells of an object's death, if the capture made the object."""
    if issubclass(cls, weakref.ref) and len(args) > 1 and args[1] is not None and interpreter.is_made(args[0]):
        interpreter.refuse("makes a weak reference with a callback to an object that the capture keeps alive")
