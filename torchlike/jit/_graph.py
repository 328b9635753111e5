"""The graphs that ``torch.jit._get_trace_graph`` gives: calls of aten's operators, in the order of a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from torchlike._base.device import device
from torchlike._core.tensor.tensor import Tensor

_KINDS = {bool: "BoolType", int: "IntType", float: "FloatType", complex: "ComplexType", str: "StringType",
          type(None): "NoneType", device: "DeviceObjType"}  # fmt: skip
_TEXTS = {"BoolType": "bool", "IntType": "int", "FloatType": "float", "ComplexType": "complex", "StringType": "str",
          "NoneType": "NoneType", "DeviceObjType": "Device"}  # fmt: skip


class Type:
    """What a value of a graph is: a tensor of one shape, a number, a list of such."""

    __module__ = "torch"

    def __init__(self, kind: str, like: Tensor | None = None, items: Sequence[Type] = ()) -> None:
        self._kind, self._items = kind, list(items)
        if like is not None:
            self._sizes, self._strides, self._grad = list(like.shape), list(like.stride()), like.requires_grad
            self._dtype, self._device = like.dtype, like.device

    def kind(self) -> str:
        """``TensorType``, ``IntType``, ``ListType`` and so on."""
        return self._kind

    def sizes(self) -> list[int] | None:
        """The shape of a tensor."""
        return getattr(self, "_sizes", None)

    def strides(self) -> list[int] | None:
        """The strides of a tensor."""
        return getattr(self, "_strides", None)

    def dim(self) -> int | None:
        """How many dimensions a tensor has."""
        return None if self.sizes() is None else len(self._sizes)

    def dtype(self) -> Any:
        """The element type of a tensor."""
        return getattr(self, "_dtype", None)

    def device(self) -> Any:
        """Where a tensor is."""
        return getattr(self, "_device", None)

    def scalarType(self) -> str | None:
        """The name of a tensor's element type, as ``Float``."""
        return None if self.dtype() is None else self._dtype.scalar_name

    def requires_grad(self) -> bool:
        """Whether a tensor requires grad."""
        return getattr(self, "_grad", False)

    def containedTypes(self) -> list[Type]:
        """The types of a list's or tuple's items."""
        return self._items

    def __str__(self) -> str:
        if self._kind == "TensorType":
            return "Tensor"
        if self._kind == "ListType":
            return f"{self._items[0] if self._items else 'int'}[]"
        return f"({', '.join(map(str, self._items))})" if self._kind == "TupleType" else _TEXTS[self._kind]

    annotation_str = property(__str__)

    def described(self) -> str:
        """As a graph shows it."""
        if self._kind == "TupleType":
            return f"({', '.join([item.described() for item in self._items])})"
        if self.sizes() is None:
            return str(self)
        shape = [", ".join(map(str, self._sizes)), f"strides=[{', '.join(map(str, self._strides))}]"]
        rest = f"requires_grad={int(self._grad)}, device={self._device}"
        return f"{self.scalarType()}({', '.join([*(shape if self._sizes else []), rest])})"


def type_of(x: Any) -> Type:
    """The type of something in a run."""
    if isinstance(x, Tensor):
        return Type("TensorType", x)
    if isinstance(x, list | tuple | dict):
        items = [type_of(item) for item in (x.values() if isinstance(x, dict) else x)]
        return Type("ListType" if isinstance(x, list) else "TupleType", None, items)
    return Type(next((kind for cls, kind in _KINDS.items() if isinstance(x, cls)), "IntType"))


