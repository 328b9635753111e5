"""Nodes: the steps of the backward graph, and the sinks at its leaves."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import torchlike._base.device as devices
import torchlike._base.dtypes as dtypes
from torchlike._core.autograd.hooks import RemovableHandle, warn_where_unseen
from torchlike._core.tensor.mutation import change, set_history
from torchlike._core.tensor.storage import CAPTURES
from torchlike._executor import immediate

if TYPE_CHECKING:
    from torchlike._base.device import device as Device
    from torchlike._core.tensor.tensor import Tensor
    from torchlike._core.typed import Edge, Grads

next_sequence = itertools.count().__next__  # the creation number of a new node
LEAF_SEQUENCE = (1 << 64) - 1  # accumulations run as soon as they are ready
NOWHERE = (None, 0)  # the edge of a view that requires grad only because its base does

WATCHERS: list = []  # called with every new node while not empty: anomaly mode, hooks on saved tensors


def watch(node: Node) -> None:
    """Tell the watchers that ``node`` has been made."""
    for watcher in tuple(WATCHERS):
        watcher(node)


def watch_with(watcher: Callable[[Node], object], wanted: bool) -> None:
    """Add ``watcher`` to the watchers of new nodes, or remove it."""
    if wanted and watcher not in WATCHERS:
        WATCHERS.append(watcher)
    elif not wanted and watcher in WATCHERS:
        WATCHERS.remove(watcher)


class InputMetadata:
    """Shape, dtype and device of the gradient of an output."""

    __slots__ = ("_out", "_device")
    is_nested_tensor = is_cpp_nested_tensor = property(lambda self: False)

    def __init__(self, out: Any, device: Device) -> None:
        self._out, self._device = out, device

    @property
    def shape(self) -> list[int]:
        return [] if self._out is None else list(self._out.shape)

    @property
    def dtype(self) -> dtypes.dtype:
        return dtypes.get_default_dtype() if self._out is None else dtypes.from_np(self._out.dtype)

    @property
    def device(self) -> Device:
        return self._device


class Node:
    """A step of the backward graph.

    ``_edges``: (node, output number) for each gradient that ``apply`` gives, None where nothing
    follows. ``_seq``: creation order; the engine runs later nodes first. ``_ex``: hooks and other
    extras, or None.
    """

    __slots__ = ("_edges", "_seq", "_ex", "__weakref__")
    _edges: Sequence[Edge]
    _seq: int
    _ex: dict[str, Any] | None
    _python: Any = False  # whether the backward is Python code over tensors
    _fills = False  # whether the node runs also where no gradient arrives, and makes zeros of them
    _simple = False  # whether the backward is a plan, whose outputs all have a gradient or zeros
    _refusals: Mapping[int, Exception] = MappingProxyType({})  # {position among the edges: why it has no derivative}
    _arity = 1  # how many outputs the recorded call had

    _namespace = ""

    def name(self) -> str:
        """The name that users see, ``MulBackward0``."""
        return self._namespace + type(self).__name__

    def _title(self) -> str:
        """What messages call the node: ``Mul``."""
        return type(self).__name__.rstrip("0123456789").removesuffix("Backward")

    def _sequence_nr(self) -> int:
        """The number of the node in order of creation (per process)."""
        return self._seq

    @property
    def next_functions(self) -> tuple[Any, ...]:
        """((node, output number), ...) for each differentiable input."""
        return tuple((None, 0) if e is None else e for e in self._edges)

    @property
    def metadata(self) -> dict[Any, Any]:
        """A dict for whatever users want to keep with the node."""
        return self._extra("metadata", dict)

    @property
    def _input_metadata(self) -> tuple[InputMetadata, ...]:
        """What the gradient of each output of the recorded call looks like."""
        device = self._device()
        return tuple([InputMetadata(out, device) for out in self._outs()[: self._arity]])

    def _device(self) -> Device:
        """The device of the leaves that the node leads to."""
        stack, seen = [self], set()
        while stack:
            node = stack.pop()
            if node.__class__ is AccumulateGrad:
                return node.variable.device
            new = [e[0] for e in node._edges if e is not None and e[0] is not None and e[0] not in seen]
            seen.update(new)
            stack += new
        return devices.default_device()

    def _extra(self, key: str, make: Callable[[], Any]) -> Any:
        """A rarely used attribute, made on first use."""
        if self._ex is None:
            self._ex = {}
        if key not in self._ex:
            self._ex[key] = make()
        return self._ex[key]

    def _outs(self) -> tuple[Any, ...]:
        """(shape, dtype) of each output."""
        raise NotImplementedError

    def _is_plain_sink(self) -> bool:
        """Whether the node only adds to a leaf, with no hooks to run."""
        return False

    def _is_quiet(self) -> bool:
        """Whether nothing happens at the node where no gradient arrives."""
        return self._ex is None and not self._fills

    def _spread(self, grads: Iterable[Any]) -> tuple[Any, ...]:
        """The gradients of ``_edges`` as hooks see them: one for each of ``next_functions``."""
        return tuple(grads)

    def _gather(self, grads: Grads) -> Grads:
        """The gradients of ``_edges`` from what hooks returned."""
        return grads

    def register_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(grad_inputs, grad_outputs)`` after the node has run; what it returns replaces the former.

        Returns a handle with ``remove()``.
        """
        warn_where_unseen("register_hook")
        return RemovableHandle.add(self._extra("hooks", dict), hook)

    def register_prehook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(grad_outputs)`` before the node runs; what it returns replaces them."""
        warn_where_unseen("register_prehook")
        return RemovableHandle.add(self._extra("prehooks", dict), hook)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} object at {hex(id(self))}>"


class AccumulateGrad(Node):
    """The sink of a leaf: adds what arrives to ``variable.grad``."""

    __slots__ = ("variable",)
    _namespace = "torch::autograd::"

    def _outs(self) -> tuple[Any, ...]:
        return (self.variable_meta(),)

    def _is_plain_sink(self) -> bool:
        t = self.variable
        return t._rg and t._ex is None

    def _is_quiet(self) -> bool:
        return self._ex is None and self.variable._ex is None

    def variable_meta(self) -> immediate.Abstract:
        t = self.variable
        return immediate.Abstract(tuple(t.shape), t.dtype.np)


_ref = weakref.ref


def accumulator(t: Tensor) -> AccumulateGrad:
    """The leaf's AccumulateGrad, one as long as a graph holds it."""
    before = t._acc
    node = before() if before is not None else None
    if node is not None:
        return node
    node = AccumulateGrad()
    node.variable, node._edges, node._seq, node._ex = t, (), LEAF_SEQUENCE, None
    if CAPTURES:
        change(t)
    ref = _ref(node)
    if t._ex is not None and (hooks := t._ex.get("tensor_hooks")):
        node._ex = {"tensor_hooks": hooks}
    if t._acc is before:  # no call up to the next line: no other thread comes between the two
        t._acc = ref
        return node
    return accumulator(t)


