"""Derivation: the vjp, jvp and vmap of an operator are operators, made by jax from its kernel.

A plan says how one call is differentiated: which values are saved, and the kernel that maps them and
the gradients of the outputs to gradients of the inputs. Plans are cached by the shapes and dtypes of
the call, so their cost is paid once per kernel compilation.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn, Self

import jax
import jax.numpy as jnp
from jax.interpreters.partial_eval import dce_jaxpr

from torchlike._base import promotion
from torchlike._base.dtypes import from_np
from torchlike._base.jaxprs import jaxpr_as_fun
from torchlike._base.result_layouts import elementwise
from torchlike._decl import rules
from torchlike._decl.felt import felt
from torchlike._decl.naming import naming
from torchlike._decl.node_names import is_composed, node_of_backward
from torchlike._decl.plan import Plan
from torchlike._decl.sums import wide_sums

if TYPE_CHECKING:
    from torchlike._base.dtypes import dtype
    from torchlike._base.jaxprs import ClosedJaxpr
    from torchlike._base.result_layouts import Rule
    from torchlike._decl.op import Op
    from torchlike._decl.schema import Arg
    from torchlike._decl.typed import Aval, Avals, Dims, Formula, Forward, Identity, Indices, Static, Value, Values


def map_outputs(f: Callable[[Any], Any], out: Any) -> Any:
    """Apply ``f`` to a result or to each of a tuple (or list) of results."""
    return tuple(map(f, out)) if isinstance(out, tuple | list) else f(out)


def as_tuple(out: Any) -> tuple[Any, ...]:
    return out if isinstance(out, tuple) else (out,)


def into(name: str, out: jax.Array, like: jax.Array | jax.ShapeDtypeStruct) -> jax.Array:
    """A result about to replace ``like``: PyTorch's checks of shape and castability, then the cast."""
    if out.shape != like.shape:
        raise RuntimeError(
            f"output with shape {list(like.shape)} doesn't match the broadcast shape {list(out.shape)}"
            f" ({name} writes into its first argument and cannot resize it)"
        )
    promotion.demand_castable(name, from_np(out.dtype), from_np(like.dtype))
    if isinstance(out, jax.ShapeDtypeStruct):  # on meta
        return type(out)(out.shape, like.dtype)
    return out.astype(like.dtype)


def aval(x: Value) -> Aval:
    """Shape and dtype of a runtime value; numbers are weakly typed scalars, None stays None."""
    if x is None:
        return None
    if isinstance(x, bool | int | float | complex):
        dtype = {bool: bool, int: jnp.int64, float: jnp.float64, complex: jnp.complex128}[type(x)]
        return jax.ShapeDtypeStruct((), dtype, weak_type=type(x) is not bool)
    return jax.ShapeDtypeStruct(x.shape, x.dtype, weak_type=getattr(x, "weak_type", False))


_NONE = (None,)


