"""Capture: a function is traced once, with what it reads as inputs and what it writes as outputs.

The function runs under ``jax.make_jaxpr``. Every array of the outside that a kernel reads appears as a
constant of the jaxpr, under its identity; the storages that hold those arrays are the inputs of the
program. What the function wrote is found by comparing the storages and tensors with what they held
before, and put back: a trace leaves no trace. Each call then runs the program and does the writing.
"""

import weakref
from operator import is_

import jax

from torchlike._base.layout import is_dense
from torchlike._core import engine
from torchlike._core import node as nodes
from torchlike._core.follow import restride
from torchlike._core.tensor import Tensor, alias, value_of, wrap
from torchlike._executor import immediate
from torchlike._transforms.boundary import explore
from torchlike._transforms.outputs import Alias, Constant, New, Same
from torchlike._transforms.recording import Recording, Unsupported, recording
from torchlike._transforms.structure import flatten
from torchlike._transforms.world import ANY, World, collection_paused


def substitute(t):
    """The tensor that stands for an argument while tracing: a leaf over its value."""
    if t._view is not None and t._view.steps:
        new = wrap(value_of(t))
        if is_dense(t._view.layout):
            restride(new, t._view.layout.strides)
    else:
        new = alias(t)
    new._rg, new._grad, new._ex = t._rg, t._grad, t._ex
    new.__class__ = type(t)
    return new


