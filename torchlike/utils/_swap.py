"""Two tensors that take each other's place: value, class, attributes and history."""

from __future__ import annotations

import copyreg
import gc
import weakref
from typing import Any

from torchlike._core.autograd.node import AccumulateGrad
from torchlike._core.autograd.saved_tensors import SavesTensors
from torchlike._core.tensor.mutation import CHANGED
from torchlike._core.tensor.tensor import Tensor, TensorBase

_FIELDS = tuple(name for name in TensorBase.__slots__ if name != "__weakref__")
_INTERNAL = "torchlike._core."


class _Poisoned(AccumulateGrad):
    """The sink of a leaf that has been swapped: where a gradient would go is no longer clear."""

    __slots__ = ()

    @property
    def variable(self) -> Any:  # type: ignore[override]
        raise RuntimeError(
            "Trying to execute AccumulateGrad node that was poisoned by swap_tensors: a backward reached a tensor that "
            "was swapped after the graph was made; run the forward again"
        )

    def apply(self, grads: Any) -> Any:
        return self.variable


def swap_tensors(t1: Tensor, t2: Tensor) -> None:
    """Let two tensors take each other's place: whoever holds ``t1`` has then what ``t2`` was, and the other way round.

    Class, attributes, value, ``.grad``, hooks and history are swapped. All objects of the program are looked through
    for uses of the two, which takes tens of milliseconds in a large one.

    Raises:
        RuntimeError: a graph has saved one of them, a view is tied to it, or somebody has a weak reference to it. A
            backward through a graph that was made of one of them before raises too.

    >>> import torchlike as torch
    >>> a, b = torch.ones(2), torch.zeros(3)
    >>> torch.utils.swap_tensors(a, b)
    >>> a, b
    (tensor([0., 0., 0.]), tensor([1., 1.]))
    """
    for name, t in (("t1", t1), ("t2", t2)):
        if weakref.getweakrefs(t):
            raise RuntimeError(f"Cannot swap {name} because it has weakref associated with it")
    for name, t in (("t1", t1), ("t2", t2)):
        if (count := _uses(t)) > 0:
            raise RuntimeError(
                f"Expected use_count of {name} to be 1 or 2 with an AccumulateGrad node but got {count + 1}: make sure "
                "that no graph, view or other tensor refers to it"
            )
    if t1 is t2:
        return
    for t in (t1, t2):
        node = t._acc() if t._acc is not None else None
        if node is not None:
            node.__class__ = _Poisoned
        t._acc = None
    t1.__class__, t2.__class__ = t2.__class__, t1.__class__  # type: ignore[assignment]
    t1.__dict__, t2.__dict__ = t2.__dict__, t1.__dict__
    own = {*copyreg._slotnames(type(t1)), *copyreg._slotnames(type(t2))}  # type: ignore[attr-defined]
    for field in {*_FIELDS, *own} - {"_acc", "__weakref__"}:
        _exchange(t1, t2, field)
    CHANGED.mark = []


_NOTHING = object()


def _exchange(t1: Any, t2: Any, field: str) -> None:
    values = getattr(t1, field, _NOTHING), getattr(t2, field, _NOTHING)
    for t, value in zip((t2, t1), values, strict=True):
        if value is not _NOTHING:
            object.__setattr__(t, field, value)
        elif hasattr(t, field):
            object.__delattr__(t, field)


def _uses(t: Tensor) -> int:
    """How many graphs, views and tensors refer to ``t``; its own AccumulateGrad does not count."""
    count = 0
    for holder in gc.get_referrers(t):
        if holder.__class__ is list:
            nodes = [x for x in gc.get_referrers(holder) if isinstance(x, SavesTensors) and x._kept is holder]
            count += len(nodes) * sum(x is t for x in holder)
        elif not isinstance(holder, AccumulateGrad):
            count += type(holder).__module__.startswith(_INTERNAL)
    return count
