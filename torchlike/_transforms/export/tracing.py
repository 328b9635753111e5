"""Tracing for export: a function as a jaxpr from named tensors and arguments to results, writes and gradients.

Unlike a compiled function, which belongs to the tensors that it was traced with, an exported one is to run without
them: the tensors that it reads are inputs, whose arrays are given to every call, and how its results are made is said
in plain numbers and texts that a file can hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from torchlike._base.jaxprs import jaxpr_as_fun
from torchlike._base.rng import default_generator
from torchlike._base.state import enable_grad
from torchlike._core.autograd import engine
from torchlike._core.autograd import node as nodes
from torchlike._core.conversion.lengths import leave_to_tensors
from torchlike._core.tensor.mutation import become, set_history
from torchlike._core.tensor.storage import holding
from torchlike._core.tensor.tensor import Tensor, array_of, value_of, wrap
from torchlike._executor.pending import settled
from torchlike._transforms.capture.boundary import explore
from torchlike._transforms.capture.overlay import capturing
from torchlike._transforms.capture.recording import Capture, Unsupported, last_line
from torchlike._transforms.capture.split import bind, split, with_reads
from torchlike._transforms.export.output_specs import packed_view

if TYPE_CHECKING:
    from torchlike._base.jaxprs import ClosedJaxpr, Jaxpr
    from torchlike._decl.derive import Kernel
    from torchlike._decl.typed import Static, Value, Values

_PLAIN = (bool, int, float, str, type(None))


class Wanted:
    """Which gradients a trace computes too.

    Attributes:
        state, arguments: numbers of the tensors that are to require grad. seeds: (shape, dtype) of the gradient of
            each result that has one.
    """

    def __init__(self, state: Any, arguments: Any, seeds: Any) -> None:
        self.state, self.arguments, self.seeds = frozenset(state), frozenset(arguments), seeds


class ExportCapture(Capture):
    """A capture whose value checks raise what eager code would raise, by type if not in the very words."""

    portable = True
    hosted = False  # its program draws from the counter's stream, wherever it is loaded

    def __init__(self, start: int, shapes: Iterable[Any]) -> None:
        super().__init__(start)
        symbols = set(map(type, filter(jax.export.is_symbolic_dim, chain.from_iterable(shapes))))
        self.symbolic = bool(symbols)
        for symbol in symbols:
            leave_to_tensors(symbol)

    def reads(self, t: Tensor) -> None:
        """What is read are tracers, which refuse."""

    def examine(self, bad: Any, op: Any, static: Static, values: Values) -> None:
        error = _raised(op, static, values)
        if error is None:
            with jax.ensure_compile_time_eval():
                found = (_raised(op, static, [_filled(v, fill) for v in values]) for fill in (_LARGEST, 0))
                kind = next((type(e) for e in found if e is not None), RuntimeError)
            error = kind(f"{op.name}(): its arguments have values that it refuses")
        error.args = (f"{error.args[0]} [found by an exported program; the call is:{last_line()}]",)
        self.flags.append(bad)
        self.errors.append(error)


def _raised(op: Kernel, static: Static, values: Values) -> Any:
    """What the check of ``op`` raises; None if that depends on values that are not known."""
    try:
        error = op.examine(static, values)[1]
        return error() if callable(error) else error
    except Exception:
        return None


_LARGEST = object()


def _filled(v: Any, fill: Any) -> Any:
    """An array like ``v`` that most checks refuse: of zeros, or of the largest integers or negative numbers."""
    if not isinstance(v, jax.Array):
        return v
    shape = [n if type(n) is int else 2 for n in v.shape]
    if fill is _LARGEST:
        fill = jnp.iinfo(v.dtype).max if v.dtype.kind in "iu" else -1
    return jnp.full(shape, fill, v.dtype)


class ExportTrace:
    """One trace of ``function(leaves) -> results``, a flat list.

    Args:
        leaves: the arguments, tensors and constants. avals: {number of a tensor argument: its shape and dtype}.
        state: the tensors that are inputs beside the arguments. current: gives, when the function has run, the
            tensors that stand at their places. wanted: a Wanted, or None for no gradients.

    Attributes:
        found: tensors from outside that the function reads or writes, beside those of ``state``: they have to be
            inputs too, and the function traced again.
        results: how each result is made: a dict for ``stored.Maker``. metas: {number of a result: (shape, dtype)} of
            those that may have a gradient.
        state_writes, argument_writes: (number, slot). errors: what the value checks raise, whose flags are the slot
            ``flags``. draws: how many random draws a call makes.
        roots: the numbers of the results that require grad. sinks: ("state" or "argument", number) of each gradient.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        leaves: list[Any],
        avals: Mapping[Any, Any],
        state: Sequence[Any],
        current: Any,
        wanted: Wanted | None = None,
    ) -> None:
        self.leaves, self.state, self.wanted = leaves, state, wanted or Wanted((), (), [])
        self.record = ExportCapture(nodes.next_sequence(), [x.shape for x in avals.values()])
        self.slots, self.places = [], {}
        self.order = [i for i, x in enumerate(leaves) if isinstance(x, Tensor)]
        inputs = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in map(value_of, state)]
        inputs += [avals[i] for i in self.order]
        inputs += [jax.ShapeDtypeStruct(*seed) for seed in self.wanted.seeds if seed is not None]
        _demand_apart(state)

        def body(*values: Value) -> tuple[Any, ...]:
            self.record.begin()
            self._install(values)
            self._describe(function([self.stand_ins.get(i, x) for i, x in enumerate(leaves)]), current)
            return tuple(self.slots)

        try:
            with capturing(self.record), enable_grad():
                closed = jax.make_jaxpr(body)(*inputs)
                self.record.settle()
            self._refuse_what_stays()
            self.inputs = inputs
            self._finish(closed)
        finally:
            self.record.rewind()
            self.record.close(failed=True)

    # -- inside the trace ------------------------------------------------------------------------
    def _install(self, values: Values) -> None:
        """Let the tensors of the state and stand-ins of the arguments hold the tracers."""
        n, m = len(self.state), len(self.state) + len(self.order)
        for k, (t, value) in enumerate(zip(self.state, values, strict=False)):
            if t._view is not None and t._view.steps:
                become(t, holding(value), None)
            else:
                self.record.begin_with(t._storage, value)
            set_history(t, None, t._rg or k in self.wanted.state)
            t._acc = t._ex = None
        self.stand_ins = {i: self._stand_in(i, v) for i, v in zip(self.order, values[n:m], strict=True)}
        self.given = list(values[:n]), dict(zip(self.order, values[n:m], strict=True))
        rest = iter(values[m:])
        self.seeds = [None if seed is None else next(rest) for seed in self.wanted.seeds]
        self.own = {id(t._storage): ("state", k) for k, t in enumerate(self.state)}
        self.own |= {id(t._storage): ("argument", i) for i, t in self.stand_ins.items()}
        self.same = {id(t): ("state", k) for k, t in enumerate(self.state)}
        self.same |= {id(t): ("argument", i) for i, t in self.stand_ins.items()}

    def _stand_in(self, i: int, value: Any) -> Tensor:
        new = wrap(value)
        new._rg = self.leaves[i]._rg or i in self.wanted.arguments
        new.__class__ = type(self.leaves[i])
        return new

    def _describe(self, out: Any, current: Any) -> None:
        self.written = self.record.written()
        self._refuse_fields()
        self._writes(current())
        self.outs = out
        self.roots, self.made = [], {}
        self.results = [self._made(k, x) for k, x in enumerate(out)]
        self.metas = {k: (value_of(x).shape, value_of(x).dtype) for k, x in enumerate(out) if _floats(x)}
        self.errors = self.record.errors
        self.flags = len(self.slots)
        if self.errors:
            self.slots.append(jnp.stack([jnp.any(bad) for bad in self.record.flags]))
        self.n_early = len(self.slots)
        self.sinks = []
        if self.wanted.seeds:
            self._gradients()

    def _slot(self, key: Any, value: Any) -> int:
        """The output of the program that holds ``value``, one for each ``key``."""
        found = self.places.get(key)
        if found is None:
            found = self.places[key] = len(self.slots)
            self.slots.append(value)
        return found

    def _writes(self, current: Any) -> None:
        state, arguments = self.given
        self.state_writes = [
            (k, self._slot(id(t._storage), array_of(t)))
            for k, (t, before) in enumerate(zip(current, state, strict=True))
            if value_of(t) is not before
        ]
        self.argument_writes = [
            (i, self._slot(id(t._storage), t._storage.value))
            for i, t in self.stand_ins.items()
            if t._storage.value is not arguments[i]
        ]
        for before, (_, slot) in zip(self._before_writes(), [*self.state_writes, *self.argument_writes], strict=True):
            after = self.slots[slot]
            if (before.shape, before.dtype) != (after.shape, after.dtype):
                raise Unsupported(
                    f"gives a tensor of shape {list(before.shape)} and dtype {before.dtype} a value of shape "
                    f"{list(after.shape)} and dtype {after.dtype}; what an exported program writes keeps both"
                )
        if self.wanted.seeds and any(self.stand_ins[i]._rg for i, _ in self.argument_writes):
            raise Unsupported("writes values that require grad into an argument, which has no history to take them")

    def _before_writes(self) -> list[Any]:
        state, arguments = self.given
        return [state[k] for k, _ in self.state_writes] + [arguments[i] for i, _ in self.argument_writes]

    def _made(self, k: Any, x: Any) -> dict[str, Any]:
        if not isinstance(x, Tensor):
            return self._constant(x)
        same = self.same.get(id(x))
        if same is not None:
            return {"same": same}
        view = None if x._view is None else packed_view(x._view)
        whole = x._view is None or view is not None
        if id(x) in self.made:
            return {"again": self.made[id(x)]}
        self.made[id(x)] = k
        own = self.own.get(id(x._storage))
        if whole and own is not None:
            return {"alias": own, "view": view, "grad": x._rg}
        made = {"root": len(self.roots) if x._rg and x._edge is not None and x._edge[0] else None, "view": view}
        if made["root"] is not None:
            self.roots.append(k)
        if whole:
            return made | {"slot": self._slot(id(x._storage), x._storage.value), "strides": x._storage.strides}
        return made | {"slot": self._slot(id(x), value_of(x)), "strides": None}

    def _constant(self, x: Any) -> dict[str, Any]:
        if isinstance(x, tuple) and all(type(n) is int for n in x):
            return {"size": list(x)}
        if isinstance(x, jax.core.Tracer) or jax.export.is_symbolic_dim(x):
            raise Unsupported("returns a dynamic length, or what it made of one as of a number; return tensors")
        if not isinstance(x, _PLAIN):
            raise RuntimeError(
                f"Found {type(x)} in output, which is not a known type: an exported program returns tensors, numbers, "
                "texts and None in lists, tuples and dicts"
            )
        return {"constant": x}

    def _gradients(self) -> None:
        """Run the backward of the results inside the trace, from the seeds."""
        edges = [self.outs[k]._edge for k in self.roots]
        if not edges:
            return
        sinks, freed = explore(edges, self.record.start)
        if freed:
            raise Unsupported("runs backward itself, which frees the graph of its results")
        grads = engine.run(edges, [self.seeds[k] for k in self.roots], keep=True, accumulate=False, captures=sinks)
        for edge in sinks:
            grad, source = grads.get(edge), self.same.get(id(getattr(edge[0], "variable", None)))
            if grad is not None and source is not None:
                self.slots.append(array_of(grad))
                self.sinks.append(source)

    # -- what cannot be exported -----------------------------------------------------------------
    def _refuse_fields(self) -> None:
        """Refuse changes of tensors from outside other than of their values."""
        if self.record.optimizers:
            raise Unsupported("takes a step of an optimizer; torch.compile is for training steps")
        own = {id(t) for t in self.state}
        for t, changed in self.record.changed():
            if id(t) in own:
                continue
            if "_ex" in changed:
                raise Unsupported("registers or removes hooks of a tensor that was made outside")
            raise Unsupported(f"changes {sorted(changed)} of a tensor that was made outside")
        replaced = any(found.now is not found.before for found in self.record.grads.values())
        if replaced or any(t._grad is not None for t in self.stand_ins.values()):
            raise Unsupported("accumulates gradients into .grad; return them, with torch.autograd.grad")

    def _refuse_what_stays(self) -> None:
        for draws in self.record.generators.values():
            if draws.source is not default_generator and draws.end != draws.start:
                raise Unsupported("draws from a generator of its own; an exported program draws from the default one")

    # -- after the trace -------------------------------------------------------------------------
    def _finish(self, closed: ClosedJaxpr) -> None:
        """Sort the constants of the jaxpr: draws are inputs, tensors from outside have to be, the rest stays."""
        drawn = {id(array): k for k, array in enumerate(self.record.drawn.values())}
        self.draws = len(drawn)
        jaxpr, numbers = with_reads(closed.jaxpr)
        read = [self.record.sources[k] for k in numbers]
        own = {id(t._storage) for t in self.state}
        storages = {id(s): s for s in (*read, *self.written) if id(s) not in own}
        self.found = [self.record.readers[key] for key in storages if key in self.record.readers]
        pairs = list(zip(jaxpr.constvars, closed.consts, strict=True))
        random = [(drawn[id(c)], v) for v, c in pairs if id(c) in drawn]
        fixed = [(v, c) for v, c in pairs if id(c) not in drawn]
        fixed += zip(jaxpr.invars[len(self.inputs) :], [settled(s.value) for s in read], strict=True)
        self.used_draws = [k for k, _ in random]
        self.jaxpr = jaxpr.replace(
            constvars=(),
            invars=[*[v for v, _ in fixed], *jaxpr.invars[: len(self.inputs)], *[v for _, v in random]],
            debug_info=_unnamed(jaxpr),
        )
        self.consts = [c for _, c in fixed]
        del self.made, self.stand_ins, self.given, self.outs, self.seeds, self.slots

    def forward(self) -> tuple[Callable[..., Any], list[jax.ShapeDtypeStruct]]:
        """(function of state, arguments and used draws; its avals): the outputs without gradients."""
        closed = bind(self.jaxpr, dict(enumerate(self.consts)))
        return jaxpr_as_fun(closed), [_aval(v) for v in closed.jaxpr.invars]

    def halves(self) -> tuple[Any, Any]:
        """((function, avals), (function, avals), kept): the outputs first, the gradients when their seeds are known.

        The second function takes what ``kept`` says, ("in", number of an input of the first) or ("out", number of an
        output of the first), and the gradients of ``roots``.
        """
        fixed, n = len(self.consts), len(self.state) + len(self.order)
        seeds = len(self.inputs) - n
        late = [fixed + n <= i < fixed + n + seeds for i in range(len(self.jaxpr.invars))]
        early, after = split(self.jaxpr, late, self.n_early)
        inputs = {v: i - fixed for i, v in enumerate(early.invars)}
        values, baked, kept, results = dict(zip(early.invars, self.consts, strict=False)), {}, [], []
        for i, v in enumerate(early.outvars[self.n_early :]):
            if v in values:
                baked[i] = values[v]
            elif v in inputs:
                kept.append(("in", inputs[v]))
            else:
                kept.append(("out", self.n_early + len(results)))
                results.append(v)
        early = early.replace(outvars=[*early.outvars[: self.n_early], *results], debug_info=_unnamed(early))
        seeded = [k for k, seed in enumerate(self.wanted.seeds) if seed is not None]
        left = [v for k, v in zip(seeded, after.invars[len(kept) + len(baked) :], strict=True) if k in self.roots]
        after = after.replace(invars=[*after.invars[: len(kept) + len(baked)], *left], debug_info=_unnamed(after))
        first = bind(early, dict(enumerate(self.consts)))
        second = bind(after, baked)
        return tuple((jaxpr_as_fun(c), [_aval(v) for v in c.jaxpr.invars]) for c in (first, second)), kept


def _unnamed(jaxpr: Jaxpr) -> Any:
    return jaxpr.debug_info._replace(arg_names=None, result_paths=None)


def _aval(v: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype)


def _floats(x: Any) -> bool:
    return isinstance(x, Tensor) and x.dtype.is_floating_point | x.dtype.is_complex


def _demand_apart(state: Any) -> None:
    """Refuse views of one storage in the state: each tensor of it is an input by itself."""
    count: dict = {}
    for t in state:
        count.setdefault(id(t._storage), []).append(t)
    for tensors in count.values():
        if len(tensors) > 1 and any(t._view is not None and t._view.steps for t in tensors):
            raise Unsupported(
                f"reads tensors of shapes {[list(t.shape) for t in tensors]} that are views of one memory; export "
                "takes parameters, buffers and constants as inputs, each by itself: clone() one of them"
            )
