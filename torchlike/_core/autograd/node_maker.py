"""The nodes of a plan, made and applied by code without loops that is written for what the plan saves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from torchlike._core.autograd import node as nodes
from torchlike._core.autograd import operator_node
from torchlike._core.tensor.arguments import KIND
from torchlike._core.tensor.storage import CAPTURES
from torchlike._core.tensor.tensor import Tensor, alias
from torchlike._executor.scalars import with_arrays

if TYPE_CHECKING:
    from torchlike._core.autograd.operator_node import OpNode
    from torchlike._core.typed import Inputs
    from torchlike._decl.derive import Kernel, Plan
    from torchlike._decl.typed import Indices

_NEWLINE = "\n    "
_LONG = 8  # as many inputs are looped over
_RUN = """
    kernel = plan.kernel
    try:
        run = kernel.kernels[()]
        results = run({given}) if recorder is None else recorder.record(run, [{values}], kernel.name)
    except (TypeError, ValueError, KeyError):
        return None"""
_get = KIND.get


def node_of(op: Kernel, plan: Plan, inputs: Inputs, outs: Sequence[Any]) -> OpNode:
    """The node of a recorded call of ``op``, the first one of ``plan``: later ones come from ``plan.make``."""
    node = _looped(op, plan, inputs, outs)
    if not plan.apart and len(plan.wanted) + len(plan.inputs) <= _LONG:
        plan.make = _straight(plan.wanted, plan.inputs, plan.outputs)
    gives = plan.kernel is not None or plan.route
    if plan.back is None and gives and node._simple and len(node._kept) + len(plan.diff) <= _LONG:
        plan.back = _applied(tuple([v is not None for v in node._versions]), plan.diff, plan.kernel is None, plan.route)
    return node


def _looped(op: Kernel, plan: Plan, inputs: Inputs, outs: Sequence[Any]) -> OpNode:
    edges = [nodes.edge_of(inputs[i]) for i in plan.wanted]
    saved = [inputs[i] for i in plan.inputs] + [alias(outs[i]) for i in plan.outputs]
    versions = [t._vc.version if _get(t.__class__) == 1 else None for t in saved]
    node = operator_node.make(op, plan, edges, saved, versions)
    if nodes.WATCHERS:
        nodes.watch(node)
    return node


@cache
def _straight(wanted: Indices, inputs: Indices, outputs: Indices) -> Callable[[Any, Plan, Any, Any], OpNode]:
    """As :func:`_looped`, for plans that want and save these."""
    lines = [f"x{i} = inputs[{i}]" for i in sorted({*wanted, *inputs})]
    for i in wanted:
        lines += [f"e{i} = x{i}._edge", f"if e{i} is None: e{i} = (accumulator(x{i}), 0)"]
    lines += [f"y{i} = alias(outs[{i}])" for i in outputs]
    kept = [*[f"x{i}" for i in inputs], *[f"y{i}" for i in outputs]]
    versions = [f"x{i}._vc.version if x{i}.__class__ is Tensor or get(x{i}.__class__) == 1 else None" for i in inputs]
    versions += [f"y{i}._vc.version" for i in outputs]
    source = f"""
def make(op, plan, inputs, outs):
    {_NEWLINE.join(lines)}
    node = plan.node_class()
    node._edges = ({"".join([f"e{i}, " for i in wanted])})
    node._kept = {"[" + ", ".join(kept) + "]" if kept else "()"}
    node._versions = {"[" + ", ".join(versions) + "]" if kept else "()"}
    node.plan, node._arity, node._seq, node._ex = plan, plan.arity, next_sequence(), None
    if WATCHERS:
        watch(node)
    return node
"""
    names: dict[str, Any] = {
        "accumulator": nodes.accumulator, "alias": alias, "Tensor": Tensor, "get": _get, "watch": nodes.watch,
        "next_sequence": nodes.next_sequence, "WATCHERS": nodes.WATCHERS,
    }  # fmt: skip
    exec(compile(source, "<torchlike nodes>", "exec"), names)
    return names["make"]


@cache
def _applied(
    tensors: tuple[bool, ...], diff: Indices, passes: bool, route: tuple[int | None, ...] | None
) -> Callable[[OpNode, Plan, Any], Any]:
    """As ``OpNode.apply``, for plans that save such values; None where that has to be asked, as something is unusual.

    tensors: which of what is saved are tensors. passes: whether there is no kernel. diff, route: those of the plan.
    """
    count = range(len(tensors))
    odd = [f"g{i} is None" for i in diff]
    for i in count:
        changed = f"s{i}._vc.version != v{i} or s{i}._ex is not None or s{i}._view is not None"
        odd.append(changed if tensors[i] else f"v{i} is not None")
    values = [f"s{i}._storage.value" if tensors[i] else f"s{i}" for i in count] + [f"g{i}" for i in diff]
    saved = [f"{', '.join([f'{x}{i}' for i in count])}, = {what}" for x, what in (("s", "kept"), ("v", "versions"))]
    routes = range(0) if route is None else route
    gradients = ["None" if r is None else values[r] if r >= 0 else f"results[{-1 - r}]" for r in routes]
    given = f"({', '.join(gradients)},)" if gradients else "results"
    listed = ", ".join(values)
    kernel = "" if passes else _RUN.format(values=listed, given=listed if all(tensors) else f"*with_arrays([{listed}])")
    source = f"""
def back(node, plan, grads, recorder):
    kept, versions = node._kept, node._versions
    if CAPTURES or kept is None or versions is None:
        return None
    {_NEWLINE.join([*(saved if tensors else ()), *[f"g{i} = grads[{i}]" for i in diff]])}
    if {" or ".join(odd)}:
        return None
{kernel}
    return {given}
"""
    names: dict[str, Any] = {"CAPTURES": CAPTURES, "with_arrays": with_arrays}
    exec(compile(source, "<torchlike nodes>", "exec"), names)
    return names["back"]
