"""Capture: a function is traced once, with what it reads as inputs and what it writes as outputs.

The function runs under ``jax.make_jaxpr``, within a capture: what it reads from outside are tracers, each with an
equation of the jaxpr that says which storage; what it writes is seen by this thread alone, and gone at the end (see
Note [Captures]). Each call then runs the program and does the writing.
"""

from __future__ import annotations

import types
import weakref
from collections import Counter
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from torchlike._base.layout import is_dense
from torchlike._base.state import state
from torchlike._core.autograd import engine
from torchlike._core.autograd import node as nodes
from torchlike._core.dispatch.dispatch import refresh
from torchlike._core.tensor.memory_order import restride
from torchlike._core.tensor.storage import UNTRACKED, Outer, Storage, holding
from torchlike._core.tensor.tensor import Tensor, alias, carried, carry, device_of, value_of, wrap
from torchlike._core.tensor.views import View
from torchlike._executor import immediate
from torchlike._executor.spread import layout_of
from torchlike._transforms.capture.boundary import explore
from torchlike._transforms.capture.given import Given, join, joints
from torchlike._transforms.capture.kinds import marks
from torchlike._transforms.capture.modes import Modes
from torchlike._transforms.capture.mortal import is_mortal
from torchlike._transforms.capture.numbers import Number
from torchlike._transforms.capture.outputs import Alias, Computed, Constant, New, Same
from torchlike._transforms.capture.overlay import Abandoned, capturing
from torchlike._transforms.capture.recording import Capture, Unsupported
from torchlike._transforms.capture.sharing import Sharing
from torchlike._transforms.capture.split import with_reads
from torchlike._transforms.capture.structure import Outside, Passed, containers, flatten

if TYPE_CHECKING:
    from torchlike._base.jaxprs import ClosedJaxpr

ANY = object()  # stands for any ``.grad`` but None


def substitute(t: Tensor, storages: dict[int, Storage]) -> Tensor:
    """The tensor that stands for an argument while tracing: a leaf over its value, in memory of its own.

    ``storages``: {id of a storage: the one that stands for it}, to which that of ``t`` is added.
    """
    if _crops(t):
        assert t._view is not None
        new = wrap(value_of(t))
        if is_dense(t._view.layout):
            restride(new, t._view.layout.strides)
        new._view = View((), (), t._view.layout)
    else:
        new, storage = alias(t), t._storage
        if id(storage) not in storages:
            storages[id(storage)] = copy = holding(storage.value)
            copy.strides = storage.strides
        new._storage = storages[id(storage)]
        if t._vc is storage:
            new._vc = new._storage
    new._rg, new._grad, new._ex = t._rg, t._grad, t._ex
    new.__class__ = type(t)
    carry(new, carried(t))
    return new


def _is_meta(t: Tensor) -> bool:
    return type(t._storage.form) is immediate.Abstract


def _crops(t: Tensor) -> bool:
    """Whether what stands for ``t`` has less memory than it."""
    return t._view is not None and bool(t._view.steps)


