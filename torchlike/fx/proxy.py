"""torch.fx.proxy: values that stand for steps of a graph while a program is traced."""

from __future__ import annotations

import collections
import dataclasses
import dis
import enum
import functools
import inspect
import operator
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NamedTuple

from torchlike._aten.packets import OpOverload
from torchlike._base import dtypes
from torchlike._base.device import device
from torchlike._base.frames import user_stack
from torchlike._core.overrides import doors
from torchlike._core.tensor.tensor import MemoryFormat, MemoryLayout, Tensor
from torchlike.fx import traceback as fx_traceback
from torchlike.fx._compatibility import compatibility as compatibility
from torchlike.fx.graph import Graph
from torchlike.fx.node import Argument, Node, Target, map_aggregate
from torchlike.fx.operator_schemas import check_for_mutable_operation
from torchlike.interop.alias import missing_names
from torchlike.overrides import is_tensor_method_or_property

__all__ = [
    "Attribute", "GraphAppendingTracer", "MetaProxy", "ParameterProxy", "Proxy", "Scope", "ScopeContextManager",
    "TraceError", "TracerBase",
]  # fmt: skip

__getattr__ = missing_names(__name__)

_PLAIN = (str, int, float, bool, complex, type(None), type(...), dtypes.dtype, device, MemoryLayout,
          MemoryFormat, Tensor, OpOverload, range)  # fmt: skip


# What steps that are made of others know of these.
_TAKEN_OVER = frozenset(
    """
_numeric_debug_handle ac_graph_id custom from_node grad_fn_seq_nr has_backward_hook nn_module_stack original_aten
partitioner_tag quantization_tag recompute source_fn_stack stack_trace torch_fn
""".split()
)


class TraceError(ValueError):
    """A program asked a value that is only traced for what it is."""


@dataclasses.dataclass
class Scope:
    """The module whose ``forward`` is traced."""

    module_path: str
    module_type: Any


class ScopeContextManager:
    """Has ``scope`` be that of another module until the end of the context."""

    def __init__(self, scope: Scope, current_scope: Scope) -> None:
        self._scope, self._before = scope, dataclasses.replace(scope)
        scope.module_path, scope.module_type = current_scope.module_path, current_scope.module_type

    def __enter__(self) -> Scope:
        return self._scope

    def __exit__(self, *error: object) -> None:
        self._scope.module_path, self._scope.module_type = self._before.module_path, self._before.module_type


