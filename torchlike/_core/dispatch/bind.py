"""Installs every declared operator under its public names."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from torchlike._core.conversion.convert import tensor
from torchlike._core.dispatch.dispatch import call, straight
from torchlike._core.dispatch.front import front
from torchlike._core.dispatch.inplace import call_inplace
from torchlike._core.tensor.arguments import RETURN_TYPES, known_number, named_results
from torchlike._core.tensor.tensor import Tensor
from torchlike._decl.op import REGISTRY, Op

if TYPE_CHECKING:
    from torchlike._decl.derive import Kernel

FUNCTIONS: dict = {}  # public name -> generated function

_DUNDERS = {
    "+": ("__add__", "__radd__", "__iadd__"), "-": ("__sub__", None, "__isub__"),
    "*": ("__mul__", "__rmul__", "__imul__"), "/": ("__truediv__", None, "__itruediv__"),
    "//": ("__floordiv__", None, "__ifloordiv__"), "@": ("__matmul__", None, None),
    "&": ("__and__", "__rand__", "__iand__"), "|": ("__or__", "__ror__", "__ior__"),
    "^": ("__xor__", "__rxor__", "__ixor__"), "<<": ("__lshift__", None, "__ilshift__"),
    ">>": ("__rshift__", None, "__irshift__"), "==": ("__eq__", None, None), "!=": ("__ne__", None, None),
    "<": ("__lt__", None, None), "<=": ("__le__", None, None), ">": ("__gt__", None, None),
    ">=": ("__ge__", None, None), "neg": ("__neg__", None, None), "abs": ("__abs__", None, None),
    "~": ("__invert__", None, None), "**": ("__pow__", None, "__ipow__"),
}  # fmt: skip


def _binary(op: Op, kernel: Kernel, runner: Callable[..., Any]) -> Callable[..., Any]:
    """A Python operator: NotImplemented for what is neither a tensor nor a number."""
    tail = len(op.dynamic) - 2  # arguments that an operator does not give: at most one, ``alpha``
    equality = op.operator == "=="

    def padded(self: Tensor, other: Any) -> Any:
        if other.__class__ in _OPERANDS or isinstance(other, _OPERAND_TYPES):
            return runner(kernel, (self, other, None), ())
        known = known_number(other)
        return NotImplemented if known is other else padded(self, known)

    def plain(self: Tensor, other: Any) -> Any:
        if other.__class__ in _OPERANDS or isinstance(other, _OPERAND_TYPES):
            return runner(kernel, (self, other), ())
        if equality and isinstance(other, np.ndarray):  # of PyTorch's operators only this one takes an array
            return runner(kernel, (self, tensor(other)), ())
        known = known_number(other)
        return NotImplemented if known is other else plain(self, known)

    otherwise = padded if tail else plain
    return straight(op, 2, (), otherwise) if runner is call else otherwise


_OPERAND_TYPES = (Tensor, int, float, complex, np.generic)
_OPERANDS = frozenset((Tensor, int, float, bool, complex))


def _reflected(op: Op) -> Callable[..., Any]:
    tail, first = (None,) * (len(op.dynamic) - 2), op.operator in "+*"

    def reflected(self: Any, other: Any) -> Any:
        if not isinstance(self, Tensor):
            raise TypeError(f"{op.name}: a reflected operator is of a Tensor, not {type(self).__name__}")
        if other.__class__ in _OPERANDS or isinstance(other, _OPERAND_TYPES):
            return call(op, (self, other, *tail) if first and isinstance(other, Tensor) else (other, self, *tail), ())
        known = known_number(other)
        return NotImplemented if known is other else reflected(self, known)

    return reflected


def _install_operator(op: Op) -> None:
    normal, reflected, inplace = _DUNDERS[op.operator]
    if len(op.schema.args) == 1:
        setattr(Tensor, normal, _named(lambda self: call(op, (self,), ()), normal))
        return
    setattr(Tensor, normal, _named(_binary(op, op, call), normal))
    if reflected:
        setattr(Tensor, reflected, _named(_reflected(op), reflected))
    if inplace and op.inplace:
        setattr(Tensor, inplace, _named(_binary(op, op.inplace, call_inplace), inplace))


def _named(function: Any, name: str) -> Any:
    function.__name__, function.__qualname__ = name, f"Tensor.{name}"
    return function


def install() -> None:
    """Bind every declared operator: functions into FUNCTIONS, methods onto Tensor."""
    packets: dict[str, list[Op]] = {}
    for op in REGISTRY.values():
        packets.setdefault(op.schema.name, []).append(op)
        if op.result_names and "result0" not in op.result_names:  # which PyTorch gives no names
            op.returns = _structure(op)
    for name, ops in packets.items():
        for form in ("function", "method", "inplace"):
            chosen = [op for op in ops if form in op.variants]
            if not chosen:
                continue
            function = front(chosen, form)
            if form == "function":
                FUNCTIONS[name] = function
            else:
                setattr(Tensor, name + ("_" if form == "inplace" else ""), function)
        for op in ops:
            if op.operator:
                _install_operator(op)


def _structure(op: Op) -> Any:
    """The named tuple of an operator with several named results, ``torch.return_types.max``."""
    name = op.schema.name
    if name not in RETURN_TYPES:
        RETURN_TYPES[name] = named_results(name, op.result_names)
    if "out" in op.variants and name + "_out" not in RETURN_TYPES:
        named_results(name + "_out", op.result_names)
    return RETURN_TYPES[name]