class Trace:
    """One trace: what went in and what came out.

    Attributes:
        getters: of the arguments beside those given, which follow them in ``leaves``. storages: ids of theirs.
        objects: {id of an argument that is an object: its position}.
        left: weak references to what of the function's objects may hold tensors in cycles.
        jaxpr: from constants (``consts``) and the values of storages (``sources``) to those of ``slots``.
        result: the structure of the results, and how each is made. effects: what calls do to Python objects, or
            None. kept: how the tensors are made that these store.
        writes: (storage, slot). arg_writes: (argument, slot).
        grads: (holder, how its ``.grad`` is made).
        demanded: (holder, ``.grad`` that it must have had, or ANY). bumps: (version counter, how often it was bumped).
        sharing: how arguments share tensors and memory with what the function reaches without them.
        roots: edges of the results that require grad. sinks: where their gradients go: (argument or None,
            leaf or None, edge). seeds: the arrays that stand for the gradients of the roots.
        n_early: how many outputs are not gradients.
    """

    def __init__(
        self,
        function: Any,
        leaves: list[Any],
        tree: Any,
        sharing: Sharing | None = None,
        joints: tuple[int, ...] | None = None,
    ) -> None:
        self.leaves, self.getters, self.storages = list(leaves), [], set()
        self.objects = {id(x): i for i, x in enumerate(leaves) if is_mortal(x) or type(x) is types.FunctionType}
        self.sharing = sharing = Sharing() if sharing is None else sharing
        abstract = getattr(function, "abstract", False)
        if not abstract and any(isinstance(x, Tensor) and _is_meta(x) for x in leaves):
            raise Unsupported("computes on the meta device")
        self.stand_ins = sharing.stand_ins(leaves, substitute)
        self.positions = {id(t): i for i, t in reversed(self.stand_ins.items())}
        self.record = Capture(nodes.next_sequence())
        self.record.abstract = abstract
        self.record.arguments = frozenset([id(t._storage) for t in self.stand_ins.values()])
        self.record.cropped = frozenset([id(t._storage) for i, t in self.stand_ins.items() if _crops(leaves[i])])
        self.record.marked = frozenset([id(t._storage) for i, t in self.stand_ins.items() if any(marks(leaves[i]))])
        self.record.argument = self._argument
        places = [d for x in leaves if isinstance(x, Tensor) and (d := device_of(x)).type != "meta"]
        self.record.place = next((d for d in places if d.type != "cpu"), places[0] if places else None)
        self.record.spread = any(isinstance(x, Tensor) and layout_of(x._storage.form) is not None for x in leaves)
        listener = getattr(function, "listener", None)
        if listener is not None:
            listener.trace = self
        self.slots, self.index = [], {}
        self.seeds, self.sinks, self.metas, self.freed = [], [], [], False
        self.survivors: list = []
        self.left: list = []
        self.roots: Any  # edges, while it is traced
        self.root_of: dict[int, int] = {}
        self._specs: dict = {}
        self.keyed: set[int] = set()
        self.hidden: list[Tensor] = []

        # hooks from outside take what the program's node saves, not what its tracing does
        before, state.pack_outside = state.pack_outside, state.pack
        modes = Modes()

        def body() -> tuple[Any, ...]:
            self.record.begin()
            arguments = [self.stand_ins.get(i, x) for i, x in enumerate(leaves)]
            if function is state.interpreter:
                function.histories |= {id(t) for i, t in self.stand_ins.items() if not nodes.is_leaf(leaves[i])}
            arguments = jax.tree.unflatten(tree, arguments)
            arguments = arguments if joints is None else join(arguments, joints)
            given = Given(arguments)
            out = function(*arguments[0], **arguments[1])
            if given.changed() and function is not state.interpreter:
                self.record.refuse("changes a list, dict or dataclass among its arguments")
            if (left := modes.left()) is not None:
                self.record.refuse(f"leaves {left} otherwise than it was")
            self._describe(out, function, given)
            return tuple(self.slots)

        failed = True
        try:
            with capturing(self.record):
                closed = jax.make_jaxpr(body)()
                self.record.settle()
            failed = False
        except BaseException:
            modes.restore()
            self.record.rewind()
            raise
        finally:
            state.pack_outside = before
            self.record.close(failed)
        self._read(closed)
        self.record.argument = None  # no cycle keeps the first call's arguments
        self.slots = self.roots = self.stand_ins = self.hidden = None  # type: ignore[assignment]

    def _read(self, closed: ClosedJaxpr) -> None:
        """Sort what the jaxpr reads: constants, and storages."""
        jaxpr, numbers = with_reads(closed.jaxpr)
        self.jaxpr = jaxpr.replace(constvars=(), invars=[*jaxpr.constvars, *jaxpr.invars])
        self.sources = [self.record.sources[k] for k in numbers]
        self.consts = closed.consts

    def kept_aliases(self, gone: Collection[Any] = ()) -> bool:
        """Whether somebody still holds a tensor over memory from outside, made in the trace, that is no result."""
        ours = [x.tensor for x in (*self.result, *[made for _, made in self.grads]) if isinstance(x, Alias)]
        left = [t for t in (reference() for reference in self.aliases) if t is not None and id(t) not in gone]
        return any(all(t is not x for x in ours) for t in left)

    def abandon(self) -> None:
        """No program came of the trace: what it made and somebody keeps can no longer be read."""
        for reference, _ in self.survivors:
            storage = reference()
            if storage is not None:
                storage.value = Abandoned(storage.value)

    def _argument(self, t: Tensor, getter: Callable[..., Any] | None) -> Tensor | None:
        """What stands for a tensor from outside that ``getter()`` gives in every call; None if it has other readers."""
        storage, record = t._storage, self.record
        readers = {id(x._storage) for x in self.leaves if isinstance(x, Tensor)}
        if _is_meta(t) or id(storage) in readers or id(storage) in record.cells or record.owns(t):
            return None
        before, state.capture = state.capture, None
        try:
            with jax.ensure_compile_time_eval():
                stand_in = substitute(t, {})
        finally:
            state.capture = before
        self.stand_ins[len(self.leaves)], self.positions[id(stand_in)] = stand_in, len(self.leaves)
        self.leaves.append(t)
        self.getters.append(getter)
        self.storages.add(id(storage))
        record.arguments |= {id(stand_in._storage)}
        record.cropped |= {id(stand_in._storage)} if _crops(t) else set()
        record.marked |= {id(stand_in._storage)} if any(marks(t)) else set()
        return stand_in

    # -- inside the trace ------------------------------------------------------------------------
    def slot(self, storage: Any) -> int:
        """The output of the program that is the new value of ``storage``."""
        found = self.index.get(id(storage))
        if found is None:
            if type(storage.form) is immediate.Abstract:
                raise Unsupported("makes a tensor on the meta device")
            found = self.index[id(storage)] = len(self.slots)
            self.slots.append(storage.value)
        return found

    def _describe(self, out: Any, function: Any, given: Given) -> None:
        self.argument_storages = {id(self.stand_ins[i]._storage): i for i in reversed(self.stand_ins)}
        self.grad_storages = {}
        for found in self.record.grads.values():
            grad = found.before
            if found.asked and grad is not None and grad._view is None:
                self.grad_storages.setdefault(id(grad._storage), self._holder(found.tensor))
        if any(g.before is not None and id(g.before._storage) in self.storages for g in self.record.grads.values()):
            raise Unsupported("reads the memory of a .grad under another name")
        self._writes()
        self._fields()
        self.sharing.note(self.record, self.stand_ins.values(), self.leaves, [i for i, _ in self.arg_writes])
        passed: dict[int, Any] = {i: Passed(n) for i, n in given.numbers.items()}
        if function is state.interpreter and getattr(function, "listener", None) is None:
            passed = {id(x): Outside(x) for x in containers(out) if function.was_read(x)} | passed
        if function is state.interpreter:
            passed |= function.anew(out)
        out_leaves, self.out_tree = flatten(out, passed)
        self.out_joints = joints(out)
        self.effects = function.effects(out, given) if function is state.interpreter else None
        self.passes = any(isinstance(x, Passed) for x in out_leaves) or (
            self.effects is not None and self.effects.passes
        )
        kept = [] if self.effects is None else self.effects.take()
        if getattr(function, "listener", None) is not None:
            function.listener.leave(out_leaves, kept)
        self._share([*out_leaves, *kept])
        self._graph([*out_leaves, *kept, *self.hidden])
        self.result = [self._made(x) for x in out_leaves]
        self.kept = [self._made(x) for x in kept]
        self.errors = self.record.errors
        if self.errors:
            self.slots.append(jax.numpy.stack([jax.numpy.any(bad) for bad in self.record.flags]))
        self.n_kept = len(self.slots)
        for storage in self.record.survivors():
            if id(storage) not in self.index:
                self.survivors.append((weakref.ref(storage), self.slot(storage)))
        own = self.record.own
        made = [t for t in own.values() if isinstance(t, Tensor)]
        self.aliases = [weakref.ref(t) for t in made if id(t._storage) not in own]
        checked = len(self.errors)
        self._gradients()
        if len(self.errors) > checked:
            raise Unsupported("has a backward that looks at values")

    def _demand_unread(self, storage: Storage) -> None:
        """Refuse to write where an array of numpy is that was read: as it was before, or after."""
        if storage.shared and state.interpreter is not None:
            seen = storage.host.bytes
            if any([np.may_share_memory(array, seen) for array in state.interpreter.arrays_read()]):
                raise Unsupported("writes to memory that it reads as an array of numpy, too")

    def _writes(self) -> None:
        self.writes, self.arg_writes = [], []
        if any([storage.value is not value for storage, value in self.record.copies]):
            raise Unsupported("writes to a tensor over the memory of an array of numpy")
        self.record.copies.clear()  # what is still there later is what the function keeps
        for storage in self.record.written():
            arg = self.argument_storages.get(id(storage))
            self._demand_unread(storage)
            if arg is None:
                self.writes.append((storage, self.slot(storage)))
            else:
                self.arg_writes.append((arg, self.slot(storage)))
        of_arguments = {id(t._vc) for t in self.stand_ins.values()}
        self.bumps = [(c, n) for c, n in self.record.bumped() if id(c) not in of_arguments]

    def _fields(self) -> None:
        self.grads, self.demanded = [], []
        for _, names in self.record.changed():
            if "_ex" in names:
                raise Unsupported("registers or removes hooks of a tensor that was made outside")
            raise Unsupported(f"changes {sorted(names)} of a tensor that was made outside")
        for found in self.record.grads.values():
            holder, replaced = self._holder(found.tensor), found.now is not found.before
            if found.asked:
                by_identity = found.before is None or (replaced and found.known)
                self.demanded.append((holder, found.before if by_identity else ANY))
            if replaced:
                if holder.arg is not None and self.leaves[holder.arg]._edge is not None:
                    raise Unsupported("runs backward into an argument that has a history outside of it")
                self.grads.append((holder, None if found.now is None else self._made(found.now)))

    def _holder(self, t: Tensor) -> Same:
        arg = self.positions.get(id(t))
        return Same(arg, t if arg is None else None)

    def _made(self, x: Any) -> Any:
        if isinstance(x, Passed):
            return Same(len(self.leaves) + x.number, None)
        if isinstance(x, Outside):
            return Constant(x.value)
        if type(x) is Number:
            return Computed(x.get)
        if not isinstance(x, Tensor):
            return Same(self.objects[id(x)], None) if id(x) in self.objects else Constant(x)
        if id(x) not in self._specs:  # a tensor that is two results is one object
            self._specs[id(x)] = self._spec(x)
        return self._specs[id(x)]

    def _spec(self, x: Tensor) -> Any:
        arg = self.positions.get(id(x))
        if arg is not None or not self.record.owns(x):
            return Same(arg, None if arg is not None else x)
        root = self.root_of.get(id(x))
        leaf = x._rg and x._edge is None
        retains = root is not None and nodes.retained(x)
        if retains and len(self.roots) > 1:
            raise Unsupported("keeps the gradient of one of several results (retain_grad)")
        if x._vc is UNTRACKED and not state.inference:
            raise Unsupported("returns a tensor that it made in inference mode")
        if x._grad is not None:
            raise Unsupported("returns a tensor that it made, with a .grad")
        if x._storage.form.__class__ is Outer:
            raise Unsupported("returns a wrapper subclass of Tensor that requires grad, or has no __tensor_flatten__")
        if x.__dict__.keys() - set(type(x)._carried):
            raise Unsupported("sets attributes of a tensor that it returns")
        storage = x._storage
        arg = self.argument_storages.get(id(storage))
        if arg is not None:
            return Alias(arg, None, x._view, root, _tied(x, self.stand_ins[arg]), retains, carried(x), leaf)
        if id(storage) not in self.record.own:
            owner = self._owner(x)
            return Alias(None, owner, x._view, root, _tied(x, owner), retains, carried(x), leaf)
        key = id(x) if id(x) in self.keyed else None
        return New(self.slot(storage), storage.strides, x._view, root, retains, carried(x), leaf, key, self._of(x))

    def _owner(self, x: Tensor) -> Tensor:
        """A tensor from outside over the storage of ``x``, of which ``x`` is a view if it is one of such a tensor."""
        base = None if x._diff is None else x._diff.base
        if base is not None and base._storage is x._storage and not self.record.owns(base):
            return base
        owner = alias(x)
        owner._view = owner._cache = None
        return owner

    def _share(self, out_leaves: list[Any]) -> None:
        """Find the results over memory that the program makes and several of them show: their bases go with them."""
        made = {id(t): t for t in out_leaves if isinstance(t, Tensor) and id(t._storage) in self.record.own}
        shown = Counter([id(t._storage) for t in made.values()])
        views = [t for t in made.values() if shown[id(t._storage)] > 1 and t._diff is not None]
        self.keyed = {id(x) for t in views for x in (t, t._diff.base)}
        hidden = {id(t._diff.base): t._diff.base for t in views if t._diff.creation is None}
        self.hidden = [t for key, t in hidden.items() if key not in made]

    def _of(self, x: Tensor) -> tuple[Any, ...] | None:
        """How ``x`` is tied to its base, if both are made in every call."""
        diff = x._diff
        if diff is None or id(x) not in self.keyed:
            return None
        if diff.base._view is not diff.under:
            raise Unsupported("returns a view of what has changed its shape in place since")
        return self._made(diff.base), diff.depth, diff.ints, diff.creation, diff.lead

    def _graph(self, out_leaves: list[Any]) -> None:
        tensors = {id(t): t for t in out_leaves if isinstance(t, Tensor) and self.record.owns(t)}.values()
        for t in tensors:
            if t._diff is not None:
                refresh(t)
        roots = [t for t in tensors if t._rg and t._edge is not None and t._edge[0] is not None]
        self.root_of = {id(t): k for k, t in enumerate(roots)}
        self.roots = [t._edge for t in roots]
        self.metas = [immediate.Abstract(tuple(t.shape), t.dtype.np) for t in roots]
        if roots:
            sinks, self.freed = explore(self.roots, self.record.start)
            self.edges = [] if self.freed else sinks

    def _gradients(self) -> None:
        """Run the backward of the results inside the trace, from arrays that stand for their gradients."""
        self.n_early = len(self.slots)
        if not self.roots or self.freed:
            return
        with jax.ensure_compile_time_eval():
            self.seeds = [jax.numpy.zeros(m.shape, m.dtype) for m in self.metas]
        # hooks of tensors from outside run when their gradients arrive there
        found = engine.run(
            self.roots, list(self.seeds), keep=True, accumulate=False, captures=self.edges,
            ends=[node for node, _ in self.edges],
        )  # fmt: skip
        for edge in self.edges:
            grad = found.get(edge)
            if grad is not None:
                self.slots.append(value_of(grad))
                variable = getattr(edge[0], "variable", None)
                arg = None if variable is None else self.positions.get(id(variable))
                if variable is not None and id(variable) in self._specs and self.record.owns(variable):
                    raise Unsupported("returns a leaf that requires grad, and what it computed from that")
                self.sinks.append((arg, variable if arg is None else None, edge))


def _tied(x: Tensor, t: Tensor) -> tuple[Any] | None:
    """(why ``x`` may not be changed in place or None,) if it is a view of ``t`` for autograd; else None."""
    diff = x._diff
    return (diff.creation,) if diff is not None and diff.base is t and diff.lead == ((), ()) else None
