"""The graph of the calls that a captured function makes, as torch.fx has it, with all tensors it is given as inputs."""

from __future__ import annotations

import operator
import re
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from torchlike._base.state import state
from torchlike._C import _set_grad_enabled
from torchlike._core.tensor.tensor import Tensor
from torchlike._transforms.capture.recording import Unsupported
from torchlike._transforms.capture.structure import Passed
from torchlike._transforms.interpreter.changes import put_item
from torchlike._transforms.interpreter.operators import subscript
from torchlike.fx.graph import Graph
from torchlike.fx.node import Argument, Node
from torchlike.fx.proxy import TracerBase

_OPERATORS: dict[Any, Callable] = {subscript: operator.getitem, put_item: operator.setitem}
_WRITTEN_IN_C = (
    types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType, types.MethodWrapperType,
    types.ClassMethodDescriptorType,
)  # fmt: skip
_COMPUTING = frozenset((getattr, setattr, delattr, abs, pow, round, divmod))
_GRADIENTS = frozenset(("backward", "grad", "step", "zero_grad", "register_hook", "retain_grad"))


class Source(NamedTuple):
    """Where calls find an input of the graph.

    Attributes:
        arg: the place among the arguments, or None. tensor: one from outside, or None. number: what gives a number, or
            None, which becomes a tensor of a dtype.
    """

    arg: int | None = None
    tensor: Tensor | None = None
    number: Callable[[], Any] | None = None
    dtype: Any = None


class Recorder(TracerBase):
    """Listens to an interpreter, and adds a step for each call of tensors.

    Attributes:
        names: of the arguments. sources: of each placeholder. results: for each result of the function, then for each
            tensor that it stores elsewhere, ("output", its number), ("input", Source), ("given", container) or
            ("constant", value). shapes: (node, shape, strides, dtype) of what is computed.
    """

    def __init__(self, names: Sequence[str], interpreter: Any) -> None:
        self.graph, self.names, self.interpreter = Graph(), names, interpreter
        self.trace: Any = None
        self.sources: list[Source] = []
        self.results: list[tuple[str, Any]] = []
        self.shapes: list[tuple[Node, Any, Any, Any]] = []
        self._known: dict[int, tuple[Tensor, Any]] = {}  # {id: (tensor, its node or (that of a tuple, place in it))}
        self._grad, self._modes = state.grad, self._current_modes()
        self._depth, self._outer, self._changes = 0, frozenset[int](), 0
        self._last_input: Node | None = None

    # -- what the interpreter tells ----------------------------------------------------------------
    def before(self, f: Any, args: tuple, kwargs: Mapping[str, Any]) -> None:
        """A call begins."""
        if self.interpreter is None or _plumbing(f, args):
            return
        tensors = list(_tensors((args, kwargs)))
        if self._depth:
            if any(id(t) in self._known and id(t) not in self._outer for t in tensors):
                raise Unsupported("calls a function that closes over tensors which the graph computes")
        else:
            self._outer, self._changes = frozenset(map(id, tensors)), self.interpreter.order
        self._depth += 1

    def after(self, f: Any, args: tuple, kwargs: Mapping[str, Any], result: Any) -> Any:
        """It has returned ``result``; gives what the function is to see."""
        if self.interpreter is None:
            return result  # of the backward that the trace runs after the function
        if f is iter and args and isinstance(args[0], Tensor) and not self._depth:
            rows = list(result)
            self._register(tuple(rows), self._step(Tensor.unbind, (args[0], 0), {}))
            return iter(rows)
        if _plumbing(f, args):
            return result
        self._depth -= 1
        if self._depth:
            return result
        if self.interpreter.order != self._changes:
            raise Unsupported("calls a function that changes Python objects, within one step of the graph")
        if _counts(f, args, kwargs, result):
            self._register(result, self._step(f, args, kwargs))
        return result

    def number(self, made: Tensor, get: Callable[[], Any]) -> None:
        """A number that each call reads anew has become ``made``."""
        if id(made) not in self._known:
            self._known[id(made)] = made, self._placeholder("number", Source(number=get, dtype=made.dtype))

    def leave(self, results: Sequence[Any], kept: Sequence[Any]) -> None:
        """The function has returned: these are its results, and the tensors that it stores."""
        self._follow_modes()
        outputs: dict[Node, int] = {}
        for x in (*results, *kept):
            if isinstance(x, Passed):
                self.results.append(("given", x.number))
            elif not isinstance(x, Tensor):
                self.results.append(("constant", x))
            elif (source := self._source(x)) is not None:
                self.results.append(("input", source))
            else:
                self.results.append(("output", outputs.setdefault(self._node(x), len(outputs))))
        self.graph.output(tuple(outputs))
        self._known.clear()
        self.interpreter = self.trace = None

    def placeholders(self) -> list[Node]:
        """The inputs."""
        return [node for node in self.graph.nodes if node.op == "placeholder"]

    # -- steps -------------------------------------------------------------------------------------
    def create_arg(self, a: Any) -> Argument:
        """A node for a tensor."""
        if isinstance(a, Tensor):
            return self._node(a)
        return super().create_arg(a)

    def _step(self, f: Any, args: tuple, kwargs: Mapping[str, Any]) -> Node:
        name = getattr(f, "__name__", "")
        if name in _GRADIENTS or name.startswith("_foreach"):
            raise Unsupported(f"calls {name}, which a backend's graph does not have")
        self._follow_modes()
        if args and isinstance(args[0], type) and getattr(getattr(args[0], name, None), "__func__", None) is f:
            f, args = _method_of(args[0], name), args[1:]
        try:
            made_args, made_kwargs = self.create_arg(args), self.create_arg(dict(kwargs))
        except NotImplementedError as error:
            raise Unsupported(f"calls {name} with an {error}, which a backend's graph does not hold") from None
        if args and isinstance(args[0], Tensor) and vars(Tensor).get(name) is f and not name.startswith("__"):
            return self.create_node("call_method", name, made_args, made_kwargs)
        return self.create_node("call_function", _OPERATORS.get(f, f), made_args, made_kwargs)

    def _register(self, value: Any, node: Any) -> None:
        """Let ``node`` stand for a tensor, and its items for those of a tuple."""
        if isinstance(value, Tensor):
            self._known[id(value)] = value, node
            if isinstance(node, Node):
                self.shapes.append((node, tuple(value.shape), value.stride(), value.dtype))
        elif isinstance(value, tuple | list):
            for i, item in enumerate(value):
                self._register(item, (node, i))

    def _node(self, t: Tensor) -> Node:
        found = self._known.get(id(t))
        if found is None:
            source = self._source(t)
            if source is None:
                raise Unsupported("computes with a tensor that was made in a way which a backend's graph does not have")
            node = self._placeholder(self._name(source), source)
        else:
            node = self._taken(found[1])
        self._known[id(t)] = t, node
        return node

    def _taken(self, place: Any) -> Node:
        if isinstance(place, Node):
            return place
        return self.create_node("call_function", operator.getitem, (self._taken(place[0]), place[1]), {})

    def _source(self, t: Tensor) -> Source | None:
        """Where later calls find a tensor that was there before; None if the function made it."""
        position = self.trace.positions.get(id(t))
        if position is not None:
            return Source(arg=position)
        return None if self.trace.record.owns(t) else Source(tensor=t)

    def _name(self, source: Source) -> str:
        if source.arg is not None:
            return self.names[source.arg] if source.arg < len(self.names) else f"state{source.arg}"
        return str(self.interpreter.reads.name(source.tensor, "tensor"))

    def _placeholder(self, name: str, source: Source) -> Node:
        """A new input, behind the last one."""
        target = re.sub("[^a-zA-Z0-9]+", "_", f"L_{name}_")
        before = self._last_input
        with self.graph.inserting_after(before) if before is not None else self.graph.inserting_before():
            self._last_input = self.graph.create_node("placeholder", target, (), {}, target.lower())
        self.sources.append(source)
        return self._last_input

    def _follow_modes(self) -> None:
        """Put the grad mode of now into the graph; refuse other modes."""
        if self._current_modes() != self._modes:
            raise Unsupported("enters inference mode or autocast, which a backend's graph does not have")
        if state.grad is not self._grad:
            self._grad = state.grad
            self.create_node("call_function", _set_grad_enabled, (self._grad,), {})

    @staticmethod
    def _current_modes() -> tuple:
        return state.inference, state.autocast


