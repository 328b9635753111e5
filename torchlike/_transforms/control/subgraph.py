"""Bodies: a function of tensors, traced once as a jax function that control flow repeats or chooses.

The function runs within a capture of its own (``body_capture.py``), inside that of a compiled function if there is one:
tensors from outside that it reads become inputs, and what it changes of them is seen, and refused, since XLA decides
whether and how often it runs. Its Python code is interpreted, so that changes of Python objects are refused too.

The backward is made in the same trace, by the engine, so that it is torchlike's own (values at kinks,
custom functions, hooks). Derivatives of higher order run the function again, when they are first asked
for, and check that it still is the function that was traced.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Self

import jax
import numpy as np
from jax.interpreters.partial_eval import dce_jaxpr

from torchlike._base.jaxprs import ClosedJaxpr, Jaxpr, Literal, jaxpr_as_fun
from torchlike._base.state import state
from torchlike._core.autograd import engine
from torchlike._core.autograd import node as nodes
from torchlike._core.tensor.tensor import value_of, wrap
from torchlike._decl import rules
from torchlike._executor import immediate
from torchlike._transforms.capture.overlay import capturing
from torchlike._transforms.capture.recording import Unsupported
from torchlike._transforms.capture.split import with_reads
from torchlike._transforms.control.body_capture import NUMBERS, BodyCapture
from torchlike._transforms.control.while_loops import copied
from torchlike._transforms.interpreter.run import Interpreter

if TYPE_CHECKING:
    from torchlike._core.tensor.tensor import Tensor
    from torchlike._decl.typed import Value

_GONE = "as a part of a program; return it from the function"


def interpreted(function: Callable[..., Any]) -> Any:
    """A user's function or module as a body calls it."""
    return state.interpreter.wrap(function, True)


class _Interpreting(contextlib.ExitStack):
    """The context in which a body runs: of the interpreter that is active, or of one for this body alone."""

    def __init__(self, title: str) -> None:
        super().__init__()
        self.title, self.alone = title, state.interpreter is None

    def __enter__(self) -> Self:
        if self.alone:
            self.enter_context(Interpreter(None))
        self.enter_context(state.interpreter.body())
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        super().__exit__(kind, error, traceback)
        if self.alone and isinstance(error, Unsupported):
            raise RuntimeError(f"{self.title}: its function {error}; a program cannot do that again") from error
        if self.alone and isinstance(error, jax.errors.JAXTypeError):
            raise RuntimeError(f"{self.title}: its function {NUMBERS}; compute with tensors instead") from error