class Value:
    """An input or result of a node."""

    __module__ = "torch"

    def __init__(self, number: int, what: Any, node: Node) -> None:
        self._number, self._type, self._node = number, type_of(what), node
        self._constant = node.kind() == "prim::Constant"
        self._what = None if not self._constant or isinstance(what, Tensor) else what

    def type(self) -> Type:
        """What it is."""
        return self._type

    def isCompleteTensor(self) -> bool:
        """Whether it is a tensor, whose shape is known."""
        return self._type.kind() == "TensorType"

    def debugName(self) -> str:
        """Its name in the graph's text."""
        return str(self._number)

    def unique(self) -> int:
        """A number that no other value of the graph has."""
        return self._number

    def node(self) -> Node:
        """The node that computes it."""
        return self._node

    def requires_grad(self) -> bool:
        """Whether it requires grad."""
        return self._type.requires_grad()

    requiresGrad = requires_grad

    def toIValue(self) -> Any:
        """The number or text of a constant, else None."""
        return self._what

    def __repr__(self) -> str:
        return f"{self._number} defined in ({self._node!r})"


class Node:
    """A call: ``aten::linear``, ``prim::Constant``."""

    __module__ = "torch"

    def __init__(self, kind: str, inputs: Sequence[Value], scope: str, name: str = "") -> None:
        self._kind, self._inputs, self._scope, self._name = kind, list(inputs), scope, name
        self._outputs: list[Value] = []

    def kind(self) -> str:
        """The qualified name of what it calls."""
        return self._kind

    def inputs(self) -> Iterator[Value]:
        """What it takes."""
        return iter(self._inputs)

    def outputs(self) -> Iterator[Value]:
        """What it gives."""
        return iter(self._outputs)

    def inputsAt(self, i: int) -> Value:
        """One of its inputs."""
        return self._inputs[i]

    def outputsAt(self, i: int) -> Value:
        """One of its results."""
        return self._outputs[i]

    def inputsSize(self) -> int:
        """How many inputs it has."""
        return len(self._inputs)

    def outputsSize(self) -> int:
        """How many results it has."""
        return len(self._outputs)

    def input(self) -> Value:
        """Its one input."""
        (only,) = self._inputs
        return only

    def output(self) -> Value:
        """Its one result."""
        (only,) = self._outputs
        return only

    def scopeName(self) -> str:
        """The scopes in which it was called, outermost first, with slashes between."""
        return self._scope

    def pyname(self) -> str:
        """The name of a function of Python (``prim::PythonOp``)."""
        return self._name

    def __repr__(self) -> str:
        given = ", ".join([f"%{v.debugName()}" for v in self._inputs])
        constant = self._outputs[0].toIValue() if self._kind == "prim::Constant" else None
        shown = f'"{constant}"' if isinstance(constant, str) else constant
        value = "" if constant is None else f"[value={int(shown) if isinstance(shown, bool) else shown}]"
        return f"{_defined(self._outputs)} = {self._kind}{value}({given})"


class Graph:
    """The nodes of a run in their order."""

    __module__ = "torch"

    def __init__(self) -> None:
        self._nodes: list[Node] = []
        self._inputs: list[Value] = []
        self._outputs: list[Value] = []

    def nodes(self) -> Iterator[Node]:
        """The calls."""
        return iter(self._nodes)

    def inputs(self) -> Iterator[Value]:
        """What the function was given, and the parameters and buffers that it found."""
        return iter(self._inputs)

    def outputs(self) -> Iterator[Value]:
        """What it returned."""
        return iter(self._outputs)

    def findNode(self, kind: str, recurse: bool = True) -> Node | None:
        """The first node of a kind."""
        return next(iter(self.findAllNodes(kind)), None)

    def findAllNodes(self, kind: str, recurse: bool = True) -> list[Node]:
        """The nodes of a kind."""
        return [node for node in self._nodes if node.kind() == kind]

    def __repr__(self) -> str:
        given = ",\n      ".join([_defined([v]) for v in self._inputs])
        lines = [f"graph({given}):", *[f"  {node!r}" for node in self._nodes]]
        return "\n".join([*lines, f"  return ({', '.join([f'%{v.debugName()}' for v in self._outputs])})", ""])

    __str__ = __repr__


def _defined(values: Sequence[Value]) -> str:
    return ", ".join([f"%{v.debugName()} : {v.type().described()}" for v in values])