class Kernel:
    """Something that can be called on values, compiled and differentiated.

    Attributes:
        name: shown in errors. node: the class name of the nodes it records, without the final 0.
        returns: None, or what wraps a tuple of results (a named tuple).
        laid: whether its results never lie by rows, see ``columns`` of ``op``.
        kernels: {static: compiled kernel}, filled by the executor; plans: {key: plan or None}.
        derived: {key: operator} for ``jvp`` and ``vmap``. All three are caches.
        recent: of the last recorded call of one or two tensors alone: the static arguments, for each tensor what it
            is and whether it requires grad, and the plan.
    """

    __slots__ = (
        "name",
        "node",
        "returns",
        "laid",
        "kernels",
        "plans",
        "derived",
        "recent",
        "_other",
        "__weakref__",
    )
    name: str
    node: str
    returns: Any
    laid: bool
    kernels: dict[Static, Any]
    plans: dict[Any, Plan | None]
    derived: dict[Any, Any]
    recent: tuple[Any, ...]
    checked: Any = None
    at_places = False  # whether it changes its first argument in some places alone
    layout: Rule | None = None
    columns: tuple[int, ...] = ()
    rows: Any = None
    pointwise = property(lambda self: self.layout is elementwise)
    # What only declared operators have.
    formulas: dict[tuple[str, ...], Formula] | None = None
    schema: Any = None
    tangents: dict[str, Formula] | str | Callable[[list[str]], Any] | None = None
    result_names: tuple[str, ...] | None = None
    operator: str | None = None
    node_of: Callable[..., str] | None = None
    edges_of: Callable[..., Any] | None = None
    backward: Any = None
    closed: ClosedJaxpr | None = None
    autocast: Any = MappingProxyType({})
    full_name: Any = ""
    dynamic: tuple[Arg, ...] = ()
    lists = False
    kept: dict[str, str] = {}
    apart: frozenset[str] = frozenset()
    nondiff: Any = frozenset()

    def __init__(self, name: str, node: str) -> None:
        self.name, self.node, self.returns = name, node, None
        self.laid = False
        self.kernels, self.plans, self.derived = {}, {}, {}
        self.recent, self._other = _NONE, {}

    @property
    def declaration(self) -> Any:
        """The operator that this is a form of; itself where it is none."""
        return self

    def autocast_of(self, static: Static) -> dict[str, str | None]:
        """{device: class} of a call: what the static arguments decide is decided."""
        return {kind: c if isinstance(c, str) else self._chosen_class(c, static) for kind, c in self.autocast.items()}

    def _chosen_class(self, choose: Any, static: Static) -> str | None:
        if choose is None:
            return None
        bound = dict(zip([a.name for a in self.declaration.static], static, strict=False))
        return choose(*[bound[name] for name in choose.__code__.co_varnames[: choose.__code__.co_argcount]])

    def identity(self) -> Identity:
        """What names this operator in every process, of tuples, texts and numbers; None if nothing does."""
        return None

    def forward(self, static: Static) -> Forward:
        """The traceable function from runtime values (positional) to a result or a tuple."""
        raise NotImplementedError(self.name)

    def derivative(self, static: Static, avals: Avals, wanted: Indices) -> Plan | None:
        """The plan that differentiates one call, or None where nothing is differentiable."""
        return default_plan(self, static, avals, wanted)

    def pulled_back(self, static: Static, inputs: Values, wanted: Indices, diff: Indices, grads: Values) -> Values:
        """The gradients of the ``wanted`` inputs by those of the results ``diff``; traceable."""
        forward = self.forward(static)

        def f(*xs: Value) -> tuple[jax.Array, ...]:
            filled = list(inputs)
            for i, x in zip(wanted, xs, strict=True):
                filled[i] = x
            out = as_tuple(forward(*filled))
            return tuple(out[i] for i in diff)

        return rules.adjoint(f, *(inputs[i] for i in wanted))(grads)

    def jvp(self, static: Static, tangents: Indices) -> Kernel:
        """The operator (inputs..., tangents of the inputs with these indices) -> (outputs..., tangents...)."""
        return self._derive(("jvp", static, tangents), jvp_function)

    def vmap(self, static: Static, in_dims: Dims, out_dims: int = 0) -> Kernel:
        """The operator over inputs with a mapped axis (``in_dims``: an int or None for each)."""
        return self._derive(("vmap", static, in_dims, out_dims), vmap_function)

    def vjp(self, static: Static, avals: Avals, wanted: Indices) -> Kernel | None:
        """The operator (saved values, gradients) -> gradients of the ``wanted`` inputs; see Plan."""
        return self.derivative(static, avals, wanted).kernel

    def _derive(self, key: tuple[Any, ...], make: Callable[..., Forward]) -> Kernel:
        found = self.derived.get(key)
        if found is None:
            function = make(self.forward(key[1]), *key[2:])
            name, part = f"{self.name}_{key[0]}", self.part(key)
            found = self.derived[key] = Derived(name, self.node, function, part, self.autocast_of(key[1]))
        return found

    def part(self, key: Any) -> Identity:
        """The identity of what is derived from this operator, where ``key`` tells it from the rest."""
        identity = self.identity()
        return None if identity is None else (identity, key)

    def reset(self) -> None:
        """Forget every compiled kernel: a setting that kernels read while traced has changed."""
        self.recent = _NONE
        for cache in (self.kernels, self.plans, self.derived, self._other):
            cache.clear()

    def select(self, old: dtype, new: dtype) -> None:
        """Swap the caches when the default dtype, which kernels read while traced, changes."""
        self.recent, self._other[old] = _NONE, (self.kernels, self.plans, self.derived)
        self.kernels, self.plans, self.derived = self._other.pop(new, None) or ({}, {}, {})

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


