"""What is left of a trace in cycles of references only: found by counting, among what the trace made, not in the heap.

A closure that calls itself, or an object that refers to itself, outlives its function until the collector comes; and so
do the tensors that it refers to. They are as good as gone. The collector itself would walk all objects of the process.
"""

from __future__ import annotations

import gc
import types
import weakref
from collections.abc import Iterable
from sys import getrefcount
from typing import TYPE_CHECKING, Any

from torchlike._core.autograd.node import Node
from torchlike._core.overrides.torch_function import PROPERTIES
from torchlike._core.tensor.storage import Storage
from torchlike._core.tensor.tensor import Tensor
from torchlike._executor.references import ONE

if TYPE_CHECKING:
    from torchlike._transforms.capture.recording import Capture

_INNER = (
    dict, list, tuple, set, types.CellType, types.MethodType, types.FunctionType, types.GeneratorType,
    types.CoroutineType, *PROPERTIES, staticmethod, classmethod, types.GetSetDescriptorType, types.MemberDescriptorType,
)  # fmt: skip
_FRAMES = "torchlike._transforms.interpreter.loop"  # whose objects generators hold
_LARGE = 10_000  # a container of so many elements is none of a cycle's


def remembered(objects: Iterable[Any]) -> list[Any]:
    """Weak references to those of the objects that cycles can begin with: functions, classes and their instances."""
    found = []
    for x in objects:
        kind = type(x)
        refers = kind.__flags__ & 1 << 9 and kind.__weakrefoffset__ and not _is_ours(x)
        if refers or kind is types.FunctionType or isinstance(x, type):
            found.append(weakref.ref(x))
    return found


def _is_ours(x: object) -> bool:
    return isinstance(x, Tensor | Storage | Node)


def unreachable(record: Capture, left: list[Any]) -> set[int]:
    """The ids of tensors and storages of a capture that only cycles hold; ``left``: of ``remembered``."""
    found = _group([x for x in (reference() for reference in left) if x is not None], record)
    number = {id(x): k for k, x in enumerate(found)}
    inner, parts = [0] * len(found), []
    for x in found:
        parts.append([k for part in gc.get_referents(x) if (k := number.get(id(part))) is not None])
        for k in parts[-1]:
            inner[k] += 1
    x = None
    counts = list(map(getrefcount, found))
    stack = [k for k, count in enumerate(counts) if count - ONE > inner[k]]
    reached = set(stack)
    while stack:
        new = [k for k in parts[stack.pop()] if k not in reached]
        reached.update(new)
        stack += new
    return {id(found[k]) for k in range(len(found)) if k not in reached and isinstance(found[k], Tensor | Storage)}


def _group(start: Iterable[Any], record: Capture) -> list[Any]:
    """The objects, and what they refer to that the trace may have made."""
    found, known, place = list(start), {id(x) for x in start}, 0
    while place < len(found):
        for part in gc.get_referents(found[place]):
            if id(part) not in known and _may_be_made(part, record):
                known.add(id(part))
                found.append(part)
        place += 1
    return found


def _may_be_made(x: Any, record: Capture) -> bool:
    if isinstance(x, Tensor | Storage):
        return id(x) in record.own or (isinstance(x, Tensor) and id(x._storage) in record.own)
    if isinstance(x, Node):
        return x._seq >= record.start
    if type(x) is dict and "__builtins__" in x:
        return False
    if type(x) in _INNER:
        return not hasattr(x, "__len__") or len(x) < _LARGE
    return type(x).__name__.endswith("iterator") or type(x).__module__ == _FRAMES