class Trace:
    """One trace: what went in and what came out.

    Attributes:
        jaxpr: from the arrays read (``consts``) to the values of ``slots``. result: the structure of the
            results, and how each is made. writes: (storage, slot). arg_writes: (argument, slot).
        grads: (holder, how its ``.grad`` is made).
        demanded: (holder, ``.grad`` that it must have had, or ANY). bumps: (version counter, how often it was bumped).
        roots: edges of the results that require grad. sinks: where their gradients go: (argument or None,
            leaf or None, edge). seeds: the arrays that stand for the gradients of the roots.
        n_early: how many outputs are not gradients.
    """

    def __init__(self, function, leaves, tree):
        self.leaves = leaves
        if any(isinstance(x, Tensor) and x.is_meta for x in leaves):
            raise Unsupported("computes on the meta device")
        self.stand_ins = {i: substitute(x) for i, x in enumerate(leaves) if isinstance(x, Tensor)}
        self.positions = {id(t): i for i, t in self.stand_ins.items()}
        self.world = World()
        self.record = Recording(nodes.next_sequence())
        self.record.arguments = frozenset([id(t._storage) for t in self.stand_ins.values()])
        self.record.outside = self.world.storages
        self.slots, self.index = [], {}
        self.seeds, self.sinks, self.metas, self.freed = [], [], [], False
        self.survivors: list = []
        self.root_of: dict[int, int] = {}

        def body():
            arguments = [self.stand_ins.get(i, x) for i, x in enumerate(leaves)]
            given = jax.tree.unflatten(tree, arguments)
            out = function(*given[0], **given[1])
            now, structure = flatten(given)
            if structure != tree or not all(map(is_, now, arguments)):
                self.record.refuse("changes a list, dict or dataclass among its arguments")
            self._describe(out)
            return tuple(self.slots)

        try:
            with recording(self.record), collection_paused():
                closed = jax.make_jaxpr(body)()
            self.record.settle()
        except BaseException:
            self.record.rewind()
            raise
        finally:
            self.world.restore()
            for storage, value in self.record.adopted:
                storage.value = value
        self.jaxpr, self.consts = closed.jaxpr, closed.consts
        self.slots = self.roots = self.stand_ins = None

    # -- inside the trace ------------------------------------------------------------------------
    def slot(self, storage):
        """The output of the program that is the new value of ``storage``."""
        found = self.index.get(id(storage))
        if found is None:
            found = self.index[id(storage)] = len(self.slots)
            self.slots.append(storage.value)
        return found

    def _describe(self, out):
        self.outside = {id(t): t for t, _ in self.world.tensors}
        self.argument_storages = {id(self.stand_ins[i]._storage): i for i in reversed(self.stand_ins)}
        self.grad_storages = {}
        for t, fields in self.world.tensors:
            grad = fields[World.GRAD]
            if grad is not None and grad._view is None and id(t) not in self.positions:
                self.grad_storages.setdefault(id(grad._storage), t)
        self._writes()
        self._fields()
        out_leaves, self.out_tree = flatten(out)
        self._graph(out_leaves)
        self.result = [self._made(x) for x in out_leaves]
        self.errors = self.record.errors
        if self.errors:
            self.slots.append(jax.numpy.stack([jax.numpy.any(bad) for bad in self.record.flags]))
        self.n_kept = len(self.slots)
        for storage in self.world.traced():
            if id(storage) not in self.index and id(storage) not in self.world.storages:
                self.survivors.append((weakref.ref(storage), self.slot(storage)))
        self._gradients()

    def _writes(self):
        self.writes, self.arg_writes = [], []
        adopted = [s for s, value in self.record.adopted if s.value is not value]
        for storage in [*self.world.written(), *adopted]:
            arg = self.argument_storages.get(id(storage))
            if arg is None:
                self.writes.append((storage, self.slot(storage)))
            else:
                self.arg_writes.append((arg, self.slot(storage)))
        of_arguments = {id(t._vc) for t in self.stand_ins.values()}
        self.bumps = [(c, n) for c, n in self.world.bumped() if id(c) not in of_arguments]

    def _fields(self):
        self.grads, self.demanded = [], []
        if self.world.hooked():
            raise Unsupported("registers or removes hooks of a tensor that was made outside")
        for t, before in self.world.changed():
            others = set(before) - {"_grad"}
            if others:
                raise Unsupported(f"changes {sorted(others)} of a tensor that was made outside")
            arg = self.positions.get(id(t))
            holder = Same(arg, t if arg is None else None)
            if id(t) not in self.record.cleared:
                self.demanded.append((holder, before["_grad"]))
            self.grads.append((holder, None if t._grad is None else self._made(t._grad)))
            del before
        replaced = [grad for _, grad in self.demanded if grad is not None]
        known = self.world.known_elsewhere(replaced, (replaced, self.outside, *self.demanded))
        self.demanded = [(h, grad if grad is None or id(grad) in known else ANY) for h, grad in self.demanded]

    def _made(self, x):
        if not isinstance(x, Tensor):
            return Constant(x)
        arg = self.positions.get(id(x))
        if arg is not None or id(x) in self.outside:
            return Same(arg, None if arg is not None else x)
        root = self.root_of.get(id(x))
        storage = x._storage
        arg = self.argument_storages.get(id(storage))
        if arg is not None:
            given = self.leaves[arg]._view
            if given is not None and given.steps and not is_dense(given.layout):
                raise Unsupported("returns a view of an argument that does not fill its memory")
            return Alias(arg, None, x._view, root, _tied(x, self.stand_ins[arg]))
        if id(storage) in self.world.storages:
            owner = self._owner(storage)
            return Alias(None, owner, x._view, root, _tied(x, owner))
        return New(self.slot(storage), storage.strides, x._view, root)

    def _owner(self, storage):
        """A tensor from outside over the storage."""
        for t, fields in self.world.tensors:
            if fields[0] is storage:
                return t
        raise Unsupported("returns a view of a tensor that is no more")

    def _graph(self, out_leaves):
        tensors = [t for t in out_leaves if isinstance(t, Tensor) and id(t) not in self.outside]
        roots = [t for t in tensors if t._rg and t._edge is not None and t._edge[0] is not None]
        self.root_of = {id(t): k for k, t in enumerate(roots)}
        self.roots = [t._edge for t in roots]
        self.metas = [immediate.Abstract(tuple(t.shape), t.dtype.np) for t in roots]
        if roots:
            sinks, self.freed = explore(self.roots, self.record.start)
            self.edges = [] if self.freed else sinks

    def _gradients(self):
        """Run the backward of the results inside the trace, from arrays that stand for their gradients."""
        self.n_early = len(self.slots)
        if not self.roots or self.freed:
            return
        with jax.ensure_compile_time_eval():
            self.seeds = [jax.numpy.zeros(m.shape, m.dtype) for m in self.metas]
        outer = [(node, node._ex) for node in {edge[0] for edge in self.edges} if node._ex]
        for node, _ in outer:  # hooks of tensors from outside run when their gradients arrive there
            node._ex = None
        try:
            found = engine.run(self.roots, list(self.seeds), keep=True, accumulate=False, captures=self.edges)
        finally:
            for node, extras in outer:
                node._ex = extras
        for edge in self.edges:
            grad = found.get(edge)
            if grad is not None:
                self.slots.append(value_of(grad))
                variable = getattr(edge[0], "variable", None)
                arg = None if variable is None else self.positions.get(id(variable))
                self.sinks.append((arg, variable if arg is None else None, edge))


def _tied(x, t):
    """(why ``x`` may not be changed in place or None,) if it is a view of ``t`` for autograd; else None."""
    diff = x._diff
    return (diff.creation,) if diff is not None and diff.base is t and diff.lead == ((), ()) else None
