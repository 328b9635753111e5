"""How the arguments of a call share tensors and memory with what a function reaches without them.

An argument is traced as a tensor of its own, in memory of its own. That would be wrong where it is a tensor that the
function also reads from a closure, a global or an attribute, and where one of the two writes what the other reads or
writes. A trace tells at its end; the function is then traced again, with that tensor itself, or with a stand-in in
that memory. A program holds for the calls whose arguments share in the way that it was traced for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from torchlike._core.tensor.tensor import Tensor
from torchlike._transforms.capture.overlay import Cell

if TYPE_CHECKING:
    from torchlike._core.tensor.storage import Storage
    from torchlike._transforms.capture.overlay import Overlay


class Sharing:
    """What a function is traced with, and what the trace has found.

    Attributes:
        itself: {position: an argument that the function is given as it is}. memory: {position: the storage of an
            argument, which its stand-in shares}.
        tensors: {id: a tensor that the function reaches}. read, written: {id: a storage that it reads, or writes,
            otherwise than by an argument}. changed: ids of the storages that it writes by an argument.
    """

    def __init__(self, itself: dict[int, Tensor] | None = None, memory: dict[int, Storage] | None = None) -> None:
        self.itself, self.memory = itself or {}, memory or {}
        self.tensors: dict[int, Tensor] = {}
        self.read: dict[int, Storage] = {}
        self.written: dict[int, Storage] = {}
        self.changed: set[int] = set()

    def stand_ins(self, leaves: Sequence[Any], substitute: Callable[..., Tensor]) -> dict[int, Tensor]:
        """{position: what stands for an argument}: one for each tensor, in one memory where the arguments share it."""
        storages = {id(s): s for s in [*self.memory.values(), *[t._storage for t in self.itself.values()]]}
        found: dict[int, Tensor] = {}
        for i, x in enumerate(leaves):
            if isinstance(x, Tensor) and i not in self.itself:
                first = next(k for k in range(i + 1) if leaves[k] is x)
                found[i] = found[first] if first < i else substitute(x, storages)
        return found

    def note(self, record: Overlay, stand_ins: Iterable[Tensor], leaves: Sequence[Any], changed: Iterable[int]) -> None:
        """What the function has touched, when it has run; ``changed``: the positions of arguments that it wrote."""
        stood = {id(x) for t in stand_ins for x in (t, t._storage)}
        cells = [c.storage for c in record.cells.values() if isinstance(c, Cell)]
        self.read = {id(s): s for s in cells if id(s) not in stood}
        self.written = {id(s): s for s in record.written() if id(s) not in stood}
        self.tensors = {id(g.tensor): g.tensor for g in record.grads.values() if id(g.tensor) not in stood}
        self.changed = {id(leaves[i]._storage) for i in changed}

    def better(self, leaves: Sequence[Any], reached: Iterable[Tensor]) -> Sharing | None:
        """What to trace the function with again, None if all is well; ``reached``: more tensors that it reaches."""
        self.tensors |= {id(t): t for t in reached}
        itself, memory = dict(self.itself), dict(self.memory)
        for i, x in enumerate(leaves):
            if not isinstance(x, Tensor) or i in itself:
                continue
            if id(x) in self.tensors:
                itself[i] = x
                memory.pop(i, None)
            elif id(x._storage) in self._forbidden(x) and (x._view is None or not x._view.steps):
                memory[i] = x._storage
        return (
            None
            if (itself.keys(), memory.keys()) == (self.itself.keys(), self.memory.keys())
            else Sharing(itself, memory)
        )

    def _forbidden(self, x: Tensor) -> dict[int, Storage]:
        """The storages that an argument must not have which stands for itself alone."""
        return self.read | self.written if id(x._storage) in self.changed else self.written

    def terms(self, leaves: Sequence[Any], name: Callable[[object], str]) -> list[str]:
        """Conditions on ``leaves``, as code, that a call shares in this way."""
        given = {id(t) for t in self.itself.values()}
        others = frozenset(self.tensors.keys() - given)
        terms = [f"leaves[{i}] is {name(t)}" for i, t in self.itself.items()]
        terms += [f"leaves[{i}]._storage is {name(s)}" for i, s in self.memory.items()]
        for i, x in enumerate(leaves):
            if not isinstance(x, Tensor) or i in self.itself:
                continue
            if others:
                terms.append(f"id(leaves[{i}]) not in {name(others)}")
            forbidden = frozenset(self._forbidden(x))
            if forbidden and i not in self.memory:
                terms.append(f"id(leaves[{i}]._storage) not in {name(forbidden)}")
        return terms


__all__ = ["Sharing"]