def _method_of(cls: type, name: str) -> Callable:
    """A method of a class, as a function with a name of its own."""
    method = getattr(cls, name)

    def call(*args: Any, **kwargs: Any) -> Any:
        return method(*args, **kwargs)

    call.__name__, call.__module__ = f"{cls.__name__}_{name}", cls.__module__
    return call


def _tensors(x: Any) -> Iterator[Tensor]:
    if isinstance(x, Tensor):
        yield x
    elif isinstance(x, dict):
        for v in dict.values(x):
            yield from _tensors(v)
    elif isinstance(x, tuple | list):
        for v in x:
            yield from _tensors(v)


def _counts(f: Any, args: tuple, kwargs: Mapping[str, Any], result: Any) -> bool:
    """Whether a call computes or changes tensors."""
    if any(True for _ in _tensors(result)):
        return True
    name = getattr(f, "__name__", "")
    changes = f is put_item or f is setattr or f is delattr or name.endswith("_") or name in _GRADIENTS
    return changes and any(True for _ in _tensors((args, kwargs)))


def _plumbing(f: Any, args: tuple) -> bool:
    """Whether a call only hands on what it is given, or has what the interpreter runs make it."""
    if f in (subscript, put_item) or getattr(f, "__module__", None) == "_operator":
        return not any(isinstance(a, Tensor) for a in args)
    if isinstance(f, type):
        return not issubclass(f, Tensor)
    return isinstance(f, _WRITTEN_IN_C) and f not in _COMPUTING
