"""Programs: a traced function as one XLA program, and what each call does around it.

Note [Donation]
~~~~~~~~~~~~~~~
A program that replaces the values of parameters computes them in the memory of the old ones, which are gone then. No
other thread may be left with one of those. So a call first puts tokens into the storages: recorded values (Pending)
that the program itself computes. Who reads a storage from then on gets a token, and waits (``settle``) for the new
value. Who had read the array before holds a reference to it, which the count of references shows: it is copied. Another
program that has read it waits too, as it looks again before it puts its own tokens there: so no step on shared tensors
is lost.
Where there is one thread, nobody reads meanwhile, and there are no tokens.

A signal (Ctrl-C) may raise between any two instructions of Python, and the old values must not be gone then with no
new ones in their places. So one call in C runs the program and keeps its outputs; if anything raises after it, the call
does all that it still had to do before it goes on raising (``recover``).

Note [Ahead]
~~~~~~~~~~~~
To look whether all guards hold takes about as long as a small program. Where a program overwrites nothing and its
numbers can be asked for without changing anything, to run it for nothing does no harm: so it is started first, and the
guards are asked while it computes. Only when they hold do its outputs become values of anything; if not, they are
dropped, and the call begins anew (``Stale``). A function whose guards fail that way again and again waits for them.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from itertools import islice, starmap
from sys import getrefcount
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from torchlike._base import exhausted
from torchlike._base.device import jax_device, of_array, stays
from torchlike._base.jaxprs import Literal, jaxpr_as_fun
from torchlike._base.state import state
from torchlike._base.threads import alone
from torchlike._core.autograd import engine
from torchlike._core.autograd import node as nodes
from torchlike._core.tensor.tensor import Tensor, device_of, value_of
from torchlike._executor import shifted, together, value_checks
from torchlike._executor.direct import Direct
from torchlike._executor.pending import Array, Pending, all_settled, kind_of, pending, settled
from torchlike._executor.references import ONE, shared
from torchlike._executor.spread import beside, constrained, layout_of
from torchlike._transforms.capture.boundary import CompiledFunctionBackward
from torchlike._transforms.capture.calling import (
    Stale,
    Unsettled,
    ahead,
    finishing,
    holding,
    sharing,
    straight,
    uniting,
)
from torchlike._transforms.capture.capture import ANY
from torchlike._transforms.capture.cycles import unreachable
from torchlike._transforms.capture.numbers import Numbers
from torchlike._transforms.capture.outputs import New, placed
from torchlike._transforms.capture.packing import Packed, Packing, packs
from torchlike._transforms.capture.recording import Unsupported
from torchlike._transforms.capture.split import bind, calls_host, constraint_of, split, used, with_outputs
from torchlike._transforms.capture.structure import containers

if TYPE_CHECKING:
    from torchlike._base.device import device as Device
    from torchlike._base.jaxprs import Jaxpr
    from torchlike._core.tensor.storage import Storage
    from torchlike._decl.typed import Value, Values
    from torchlike._transforms.capture.capture import Trace

_ORDER = ("storage", "arg", "grad", "dynamic")  # of a program's inputs
_ATTEMPTS = 100  # at finishing or undoing a call that is interrupted again and again
_SMALL = 4096  # bytes below which equal outputs become one array
_COPIED, _FEW = 1 << 20, 64  # bytes and arrays up to which what a program replaces is not overwritten; see Note [Ahead]
_MANY = 256  # inputs from which the executable is called at once: with 161 that gains nothing, with 602 some percent
_WASTED = 3  # runs for nothing after which a program waits for its guards


class Moved(Exception):
    """What the program takes for granted has just changed; it has done nothing."""


class Program:
    """One compiled function for one kind of arguments.

    Attributes:
        computes: whether calls of it compute anything, or are only planned.
        fixed: the storages it reads; the first ``donated`` of them give their memory to what replaces them.
            lent: how many hold tokens while other threads may look; see Note [Donation].
            arguments: the positions of the arguments it reads. numbers: gives its other inputs.
        passes: whether it returns, changes or stores containers that it is given. width: arguments before those.
        getters: of the arguments that are read from objects. owned: ids of the storages it reads.
        errors, failed: what its value checks raise, and the flags of former calls, which the next call reads:
            so that no call waits for its own results.
        tokens: what the storages hold while their arrays are overwritten. lock: held meanwhile; see Note [Donation].
        adding: what is held by all that add to ``.grad``, if the program does.
        effects, kept: what it does to Python objects, or None, and how the tensors are made that it gives them.
        again: whether it may run again; else only for the call that was traced.
        packing: runs it where it is the one thread, with what it replaces as one array; or None. See Note [Packing].
        direct: how its executable is called where ``early`` need not be asked; None for programs of few inputs.
        hold: the guards that are asked while it computes, or None. wasted: how often they did not hold then.
    """

    computes = True

    def __init__(self, trace: Trace) -> None:
        self.samples = trace.record.samples if trace.record.samples.draws else None
        alive, held = _alive(trace)
        self.again = not held
        kept = [*range(trace.n_kept), *[slot for _, slot in alive]]
        gradients = list(range(trace.n_early, len(trace.jaxpr.outvars)))
        jaxpr, kinds = used(with_outputs(trace.jaxpr, kept + gradients), self._sources(trace))
        inputs = [k for k in kinds if k[0] != "seed"]
        slots = self._outputs(trace, kept, [x for kind, x in inputs if kind == "storage"])
        self.n_early = len(slots)
        jaxpr = jaxpr.replace(outvars=[trace.jaxpr.outvars[k] for k in slots + gradients])
        self._effects(trace, alive)
        late = [kind == "seed" for kind, _ in kinds]
        early, after = split(jaxpr, late, self.n_early)
        self.base = [trace.leaves[i]._view is None for kind, i in inputs if kind == "arg"]
        self._compile(early, inputs, trace)
        self.after = self._taking([k for kind, k in kinds if kind == "seed"], after) if any(late) else None
        asked = trace.demanded and (self.grads or self.grad_writes)
        self.lock, self.adding = threading.RLock(), engine.adding if asked and not self.calls_host else None
        self.finish: Callable[..., Any] | None = None
        self.united, self.grads_hold = uniting(self), holding(self, ANY)
        self.shares = sharing(self, trace)
        self._kept_shares = trace.sharing  # keeps alive what ``shares`` knows by its id
        self.inference, self.wasted = state.inference, 0
        self.hold: Callable[[], bool] | None = None
        if self.errors and self.computes:
            value_checks.watch(self, self.failed, self.errors)

    def _outputs(self, trace: Trace, slots: Sequence[int], storages: Sequence[Storage]) -> list[int]:
        """The slots to compute, each small value once: first those that replace an input, in the inputs' order.

        XLA gives the memory of donated inputs to outputs of their shape in this order, so that every value is
        computed in its own place. Sets ``places``, the output of each slot, and ``replaced``, {id of a storage
        that is donated: its place}.
        """
        variables = trace.jaxpr.outvars
        same = {}
        for slot in slots:
            same.setdefault(_identity(variables[slot], slot), []).append(slot)
        alone = {found[0] for found in same.values() if len(found) == 1}
        written = {id(s): slot for s, slot in trace.writes if slot in alone}
        together = {id(s) for pair in trace.record.together for s in pair}
        first = [written[id(s)] for s in storages if id(s) in written and id(s) not in together]
        taken = set(first)
        order = first + [found[0] for found in same.values() if found[0] not in taken]
        place = {slot: k for k, slot in enumerate(order)}
        self.places = {slot: place[found[0]] for found in same.values() for slot in found}
        self.replaced = {id(s): place[slot] for s, slot in trace.writes if slot in taken}
        return order

    def _effects(self, trace: Trace, alive: Sequence[Any]) -> None:
        places = self.places
        self.arg_writes = [(i, places[k]) for i, k in trace.arg_writes]
        bumps = {id(c): (c, n) for c, n in trace.bumps if id(c) not in trace.grad_storages}
        self.grads, self.demanded = [(h, placed(x, places)) for h, x in trace.grads], trace.demanded
        writes = [(s, places[k]) for s, k in trace.writes]
        self.writes = [(s, k, bumps.pop(id(s), (s, 0))[1]) for s, k in writes if id(s) not in trace.grad_storages]
        self.bumps = list(bumps.values())
        self.grad_writes = [(trace.grad_storages[id(s)], k) for s, k in writes if id(s) in trace.grad_storages]
        specs = {id(x): placed(x, places) for x in (*trace.result, *trace.kept)}  # one for each object
        self.result, self.out_tree = [specs[id(x)] for x in trace.result], trace.out_tree
        self.out_joints = trace.out_joints
        self.kept, self.effects = [specs[id(x)] for x in trace.kept], trace.effects
        self.metas, self.sinks, self.freed = trace.metas, trace.sinks, trace.freed
        self.errors, self.failed = trace.errors, []
        self.getters, self.passes, self.width = trace.getters, trace.passes, len(trace.leaves)
        self.flags = places[trace.n_kept - 1] if trace.errors else None
        self.alive = [(storage, places[slot]) for storage, slot in alive]

    def _sources(self, trace: Trace) -> list[tuple[str, Any]]:
        """For each array the jaxpr read: ("storage", it), ("arg", position), ("dynamic", getter) ..."""
        seeds = {id(s): k for k, s in enumerate(trace.seeds)}
        kinds, self.together = [], trace.record.together
        for const in trace.consts:
            if id(const) in trace.record.dynamic:
                kinds.append(("dynamic", trace.record.dynamic[id(const)]))
            elif id(const) in seeds:
                kinds.append(("seed", seeds[id(const)]))
            else:
                kinds.append(("constant", const))
        return kinds + [self._owned(storage, trace) for storage in trace.sources]

    def _owned(self, storage: Storage, trace: Trace) -> tuple[str, Any]:
        if id(storage) in trace.argument_storages:
            return "arg", trace.argument_storages[id(storage)]
        if id(storage) in trace.grad_storages:
            return "grad", trace.grad_storages[id(storage)]
        return "storage", storage

    def _compile(self, early: Jaxpr, kinds: Sequence[Any], trace: Trace) -> None:
        """The first half; its inputs are fixed (the donated ones first), arguments, gradients and dynamic ones."""
        constants = {i: x for i, (kind, x) in enumerate(kinds) if kind == "constant"}
        left = [k for k in kinds if k[0] != "constant"]
        places = {name: [i for i, (kind, _) in enumerate(left) if kind == name] for name in _ORDER}
        places["storage"].sort(key=lambda i: self.replaced.get(id(left[i][1]), len(self.places)))
        closed, axis = bind(early, constants, [i for name in _ORDER for i in places[name]]), together.axis_of(early)
        run = jaxpr_as_fun(closed) if axis is None else together.anchored(closed)
        run = constrained(run, self._layouts())
        self.fixed, self.arguments, self.with_grad, dynamic = ([left[i][1] for i in places[name]] for name in _ORDER)
        self.numbers = numbers = Numbers(dynamic, self.samples)
        others = len(left) - len(dynamic)

        def program(*values: Value) -> Any:
            return run(*values[:others], *numbers.spread(values[others:]))

        self.calls_host = axis is not None or calls_host(early)
        self.direct: Direct | None = None
        self.packing: Packing | None = None
        self.owned = {id(s) for s in self.fixed}
        values = [settled(s.value) for s in self.fixed[: len(self.replaced)]]
        self.lent = 0 if self.calls_host or set(map(type, values)) - {Array} else len(values)
        self.small = len(values) <= _FEW and sum([v.size * v.dtype.itemsize for v in values]) <= _COPIED
        self.donated = 0 if self.small else self.lent
        self.tokens = [pending(kind_of(v.aval, v.sharding), self) for v in values[: self.lent]]
        if axis is not None:
            self.early = together.spread(program, axis)
            return
        self.early = self._jitted(program, self.donated)
        self._pack(program, early.outvars)
        if len(left) >= _MANY and not self.calls_host:
            self.direct = Direct(self.early)
        if stays():
            layout = constraint_of(early)
            if trace.record.spread or layout is not None:
                self._around(lambda run, values: run(*beside(values, layout)))
            elif trace.record.place is not None:
                self._stay(trace, trace.record.place)

    def _around(self, call: Callable[[Any, Values], Any]) -> None:
        """Let ``call(run, inputs)`` run it."""
        run = self.early

        def around(*values: Value) -> Any:
            return call(run, values)

        around.lower = run.lower  # type: ignore[attr-defined]
        self.early = around

    def _stay(self, trace: Trace, place: Device) -> None:
        """Let it compute on the one device of its function: numbers of the CPU go there with each call."""
        given = [settled(s.value) for s in self.fixed] + [value_of(trace.leaves[i]) for i in self.arguments]
        away = [i for i, v in enumerate(given) if isinstance(v, jax.Array) and of_array(v) != place]
        written = {id(s) for s, _, _ in self.writes} | {id(trace.leaves[i]._storage) for i, _ in self.arg_writes}
        sources = [*self.fixed, *[trace.leaves[i]._storage for i in self.arguments]]
        held = [(h.arg, h.tensor) for h, _ in [*self.grads, *self.grad_writes]]
        held += [(h.arg, h.tensor) for h in self.with_grad] + [(arg, leaf) for arg, leaf, _ in trace.sinks]
        holders = [x for arg, t in held if isinstance(x := t if arg is None else trace.leaves[arg], Tensor)]
        if any([given[i].ndim or id(sources[i]) in written for i in away]) or {*map(device_of, holders)} - {place}:
            raise Unsupported(f"computes with tensors on other devices than {place}, or writes to some")
        target, all_inside = jax_device(place), len(given) > len(away)

        def there(run: Callable[..., Any], values: Values) -> Any:
            found = list(values)
            for i in away:
                found[i] = jax.device_put(found[i], target)
            if all_inside:
                return run(*found)
            with jax.default_device(target):  # nothing that it reads says where
                return jax.device_put(run(*found), target)

        if away or not all_inside:
            self._around(there)

    def _pack(self, program: Callable[..., Any], outs: Sequence[Any]) -> None:
        """Let what it replaces be one array, if it is small enough for that to pay; see Note [Packing]."""
        replaced = self.fixed[: self.lent]
        kinds = [v.aval for v in outs[: self.lent]]
        if self.small and self.lent and not stays() and packs([settled(s.value) for s in replaced], kinds):
            self.packing = Packing(program, lambda packed: self._jitted(packed, 0), self.early, replaced)

    def _jitted(self, program: Callable[..., Any], donated: int) -> Any:
        """``program`` as jax compiles it, which gives the memory of its first ``donated`` inputs to its results."""
        return jax.jit(shifted.apart(program), donate_argnums=tuple(range(donated)), keep_unused=stays())

    def _layouts(self) -> dict[int, Any]:
        """{output: its layout} of those that replace a value spread over devices, or are the gradient of one."""
        found = {k: layout_of(s.value) for s, k, _ in self.writes}
        for h, m in self.grads:
            if h.arg is None and isinstance(m, New) and h.tensor._view is None:
                found[m.slot] = layout_of(h.tensor._storage.form)
        for h, k in self.grad_writes:
            if h.arg is None and h.tensor._view is None:
                found[k] = layout_of(h.tensor._storage.form)
        return {k: layout for k, layout in found.items() if layout is not None}

    def _taking(self, order: Sequence[int], after: Jaxpr) -> Callable[..., Any]:
        """The second half as a function of (residuals, gradients of all roots), which reads those in ``order``."""
        closed, axis = bind(after, {}), together.axis_of(after)
        run = (
            self._jitted(jaxpr_as_fun(closed), 0) if axis is None else together.spread(together.anchored(closed), axis)
        )
        return lambda residuals, seeds: run(*residuals, *all_settled([seeds[k] for k in order]))

    # -- calls -----------------------------------------------------------------------------------
    run = functools.cached_property(lambda self: straight(self, concurrent=True))
    run_alone = functools.cached_property(lambda self: straight(self, concurrent=False))

    _ahead = functools.cached_property(lambda self: ahead(self, self.hold, concurrent=True))
    _ahead_alone = functools.cached_property(lambda self: ahead(self, self.hold, concurrent=False))

    def look_ahead(self, hold: Callable[[], bool]) -> None:
        """Run ahead of ``hold`` from now on, if that does no harm. See Note [Ahead]."""
        harmless = self.small and self.numbers.pure and not (self.calls_host or self.getters or self.passes)
        if harmless and self.hold is None and self.wasted < _WASTED:
            self.hold = hold
            self._ahead_alone if alone() else self._ahead  # noqa: B018 (written now: the next calls are quick)

    def ahead(self, leaves: Any) -> Any:
        """The call, before it is known whether it is the one to make.

        Raises Stale, with nothing done, if it is not, and Unsettled if other threads are at it.
        """
        if alone():
            return self._ahead_alone(leaves)
        if self.adding is None:
            with self.lock:
                return self._ahead(leaves)
        with self.adding, self.lock:
            return self._ahead(leaves)

    def waste(self) -> None:
        """It ran ahead of guards that did not hold."""
        self.wasted += 1
        if self.wasted >= _WASTED:
            self.hold = None

    def holds(self, leaves: Any, united: bool = False) -> bool:
        """Whether storages that are one input hold one array (or are ``united``), tensors have the gradients that they
        had, and the arguments share what they shared.
        """
        if not ((united or self.united()) and self.grads_hold() and self.shares(leaves)):
            return False
        return not self.getters or self._apart(leaves)

    def _apart(self, leaves: list[Any]) -> bool:
        """Whether the arguments that are read from objects share no memory with others."""
        found = [id(g()._storage) for g in self.getters]
        given = [id(x._storage) for x in leaves if isinstance(x, Tensor)]
        return len({*found}) == len(found) and self.owned.isdisjoint(found) and not {*given}.intersection(found)

    def __call__(self, leaves: list[Any], given: Any = (), first: bool = False) -> Any:
        """Run on the arguments, ``leaves`` of ``given``: returns what the function returns, and does what it does.

        Raises Moved, with nothing done, where another thread has just changed a ``.grad`` that the program adds to.
        """
        if self.failed:
            self.examine()
        if self.getters:
            leaves = [*leaves, *[g() for g in self.getters]]
        if self.passes:
            leaves = [*leaves, *containers(given)]
        numbers = self.numbers.first if first else self.numbers()
        while True:
            try:
                return self._call(leaves, numbers)
            except Unsettled as missing:
                waiting = missing.args
            all_settled(waiting)  # with no lock held: others compute them

    def _call(self, leaves: list[Any], numbers: Any) -> Any:
        if alone():
            return self.run_alone(leaves, numbers)
        if self.adding is None:
            with self.lock:
                return self.run(leaves, numbers)
        with self.adding, self.lock:
            if not self.grads_hold():
                raise Moved
            return self.run(leaves, numbers)

    # -- memory that is overwritten; see Note [Donation] -------------------------------------------
    def unshare(self, values: list[Any], limit: int) -> None:
        """Copy those arrays to be overwritten that somebody else holds."""
        for i in range(self.donated):
            if max(map(getrefcount, islice(values, i, i + 1))) > limit or shared(values[i]):
                values[i] = jnp.array(settled(values[i]))

    def recover(
        self, values: list[Any], error: BaseException, kept: list[Any], leaves: list[Any], ahead: bool = False
    ) -> Any:
        """Deal with ``error``: finish what a call that has run still has to do, or undo what it has begun.

        Run once more where a storage held what was recorded. ``kept``: holds the outputs, if it has run. ``ahead``: of
        its guards, which tell more than the error.
        """
        error = exhausted.told(error)
        for _ in range(_ATTEMPTS):
            try:
                return self._recover(values, error, kept, leaves, ahead)
            except BaseException as again:
                if again is error or isinstance(again, Unsettled):
                    raise
                error = again  # came in between
        raise error

    def _recover(self, values: list[Any], error: BaseException, kept: list[Any], leaves: list[Any], ahead: bool) -> Any:
        if kept:
            self._finish(kept[0], leaves)
            raise error
        if ahead and isinstance(error, Exception) and not any([error is e for e in self.errors]):
            error = Stale()
        found = [v for v in values if v.__class__ is Pending] if isinstance(error, TypeError | ValueError) else []
        missing = [v for v in found if v.array is None]
        if found and not missing:
            whole = all_settled(values)
            for i in range(self.donated):
                whole[i] = jnp.array(whole[i])
            try:
                kept.extend(starmap(self.early, [whole]))
                return self._finish(kept[0], leaves)
            except BaseException as again:
                if kept:
                    raise
                error = again
        for storage, token, value in zip(self.fixed, self.tokens, values, strict=False):
            if storage.value is token:  # nobody has written meanwhile
                storage.value = value
            token.array = value.array if value.__class__ is Pending else value
        self.tokens[:] = [pending(token.kind, self) for token in self.tokens]
        raise Unsettled(*missing) if missing else error

    def _finish(self, outs: list[Any], leaves: list[Any]) -> Any:
        """Write what a program has computed."""
        if self.finish is None:
            self.finish = finishing(self)
        if outs.__class__ is Packed:
            self.packing.commit(outs)  # type: ignore[union-attr, arg-type]
        self.finish(outs, leaves)
        if self.errors:
            self.failed.append(outs[self.flags])
        self.redeem(outs)
        return outs

    def redeem(self, outs: list[Any]) -> None:
        """Other threads took tokens: they stand for the new values from now on."""
        taken = [count > ONE for count in map(getrefcount, self.tokens)]
        for i, storage in enumerate(self.fixed[: self.lent]):
            if taken[i]:
                self.tokens[i].array = outs[self.replaced[id(storage)]]
                self.tokens[i] = pending(self.tokens[i].kind, self)

    def settle(self, token: Any) -> None:
        """Wait for the value that takes the place of one that is being overwritten."""
        with self.lock:
            if token.array is None:
                raise RuntimeError("this value is being computed by the compiled function that this code interrupts")

    def lowered(self, leaves: list[Any]) -> Any:
        """The program as jax lowers it, for the values that a call would give it now."""
        return self.early.lower(*self.values(leaves))

    def values(self, leaves: list[Any], numbers: Any = None) -> Values:
        """The values that a call would give it now; ``numbers``: those that are no tensors, None to read them."""
        values = [s.value for s in self.fixed] + [value_of(leaves[i]) for i in self.arguments]
        values += [(h.tensor if h.arg is None else leaves[h.arg])._grad._storage.value for h in self.with_grad]
        return all_settled([*values, *(self.numbers() if numbers is None else numbers)])

    def examine(self) -> None:
        """Raise the error of a value check that failed in a former call."""
        value_checks.examine(self.failed, self.errors)

    def history(self, outs: list[Any], leaves: list[Any]) -> CompiledFunctionBackward:
        """The node of the results."""
        if self.freed:
            return CompiledFunctionBackward(None, None, self.metas, [])
        edges = []
        for arg, leaf, edge in self.sinks:
            t = leaf if arg is None else leaves[arg]
            edges.append(edge if t is None else nodes.edge_of(t))
        return CompiledFunctionBackward(self.after, outs[self.n_early :], self.metas, edges)


def _identity(variable: Any, slot: int) -> Any:
    """Equal for outputs that may be one array: the same variable of the jaxpr, with few elements."""
    if isinstance(variable, Literal) or variable.aval.size * variable.aval.dtype.itemsize >= _SMALL:
        return slot
    return variable


def _alive(trace: Trace) -> tuple[list[Any], bool]:
    """(storage, slot) of the storages made while tracing that something still holds, and whether something is held."""
    if not any([ref() is not None for ref, _ in trace.survivors]) and not trace.kept_aliases():
        return [], False
    gone = unreachable(trace.record, trace.left)
    alive = [(ref(), slot) for ref, slot in trace.survivors]
    alive = [(storage, slot) for storage, slot in alive if storage is not None and id(storage) not in gone]
    return alive, bool(alive) or trace.kept_aliases(gone)
