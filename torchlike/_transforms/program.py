"""Programs: a traced function as one XLA program, and what each call does around it."""

import gc
from itertools import islice
from operator import attrgetter
from sys import getrefcount

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Literal, jaxpr_as_fun

from torchlike._core import node as nodes
from torchlike._core.mutation import write
from torchlike._core.tensor import value_of
from torchlike._executor import immediate
from torchlike._executor.pending import Pending, all_settled, settled
from torchlike._transforms.boundary import CompiledFunctionBackward
from torchlike._transforms.outputs import Maker, placed
from torchlike._transforms.recording import Entry
from torchlike._transforms.split import bind, split, without_constants
from torchlike._transforms.world import ANY

_ORDER = ("storage", "arg", "grad", "dynamic")  # of a program's inputs
_SMALL = 4096  # bytes below which equal outputs become one array
_HELD = 3  # references to an array that only its storage holds, as counted here
_value = attrgetter("value")
_grad_value = attrgetter("_grad._storage.value")


class Program:
    """One compiled function for one kind of arguments.

    Attributes:
        fixed: the storages it reads; the first ``donated`` of them give their memory to what replaces them.
            arguments: the positions of the arguments it reads. numbers: gives its other inputs.
        errors, failed: what its value checks raise, and the flags of the last call, which the next call reads:
            so that no call waits for its own results.
        again: whether it may run again; else only for the call that was traced.
    """

    def __init__(self, trace):
        alive = _alive(trace.survivors)
        self.again = not alive
        kinds = self._sources(trace)
        inputs = [k for k in kinds if k[0] != "seed"]
        slots = self._outputs(trace, [slot for _, slot in alive], [x for kind, x in inputs if kind == "storage"])
        self.n_early = len(slots)
        jaxpr = without_constants(trace.jaxpr, slots + list(range(trace.n_early, len(trace.jaxpr.outvars))))
        self._effects(trace, alive)
        late = [kind == "seed" for kind, _ in kinds]
        early, after = split(jaxpr, late, self.n_early)
        self._compile(early, inputs)
        self.after = _taking([k for kind, k in kinds if kind == "seed"], after) if any(late) else None

    def _outputs(self, trace, alive, storages):
        """The slots to compute, each small value once: first those that replace an input, in the inputs' order.

        XLA gives the memory of donated inputs to outputs of their shape in this order, so that every value is
        computed in its own place. Sets ``places``, the output of each slot, and ``replaced``, {id of a storage
        that is donated: its place}.
        """
        slots, variables = [*range(trace.n_kept), *alive], trace.jaxpr.outvars
        same = {}
        for slot in slots:
            same.setdefault(_identity(variables[slot], slot), []).append(slot)
        alone = {found[0] for found in same.values() if len(found) == 1}
        written = {id(s): slot for s, slot in trace.writes if slot in alone}
        together = {id(s) for group in self.together for s in group}
        first = [written[id(s)] for s in storages if id(s) in written and id(s) not in together]
        taken = set(first)
        order = first + [found[0] for found in same.values() if found[0] not in taken]
        place = {slot: k for k, slot in enumerate(order)}
        self.places = {slot: place[found[0]] for found in same.values() for slot in found}
        self.replaced = {id(s): place[slot] for s, slot in trace.writes if slot in taken}
        return order

    def _effects(self, trace, alive):
        places = self.places
        self.arg_writes = [(i, places[k]) for i, k in trace.arg_writes]
        bumps = {id(c): (c, n) for c, n in trace.bumps if id(c) not in trace.grad_storages}
        self.grads, self.demanded = [(h, placed(x, places)) for h, x in trace.grads], trace.demanded
        writes = [(s, places[k]) for s, k in trace.writes]
        self.writes = [(s, k, bumps.pop(id(s), (s, 0))[1]) for s, k in writes if id(s) not in trace.grad_storages]
        self.bumps = list(bumps.values())
        self.grad_writes = [(trace.grad_storages[id(s)], k) for s, k in writes if id(s) in trace.grad_storages]
        self.result, self.out_tree = [placed(x, places) for x in trace.result], trace.out_tree
        self.metas, self.sinks, self.freed = trace.metas, trace.sinks, trace.freed
        self.errors, self.failed = trace.errors, None
        self.flags = places[trace.n_kept - 1] if trace.errors else None
        self.alive = [(storage, places[slot]) for storage, slot in alive]

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

    def _compile(self, early, kinds):
        """The first half; its inputs are fixed (the donated ones first), arguments, gradients and dynamic ones."""
        constants = {i: x for i, (kind, x) in enumerate(kinds) if kind == "constant"}
        left = [k for k in kinds if k[0] != "constant"]
        places = {name: [i for i, (kind, _) in enumerate(left) if kind == name] for name in _ORDER}
        places["storage"].sort(key=lambda i: self.replaced.get(id(left[i][1]), len(self.places)))
        self.donated = len(self.replaced)
        run = jaxpr_as_fun(bind(early, constants, [i for name in _ORDER for i in places[name]]))

        def program(*values):
            return run(*values)

        self.early = jax.jit(program, donate_argnums=tuple(range(self.donated)))
        self.fixed, self.arguments, self.with_grad, dynamic = ([left[i][1] for i in places[name]] for name in _ORDER)
        self.first = [array for array, _ in dynamic]
        self.numbers = Numbers([getter for _, getter in dynamic])

    # -- calls -----------------------------------------------------------------------------------
    def holds(self):
        """Whether storages that held one array when the program was made still do."""
        return (
            all(s.value is group[0].value for group in self.together for s in group)
            and all(t._grad is not None and t._grad._view is None for t in self.with_grad)
            and all(holder.arg is not None or _has(holder.tensor._grad, grad) for holder, grad in self.demanded)
        )

    def __call__(self, leaves, first=False):
        """Run on the arguments: returns what the function returns, and does what it does."""
        if self.failed is not None:
            self.examine()
        values = self._values(leaves, self.first if first else None)
        try:
            outs = self._run(values)
        except (TypeError, ValueError):  # what a storage holds may still have to be computed
            if all_settled(values) is values:
                raise
            del values
            for storage in self.fixed:
                storage.value = settled(storage.value)
            outs = self._run(self._values(leaves, self.first if first else self.numbers.arrays))
        if first:
            self.first = None
        if self.errors:
            self.failed = outs[self.flags]
        return self._finish(outs, leaves)

    def _run(self, values):
        donated = self.donated
        if donated and max(map(getrefcount, islice(values, donated))) > _HELD:  # somebody else holds an array
            for i in range(donated):
                if getrefcount(values[i]) > _HELD:
                    values[i] = jnp.array(values[i])
        return self.early(*values)

    def _values(self, leaves, dynamic=None):
        values = list(map(_value, self.fixed))
        taken = [value_of(leaves[i]) for i in self.arguments]
        taken += map(_grad_value, self.with_grad)
        values += map(settled, taken) if Pending in map(type, taken) else taken
        values += self.numbers() if dynamic is None else dynamic
        return values

    def lowered(self, leaves):
        """The program as jax lowers it, for the values that a call would give it now."""
        return self.early.lower(*all_settled(self._values(leaves)))

    def examine(self):
        """Raise the error of a value check that failed in the last call."""
        failed, self.failed = np.asarray(self.failed), None
        if b"\1" in failed.tobytes():
            raise self.errors[int(failed.argmax())].with_traceback(None)

    def _finish(self, outs, leaves):
        for storage, k, n in self.writes:
            storage.value = outs[k]
            storage.epoch += 1
            storage.version += n
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