class TracerBase:
    """What makes steps of calls with proxies: the methods that tracers may override.

    Attributes:
        graph: the steps. record_stack_traces: whether each step notes where the program made it.
        check_mutable_operations: whether operators that change their arguments are refused.
        trace_asserts, proxy_buffer_attributes: as for :class:`torch.fx.Tracer`.
    """

    graph: Graph
    record_stack_traces = False
    _record_forward_stack_traces_only = False
    check_mutable_operations = False
    trace_asserts = False
    proxy_buffer_attributes = False
    traced_func_name = "forward"
    scope: Scope
    module_stack: collections.OrderedDict[str, tuple[str, Any]]
    node_name_to_scope: dict[str, tuple[str, Any]]

    def create_node(
        self,
        kind: str,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        name: str | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """Add a step to the graph; all steps are added here. See :meth:`torch.fx.Graph.create_node`."""
        if kind == "call_function" and self.check_mutable_operations:
            check_for_mutable_operation(target, args, kwargs)
            _refuse_mutation(target)
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        scope = getattr(self, "scope", None)
        if scope is not None:
            self.node_name_to_scope[node.name] = (scope.module_path, scope.module_type)
        if fx_traceback.has_preserved_node_meta():
            meta = fx_traceback.get_current_meta()
            node.meta.update({k: v for k, v in meta.items() if k in _TAKEN_OVER})
        elif getattr(self, "module_stack", None):
            node.meta["nn_module_stack"] = collections.OrderedDict(self.module_stack)
        if self.record_stack_traces and not node.stack_trace:
            node.stack_trace = "".join(user_stack()).strip()
        return node

    def proxy(self, node: Node) -> Proxy:
        """What stands for the value of a step."""
        return Proxy(node, self)

    def create_proxy(
        self,
        kind: str,
        target: Target,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any | None = None,
        proxy_factory_fn: Callable[[Node], Proxy] | None = None,
    ) -> Proxy:
        """Add a step and return what stands for its value.

        Args:
            kind, target, args, kwargs, name, type_expr: as for :meth:`create_node`, but that args and kwargs may hold
                proxies and other values that :meth:`create_arg` knows.
            proxy_factory_fn: makes the proxy in the place of :meth:`proxy`.
        """
        made_args, made_kwargs = self.create_arg(args), self.create_arg(kwargs)
        if not isinstance(made_args, tuple) or not isinstance(made_kwargs, dict):
            raise AssertionError("create_arg made something else of a tuple or a dict of arguments")
        node = self.create_node(kind, target, made_args, made_kwargs, name, type_expr)
        return proxy_factory_fn(node) if proxy_factory_fn else self.proxy(node)

    def create_arg(self, a: Any) -> Argument:
        """What steps have in the place of an argument: the Node of a proxy; containers by their items.

        Raises NotImplementedError for what a graph cannot hold.
        """
        if isinstance(a, Proxy):
            return a.node
        if isinstance(a, Node) or hasattr(a, "__fx_create_arg__"):
            return a if isinstance(a, Node) else a.__fx_create_arg__(self)
        if isinstance(a, tuple):
            items = [self.create_arg(x) for x in a]
            return type(a)(*items) if hasattr(a, "_fields") else tuple(items)
        if isinstance(a, list):
            return [self.create_arg(x) for x in a]
        if isinstance(a, dict):
            return {_key(self.create_arg(k)): self.create_arg(v) for k, v in a.items()}
        if isinstance(a, slice):
            return slice(self.create_arg(a.start), self.create_arg(a.stop), self.create_arg(a.step))
        if isinstance(a, range):
            return range(self.create_arg(a.start), self.create_arg(a.stop), self.create_arg(a.step))
        if isinstance(a, _PLAIN) or isinstance(a, enum.Enum):
            return a
        if dataclasses.is_dataclass(a) and not isinstance(a, type):
            fields = {f.name: self.create_arg(getattr(a, f.name)) for f in dataclasses.fields(a)}
            return self.create_node("call_function", type(a), (), fields)
        raise NotImplementedError(f"argument of type: {type(a)}")

    def to_bool(self, obj: Proxy) -> bool:
        """Asked where a program branches on a proxy. Raises TraceError."""
        raise TraceError("symbolically traced variables cannot be used as inputs to control flow")

    def iter(self, obj: Proxy) -> Iterator:
        """Asked where a program iterates over a proxy, but for ``a, b = proxy``. Raises TraceError."""
        raise TraceError(
            "Proxy object cannot be iterated: how many items it has is not known while the program is traced. That is "
            "so for loops over it, and for *args and **kwargs of a call. Index it, or make the function a single step "
            "by torch.fx.wrap"
        )

    def keys(self, obj: Proxy) -> Any:
        """What ``proxy.keys()`` gives, which ``**proxy`` calls too."""
        return Attribute(obj, "keys")()


class GraphAppendingTracer(TracerBase):
    """Adds to a graph that is there.

    >>> import torchlike as torch
    >>> graph = torch.fx.Graph()
    >>> x = torch.fx.Proxy(graph.placeholder("x"))     # which has such a tracer
    >>> (x + 1).node.target
    <built-in function add>
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.scope = Scope("", None)
        self.module_stack = collections.OrderedDict()
        self.node_name_to_scope = {}


class Proxy:
    """Stands for the value of a step: what is done with it becomes further steps.

    Args:
        node: the step. tracer: what adds steps; by default one that adds to the graph of ``node``.

    Operators, methods, attributes and functions of torch make steps. What only a value can tell makes none:
    control flow and iteration raise :class:`TraceError`, ``len`` a RuntimeError.

    >>> import torchlike as torch
    >>> def f(x):
    ...     return x.relu().shape[0] + torch.exp(x)
    >>> print(torch.fx.symbolic_trace(f).code.strip())
    def forward(self, x):
        relu = x.relu()
        getattr_1 = relu.shape;  relu = None
        getitem = getattr_1[0];  getattr_1 = None
        exp = torch.exp(x);  x = None
        add = getitem + exp;  getitem = exp = None
        return add
    """

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        doors.arm()  # a function that does not look at its arguments first would ask a proxy for its items
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self.node = node

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, k: str) -> Any:
        if k in ("node", "tracer"):  # asked by copy and pickle before there is any
            raise AttributeError(k)
        return Attribute(self, k)

    def __getstate__(self) -> dict:
        return self.__dict__

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state)

    def __deepcopy__(self, memo: dict) -> Proxy:
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        return made

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator:
        caller = sys._getframe(1)  # `a, b = proxy` says in the caller's bytecode how many items it wants
        wanted = _unpacked(caller)
        return self.tracer.iter(self) if wanted is None else iter([self[i] for i in range(wanted)])

    def __abs__(self) -> Proxy:
        return self.tracer.create_proxy("call_function", operator.abs, (self,), {})

    def __bool__(self) -> bool:
        return self.tracer.to_bool(self)

    def __len__(self) -> int:
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be recorded, please call "
            "torch.fx.wrap('len') at module scope"
        )

    def __contains__(self, item: Any) -> bool:
        return item in iter(self)

    def keys(self) -> Any:
        """A step that calls ``keys``; see :meth:`TracerBase.keys`."""
        return self.tracer.keys(self)

    @classmethod
    def __torch_function__(cls, orig_method: Any, types: Any, args: Any = None, kwargs: Any = None) -> Any:
        args, kwargs = args or (), kwargs or {}
        tracers: dict[TracerBase, None] = {}
        map_aggregate((args, kwargs), lambda x: tracers.setdefault(x.tracer) if isinstance(x, Proxy) else None)
        if len(tracers) > 1:
            raise RuntimeError(f"Found multiple different tracers {list(tracers)} while trying to trace {orig_method}")
        tracer = next(iter(tracers))
        if is_tensor_method_or_property(orig_method) and _is_method(orig_method):
            return tracer.create_proxy("call_method", orig_method.__name__, args, kwargs)
        return tracer.create_proxy("call_function", orig_method, args, kwargs)


def _is_method(function: Any) -> bool:
    return Tensor.__dict__.get(function.__name__) is function


class MetaProxy(Proxy):
    """A proxy of a value that is computed alongside with fake tensors: refused, there is no such mode."""

    def __init__(self, node: Node, tracer: TracerBase | None = None, fake_mode: Any = None) -> None:
        raise NotImplementedError("torch.fx.proxy.MetaProxy: there are no fake tensors; use device='meta'")


class Attribute(Proxy):
    """An attribute of a proxy: a step only if it is used other than by a call, which is one of a method."""

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root, self.attr, self.tracer = root, attr, root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]
        """The step, which is made when somebody asks for it."""
        if self._node is None:
            self._node = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {}).node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class ParameterProxy(Proxy):
    """A proxy of a parameter, whose shape a program may ask for."""

    def __init__(self, tracer: TracerBase, node: Node, name: str, param: Tensor) -> None:
        super().__init__(node, tracer)
        self.param, self.name = param, name

    def __repr__(self) -> str:
        return f"ParameterProxy({self.name})"

    @property
    def shape(self) -> Any:
        """The parameter's shape."""
        return self.param.shape

    def size(self, *dim: int) -> Any:
        """The parameter's size."""
        return self.param.size(*dim)

    def dim(self) -> int:
        """The parameter's number of dimensions."""
        return self.param.dim()

    @property
    def ndim(self) -> int:
        """The parameter's number of dimensions."""
        return self.param.ndim

    def numel(self) -> int:
        """The parameter's number of elements."""
        return self.param.numel()

    def nelement(self) -> int:
        """The parameter's number of elements."""
        return self.param.nelement()


class _Operator(NamedTuple):
    """A function of Python's operator module, and its special methods."""

    function: Callable
    method: str
    reflected: str | None


def _operators() -> Iterator[_Operator]:
    for name in "add sub mul floordiv truediv mod pow lshift rshift and or xor matmul".split():
        function = getattr(operator, f"{name}_" if name in ("and", "or") else name)
        yield _Operator(function, f"__{name}__", f"__r{name}__")
    for name in "eq ne lt gt le ge pos neg invert getitem".split():
        yield _Operator(getattr(operator, name), f"__{name}__", None)


def _traced(function: Callable, backwards: bool) -> Callable:
    def method(self: Proxy, *args: Any, **kwargs: Any) -> Any:
        operands = (args[0], self) if backwards else (self, *args)
        return self.tracer.create_proxy("call_function", function, operands, kwargs)

    return method


for _found in _operators():
    setattr(Proxy, _found.method, functools.wraps(_found.function)(_traced(_found.function, False)))
    if _found.reflected:
        setattr(Proxy, _found.reflected, _traced(_found.function, True))
Proxy.__hash__ = object.__hash__  # type: ignore[method-assign]


def _key(k: Any) -> Any:
    """A key of a dict among arguments. Raises RuntimeError if a Node is in it."""

    def refuse(x: Any) -> Any:
        if isinstance(x, Node):
            raise RuntimeError(f"Keys for dictionaries used as an argument cannot contain a Node. Got key: {k}")
        return x

    map_aggregate(k, refuse)
    return k


def _unpacked(frame: FrameType) -> int | None:
    """How many items the assignment wants that this frame is at, or None if it is at something else."""
    for instruction in dis.get_instructions(frame.f_code):
        if instruction.offset == frame.f_lasti:
            return instruction.argval if instruction.opname == "UNPACK_SEQUENCE" else None
    return None


def _refuse_mutation(target: Any) -> None:
    schema = getattr(target, "_schema", None)
    name = getattr(target, "__name__", str(target))
    if (
        schema is not None
        and schema.is_mutable
        or inspect.isroutine(target)
        and name.endswith("_")
        and name[-2:] != "__"
        and getattr(target, "__module__", None) != "_operator"  # and_, or_
    ):
        raise RuntimeError(f"Tried to trace mutable operation {target}. FX only supports functional code")