class Tracing:
    """One run of a function of tensors on tracers, and the jaxpr of its results and of their gradients.

    Attributes:
        captured: the tensors from outside that it read. outs: (shape, dtype) of the results.
        roots: which results have gradients. wanted: which inputs (arguments, captured) require grad.
        forward: jaxpr from arguments, captured and ``extras`` (arrays) to results and flags of value checks.
        backward: jaxpr from those and the gradients of the roots to those of the wanted inputs.
    """

    def __init__(
        self,
        title: str,
        run: Callable[..., Any],
        avals: Sequence[Any],
        requires: Sequence[bool | None],
        fixed: Iterable[tuple[Tensor, int]] = (),
        random: bool = True,
        alone: bool = True,
    ) -> None:
        """``fixed``: (tensor from outside, which of the arguments stands for it); ``alone``: forbid aliases."""
        self.stands: Any  # while it is traced, as arguments
        self.arguments: Any
        self.custom: Collection[type] = ()
        self.title, self.alone, self.seeds = title, alone, []
        self.record = BodyCapture(title, random)
        self.stands = {position: t for t, position in fixed}

        def body(*values: Value) -> tuple[Any, ...]:
            self.record.begin()
            return self._results(run, [_leaf(v, rg) for v, rg in zip(values, requires, strict=True)])

        with _Interpreting(title):
            try:
                with capturing(self.record):
                    closed = jax.make_jaxpr(body)(*avals)
                    self.record.settle()
            finally:
                self.record.close(True, _GONE)
            self._cut(closed, len(avals))
        self.stands = self.arguments = self.record.tensors = None  # type: ignore[assignment]

    # -- in the trace ----------------------------------------------------------------------------
    def _results(self, run: Callable[..., Any], arguments: list[Tensor]) -> tuple[Any, ...]:
        for position, t in self.stands.items():
            self.record.pin(t, value_of(arguments[position]))
        self.arguments, self.record.arguments = arguments, frozenset([id(t._storage) for t in arguments])
        outs = run(arguments)
        self._demand_unchanged()
        if self.alone:
            self._demand_apart(outs)
        self.outs = [immediate.Abstract(tuple(t.shape), t.dtype.np) for t in outs]
        values = [value_of(t) for t in outs]
        gradients = self._gradients(outs)
        self._demand_unchanged()
        self.errors = self.record.errors
        flags = [jax.numpy.stack([jax.numpy.any(bad) for bad in self.record.flags])] if self.errors else []
        self.n_results = len(values) + len(flags)
        return (*values, *flags, *gradients)

    def _demand_unchanged(self) -> None:
        if any(t._storage.epoch for t in self.arguments):
            raise RuntimeError(
                f"{self.title}: input mutation: the function changes a tensor that was given to it; clone() it before"
            )
        self.record.demand_unchanged()

    def _demand_apart(self, outs: Sequence[Tensor]) -> None:
        seen = {id(t._storage) for t in self.arguments}
        for i, t in enumerate(outs):
            if id(t._storage) in seen or id(t._storage) not in self.record.own:
                raise RuntimeError(
                    f"{self.title}: aliasing: result {i} is, or shares memory with, an input, a tensor from outside or "
                    "another result; return a clone()"
                )
            seen.add(id(t._storage))

    def _gradients(self, outs: Sequence[Tensor]) -> list[Any]:
        """The gradients of arguments and of tensors from outside, from arrays that stand for those of the roots."""
        self.roots = [i for i, t in enumerate(outs) if t._rg and rules.differentiable(t.dtype.np)]
        edges = [nodes.edge_of(outs[i]) for i in self.roots]
        leaving, freed = self.record.leaving([e for e in edges if e is not None])
        known = {nodes.edge_of(t) for i, t in self.stands.items() if t._rg}
        tensors = [self.record.tensor_at(e) for e in leaving if e not in known]
        if freed or None in map(_identity, tensors):
            raise NotImplementedError(
                f"{self.title}: the function runs backward itself through what it returns, or gives a tensor from "
                "outside that requires grad to what is no operator; pass the tensor as an operand"
            )
        stand_ins = {i: t for i, t in enumerate(self.arguments) if t._rg}
        stand_ins |= {i: t for i, t in self.stands.items() if i in stand_ins}
        self.wanted, self.sinks = list(stand_ins), [self.record.number_of(t) for t in tensors]
        wanted = [*stand_ins.values(), *tensors]
        if not self.roots or not wanted:
            self.roots = []
            return []
        self.custom = _custom(edges, self.record.start)
        with jax.ensure_compile_time_eval():
            self.seeds = [jax.numpy.zeros(self.outs[i].shape, self.outs[i].dtype) for i in self.roots]
        found = gradients([outs[i] for i in self.roots], [wrap(s) for s in self.seeds], wanted, create=False)
        return [value_of(g) for g in found]

    # -- after the trace -------------------------------------------------------------------------
    def _cut(self, closed: ClosedJaxpr, n: int) -> None:
        """The two halves, with what was read from outside as inputs."""
        seeds = {id(s): k for k, s in enumerate(self.seeds)}
        jaxpr, numbers = with_reads(closed.jaxpr)
        extras: list[Any] = []
        late: list[Any] = [None] * len(seeds)
        for var, const in zip(jaxpr.constvars, closed.consts, strict=True):
            if id(const) in seeds:
                late[seeds[id(const)]] = var
            else:
                extras.append((var, const))
        read = {v for eqn in jaxpr.eqns for v in eqn.invars if not isinstance(v, Literal)}
        read.update([v for v in jaxpr.outvars if not isinstance(v, Literal)])
        variables = dict(zip(numbers, jaxpr.invars[n:], strict=True))
        captured = [k for k in sorted(variables) if variables[k] in read or k in self.sinks]
        self.captured = [self.record.source(k) for k in captured]
        self.wanted += [n + captured.index(k) for k in self.sinks]
        self.extras = [const for _, const in extras]
        inputs = [*jaxpr.invars[:n], *(variables[k] for k in captured), *(var for var, _ in extras)]
        self.forward = _pruned(jaxpr, inputs, jaxpr.outvars[: self.n_results])
        if self.roots:
            self.backward = _with_seeds(jaxpr, inputs, late, self.seeds, jaxpr.outvars[self.n_results :])


