"""The backward graph as users see it: nodes, edges, saved tensors and hooks over several tensors."""

import abc
import contextlib
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from torchlike._base.state import state
from torchlike._core.autograd import engine, saved_tensors
from torchlike._core.autograd import node as nodes
from torchlike._core.autograd.backward import GradientEdge, get_gradient_edge
from torchlike._core.autograd.hooks import RemovableHandle
from torchlike._core.tensor.mutation import bump
from torchlike._core.tensor.tensor import Tensor, value_of, wrap
from torchlike.interop.alias import missing_names

__all__ = [
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
    "set_override_stale_capture_stream",
    "set_warn_on_accumulate_grad_stream_mismatch",
]


class Node(abc.ABC):
    """A step of the backward graph, ``tensor.grad_fn``: every node is an instance, whatever its class."""

    @abc.abstractmethod
    def name(self) -> str:
        """The name, such as ``MulBackward0``."""

    @property
    @abc.abstractmethod
    def next_functions(self) -> tuple:
        """((node, output number), ...): where the gradients of the inputs go."""

    @abc.abstractmethod
    def metadata(self) -> dict:
        """A dict for whatever users want to keep with the node."""

    @property
    @abc.abstractmethod
    def _input_metadata(self) -> list:
        """Shape, dtype and device of the gradient of each output."""

    @abc.abstractmethod
    def register_hook(self, fn: Callable) -> RemovableHandle:
        """Call ``fn(grad_inputs, grad_outputs)`` after the node has run."""

    @abc.abstractmethod
    def register_prehook(self, fn: Callable) -> RemovableHandle:
        """Call ``fn(grad_outputs)`` before the node runs."""

    @abc.abstractmethod
    def _sequence_nr(self) -> int:
        """The number of the node in order of creation."""


Node.register(nodes.Node)


class saved_tensors_hooks:
    """In this context every tensor that is saved for backward is packed, and unpacked when backward needs it.

    ``pack_hook(tensor)`` returns any object and may not change the tensor; ``unpack_hook(object)``
    returns a tensor with the values of the one that was packed. Of nested contexts the innermost
    acts. Each thread has its own.

    >>> import torchlike as torch
    >>> x = torch.tensor([3.0], requires_grad=True)
    >>> with torch.autograd.graph.saved_tensors_hooks(lambda t: t.numpy(force=True), torch.from_numpy):
    ...     y = x.exp() * x
    >>> y.backward()
    """

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def __enter__(self) -> None:
        for hook in (self.pack_hook, self.unpack_hook):
            if not callable(hook):
                raise TypeError(f"saved_tensors_hooks expects two callables, got {type(hook).__name__}")
        saved_tensors.push(self.pack_hook, self.unpack_hook)

    def __exit__(self, *exc: object) -> None:
        saved_tensors.pop()


