"""Dispatch: the one way every operator call takes, through the layers of ``layers.py`` where one is active.

``state.active`` is non-zero while a layer other than autograd and the executor is; otherwise a call on plain tensors
goes straight to autograd and the executor.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from torchlike._base.state import UNUSUAL, state
from torchlike._core.autograd import node as nodes
from torchlike._core.autograd import operator_node
from torchlike._core.autograd.node_maker import node_of
from torchlike._core.dispatch.layers import DEVICES, DISPATCH, LAYERS, SPARSE, Call, Form
from torchlike._core.tensor import memory_order as layouts
from torchlike._core.tensor.arguments import KIND, demand_no_bools, plain, with_numbers
from torchlike._core.tensor.mutation import current, set_history
from torchlike._core.tensor.tensor import Tensor, value_of, wrap
from torchlike._core.tensor.view_creation import UNRECORDED, refusal
from torchlike._core.tensor.views import reader
from torchlike._decl import derive, rules
from torchlike._decl.batch import Batch
from torchlike._decl.op import Op
from torchlike._executor import immediate, plans, sparse
from torchlike._executor.failure import translate
from torchlike._executor.pending import Array
from torchlike._executor.scalars import with_arrays
from torchlike._executor.spread import on_several_devices

if TYPE_CHECKING:
    from torchlike._core.typed import Inputs
    from torchlike._decl.derive import Kernel, Plan
    from torchlike._decl.typed import Static, Values

_get = KIND.get


def call(op: Kernel, inputs: Inputs, static: Static) -> Any:
    """Run ``op`` on ``inputs`` (tensors, numbers, None) and record a node if one requires grad."""
    recorder = None
    if UNUSUAL:
        if state.active:
            return walk(Call(op, NEW, inputs, static))
        recorder = state.recorder
    values = []
    record = numbers = False
    strided = op.laid
    for t in inputs:
        kind = 1 if t.__class__ is Tensor else _get(t.__class__)
        if kind == 1:
            view = t._view
            if view is None:
                values.append(t._storage.value)
            else:
                if t._diff is not None and state.grad:
                    refresh(t)
                strided = strided or not (view.ordered or (view.ordered is None and view.in_order()))
                values.append(value_of(t))
            if t._rg:
                record = True
        elif kind == 2:
            values.append(t)
            if t is not None:
                numbers = True
        elif kind == 3:
            demand_no_bools(op, inputs, static)
            values.append(t)
            numbers = True
        else:
            return walk(Call(op, NEW, inputs, static))
    try:
        kernel = op.kernels.get(static) or immediate.compiled(op, static)
        if recorder is not None:
            out = recorder.record(kernel, values, op.name)
        else:
            out = kernel(*with_arrays(values)) if numbers else kernel(*values)
    except immediate.TensorInStatic:
        return call(op, inputs, with_numbers(op, static))
    except Exception as error:
        if sparse.holds(values) or isinstance(error, sparse.Wanted):
            return SPARSE(Call(op, NEW, inputs, static))
        if on_several_devices(error):
            return DEVICES(Call(op, NEW, inputs, static))
        out = translate(op, static, values, error)
    if op.checked is not None:
        out = immediate.verified(op, static, values, out)
    if out.__class__ is tuple:
        out = _record(op, inputs, static, values, out) if record and state.grad else tuple([wrap(v) for v in out])
    else:
        out = wrap(out)
        if record and state.grad:
            plan = plan_for(op, inputs, static, values)
            if plan is not None:
                out._edge = ((plan.make or node_of)(op, plan, inputs, (out,)), 0)
                out._rg = True
    if strided and op.layout is not None:
        layouts.inherit_strides(op, inputs, static, out)
    if op.returns is not None:
        return op.returns(out)
    return out


NEW = Form("new", call, fresh=True)


def straight(op: Kernel, tensors: int, static: Static, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    """``otherwise``, a call of ``op`` on one or two tensors alone: by code without loops where no layer is active.

    It does what :func:`call` does with plain tensors. ``otherwise`` itself for operators that want more than that.
    """
    if op.checked is not None or op.laid or [kind for kind, _ in op.declaration.schema.returns] != ["Tensor"]:
        return otherwise
    return _makers(tensors, len(op.dynamic) - tensors)(op, static, otherwise)


@functools.cache
def _makers(tensors: int, others: int) -> Callable[..., Any]:
    """What makes such functions for operators with ``others`` arguments more, which are None."""
    names = "xy"[:tensors]
    parts = {
        "given": ", ".join(names),
        "plain": " and ".join([f"{x}.__class__ is Tensor and {x}._view is None" for x in names]),
        "values": "".join([f"{x}._storage.value, " for x in names]),
        "held": "".join([f"v{x}, " for x in names]),
        "inputs": ", ".join([*names, *["None"] * others]) + ",",
        "args": ", ".join([*[f"v{x}" for x in names], *["None"] * others]) + ",",
        "wanted": " or ".join([f"{x}._rg" for x in names]),
        "arrays": " is ".join([f"v{x}.__class__" for x in names]),
        "key": "".join([f"v{x}.aval, {x}._rg, " for x in names]),
        "same": " and ".join(
            [f"recent[{2 * i + 1}] is k{i}a and recent[{2 * i + 2}] is k{i}g" for i in range(tensors)]
        ),
        "kept": "".join([f"k{i}a, k{i}g, " for i in range(tensors)]),
    }
    space: dict[str, Any] = {
        "UNUSUAL": UNUSUAL, "state": state, "plan_for": plan_for, "node_of": node_of, "wrap": wrap, "Tensor": Tensor,
        "Array": Array,
    }  # fmt: skip
    exec(compile(_STRAIGHT.format(**parts), "<torchlike calls>", "exec"), space)
    return space["made"]


_STRAIGHT = """
def made(op, static, otherwise):
    def straight({given}):
        if {plain} and not UNUSUAL:
            {held} = {values}
            try:
                t = wrap(op.kernels[static]({args}))
            except Exception:
                return otherwise({given})
            if ({wanted}) and state.grad:
                recent = op.recent
                if Array is {arrays}:
                    {kept} = {key}
                    if recent[0] is static and {same}:
                        plan = recent[-1]
                    else:
                        plan = plan_for(op, ({inputs}), static, ({args}))
                        op.recent = static, {kept} plan
                else:
                    plan = plan_for(op, ({inputs}), static, ({args}))
                if plan is not None:
                    t._edge = ((plan.make or node_of)(op, plan, ({inputs}), (t,)), 0)
                    t._rg = True
            return t
        return otherwise({given})
    return straight