def _identity(t: Tensor | None) -> int | None:
    return None if t is None else id(t)


def _custom(edges: list[Any], start: int) -> frozenset[type]:
    """The custom functions of a graph, of which the jaxprs do not tell how they are differentiated twice."""
    found, seen, stack = set(), set(), [edge[0] for edge in edges]
    while stack:
        node = stack.pop()
        if node is not None and node not in seen and node._seq >= start:
            seen.add(node)
            if node._python:
                found.add(type(node))
            stack.extend(edge[0] for edge in node._edges if edge is not None)
    return frozenset(found)


def _leaf(value: Any, requires_grad: Any) -> Tensor:
    t = wrap(value)
    t._rg = requires_grad
    return t


def gradients(roots: Sequence[Any], seeds: Sequence[Any], inputs: Sequence[Tensor], create: bool) -> list[Tensor]:
    """The gradients of ``inputs``, arguments or from outside: tensors, zeros where none arrives."""
    pairs = [(nodes.edge_of(t), s) for t, s in zip(roots, seeds, strict=True) if t._rg]
    found = {}
    if pairs:
        roots = [edge for edge, _ in pairs]
        found = engine.run(
            roots, [s if create else value_of(s) for _, s in pairs], keep=True, create=create, accumulate=False,
            captures=[nodes.edge_of(t) for t in inputs], ends=[node for node, _ in state.capture.leaving(roots)[0]],
        )  # fmt: skip
    grads = [found.get(nodes.edge_of(t)) for t in inputs]
    pairs = zip(grads, inputs, strict=True)
    return [wrap(immediate.zeros(tuple(t.shape), t.dtype.np)) if g is None else g for g, t in pairs]


def _no_names(jaxpr: Jaxpr) -> Any:
    return jaxpr.debug_info._replace(arg_names=None, result_paths=None)


def _pruned(jaxpr: Jaxpr, invars: Sequence[Any], outvars: Sequence[Any]) -> ClosedJaxpr:
    full = jaxpr.replace(constvars=(), invars=list(invars), outvars=list(outvars), debug_info=_no_names(jaxpr))
    return ClosedJaxpr(dce_jaxpr(full, [True] * len(outvars), instantiate=True)[0], ())


def _with_seeds(
    jaxpr: Jaxpr, invars: Sequence[Any], late: Sequence[Any], seeds: Sequence[Any], outvars: Sequence[Any]
) -> ClosedJaxpr:
    """The jaxpr of the gradients; a seed that it does not read still is an input."""
    run = jaxpr_as_fun(_pruned(jaxpr, [*invars, *(v for v in late if v is not None)], outvars))
    if None not in late:
        return _pruned(jaxpr, [*invars, *late], outvars)

    def spread(*values: Value) -> Any:
        given = values[len(invars) :]
        return run(*values[: len(invars)], *[g for g, v in zip(given, late, strict=True) if v is not None])

    return jax.make_jaxpr(spread)(*(v.aval for v in invars), *seeds)