class save_on_cpu(saved_tensors_hooks):
    """In this context saved tensors wait in the memory of the host and come back when backward needs them.

    Args:
        pin_memory: accepted; jax chooses how the host's memory is allocated.
        device_type: accepted for compatibility.
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        super().__init__(lambda t: (t.device, t.cpu()), lambda packed: packed[1].to(packed[0]))


@contextlib.contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """In this context setting default hooks raises RuntimeError with ``error_message``, as does having some already."""
    if state.pack is not None:
        raise RuntimeError(error_message)
    before, state.pack_refused = state.pack_refused, error_message
    try:
        yield
    finally:
        state.pack_refused = before


class _Kept:
    """The value that a saved tensor had, and which tensor that was."""

    __slots__ = ("value", "counter", "key", "__weakref__")

    def __init__(self, t: Tensor) -> None:
        self.value, self.counter = value_of(t), t._vc
        self.key = id(t), t._storage.address, t.storage_offset(), t._version

    def changed(self) -> bool:
        return self.counter.version != self.key[-1]


class _AllowMutationOnSavedContext:
    """What :func:`allow_mutation_on_saved_tensors` gives: the values that are saved in it, by tensor and version.

    ``original``: those whose tensor is as it was; ``cloned``: those whose tensor has been changed since;
    ``tid_to_weakhandle``: both.
    """

    def __init__(self) -> None:
        self._alive: weakref.WeakSet[_Kept] = weakref.WeakSet()

    def clear(self) -> None:
        """Forget everything; a graph recorded before cannot be run backward any more."""
        self._alive.clear()

    @property
    def original(self) -> dict[tuple, Tensor]:
        return {kept.key: wrap(kept.value) for kept in self._alive if not kept.changed()}

    @property
    def cloned(self) -> dict[tuple, Tensor]:
        return {kept.key: wrap(kept.value) for kept in self._alive if kept.changed()}

    @property
    def tid_to_weakhandle(self) -> dict[tuple, Tensor]:
        return self.original | self.cloned

    def _pack(self, t: Tensor) -> _Kept:
        kept = _Kept(t)
        self._alive.add(kept)
        return kept

    def _unpack(self, kept: _Kept) -> Tensor:
        if kept not in self._alive:
            raise AssertionError(
                "Trying to backward outside of the 'allow_mutation_on_saved_tensors' context in which the graph was "
                "originally recorded."
            )
        return wrap(kept.value)


_mutable = threading.local()


@contextlib.contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[_AllowMutationOnSavedContext]:
    """In this context tensors saved for backward may be changed in place: backward sees the values they had.

    Backward must run inside too. Nothing is copied: jax arrays never change, so the old value is kept
    as it is.

    >>> import torchlike as torch
    >>> with torch.autograd.graph.allow_mutation_on_saved_tensors():
    ...     x = torch.ones(2, requires_grad=True)
    ...     y = x.clone()
    ...     z = (y * y).sum()
    ...     _ = y.mul_(5)
    ...     z.backward()
    >>> x.grad
    tensor([2., 2.])
    """
    if getattr(_mutable, "active", False):
        raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
    context = _AllowMutationOnSavedContext()
    _mutable.active = True
    try:
        with saved_tensors_hooks(context._pack, context._unpack):
            yield context
    finally:
        _mutable.active = False
        context.clear()


def increment_version(tensor: Tensor | Iterable[Tensor]) -> None:
    """Count a change in place of the tensor (or of each), as a kernel of your own that wrote it would.

    Raises RuntimeError for anything but a tensor or an iterable of tensors.

    >>> import torchlike as torch
    >>> x = torch.ones(2)
    >>> torch.autograd.graph.increment_version(x)
    >>> x._version
    1
    """
    if not isinstance(tensor, Tensor | Iterable):
        raise RuntimeError(f"increment_version expect a Iterable[Tensor] as input, not {type(tensor).__name__}")
    tensors = (tensor,) if isinstance(tensor, Tensor) else tuple(tensor)
    for t in tensors:
        if not isinstance(t, Tensor):
            raise RuntimeError(
                f"increment_version expects each element of the iterable to be a tensor, not {type(t).__name__}"
            )
    for t in tensors:
        bump(t)


class _MultiHandle(RemovableHandle):
    """The handle of several hooks at once."""

    def __init__(self, handles: Sequence[RemovableHandle]) -> None:
        self.handles = tuple(handles)

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()


def register_multi_grad_hook(tensors: Sequence[Tensor], fn: Callable, *, mode: str = "all") -> RemovableHandle:
    """Call ``fn`` once per backward, when the gradients of ``tensors`` are known.

    Args:
        mode: "all": ``fn(gradients)`` when all that this backward computes are there, None for the
            others; "any": ``fn(gradient)`` with the first one.

    Raises ValueError for another mode, AssertionError for a tensor that does not require grad (which
    mode "any" leaves out). The handle that it returns removes all hooks.

    >>> import torchlike as torch
    >>> a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    >>> handle = torch.autograd.graph.register_multi_grad_hook((a, b), lambda grads: print(grads))
    >>> (a * 2).sum().backward()
    [tensor([2., 2.]), None]
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    tensors = tuple(tensors)
    if mode == "any":
        return _MultiHandle(_first_hooks(tensors, fn))
    if not all(t.requires_grad for t in tensors):
        raise AssertionError("Expected gradient function to be set")
    return _MultiHandle(_all_hooks(tensors, fn, [get_gradient_edge(t).node for t in tensors]))


def _first_hooks(tensors: Sequence[Tensor], fn: Callable) -> list[RemovableHandle]:
    seen: weakref.WeakSet = weakref.WeakSet()
    lock = threading.Lock()

    def hook(grad: Tensor) -> None:
        with lock:
            first = state.task not in seen
            seen.add(state.task)
        if first:
            fn(grad)

    return [t.register_hook(hook) for t in tensors if t.requires_grad]


def _all_hooks(tensors: Sequence[Tensor], fn: Callable, graph_nodes: list[Node]) -> list[RemovableHandle]:
    arrived: weakref.WeakKeyDictionary[Any, tuple[list[Any], int]] = (
        weakref.WeakKeyDictionary()
    )  # of each running backward
    lock = threading.Lock()

    def hook(i: int, grad: Tensor) -> None:
        task = state.task
        with lock:
            grads: list[Any]
            grads, left = arrived.get(task) or ([None] * len(tensors), engine.count_running(graph_nodes))
            grads[i] = grad
            arrived[task] = grads, left - 1
        if left == 1:
            arrived.pop(task)
            fn(grads)

    return [t.register_hook(lambda grad, i=i: hook(i, grad)) for i, t in enumerate(tensors)]


def set_warn_on_accumulate_grad_stream_mismatch(enabled: bool) -> None:
    """Accepted: jax has no streams that gradients could come from."""


def set_override_stale_capture_stream(enabled: bool) -> None:
    """Accepted: jax has no streams to capture."""


__getattr__ = missing_names(__name__)