class Derived(Kernel):
    """An operator made from another one's kernel: its vjp, jvp or vmap. It has no static arguments.

    ``plan``: the plan that a backward belongs to, else None. ``origin``: its identity.
    ``closed``: what tracing it for the kinds of values that its plan is of gives, where that is known.
    ``autocast``: as a declaration's.
    ``composed``: None, or of a first backward that PyTorch composes of operators, whose masks have no history, the
    inputs that it takes as such; where it is an operator of its own, its gradients depend on all inputs.
    """

    __slots__ = ("function", "plan", "origin", "closed", "autocast", "composed")
    plan: Plan | None
    composed: Indices | None

    def __init__(
        self,
        name: str,
        node: str,
        function: Forward,
        origin: Identity = None,
        autocast: Mapping[str, str | None] = Kernel.autocast,
    ) -> None:
        super().__init__(name, node)
        self.function, self.plan, self.origin, self.closed = function, None, origin, None
        self.autocast, self.composed = autocast, None

    def identity(self) -> Identity:
        return self.origin

    def derivative(self, static: Static, avals: Avals, wanted: Indices) -> Plan | None:
        if self.composed is not None:
            grads = () if self.plan is None else range(len(self.plan.names), len(avals))
            reached = {*felt(self.function, avals, grads), *self.composed}
            wanted = tuple([i for i in wanted if i in reached])
        return super().derivative(static, avals, wanted) if wanted else None

    def back_of(self, plan: Plan, op: Kernel) -> Self:
        """This, as the backward of ``plan``, which is one of ``op``."""
        while hasattr(op, "base"):
            op = op.base
        self.plan, declared = plan, op.declaration
        if is_composed(declared.backward) and not isinstance(op, Derived):
            self.composed = tuple([i for i, name in enumerate(plan.names) if declared.kept.get(name) == "!"])
        return self

    def forward(self, static: Static) -> Forward:
        function = self.function

        def run(*values: Value) -> Any:
            out = function(*values)
            return tuple(map(rules.strong, out)) if isinstance(out, tuple | list) else rules.strong(out)

        return run


def jvp_function(forward: Forward, tangents: Indices) -> Forward:
    """(inputs, tangents) -> (outputs..., output tangents...) by jax.jvp; see Kernel.jvp."""

    def run(*values: Value) -> tuple[jax.Array, ...]:
        n = len(values) - len(tangents)
        inputs = list(values[:n])

        def f(*xs: Value) -> tuple[jax.Array, ...]:
            filled = list(inputs)
            for i, x in zip(tangents, xs, strict=True):
                filled[i] = x
            return as_tuple(forward(*filled))

        out, dots = jax.jvp(f, tuple(inputs[i] for i in tangents), values[n:])
        return (*out, *dots)

    return run


def formula_jvp(kernel: Kernel, static: Static, tangents: Indices) -> Forward:
    """As :func:`jvp_function` for an operator with formulas: its own for tangents, or what follows from the others."""
    declared = kernel.declaration.tangents
    return (_declared_jvp if isinstance(declared, dict) else _transposed_jvp)(kernel, static, tangents)


def _transposed_jvp(kernel: Kernel, static: Static, tangents: Indices) -> Forward:
    """As :func:`jvp_function` from explicit formulas: the adjoint of the gradient is the derivative."""
    forward, kept = kernel.forward(static), counting(kernel, tangents)

    def run(*values: Value) -> tuple[jax.Array, ...]:
        n = len(values) - len(tangents)
        inputs, dots = values[:n], tuple([d for i, d in zip(tangents, values[n:], strict=True) if i in kept])
        plan = kernel.derivative(static, [aval(v) for v in inputs], kept) if kept else None
        out = as_tuple(forward(*inputs))
        zeros = [jnp.zeros_like(o) for o in out]
        if plan is None:
            return (*out, *zeros)
        saved = [inputs[i] for i in plan.inputs] + [out[i] for i in plan.outputs]

        def back(*grads: jax.Array) -> tuple[jax.Array, ...]:
            arguments = [*saved, *grads]
            found = as_tuple(plan.kernel.forward(())(*arguments)) if plan.kernel else ()
            return tuple(plan.routed(arguments, found))

        if _elementwise(kernel, [*out, *(inputs[i] for i in kept)]):  # a diagonal matrix is its own adjoint
            for place, dot in enumerate(dots):
                part = back(dot)[place]
                if part is None:
                    raise rules.no_tangent(kernel.declaration.name)
                zeros[0] = zeros[0] + part
            return (*out, *zeros)
        # `back` is linear, except that a formula may leave away what a gradient of zeros does not need
        grads = [jnp.ones_like(out[i]) for i in plan.diff]
        for i, dot in zip(plan.diff, rules.adjoint(back, *grads)(dots), strict=True):
            zeros[i] = dot
        return (*out, *zeros)

    return run


