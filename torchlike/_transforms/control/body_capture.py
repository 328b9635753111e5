"""The capture of a body: each tensor from outside that it reads is an input, with its own gradient."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import jax

from torchlike._base.state import state
from torchlike._core.autograd import node as nodes
from torchlike._core.dispatch.dispatch import refresh
from torchlike._core.tensor import views
from torchlike._core.tensor.mutation import become
from torchlike._core.tensor.tensor import Tensor, dtype_of, value_of, wrap
from torchlike._executor.pending import Pending, lost, settled
from torchlike._transforms.capture.boundary import explore
from torchlike._transforms.capture.overlay import Cell, untraced
from torchlike._transforms.capture.recording import Capture

if TYPE_CHECKING:
    from torchlike._core.autograd.node import Node
    from torchlike._core.tensor.storage import Storage

NUMBERS = "needs the numbers of a tensor (item, tolist, numpy, bool), which are known only when its program runs"


class BodyCell(Cell):
    """A storage from outside, whose views are read one by one: a body is the same program whichever they are."""

    __slots__ = ("capture",)

    def first(self, t: Tensor) -> tuple[int, Any] | None:
        if self.value is not self.before or self.capture.owns(t):
            return None
        aval = jax.core.ShapedArray(tuple(t._layout.shape), dtype_of(t).np)
        self.reads[id(t)] = t, (self.epoch, self.capture.reading(t, aval))
        return self.reads[id(t)][1]


class BodyCapture(Capture):
    """What a body reads of the outside, which it may not change.

    Beside tensors these are random keys, which ``outer``, if there is one, gives anew in every call.

    Attributes:
        tensors: {id: tensor from outside that an operator or custom function was given}.
        sources: the storages and views that were read, in order.
    """

    repeats, hosted = True, False

    def __init__(self, title: str, random: bool) -> None:
        super().__init__(nodes.next_sequence())
        self.title, self.random, self.tensors, self.pinned, self.seeds = title, random, {}, set(), {}
        self.refreshed: set = set()

    # -- what the thread tells -------------------------------------------------------------------
    def input(self, value: Any, getter: Any) -> Any:
        if not self.random:
            raise NotImplementedError(
                f"{self.title}: a function that is repeated, or differentiated twice, cannot draw random numbers; draw "
                "them before and pass them in"
            )
        if self.outer is not None:
            return self.outer.input(value, getter)
        with jax.ensure_compile_time_eval():
            return jax.numpy.array(value)

    def check(self, getter: Callable[..., Any]) -> Any:
        return getter() if self.outer is None else self.outer.check(getter)

    def restarted(self, source: Any, seed: int, counter: int, seeds: bool) -> None:
        self.seeds.setdefault(id(source), (source, source.initial_seed(), source.counter, source._position()))
        if self.outer is not None:
            self.outer.restarted(source, seed, counter, seeds)

    def settle(self) -> None:
        """Refuse that random generators are elsewhere than they were, but for draws; put them back then."""
        for source, *before in self.seeds.values():
            if [source.initial_seed(), source.counter, source._position()] != before:
                source._back(*before)
                self.refuse("sets the seed or state of a random generator")

    def unite(self, storages: Iterable[Storage]) -> None:
        """Each is an input of its own."""

    def demand_own(self, name: str, t: Tensor) -> None:
        """Refuse to change ``t`` in place if the function did not make it."""
        if id(t._storage) in self.arguments or id(t._storage) not in self.own:
            raise RuntimeError(
                f"{self.title}: input mutation: {name}() would change a tensor of shape {list(t.shape)} that the "
                "function did not make; return the new value instead"
            )

    def read_by(self, t: Tensor) -> None:
        self.enter(t._storage)
        if id(t) in self.tensors or self.owns(t):
            return
        self.tensors[id(t)] = t
        if t._diff is not None and state.grad:
            edge = t._edge
            if self.outer is not None and self.outer.repeats:
                self.outer.read_by(t)
            else:
                self._outside(refresh, t)
            if t._edge is not edge:  # this history is from outside, though it is made only now
                self.refreshed.add(t._edge[0])

    def numbers(self, t: Tensor) -> Any:
        """The numbers of a tensor from outside, which are those of this call, if no body or program around has it."""
        self.enter(t._storage)
        cell = self.cells.get(id(t._storage))
        if cell is None:
            value = value_of(t)
            return self.refuse(NUMBERS) if isinstance(value, jax.core.Tracer) else value
        if cell.value is not cell.before:
            self.refuse(NUMBERS)
        if self.outer is not None:
            return self._outside(self.outer.numbers, t)
        with untraced():
            value = self._outside(lambda storage: settled(storage.value), t._storage)
            if isinstance(value, jax.core.Tracer):
                self.refuse(NUMBERS)
            return value if t._view is None or not t._view.steps else views.read(value, t._view)

    def reads(self, t: Tensor) -> None:
        self.numbers(t)

    # -- values ----------------------------------------------------------------------------------
    def cell(self, storage: Storage) -> BodyCell:
        cell = BodyCell(storage)
        cell.capture = self
        return cell

    def _read(self, storage: Storage) -> BodyCell:
        cell, value = self.cell(storage), storage.value
        known = isinstance(value, jax.Array | Pending) and not lost(value)
        cell.write(self.reading(storage, value.aval) if known else value)
        return cell

    def pin(self, t: Tensor, value: Any) -> None:
        """Let a tensor from outside hold ``value``, a tracer, from the start."""
        storage = t._storage
        self.enter(storage)
        cell = self.cells[id(storage)]
        if t._view is not None and t._view.steps:
            cell.reads[id(t)] = t, (cell.epoch, value)
        elif id(storage) not in self.pinned:  # another tensor over it is read by this one's value
            self.pinned.add(id(storage))
            cell.write(value)

    # -- gradients -------------------------------------------------------------------------------
    def leaving(self, roots: list[Any]) -> tuple[list[Any], bool]:
        """(the edges at which the graph below these edges leaves the body, whether it was freed)."""
        sinks, freed = explore(roots, self.start, self.refreshed)
        return [e for e in sinks if not self._is_ours(e[0])], freed

    def _is_ours(self, node: Node) -> bool:
        variable = getattr(node, "variable", None)
        return variable is not None and self.owns(variable)

    def tensor_at(self, edge: Any) -> Tensor | None:
        """The tensor from outside whose gradient arrives at an edge."""
        found = {nodes.edge_of(t): t for t in self.tensors.values() if t._rg}.get(edge)
        return getattr(edge[0], "variable", None) if found is None else found

    def number_of(self, t: Any) -> int:
        """The number, among the sources, of what stands for a tensor from outside."""
        for k, source in enumerate(self.sources):
            if source is t or (source is t._storage and self.whole(source) is t):
                return k
        self.reading(t, jax.core.ShapedArray(tuple(t._layout.shape), dtype_of(t).np))
        return len(self.sources) - 1

    def source(self, number: int) -> Tensor:
        """Source ``number`` as a tensor."""
        found = self.sources[number]
        return found if isinstance(found, Tensor) else self.whole(found)

    def whole(self, storage: Storage) -> Tensor:
        """The tensor by which a storage is read: one that requires grad, if there is one."""
        known = [t for t in self.tensors.values() if t._storage is storage and (t._view is None or not t._view.steps)]
        known.sort(key=lambda t: not t._rg)
        if not known:
            known = [wrap(storage.value)]
            become(known[0], storage, None)
            self.tensors[id(known[0])] = known[0]
        return known[0]

    # -- what came of it -------------------------------------------------------------------------
    def demand_unchanged(self) -> None:
        """Refuse a function that has changed what is from outside."""
        written = [str(list(s.value.shape)) for s in self.written()]
        if written or self.bumped():
            shapes = f" of shape {', '.join(written)}" if written else ""
            raise RuntimeError(
                f"{self.title}: input mutation: the function changes a tensor{shapes} that it did not make; return the "
                "new value instead"
            )
        for _, names in self.changed():
            what = "hooks" if "_ex" in names else sorted(names)
            raise RuntimeError(f"{self.title}: input mutation: the function changes {what} of a tensor from outside")
        if any(g.now is not g.before for g in self.grads.values()):
            raise RuntimeError(
                f"{self.title}: the function sets or adds to the .grad of a tensor from outside, as backward() does; "
                "use torch.autograd.grad and return the gradients"
            )