class Body:
    """A function of tensors as a jax function of arrays, with torchlike's derivatives of every order.

    Attributes:
        captured, extras, errors, outs: as in Tracing; ``__call__`` takes arguments, captured and extras.
    """

    def __init__(
        self,
        title: str,
        function: Callable[..., Any],
        arguments: Sequence[Tensor],
        random: bool = True,
        n_carry: int = 0,
    ) -> None:
        """``function``: from a list of tensors to a list of tensors; ``arguments``: what stands for its inputs, the
        first ``n_carry`` of which the first results replace in the next step."""
        self.title, self.function = title, function
        avals = [immediate.Abstract(tuple(t.shape), t.dtype.np) for t in arguments]
        requires = [t.requires_grad and state.grad for t in arguments]
        if any(requires):
            requires = [rg or (i < n_carry and rules.differentiable(avals[i].dtype)) for i, rg in enumerate(requires)]
        tracing = Tracing(title, function, avals, requires, random=random)
        if any(i < n_carry and not requires[i] for i in tracing.roots):  # a tensor from outside requires grad
            requires = [rules.differentiable(a.dtype) for a in avals[:n_carry]] + requires[n_carry:]
            tracing = Tracing(title, function, avals, requires, random=random)
        self.captured, self.extras, self.errors = tracing.captured, tracing.extras, tracing.errors
        self.outs, self.level = tracing.outs, Level.first(self, tracing)

    def __call__(self, *values: Value) -> Any:
        """The results, and the flags of the value checks, if there are any."""
        return self.level.run(*values)

    @property
    def key(self) -> tuple[Any, ...]:
        """What the function computes: equal for functions that are the same program."""
        level = self.level
        parts = [fingerprint(level.forward)]
        if level.roots:
            parts += [fingerprint(level.backward), tuple(level.roots), tuple(level.wanted)]
        return (*parts, level.custom)

    def renew(self, other: Body) -> None:
        """Be the function that ``other`` is, which is the same program, from now on."""
        self.function, self.captured, self.extras = other.function, other.captured, other.extras

    def again(self, tensors: Sequence[Tensor]) -> Any:
        """The function on other tensors, the last of which stand for the captured ones."""
        return self.function(tensors[: self.first])

    @property
    def first(self) -> int:
        """The number of the first input that stands for a captured tensor."""
        return len(self.level.forward.jaxpr.invars) - len(self.extras) - len(self.captured)

    def stand(self, tensors: Sequence[Tensor], i: int) -> Tensor:
        """The tensor of which input ``i`` of a derivative is the value: a captured one is itself."""
        k = i - self.first
        return self.captured[k] if 0 <= k < len(self.captured) else tensors[i]

    def demand_unchanged(self) -> None:
        """Refuse to differentiate a function that is not what was traced."""
        level = self.level
        avals = [v.aval for v in level.forward.jaxpr.invars]
        n = len(avals) - len(self.captured) - len(self.extras)
        requires = [i in level.wanted for i in range(n)]
        tracing = Tracing(self.title, self.function, avals[:n], requires, random=False)
        same = len(tracing.captured) == len(self.captured)
        same = same and all(a is b for a, b in zip(tracing.captured, self.captured, strict=True) if a._rg or b._rg)
        if not same or fingerprint(tracing.forward) != fingerprint(level.forward):
            raise RuntimeError(
                f"{self.title}: its function is not what it was when it was called (a variable of its closure was "
                "assigned since), so it cannot be differentiated once more"
            )


