"""Saved tensors: what a node keeps for its backward, and the hooks that pack and unpack it."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from torchlike._base.state import followed, state
from torchlike._core.autograd import anomaly
from torchlike._core.autograd import node as nodes
from torchlike._core.tensor.tensor import Tensor, alias, value_of, wrap

if TYPE_CHECKING:
    from torchlike._core.autograd.node import Node
    from torchlike._core.typed import Edge
    from torchlike._decl.typed import Values


class _Never:
    """The version of a packed tensor: equal to no number, so that reading it takes the slow way."""

    version = -1


class Packed:
    """Stands in ``node._kept`` for a tensor that a pack hook has taken.

    Attributes:
        object: what the pack hook returned. unpack: the hook that makes a tensor of it.
        edge, requires_grad: the history of the tensor; None for an output of the node itself.
    """

    __slots__ = ("object", "unpack", "edge", "requires_grad")
    _vc = _Never

    def tensor(self, node: SavesTensors, position: int, made_by: Edge) -> Tensor:
        """The unpacked tensor, with the history of the one that was packed."""
        new = alias(self.unpacked(node))
        new._rg = self.requires_grad
        own = node._output_of(position)
        if own is not None:
            new._edge = made_by or (node, own)
        elif self.edge is not None and isinstance(self.edge[0], nodes.AccumulateGrad):
            new._acc = weakref.ref(self.edge[0])
        else:
            new._edge = self.edge
        return new

    def unpacked(self, node: Node) -> Tensor:
        """The tensor that the hook gives."""
        got = self._given(node)
        if not isinstance(got, Tensor):
            raise TypeError(
                "Output of saved tensor unpack_hook expected to be a Tensor but got result of type "
                f"{type(got).__name__}"
            )
        return got

    def _given(self, node: Node) -> Any:
        """What the hook gives; in a backward, ``node`` is the node that runs meanwhile."""
        task = state.task
        if task is None or task.node is not None:
            return followed(self.unpack)(self.object)
        task.node = node
        try:
            return followed(self.unpack)(self.object)
        finally:
            task.node = None


class PackedValues:
    """Values that a node saves without their tensors, each taken by the default hooks of the thread that saves them."""

    __slots__ = ("packed",)

    def __init__(self, values: Values) -> None:
        pack, unpack, _ = state.pack
        self.packed = []
        before, state.grad = state.grad, False
        try:
            for value in values:
                new = Packed()
                new.object, new.unpack = followed(pack)(wrap(value)), unpack
                self.packed.append(new)
        finally:
            state.__dict__["grad"] = before

    def unpacked(self, node: Node) -> Values:
        """The values again, for ``node``, which saved them."""
        return [value_of(p.unpacked(node)) for p in self.packed]


def packs() -> bool:
    """Whether default hooks take what this thread saves now."""
    return state.pack is not state.pack_outside and state.pack_refused is not IGNORED


class SavesTensors(nodes.Node):
    """A node with ``_kept`` (tensors, numbers or :class:`Packed`) and the ``_versions`` they had, None for a number.

    After ``_release`` both are None.
    """

    __slots__ = ("_kept", "_versions")
    _kept: Any
    _versions: Any

    def _output_of(self, position: int) -> int | None:
        """The number of the node's own output that is saved at ``position``, or None for an input."""
        raise NotImplementedError

    def _kept_tensor(self, position: int, made_by: Edge = None) -> Any:
        """The saved value as a tensor with its history, after the version check.

        ``made_by``: the edge of saved results, where that is not this node.
        """
        saved, versions = self._kept, self._versions  # another thread may free them meanwhile
        if saved is None or versions is None:
            raise RuntimeError(FREED)
        t, version = saved[position], versions[position]
        if version is None:
            return t
        if t.__class__ is Packed:
            return t.tensor(self, position, made_by)
        if t._vc.version != version:
            raise RuntimeError(modified(t, version, self, self._output_of(position)))
        if t._storage.stands and t._storage.level.dead:  # the tape of a transform, which has ended
            return t._storage.level.lower(t)
        own = self._output_of(position)
        if own is None:
            if t._ex is not None and t._ex.get("detached", 0) > self._seq:
                raise RuntimeError(DETACHED)
            return t
        new = alias(t)
        if t._ex is not None and "tangents" in t._ex:
            new._ex = {"tangents": t._ex["tangents"]}
        if self._differentiable(own):
            new._edge, new._rg = made_by or (self, own), True
        return new

    def _differentiable(self, output: int) -> bool:
        """Whether a gradient flows into output number ``output``."""
        return True

    def _odd(self, position: int, t: Any, version: int) -> Any:
        """The value of a saved tensor whose version is not the one it had: unpacked, or an error."""
        if t.__class__ is Packed:
            return value_of(t.tensor(self, position, None))
        raise RuntimeError(modified(t, version, self, self._output_of(position)))

    def _pack(self, position: int, pack: Callable[..., Any], unpack: Callable[..., Any], bare: bool = False) -> None:
        """Let ``pack`` take the tensor saved at ``position`` (``bare``: without history), ``unpack`` give it back."""
        t = self._kept[position]
        whole = self._kept_tensor(position)
        given = alias(whole) if bare else whole
        version = given._vc.version
        before, state.grad = state.grad, False
        try:
            taken = followed(pack)(given)
        finally:
            state.__dict__["grad"] = before
        if given._vc.version != version:
            raise RuntimeError(PACK_WRITES)
        new = Packed()
        new.object, new.unpack = taken, unpack
        own = self._output_of(position)
        new.edge = nodes.edge_of(t) if own is None else None
        new.requires_grad = whole._rg
        self._kept[position], self._versions[position] = new, 0