"""


def call_taken(op: Kernel, inputs: Inputs, static: Static) -> Any:
    """As :func:`call`, for an operator with ``taken``: of memory that numpy sees only the elements are read."""
    t, places = inputs
    if t.__class__ is Tensor and t._storage.shared and not state.active and not (t._rg and state.grad):
        where = value_of(places) if places.__class__ is Tensor else None
        index = op.declaration.taken(tuple(t.shape), np.asarray(where), *static) if where.__class__ is Array else None
        value = None if index is None else t._storage.rows(t, index)
        if value is not None:
            out = wrap(value)
            if op.layout is not None and (op.laid or t._view is not None or places._view is not None):
                layouts.inherit_strides(op, inputs, static, out)
            return out
    return call(op, inputs, static)


def walk(call: Call) -> Any:
    """The results of a call that some layer may handle, or whose inputs are to be made plain."""
    if any([isinstance(x, Tensor) for x in call.static]):
        call = Call(call.op, call.form, call.inputs, with_numbers(call.op, call.static))
    if any([x.__class__ is bool for x in call.inputs]):
        demand_no_bools(call.op, call.inputs, call.static)
    for layer in LAYERS if state.active else ():
        if state.active & layer.bit and (layer.outputs or not call.form.outputs):
            return layer(call)
    if any([type(x) not in KIND and DISPATCH.has(type(x)) for x in call.inputs]):
        return DISPATCH(call)
    return call.run(tuple([plain(call.op, i, x) for i, x in enumerate(call.inputs)]))


def with_results(op: Kernel, inputs: Inputs, static: Static, results: Any) -> Any:
    """As ``call``, where the values of the results are known: they are recorded, not computed."""
    values = []
    record = strided = False
    for t in inputs:
        if _get(t.__class__) == 1:
            if t._diff is not None and state.grad:
                refresh(t)
            values.append(value_of(t))
            record = record or t._rg
            strided = strided or t._view is not None
        else:
            values.append(t)
            strided = strided or (isinstance(t, Tensor) and t._view is not None)
    if record and state.grad:
        out = _record(op, inputs, static, values, results)
    else:
        out = tuple(map(wrap, results)) if results.__class__ is tuple else wrap(results)
    if op.layout is not None and (op.laid or strided):
        layouts.inherit_strides(op, inputs, static, out)
    return out if op.returns is None else op.returns(out)


def plan_for(op: Kernel, inputs: Sequence[Any], static: Static, values: Values) -> Plan | None:
    """The derivative plan of this call, from the cache or made now; None if nothing is differentiable."""
    count, array = len(values), Array  # straight code for the usual calls
    if values[0].__class__ is not array:
        key = _key(inputs, static, values)
    elif count == 1:
        key = static, values[0].aval, inputs[0]._rg
    elif values[1].__class__ is array and (count == 2 or count == 3 and values[2] is None):
        key = static, values[0].aval, inputs[0]._rg, values[1].aval, inputs[1]._rg, count
    else:
        key = _key(inputs, static, values)
    plan: Any = op.plans.get(key, _ABSENT)
    if plan is _ABSENT:
        if len(op.plans) >= PLANS:
            for old in list(op.plans)[: PLANS // 2]:
                op.plans.pop(old, None)
        plan = op.plans[key] = _make_plan(op, inputs, static, values)
    return plan


def _key(inputs: Sequence[Any], static: Static, values: Values) -> tuple[Any, ...]:
    key: Any = [None, static]
    for t, v in zip(inputs, values):  # noqa: B905  (the keyword costs as much as two rounds)
        if _get(t.__class__) == 1:
            key += v.aval if v.__class__ is not immediate.Abstract else v, t._rg
        else:
            key.append(t.__class__)
    return tuple(key)


PLANS = 2048  # of one operator; beyond, the older half is forgotten, and made again where it is asked for


_ABSENT = object()


def _make_plan(op: Kernel, inputs: Sequence[Any], static: Static, values: Values) -> Plan | None:
    is_tensor = [_get(t.__class__) == 1 for t in inputs]
    wanted = tuple(i for i, t in enumerate(inputs) if is_tensor[i] and t._rg and rules.differentiable(values[i].dtype))
    if not wanted:
        return None
    avals = [derive.aval(v) for v in values]
    plan = plans.derivative(op, static, avals, _as_they_arrive(op.declaration, wanted, avals, static))
    if plan is None:
        demand_floating(op.declaration, static)
    else:
        plan.op, plan.static, plan.avals = op, static, avals
        plan.tensors = tuple(i for i, yes in enumerate(is_tensor) if yes or _stands_for_tensor(op, i))
    return plan


def demand_floating(op: Any, static: Static) -> None:
    """Refuse to compute in a dtype without derivatives, which drops the gradient; a cast, no function, is asked to."""
    if isinstance(op, Batch):
        return demand_floating(op.base.declaration, op.static)
    if not isinstance(op, Op) or "function" not in op.variants or op.formulas == {}:
        return
    for arg, given in zip(op.static, static, strict=False):
        if arg.kind == "dtype" and given is not None and not rules.differentiable(given.np):
            raise RuntimeError(
                f"Autograd not support dtype: {given.scalar_name}. {op.name}() of a tensor that requires grad has no "
                "gradient in it; detach() the tensor"
            )


def _as_they_arrive(op: Any, wanted: Sequence[int], avals: Sequence[Any], static: Static) -> tuple[int, ...]:
    """The inputs that get a gradient, in the order in which the engine hands them out: that of ``next_functions``."""
    if op.edges_of is None:
        return tuple(wanted)
    order = {i: k for k, i in enumerate(op.chosen(op.edges_of, avals, static))}
    return tuple(sorted(wanted, key=lambda i: order.get(i, len(avals))))


def _stands_for_tensor(op: Kernel, i: int) -> bool:
    """Whether input ``i``, a number or None, is a tensor in the schema."""
    op = op.declaration
    return i < len(op.dynamic) and op.dynamic[i].is_tensor and not op.lists


def _record(op: Kernel, inputs: Inputs, static: Static, values: Values, out: Any) -> Any:
    """Wrap the results with a node that remembers this call."""
    plan = plan_for(op, inputs, static, values)
    if out.__class__ is not tuple:
        t = wrap(out)
        if plan is not None:
            t._edge = ((plan.make or node_of)(op, plan, inputs, (t,)), 0)
            t._rg = True
        return t
    outs = [wrap(v) for v in out]
    if plan is not None:
        node = (plan.make or node_of)(op, plan, inputs, outs)
        for i in plan.diff:
            t = outs[i]
            t._edge = (node, i)
            t._rg = True
    return tuple(outs)


def refresh(t: Tensor) -> None:
    """Give a view whose base was changed in place its new history (a read of the base)."""
    diff = t._diff
    base = diff.base
    if t._rg is not base._rg:
        _follow_base(t, base)
    if diff.version == t._vc.version or not (base._rg or (t._rg and t._edge is not None)):
        return
    if diff.creation is not None:
        if diff.creation in UNRECORDED and not base._rg:
            return
        raise refusal(t, indirect=True)
    current(diff, t)
    steps, ints = diff.path(t)
    op = reader(steps)
    values = (immediate.Abstract(base._layout.shape, base.dtype.np), *ints)
    plan = plan_for(op, (base, *ints), (), values)
    if plan is None:  # the base was detached since: the view keeps a node, which leads nowhere
        plan = op.derivative((), [derive.aval(v) for v in values], (0,))
        plan.tensors = (0,)
    saved = [ints[i - 1] for i in plan.inputs]
    node = operator_node.make(op, plan, [nodes.edge_of(base)], saved, [None] * len(saved))
    node.given = tuple(t._layout)
    nodes.new_history(t, (node, 0))


def _follow_base(t: Tensor, base: Tensor) -> None:
    """A view without history requires grad while its base does, though no gradient flows through it."""
    if base._rg and not t._rg:
        set_history(t, nodes.NOWHERE, True)
    elif t._edge is nodes.NOWHERE:
        set_history(t, None, False)