def edge_of(t: Tensor) -> Edge:
    """Where the gradient of ``t`` goes: (node, output number), or None."""
    edge = t._edge
    if edge is not None:
        return edge
    return (accumulator(t), 0) if t._rg else None


def requires_grad(t: Tensor) -> bool:
    """``t.requires_grad``, which nobody overrides."""
    diff = t._diff
    if diff is None:
        return t._rg
    return diff.base._rg or (t._rg and t._edge is not NOWHERE)


def is_leaf(t: Tensor) -> bool:
    """Whether no node made ``t`` (a view of a base that requires grad may have none)."""
    return t._edge is None or t._edge is NOWHERE


def retained(t: Tensor) -> bool:
    """Whether ``t``, which is no leaf, keeps its gradient."""
    node, nr = t._edge
    ref = (node._ex or {}).get("retains", {}).get(nr)
    return ref is not None and ref() is t


def retain(t: Tensor) -> None:
    """Keep the gradient of ``t``, which is no leaf, in ``t.grad``."""
    node, nr = t._edge
    node._extra("retains", dict)[nr] = weakref.ref(t)


def new_history(t: Tensor, edge: Edge) -> None:
    """Give ``t`` another edge; a kept gradient is that of the new value."""
    old = t._edge
    keeps = old is not None and old[0] is not None and old[0]._ex is not None and retained(t)
    if keeps:
        del old[0]._ex["retains"][old[1]]
    set_history(t, edge, True)
    if keeps:
        retain(t)