FREED = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already "
    "been freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). "
    "Specify retain_graph=True if you need to backward through the graph a second time or if you need to access "
    "saved tensors after calling backward."
)


DETACHED = (
    "Trying to use a saved tensor that has been detached in-place, i.e. with .detach_().This is not supported, please "
    "use out-of-place `.detach()` instead"
)

PACK_WRITES = (
    "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook cannot be "
    "modified by in-place operations as this can lead to unexpected side-effects. Please clone the input of the pack "
    "hook before changing it."
)

HINT = (
    "Hint: enable anomaly detection to find the operation that failed to compute its gradient, with "
    "torch.autograd.set_detect_anomaly(True, check_nan=False)."
)
HINT_ANOMALY = (
    "Hint: the backtrace further above shows the operation that failed to compute its gradient. The variable in "
    "question was changed in there or anywhere later. Good luck!"
)


def modified(t: Tensor, version: int, node: SavesTensors | None = None, own: int | None = None) -> str:
    """The message about a saved tensor that was changed in place since; ``own``: which output of ``node`` it is."""
    if t._diff is not None and t._diff.creation is None:
        maker, nr = t.grad_fn, t.output_nr  # the history of a view may have to be renewed
    else:
        maker, nr = t._edge or nodes.NOWHERE
    if own is not None:
        maker, nr = (node, own) if node._differentiable(own) else nodes.NOWHERE
    producer = "" if maker is None else f", which is output {nr} of {maker._title()},"
    return (
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"[{_kind(t)} {list(t.shape)}]{producer} is at version {t._vc.version}; expected version "
        f"{version} instead. {HINT_ANOMALY if anomaly.current.enabled else HINT}"
    )


_NAMED = frozenset({"Byte", "Char", "Short", "Int", "Long", "Half", "Float", "Double"})  # torch.HalfTensor ...


def _kind(t: Tensor) -> str:
    """The name of the tensor's type: ``torch.FloatTensor``, or ``CPUBoolType`` where PyTorch has no such class."""
    name, device = t.dtype.scalar_name, t.device.type
    if name not in _NAMED:
        return f"{device.upper()}{name}Type"
    return f"torch.{name}Tensor" if device == "cpu" else f"torch.{device}.{name}Tensor"


