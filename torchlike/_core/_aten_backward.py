"""Backward kernels as aten calls: those of their formula, or one call of their own where aten has no word for a part."""

from typing import Any

import numpy as np
from jax.extend.core import Literal

from torchlike._base.dtypes import FROM_NP
from torchlike._core import _aten_lower as lower
from torchlike._core._aten_jaxpr import Later, Spread, is_number, missing, run, whole, wrapped
from torchlike._core._aten_lower import shown
from torchlike._core.dispatch import call
from torchlike._core.packets import OpOverload, ops, packet
from torchlike._core.python_dispatch import invoke
from torchlike._core.tensor import strided
from torchlike._decl.function_schema import parse_schema
from torchlike._decl.naming import named_trace

_aten = ops.aten
_OPAQUE = object()


def recipe(plan: Any) -> Any:
    """The jaxpr of a plan's gradients with the names of words, or None if it has parts that aten has no word for."""
    if plan.recipe is None:
        function, avals = plan.source
        closed = named_trace(function, *avals)
        if missing(closed.jaxpr):
            plan.recipe = _OPAQUE
        else:
            plan.recipe = closed if plan.explicit else _in_order(closed, plan)
    return None if plan.recipe is _OPAQUE else plan.recipe


def _in_order(closed: Any, plan: Any) -> Any:
    """A jaxpr that jax derived, with its equations in PyTorch's order: by the names of inputs, sums at the end."""
    jaxpr, makers = closed.jaxpr, {v: eqn for eqn in closed.jaxpr.eqns for v in eqn.outvars}
    outs = [_summand(v, makers, plan) for v in jaxpr.outvars]
    names = [_name(plan, i) for i in plan.wanted]
    eqns: dict[int, Any] = {}
    for i in sorted(range(len(outs)), key=lambda i: names[i]):
        _needed(outs[i], makers, eqns)
    return closed.replace(jaxpr=jaxpr.replace(eqns=list(eqns.values()), outvars=outs))


def _name(plan: Any, i: int) -> str:
    dynamic = getattr(getattr(plan.op, "op", plan.op), "dynamic", ())
    return dynamic[i].name if i < len(dynamic) and not dynamic[i].is_list else f"~{i:06}"


_UNDONE = frozenset(("reduce_sum", "reshape", "broadcast_in_dim", "squeeze"))


def _summand(var: Any, makers: dict, plan: Any) -> Any:
    """What is summed to undo broadcasting, if that is what the last equations do."""
    shape, at = plan.outs[plan.diff[0]].shape, var
    summed = False
    while at in makers and makers[at].primitive.name in _UNDONE:
        summed = summed or makers[at].primitive.name == "reduce_sum"
        at = makers[at].invars[0]
        if isinstance(at, Literal):
            return var
    try:
        fits = at.aval.shape == shape == np.broadcast_shapes(var.aval.shape, shape)
    except ValueError:
        fits = False
    return at if summed and fits else var


def _needed(var: Any, makers: dict, eqns: dict) -> None:
    """Add the equations that a variable depends on, in their order."""
    stack, found = [var], {}
    while stack:
        at = stack.pop()
        eqn = None if isinstance(at, Literal) else makers.get(at)
        if eqn is not None and id(eqn) not in found:
            found[id(eqn)] = eqn
            stack.extend(eqn.invars)
    order = {id(eqn): i for i, eqn in enumerate(makers.values())}
    for key in sorted(found, key=order.__getitem__):
        eqns.setdefault(key, found[key])


def known(plan: Any) -> bool:
    """Whether a plan's gradients are calls that can be shown."""
    return not plan.refuses and recipe(plan) is not None


def gradients(plan: Any, values: tuple, args: tuple = ()) -> list | None:
    """The gradients of the wanted inputs in order, as aten calls; None where they are one call of its own."""
    if not known(plan):
        return None
    closed = recipe(plan)
    got = run(closed, _marked(plan, values))
    return [fitted(g, plan.avals[i], values[-1]) for g, i in zip(got, plan.wanted, strict=True)]


def _marked(plan: Any, values: tuple) -> list:
    """The arguments of a backward kernel, with the numbers among them that stand for tensors marked."""
    found = list(values)
    for at, i in enumerate(plan.inputs):
        if i in plan.tensors:
            found[at] = wrapped(found[at])
    return found


def fitted(grad: Any, aval: Any, like: Any) -> Any:
    """A gradient of the shape and dtype of its input: broadcast dimensions are summed."""
    if isinstance(grad, Later):
        return grad
    if is_number(grad) or isinstance(grad, Spread) and is_number(grad.source):
        return _constant(grad, aval, like)
    grad = whole(grad)
    if list(grad.shape) != list(aval.shape):
        grad = summed(grad, list(aval.shape)) if grad.ndim >= len(aval.shape) else expanded(grad, list(aval.shape))
    if grad.dtype.np != aval.dtype and not aval.weak_type:
        if grad.dtype.is_complex and aval.dtype.kind != "c":
            grad = shown(_aten.select.int, shown(_aten.view_as_real.default, grad), -1, 0)
        if grad.dtype.np != aval.dtype:
            kind = FROM_NP[aval.dtype]
            grad = shown(_aten._to_copy.default, grad, dtype=kind, layout=strided, device=grad.device)
    return grad


def _constant(grad: Any, aval: Any, like: Any) -> Any:
    """A gradient that is the same number everywhere."""
    number = grad.source if isinstance(grad, Spread) else grad
    if not number and list(like.shape) == list(aval.shape) and like.dtype.np == aval.dtype:
        return shown(_aten.zeros_like.default, like)
    options = {"dtype": FROM_NP[aval.dtype], "layout": strided, "device": like.device}
    if not number:
        return shown(_aten.new_zeros.default, like, list(aval.shape), **options)
    return shown(_aten.new_full.default, like, list(aval.shape), number, **options)


def expanded(grad: Any, shape: list[int]) -> Any:
    return shown(_aten.expand.default, grad, shape)


def summed(grad: Any, shape: list[int]) -> Any:
    """The sum of ``grad`` over the dimensions that were broadcast from ``shape``."""
    lead = grad.ndim - len(shape)
    dims = list(range(lead)) + [i + lead for i, n in enumerate(shape) if n == 1 and grad.shape[i + lead] != 1]
    if dims:
        grad = shown(_aten.sum.dim_IntList, grad, dims, True)
    grad = shown(_aten.view.default, grad, shape) if lead else grad
    return grad if list(grad.shape) == shape else expanded(grad, shape)


# -- derived kernels -------------------------------------------------------------------------------------------------


def derived(op: Any, inputs: tuple) -> Any:
    """The results of a derived kernel on tensors."""
    plan = getattr(op, "plan", None)
    if plan is not None:
        got = gradients(plan, inputs)
        if got is not None:
            got = [g.compute() if isinstance(g, Later) else g for g in got]
            return tuple([g for g, r in zip(got, plan.route or [-1] * len(got), strict=True) if r < 0])
    if op.name == "add" and len(inputs) == 2:
        return shown(_aten.add.Tensor, *inputs)
    return invoke(opaque(op, len(inputs)), inputs, {})


def opaque(op: Any, n: int) -> OpOverload:
    """An overload of ``torch.ops.torchlike`` for a kernel that PyTorch has no name for."""
    name = op.name if op.name.isidentifier() else "kernel"
    args = ", ".join(f"Tensor? x{i}" for i in range(n))
    schema = parse_schema(f"torchlike::{name}({args}) -> Tensor[]")
    return OpOverload(packet("torchlike", name), schema, lambda *values: call(op, values, ()))


lower.DERIVED.append(derived)