def counting(kernel: Kernel, tangents: Indices) -> Indices:
    """Those of the inputs with ``tangents`` whose tangents count; see ``jvp`` of :func:`op`."""
    op = kernel.declaration
    if not callable(op.tangents):
        return tangents
    counts = op.tangents([op.dynamic[i].name for i in tangents])
    return tuple([i for i in tangents if op.dynamic[i].name in counts])


def _elementwise(kernel: Kernel, values: Values) -> bool:
    """Whether each element of the one result is a function of those at its place, all real."""
    first = values[0]
    return (
        kernel.pointwise
        and all(v.shape == first.shape and v.dtype == first.dtype for v in values)
        and (first.dtype.kind != "c")
    )


def _declared_jvp(kernel: Kernel, static: Static, tangents: Indices) -> Forward:
    """As :func:`jvp_function` from the formulas for tangents of the first output."""
    op, forward = kernel.declaration, kernel.forward(static)
    names = [a.name for a in op.dynamic]
    fixed = dict(zip((a.name for a in op.static), static, strict=False))
    results = op.result_names or ("result",)

    def run(*values: Value) -> tuple[jax.Array, ...]:
        n = len(values) - len(tangents)
        out = as_tuple(forward(*values[:n]))
        bound = {**fixed, **dict(zip(names, values, strict=False)), **dict(zip(results, out, strict=False))}
        dots = [jnp.zeros_like(o) for o in out]
        for i, dot in zip(tangents, values[n:], strict=True):
            formula = op.tangents[names[i]]
            asked = formula.__code__.co_varnames[: formula.__code__.co_argcount]
            found = formula(**{p: dot if p == "dot" else bound[p] for p in asked})
            dots[0] = dots[0] + found.astype(out[0].dtype)
        return (*out, *dots)

    return run


def vmap_function(forward: Forward, in_dims: Dims, out_dims: int) -> Forward:
    """``forward`` over a mapped axis of the inputs; see Kernel.vmap."""
    return jax.vmap(forward, in_axes=in_dims, out_axes=out_dims)


def _plan_outputs(kernel: Kernel, static: Static, avals: Avals) -> tuple[tuple[jax.ShapeDtypeStruct, ...], Indices]:
    compiled = getattr(kernel.kernels.get(static), "results", None)
    found = compiled and compiled(avals)
    if found is None:
        found = jax.eval_shape(kernel.forward(static), *avals)
    elif kernel.checked is not None:
        found = found[0]
    outs = as_tuple(found)
    nondiff = kernel.declaration.nondiff
    diff = tuple(i for i, o in enumerate(outs) if rules.differentiable(o.dtype) and i not in nondiff)
    return outs, diff


def default_plan(kernel: Kernel, static: Static, avals: Avals, wanted: Indices) -> Plan | None:
    """jax.vjp of the kernel; dead-code elimination on its jaxpr tells which inputs it reads."""
    outs, diff = _plan_outputs(kernel, static, avals)
    if not diff:
        return None
    present = [i for i, a in enumerate(avals) if a is not None]
    kept, outputs = _kept(kernel, wanted, len(outs))

    def back(*values: Value) -> tuple[jax.Array, ...]:
        inputs = [None] * len(avals)
        for i, v in zip(present, values, strict=False):
            inputs[i] = v
        return as_tuple(kernel.pulled_back(static, inputs, wanted, diff, tuple(values[len(present) + len(outputs) :])))

    try:
        jaxpr = wide_sums(jax.make_jaxpr(back)(*(avals[i] for i in present), *(outs[i] for i in (*outputs, *diff))))
    except rules.NoDerivative as error:
        return _refusing_plan(kernel.declaration, wanted, outs, diff, RuntimeError(*error.args))
    keep = [i in kept for i in present] + [True] * (len(outputs) + len(diff))
    pruned, used = dce_jaxpr(jaxpr.jaxpr, [True] * len(wanted), instantiate=keep)
    saved = tuple(i for i, u in zip(present, used, strict=False) if u)
    plan = Plan(kernel.name, saved, outputs, _names(kernel, saved), wanted, outs, diff)
    _mark(plan, kernel)
    closed = jaxpr.replace(jaxpr=pruned)
    plan.source = jaxpr_as_fun(closed), closed.in_avals
    _finish(plan, kernel, closed, weak=[avals[i].weak_type for i in saved])
    return plan