class SavedTensor:
    """A slot of a node in which a tensor is saved; ``node._raw_saved_<name>`` gives it."""

    __slots__ = ("_node", "_position")
    _position: Any  # an int, or None for an empty slot

    def __init__(self, node: SavesTensors | None = None, position: int | None = None) -> None:
        if node is None:
            raise RuntimeError(
                "Trying to create a SavedTensor object from Python is forbidden; a node's _raw_saved_<name> gives one."
            )
        self._node, self._position = node, position

    def _content(self) -> Any:
        saved = self._node._kept
        return None if saved is None or self._position is None else saved[self._position]

    def register_hooks(self, *hooks: Callable[..., Any]) -> None:
        """``register_hooks(pack_hook, unpack_hook)``: how the saved tensor is kept.

        It is packed now with ``pack_hook(tensor) -> object``; backward calls ``unpack_hook(object)``.
        Raises RuntimeError where the slot is empty, freed or has hooks already, TypeError for anything but two
        hooks that can be called.
        """
        if len(hooks) != 2 or not all(map(callable, hooks)):
            raise TypeError(
                "register_hooks(): incompatible function arguments: two callables expected, got "
                f"{' and '.join([type(hook).__name__ for hook in hooks]) or 'none'}"
            )
        pack_hook, unpack_hook = hooks
        if self._node._kept is None:
            raise RuntimeError(_REGISTER_FREED)
        content = self._content()
        if isinstance(content, Packed):
            raise RuntimeError(_REGISTER_TWICE)
        if not isinstance(content, Tensor):
            raise RuntimeError("Calling register_hooks on a saved tensor with value None is forbidden")
        self._node._pack(self._position, pack_hook, unpack_hook, bare=True)

    @property
    def data(self) -> Any:
        """What is kept: the tensor, or what the pack hook made of it; None for an empty slot."""
        content = self._content()
        return content.object if isinstance(content, Packed) else self.unpack()

    @property
    def unpack_hook(self) -> Callable[..., Any] | None:
        """The hook registered for this slot, or None."""
        content = self._content()
        return content.unpack if isinstance(content, Packed) else None

    def unpack(self) -> Tensor | None:
        """The saved tensor with its history; None for an empty slot."""
        return None if self._position is None else self._node._kept_tensor(self._position)


_REGISTER_FREED = (
    "Calling register_hooks on a saved tensor after it has been freed. Saved intermediate values of the graph are "
    "freed when you call .backward() or autograd.grad(). Specify retain_graph=True if you need to backward through "
    "the graph a second time or if you need to access saved variables after calling backward."
)
_REGISTER_TWICE = (
    "Calling register_hooks on a saved tensor whose hooks have already been set. Hint: only one pair of hooks is "
    "allowed at a time."
)


# -- default hooks ---------------------------------------------------------------------------------------


def pack_all(node: Node) -> None:
    """Apply the innermost default hooks of this thread to every tensor that ``node`` saves."""
    if not packs() or not isinstance(node, SavesTensors):
        return
    hooks = state.pack
    for position, version in enumerate(node._versions or ()):
        if version is not None and node._kept[position].__class__ is not Packed:
            node._pack(position, hooks[0], hooks[1])


IGNORED = "default hooks of saved tensors may be set, and are not called"  # as ``state.pack_refused``

_active = 0  # how many default pairs are pushed, in all threads
_counting = threading.Lock()


def push(pack: Callable[..., Any], unpack: Callable[..., Any]) -> None:
    """Make (pack, unpack) the default hooks of this thread."""
    global _active
    if state.pack_refused is not None and state.pack_refused is not IGNORED:
        raise RuntimeError(state.pack_refused)
    with _counting:
        _active += 1
        nodes.watch_with(pack_all, True)
    state.pack = (pack, unpack, state.pack)  # last, as a Ctrl-C ahead of it changes no result


def pop() -> None:
    """Undo the last ``push`` of this thread."""
    global _active
    if state.pack is None:
        raise RuntimeError("no default hooks of saved tensors are set in this thread: nothing to remove")
    state.pack = state.pack[2]
    with _counting:
        _active -= 1
        nodes.watch_with(pack_all, _active > 0)
