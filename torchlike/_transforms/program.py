"""Programs: a traced function as one XLA program, and what each call does around it."""

import gc
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import jaxpr_as_fun

from torchlike._core import node as nodes
from torchlike._core.tensor import value_of, write
from torchlike._executor import immediate
from torchlike._executor.pending import all_settled
from torchlike._transforms.boundary import CompiledFunctionBackward
from torchlike._transforms.outputs import Maker
from torchlike._transforms.split import bind, split, without_constants

_ORDER = ("storage", "arg", "grad", "dynamic")  # of a program's inputs
_SMALL = 4096  # bytes below which donating an input does not pay for asking who else holds it
_HELD = 3  # references to an array that only its storage holds, as counted here


class Program:
    """One compiled function for one kind of arguments.

    Attributes:
        fixed: the storages it reads. arguments: the positions of the arguments it reads. getters: give
            its other inputs. donated: which of ``fixed`` may be overwritten.
        errors, failed: what its value checks raise, and the flags of the last call, which the next call reads:
            so that no call waits for its own results.
        again: whether it may run again; else only for the call that was traced.
    """

    def __init__(self, trace):
        alive = _alive(trace.survivors)
        self.again = not alive
        kept = list(range(trace.n_kept)) + [slot for _, slot in alive]
        self.n_early = len(kept)
        jaxpr = without_constants(trace.jaxpr, kept + list(range(trace.n_early, len(trace.jaxpr.outvars))))
        self._effects(trace, {slot: k for k, (_, slot) in enumerate(alive, trace.n_kept)}, alive)
        kinds = self._sources(trace)
        late = [kind == "seed" for kind, _ in kinds]
        early, after = split(jaxpr, late, self.n_early)
        self._inputs([k for k in kinds if k[0] != "seed"])
        self._compile(early, [k for k in kinds if k[0] != "seed"])
        self.after = _taking([k for kind, k in kinds if kind == "seed"], after) if any(late) else None

    def _effects(self, trace, moved, alive):
        self.arg_writes = trace.arg_writes
        self.bumps = [(c, n) for c, n in trace.bumps if id(c) not in trace.grad_storages]
        self.grads, self.demanded = trace.grads, trace.demanded
        self.writes = [(s, k) for s, k in trace.writes if id(s) not in trace.grad_storages]
        self.grad_writes = [(trace.grad_storages[id(s)], k) for s, k in trace.writes if id(s) in trace.grad_storages]
        self.result, self.out_tree = trace.result, trace.out_tree
        self.metas, self.sinks, self.freed = trace.metas, trace.sinks, trace.freed
        self.errors, self.flags, self.failed = trace.errors, trace.n_kept - 1, None
        self.alive = [(storage, moved[slot]) for storage, slot in alive]

    def _sources(self, trace):
        """For each array the jaxpr read: ("storage", it), ("arg", position), ("dynamic", getter) ..."""
        seeds = {id(s): k for k, s in enumerate(trace.seeds)}
        owners = dict(trace.world.owners)
        for storage, value in trace.record.adopted:
            owners.setdefault(id(value), []).append(storage)
        shared = {id(a) for a in immediate.shared_arrays()}
        kinds, self.together = [], []
        for const in trace.consts:
            key = id(const)
            if key in trace.record.dynamic:
                kinds.append(("dynamic", trace.record.dynamic[key]))
            elif key in seeds:
                kinds.append(("seed", seeds[key]))
            elif key in owners and key not in shared:
                kinds.append(self._owned(owners[key], trace))
            else:
                kinds.append(("constant", const))
        return kinds

    def _owned(self, storages, trace):
        for storage in storages:
            if id(storage) in trace.argument_storages:
                return "arg", trace.argument_storages[id(storage)]
            if id(storage) in trace.grad_storages:
                return "grad", trace.grad_storages[id(storage)]
        if len(storages) > 1:
            self.together.append(tuple(storages))
        return "storage", storages[0]

    def _inputs(self, kinds):
        self.fixed = [x for kind, x in kinds if kind == "storage"]
        self.arguments = [x for kind, x in kinds if kind == "arg"]
        self.with_grad = [x for kind, x in kinds if kind == "grad"]
        dynamic = [x for kind, x in kinds if kind == "dynamic"]
        self.first = [array for array, _ in dynamic]
        self.getters = [getter for _, getter in dynamic]
        self.numbers = [(None, None)] * len(dynamic)

    def _compile(self, early, kinds):
        """The first half, with its inputs in the order fixed, arguments, dynamic."""
        constants = {i: x for i, (kind, x) in enumerate(kinds) if kind == "constant"}
        closed = bind(early, constants)
        order = [kind for kind, _ in kinds if kind != "constant"]
        places = {name: [i for i, kind in enumerate(order) if kind == name] for name in _ORDER}
        position = [i for name in _ORDER for i in places[name]]
        run = jaxpr_as_fun(closed)

        def arranged(*values):
            inputs = [None] * len(values)
            for i, value in zip(position, values, strict=True):
                inputs[i] = value
            return run(*inputs)

        written = {id(s) for s, _ in self.writes}
        together = {id(s) for group in self.together for s in group}
        self.donated = [
            i
            for i, s in enumerate(self.fixed)
            if id(s) in written and id(s) not in together and getattr(s.value, "nbytes", 0) >= _SMALL
        ]
        self.early = jax.jit(arranged, donate_argnums=tuple(self.donated))

    # -- calls -----------------------------------------------------------------------------------
    def holds(self):
        """Whether storages that held one array when the program was made still do."""
        return (
            all(s.value is group[0].value for group in self.together for s in group)
            and all(t._grad is not None and t._grad._view is None for t in self.with_grad)
            and all(holder.arg is not None or holder.tensor._grad is grad for holder, grad in self.demanded)
        )

    def __call__(self, leaves, first=False):
        """Run on the arguments: returns what the function returns, and does what it does."""
        if self.failed is not None:
            self.examine()
        values = self._values(leaves, self.first if first else None)
        for i in self.donated:
            if sys.getrefcount(values[i]) > _HELD:  # somebody else holds the array
                values[i] = jnp.array(values[i])
        outs = self.early(*values)
        if first:
            self.first = None
        if self.errors:
            self.failed = outs[self.flags]
        return self._finish(outs, leaves)

    def _values(self, leaves, dynamic=None):
        values = [s.value for s in self.fixed]
        values += [value_of(leaves[i]) for i in self.arguments]
        values += [t._grad._storage.value for t in self.with_grad]
        values += self._dynamic() if dynamic is None else dynamic
        return all_settled(values)

    def _dynamic(self):
        """The inputs that are no tensors; a number that is the same as in the last call is not sent again."""
        numbers, values = self.numbers, []
        for i, getter in enumerate(self.getters):
            value = getter()
            if not isinstance(value, jax.Array):
                before, array = numbers[i]
                if value is not before:
                    array = jax.device_put(value)
                    numbers[i] = value, array
                value = array
            values.append(value)
        return values

    def lowered(self, leaves):
        """The program as jax lowers it, for the values that a call would give it now."""
        return self.early.lower(*self._values(leaves))

    def examine(self):
        """Raise the error of a value check that failed in the last call."""
        failed, self.failed = np.asarray(self.failed), None
        if failed.any():
            raise self.errors[int(failed.argmax())].with_traceback(None)

    def _finish(self, outs, leaves):
        for storage, k in self.writes:
            storage.value = outs[k]
            storage.epoch += 1
        for counter, n in self.bumps:
            counter.version += n
        for i, k in self.arg_writes:
            write(leaves[i], outs[k])
        for t, k in self.grad_writes:
            write(t._grad, outs[k])
        for storage, k in self.alive:
            storage.value = outs[k]
        node = self._node(outs, leaves) if self.metas else None
        maker = Maker(outs, leaves, lambda root: (node, root))
        for holder, made in self.grads:
            maker.make(holder)._grad = None if made is None else maker.make(made)
        return jax.tree.unflatten(self.out_tree, [maker.make(x) for x in self.result])

    def _node(self, outs, leaves):
        if self.freed:
            return CompiledFunctionBackward(None, None, self.metas, [])
        edges = []
        for arg, leaf, edge in self.sinks:
            t = leaf if arg is None else leaves[arg]
            edges.append(edge if t is None else nodes.edge_of(t))
        return CompiledFunctionBackward(self.after, outs[self.n_early :], self.metas, edges)


def _taking(order, after):
    """The second half as a function of (residuals, gradients of all roots), which reads those in ``order``."""
    run = jax.jit(jaxpr_as_fun(bind(after, {})))
    return lambda residuals, seeds: run(*residuals, *all_settled([seeds[k] for k in order]))


def _alive(survivors):
    """(storage, slot) of the storages made while tracing that something still holds."""
    alive = [(ref(), slot) for ref, slot in survivors if ref() is not None]
    if alive:
        del alive
        gc.collect()
        alive = [(ref(), slot) for ref, slot in survivors if ref() is not None]
    return alive