def _kept(kernel: Kernel, wanted: Indices, n_outs: int) -> tuple[set[int], Indices]:
    """Indices of the inputs and of the results to save whether or not the derivative reads them.

    Numbers, which nodes show, and what PyTorch's own derivative reads: there a change in place is an error.
    """
    op = kernel.declaration
    marks = op.kept
    inputs = set()
    for i, a in enumerate(op.dynamic):
        if not op.lists and (not a.is_tensor or marks.get(a.name) == "!" or marks.get(a.name) == "?" and i in wanted):
            inputs.add(i)
    return inputs, tuple(i for i, n in enumerate(results_of(op, n_outs)) if n in marks) if marks else ()


def results_of(op: Op, n: int) -> tuple[str, ...]:
    """The names of the results in formulas and ``_saved_<name>``."""
    return op.result_names or ("result", *(f"result{i}" for i in range(1, n)))


def _mark(plan: Plan, kernel: Kernel) -> None:
    op = kernel.declaration
    if op.lists:
        return
    known = [(p, op.dynamic[i]) for p, i in enumerate(plan.inputs) if i < len(op.dynamic)]  # views have integers too
    plan.numbers = tuple(p for p, a in known if not a.is_tensor)
    own = {op.dynamic[i].name for i in plan.wanted if i < len(op.dynamic)}
    plan.apart = tuple(p for p, a in known if a.name in op.apart and not (op.kept.get(a.name) == "~" and a.name in own))


def _names(kernel: Kernel, indices: Iterable[int]) -> tuple[str, ...]:
    dynamic = kernel.declaration.dynamic
    if any(a.is_list for a in dynamic):
        dynamic = ()
    return tuple(dynamic[i].name if i < len(dynamic) else str(i) for i in indices)


def formula_plan(op: Op, static: Static, avals: Avals, wanted: Indices, kernel: Kernel | None = None) -> Plan | None:
    """A plan from explicit formulas: what they name is what is saved."""
    kernel = kernel or op
    outs, diff = _plan_outputs(kernel, static, avals)
    if not diff:
        return None
    spans = op.spans(static)
    owner = {i: n for n, span in spans.items() for i in span}
    wanted_names = tuple(dict.fromkeys(owner[i] for i in wanted))
    chosen = [(wrt, f) for wrt, f in op.formulas.items() if set(wrt) & set(wanted_names)]
    missing = set(wanted_names) - {n for wrt, _ in chosen for n in wrt}
    if missing:
        return default_plan(kernel, static, avals, wanted)
    errors = {n: f.error for wrt, f in chosen if hasattr(f, "error") for n in wrt}
    refusals = {k: errors[owner[i]] for k, i in enumerate(wanted) if owner[i] in errors}
    if len(refusals) == len(wanted):
        return _refusing_plan(op, wanted, outs, diff, refusals[0])
    chosen = [(wrt, f) for wrt, f in chosen if not hasattr(f, "error")]
    asked = {p for _, f in chosen for p in f.__code__.co_varnames[: f.__code__.co_argcount]}
    kept, shown = _kept(op, wanted, len(outs))
    inputs = tuple(i for i, n in owner.items() if (n in asked or i in kept) and avals[i] is not None)
    result_names = results_of(op, len(outs))
    outputs = tuple(i for i, n in enumerate(result_names) if n in asked or i in shown)
    names = _names(kernel, inputs) + tuple(result_names[i] for i in outputs)
    fixed = op.group(avals, static[len(op.static)] if op.lists else None)
    policy = rules.policy(op.dtype, op.name)
    absent: set[int] = set(refusals)

    def known(values: Values) -> dict[str, Any]:
        given = _spread(values[: len(inputs)], inputs, len(avals))
        have = op.group(given, static[len(op.static)] if op.lists else None)
        have |= dict(zip((a.name for a in op.static), static, strict=False))
        have |= {f"{n}_aval": a for n, a in fixed.items()}
        have |= dict(zip(names[len(inputs) :], values[len(inputs) :], strict=False))
        saved = {n: have[n] for n in op.policy_names if n in asked}
        policy(saved, op.policy_names, fixed)
        have |= saved | {"needs": wanted_names}
        grads = values[len(names) :]
        return have | {"grad": grads[0], "grads": _spread(grads, diff, len(outs))}

    def back(*values: Value) -> tuple[jax.Array, ...]:
        have = known(values)
        found: dict[str, Any] = dict.fromkeys(errors)
        for wrt, f in sorted(chosen, key=lambda pair: _turn(pair[1], have)) if naming() else chosen:
            got = _given(f, have)
            got = got if isinstance(got, tuple) else (got,)
            found |= dict(zip(wrt, got, strict=True))
        absent.update([k for k, i in enumerate(wanted) if found[owner[i]] is None])
        places = [(owner[i], spans[owner[i]].index(i)) for k, i in enumerate(wanted) if k not in absent]
        return tuple(
            rules.fit(found[n][k], fixed[n][k]) if isinstance(fixed[n], list) else rules.fit(found[n], fixed[n])
            for n, k in places
        )

    plan = Plan(op.name, inputs, outputs, names, wanted, outs, diff)
    _mark(plan, op)
    args = [avals[i] for i in inputs] + [outs[i] for i in outputs] + [outs[i] for i in diff]
    weak = [a.weak_type for a in args[: len(names)]]
    plan.source, plan.explicit = (back, args), True
    checks = [f.check for _, f in chosen if hasattr(f, "check")]
    whole = _with_flag(plan, back, lambda values: _given(checks[0], known(values))) if checks else back
    _finish(plan, kernel, jax.make_jaxpr(whole)(*args), weak)
    if plan.error is not None:
        plan.route = plan.route or tuple([-1 - k for k in range(len(wanted))])
        plan.route = plan.route[: len(wanted) - len(absent)]
    if absent:
        _leave_out(plan, absent)
        plan.refusals = refusals or None
    return plan


