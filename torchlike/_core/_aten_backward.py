"""Backward kernels as aten calls: by a formula where PyTorch has one, else as one call of their own.

A formula makes of a :class:`Case` the gradients of its inputs by name, in the order in which PyTorch computes them.
What PyTorch leaves to a node of its own is a :class:`Later`.
"""

from collections.abc import Callable
from typing import Any

from torchlike._base.dtypes import FROM_NP
from torchlike._core import _aten_lower as lower
from torchlike._core._aten_lower import shown
from torchlike._core.dispatch import call
from torchlike._core.packets import OpOverload, ops, packet
from torchlike._core.python_dispatch import invoke
from torchlike._core.tensor import Tensor, strided
from torchlike._decl.function_schema import parse_schema

_aten = ops.aten
FORMULAS: dict[str, Callable[["Case"], dict]] = {}  # by the full name of the operator


class Later:
    """A gradient that is computed when its turn comes: after the nodes made later than the call, by ``rank``."""

    __slots__ = ("compute", "rank")

    def __init__(self, compute: Callable[[], Tensor], rank: int = 1) -> None:
        self.compute, self.rank = compute, rank


class Case:
    """One backward: what its call was, what was saved of it, and the gradients of its results.

    Attributes:
        name: the operator's. static: {argument: value}. needs: the names of the inputs that get a gradient.
        grad: that of the first differentiable result; grads: of all of them. args: what a view was made with.
    """

    def __init__(self, plan: Any, values: tuple, args: tuple = ()) -> None:
        op = plan.op.declaration
        self.plan, self.op, self.args = plan, op, args
        n = len(plan.inputs) + len(plan.outputs)
        self.saved = dict(zip(plan.names, values[:n], strict=False))
        self.grads = values[n:]
        self.grad = self.grads[0]
        self.static = dict(zip([a.name for a in op.static], plan.static, strict=False))
        self.lists = getattr(op, "lists", False)
        names = [a.name for a in op.dynamic]
        self.positions = {} if self.lists else {n: i for i, n in enumerate(names)}
        self.needs = [self.label(i) for i in plan.wanted]

    def label(self, i: int) -> Any:
        """What a formula calls input ``i``: its name, or its place where there are lists."""
        names = [a.name for a in self.op.dynamic]
        return i if self.lists or i >= len(names) else names[i]

    def __getitem__(self, name: str) -> Any:
        found = self.saved.get(name)
        return self.static[name] if found is None and name in self.static else self.saved.get(name)

    def number(self, name: str) -> Any:
        """A number argument, its default if it was left out."""
        value = self[name]
        if value is not None or name in self.static:
            return value
        default = next(a.default for a in self.op.dynamic if a.name == name)
        return default

    def aval(self, name: Any) -> Any:
        """Shape and dtype of an input."""
        return self.plan.avals[name if isinstance(name, int) else self.positions[name]]

    def shape(self, name: Any = "self") -> list[int]:
        return list(self.aval(name).shape)


def formula(*names: str) -> Callable[[Callable], Callable]:
    """Register the formula of these operators."""

    def register(function: Callable) -> Callable:
        for name in names:
            FORMULAS[name] = function
        return function

    return register


def gradients(plan: Any, values: tuple, args: tuple = ()) -> list | None:
    """The gradients of the wanted inputs in order, by a formula; None where there is none."""
    op = plan.op.declaration
    found = FORMULAS.get(op.full_name)
    if found is None or plan.refuses:
        return None
    case = Case(plan, values, args)
    got = found(case)
    if got is None:
        return None
    return [fitted(got[n], case.aval(n)) for n in case.needs]


def fitted(grad: Any, aval: Any) -> Any:
    """A gradient of the shape and dtype of its input: broadcast dimensions are summed."""
    if not isinstance(grad, Tensor):
        return grad
    if list(grad.shape) != list(aval.shape):
        grad = summed(grad, list(aval.shape))
    if grad.dtype.np != aval.dtype and not aval.weak_type:
        kind = _dtype_of(aval)
        grad = shown(_aten._to_copy.default, grad, dtype=kind, layout=strided, device=grad.device)
    return grad


def _dtype_of(aval: Any) -> Any:
    return FROM_NP[aval.dtype]


def summed(grad: Any, shape: list[int]) -> Any:
    """The sum of ``grad`` over the dimensions that were broadcast from ``shape``."""
    lead = grad.ndim - len(shape)
    dims = list(range(lead)) + [i + lead for i, n in enumerate(shape) if n == 1 and grad.shape[i + lead] != 1]
    if dims:
        grad = shown(_aten.sum.dim_IntList, grad, dims, True)
    return shown(_aten.view.default, grad, shape) if lead else grad


# -- kernels without a formula ---------------------------------------------------------------------------------------


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