class Numbers:
    """The inputs that are no tensors; a number that is the same as in the last call is not sent again."""

    def __init__(self, getters):
        self.getters, self.arrays = [], [None] * len(getters)
        tables = {}
        for i, getter in enumerate(getters):
            if isinstance(getter, Entry):
                tables.setdefault(getter.source, []).append((i, getter.key))
            else:
                self.getters.append((i, getter))
        self.tables = [(source, [key for _, key in found], [i for i, _ in found]) for source, found in tables.items()]
        self.before = [None] * len(getters)

    def __call__(self):
        for source, keys, places in self.tables:
            table = source()
            for i, key in zip(places, keys, strict=True):
                if table[key] is not self.before[i]:
                    self._changed(i, table[key])
        for i, getter in self.getters:
            value = getter()
            if value is not self.before[i] or isinstance(value, jax.Array):
                self._changed(i, value)
        return self.arrays

    def _changed(self, i, value):
        before = self.before[i]
        if isinstance(value, jax.Array):
            self.arrays[i] = value
        elif not (type(value) is type(before) is float and repr(value) == repr(before)):  # 0.0 == -0.0
            self.arrays[i] = jax.device_put(value)
        self.before[i] = value


def _identity(variable, slot):
    """Equal for outputs that may be one array: the same variable of the jaxpr, with few elements."""
    if isinstance(variable, Literal) or variable.aval.size * variable.aval.dtype.itemsize >= _SMALL:
        return slot
    return variable


def _has(grad, demanded):
    return grad is demanded or (demanded is ANY and grad is not None)


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