def _given(formula: Formula, have: Mapping[str, Any]) -> Any:
    """A formula of what it names."""
    return formula(**{p: have[p] for p in formula.__code__.co_varnames[: formula.__code__.co_argcount]})


def _with_flag(plan: Plan, back: Forward, check: Callable[[Values], Any]) -> Forward:
    """``back`` with the flag of a check as its last result, where there is something to check."""

    def whole(*values: Value) -> tuple[jax.Array, ...]:
        found = check(values)
        flag, plan.error = ((), None) if found is None else ((found[0],), found[1])
        return (*back(*values), *flag)

    return whole


def _leave_out(plan: Plan, absent: Collection[int]) -> None:
    """Give the wanted inputs at the positions ``absent`` no gradient; the others are in order."""
    n = len(plan.wanted)
    others = iter(plan.route or [-1 - j for j in range(n - len(absent))])
    plan.route = tuple([None if k in absent else next(others) for k in range(n)])


def _turn(formula: Formula, have: Mapping[str, Any]) -> int:
    """Where a formula stands among those of a call; see ``turn`` of :func:`op.op`."""
    turn = getattr(formula, "turn", None)
    return 0 if turn is None else _given(turn, have)


def _refusing_plan(
    op: Op, wanted: Indices, outs: tuple[jax.ShapeDtypeStruct, ...], diff: Indices, error: Exception
) -> Plan:
    """The plan of a call whose backward raises; see rules.undefined."""

    def back(*grads: jax.Array) -> NoReturn:
        raise type(error)(*error.args)

    plan = Plan(op.name, (), (), (), wanted, outs, diff)
    plan.refuses = True
    plan.kernel = Derived(f"{op.name}_backward", op.node + "Backward", back)
    return plan


def _spread(grads: Values, diff: Indices, n: int) -> list[Value]:
    full = [None] * n
    for i, g in zip(diff, grads, strict=True):
        full[i] = g
    return full


def _finish(plan: Plan, kernel: Kernel, closed: ClosedJaxpr, weak: Sequence[bool]) -> None:
    """Find gradients that merely pass through, and make the rest an operator of its own."""
    invars = {v: i for i, v in enumerate(closed.jaxpr.invars)}
    route, computed = [], []
    for var in closed.jaxpr.outvars:
        source = invars.get(var) if not hasattr(var, "val") else None
        if source is None:
            route.append(-1 - len(computed))
            computed.append(var)
        else:
            route.append(source)
    if computed:
        if len(computed) < len(route):
            closed = closed.replace(jaxpr=closed.jaxpr.replace(outvars=computed))
        back = Derived(f"{plan.name}_backward", node_of_backward(kernel), jaxpr_as_fun(closed))
        plan.kernel = back.back_of(plan, kernel)
        if not any(getattr(a, "weak_type", False) for a in closed.out_avals):
            plan.kernel.closed = closed
    if len(computed) < len(route):
        plan.route = tuple(route)
