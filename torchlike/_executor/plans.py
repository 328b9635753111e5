"""Derivative plans from the store: how a call is differentiated, without tracing its kernel or its derivative."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torchlike._decl import derive
from torchlike._executor import compiling, identity
from torchlike._executor.store import STORE

if TYPE_CHECKING:
    from torchlike._decl.derive import Kernel, Plan
    from torchlike._decl.typed import Avals, Forward, Indices, Static, Value


def derivative(op: Kernel, static: Static, avals: Avals, wanted: Indices) -> Plan | None:
    """``op.derivative(static, avals, wanted)``, as this or another process has found it."""
    key = _key(op, static, avals, wanted)
    kept = None if key is None else STORE.get(key)
    if kept is not None:
        return _unpacked(kept, op, static, avals, wanted)
    plan = op.derivative(static, avals, wanted)
    if key is not None and (plan is None or not (plan.refuses or plan.refusals or plan.error)):
        if plan is not None and plan.kernel is not None:
            plan.kernel.origin = _origin(op, static, avals, wanted)
        STORE.put(key, _packed(plan))
    return plan


def _origin(op: Kernel, static: Static, avals: Avals, wanted: Indices) -> tuple[Any, ...]:
    return "vjp", op.identity(), static, tuple(avals), wanted


def _key(op: Kernel, static: Static, avals: Avals, wanted: Indices) -> str | None:
    if STORE.place is None or op.identity() is None or not compiling.READY:
        return None
    try:
        environment = identity.environment(compiling.trace_context())
        return f"plan|{environment}|{identity.spell(_origin(op, static, avals, wanted))}"
    except identity.Nameless:
        return None


def _packed(plan: Plan | None) -> tuple[Any, ...]:
    if plan is None:
        return ()
    kernel = plan.kernel and (plan.kernel.name, plan.kernel.node)
    parts = plan.inputs, plan.outputs, plan.names, plan.wanted, plan.diff, plan.numbers, plan.apart, plan.route
    return plan.name, compiling.facts(plan.outs), parts, kernel


def _unpacked(kept: tuple[Any, ...], op: Kernel, static: Static, avals: Avals, wanted: Indices) -> Plan | None:
    if not kept:
        return None
    name, outs, parts, kernel = kept
    inputs, outputs, names, wanted, diff, numbers, apart, route = parts
    shapes = tuple([compiling.struct(a) for a in compiling.kinds(outs)])
    plan = derive.Plan(name, inputs, outputs, names, wanted, shapes, diff)
    plan.numbers, plan.apart, plan.route = numbers, apart, route
    if kernel is not None:
        function = _later(op, static, avals, wanted)
        origin = _origin(op, static, avals, wanted)
        back = derive.Derived(*kernel, function, origin)  # type: ignore[call-arg]
        plan.kernel = back.back_of(plan, op)
    return plan


def _later(op: Kernel, static: Static, avals: Avals, wanted: Indices) -> Forward:
    """The function of a plan's kernel, which is derived when somebody traces it."""
    found = []

    def run(*values: Value) -> Any:
        if not found:
            found.append(op.derivative(static, avals, wanted).kernel.function)
        return found[0](*values)

    return run