class Level:
    """A body, or its derivative of some order, as a jax function.

    Attributes:
        run: the function, differentiable. forward, backward: its jaxpr and that of its gradients.
        replay: from tensors to its results as tensors with history.
    """

    def __init__(self, body: Body, forward: Any, replay: Callable[..., Any], requires: Sequence[bool]) -> None:
        self.body, self.forward, self.replay, self.requires = body, forward, replay, requires
        self.backward: Any = None  # a ClosedJaxpr, where there are roots
        self.roots: Any = None  # which results have gradients, once that is known
        self.wanted: Sequence[int] = ()
        self.next: Level | None = None
        self.custom: Collection[type] = ()

    @functools.cached_property
    def run(self) -> Callable[..., Any]:
        forward = jaxpr_as_fun(self.forward)
        if not any(self.requires):
            return forward
        run = jax.custom_vjp(forward)
        run.defvjp(lambda *xs: (run(*xs), copied(xs)), self._pull)
        return run

    @classmethod
    def first(cls, body: Body, tracing: Tracing) -> Level:
        n = len(tracing.forward.jaxpr.invars)
        level = cls(body, tracing.forward, body.again, [i in tracing.wanted for i in range(n)])
        level.roots, level.wanted, level.custom = tracing.roots, tracing.wanted, tracing.custom
        level.backward = tracing.backward if tracing.roots else None
        return level

    def _pull(self, values: Sequence[Any], cotangents: Sequence[Any]) -> tuple[Any, ...]:
        if self.roots is None:
            self._differentiate()
        found = [None] * len(values)
        if self.roots:
            seeds = [rules.conj(cotangents[i]) for i in self.roots]
            for i, grad in zip(self.wanted, self._derivative().run(*values, *seeds), strict=True):
                found[i] = rules.conj(grad)
        return tuple(found)

    def _differentiate(self) -> None:
        """Trace the function again for derivatives of one order more."""
        body = self.body
        body.demand_unchanged()
        avals = [v.aval for v in self.forward.jaxpr.invars]
        fixed = [(t, body.first + k) for k, t in enumerate(body.captured)]
        before, state.grad = state.grad, True
        try:
            tracing = Tracing(body.title, self.replay, avals, self.requires, fixed, random=False, alone=False)
        finally:
            state.grad = before
        self.roots, self.wanted = tracing.roots, [i for i in tracing.wanted if i < len(avals)]
        if tracing.roots:
            values = [*map(value_of, tracing.captured), *tracing.extras]
            self.backward = _closed(tracing.backward, len(avals), values, len(self.wanted))

    def _derivative(self) -> Level:
        if self.next is None:
            roots, wanted, n = list(self.roots), list(self.wanted), len(self.forward.jaxpr.invars)
            stand = self.body.stand

            def replay(tensors: Sequence[Tensor]) -> list[Tensor]:
                ins, seeds = tensors[:n], tensors[n:]
                outs = self.replay(ins)
                return gradients([outs[i] for i in roots], seeds, [stand(ins, i) for i in wanted], create=True)

            requires = [i in wanted for i in range(n)] + [True] * len(roots)
            self.next = Level(self.body, self.backward, replay, requires)
        return self.next


def _closed(jaxpr: ClosedJaxpr, n: int, values: Sequence[Any], n_outs: int) -> ClosedJaxpr:
    """The first ``n_outs`` results of ``jaxpr`` with the inputs after the first ``n`` given."""
    run = jaxpr_as_fun(jaxpr)
    avals = [v.aval for v in jaxpr.jaxpr.invars]
    k = len(values)
    return jax.make_jaxpr(lambda *xs: run(*xs[:n], *values, *xs[n:])[:n_outs])(*avals[:n], *avals[n + k :])


class _Itself:
    """A parameter that cannot be compared, as part of a key: equal to itself only."""

    def __init__(self, x: object) -> None:
        self.x = x

    def __hash__(self) -> int:
        return id(self.x)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and self.x is other.x


_known: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def fingerprint(closed: ClosedJaxpr) -> tuple[Any, ...]:
    """A key of a closed jaxpr, equal for equal programs; its constants compare by identity."""
    found = _known.get(closed)
    if found is None:
        found = _known[closed] = (_structure(closed.jaxpr), tuple(map(_Itself, closed.consts)))
    return found


_CUSTOM = ("call_jaxpr", "num_consts")  # of functions with rules of their own, which jax makes anew in every trace


def _structure(jaxpr: Jaxpr) -> tuple[Any, ...]:
    number = {v: i for i, v in enumerate((*jaxpr.constvars, *jaxpr.invars))}
    key: list[Any] = [tuple(str(v.aval) for v in number)]

    def atom(v: Any) -> Any:
        if isinstance(v, Literal):
            return str(v.aval), np.asarray(v.val).tobytes()
        return number[v]

    for eqn in jaxpr.eqns:
        read = tuple(map(atom, eqn.invars))
        for v in eqn.outvars:
            number[v] = len(number)
        names = _CUSTOM if eqn.primitive.name.startswith("custom_") else sorted(eqn.params)
        params = tuple((name, _param(eqn.params.get(name))) for name in names)
        key.append((eqn.primitive, params, read, tuple(str(v.aval) for v in eqn.outvars)))
    key.append(tuple(map(atom, jaxpr.outvars)))
    return tuple(key)


def _param(value: Any) -> Any:
    """A parameter of an equation as part of a key."""
    if isinstance(value, ClosedJaxpr):
        return fingerprint(value)
    if isinstance(value, Jaxpr):
        return _structure(value)
    if type(value) in (tuple, list):
        return tuple(map(_param, value))
    try:
        hash(value)
    except TypeError:
        return _Itself(value)
    return value
