"""Moves between devices, recorded so that gradients move back."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from torchlike._base.state import state
from torchlike._core.autograd import node as nodes
from torchlike._core.conversion.convert import place
from torchlike._core.dispatch.observers import redispatch, watched
from torchlike._core.tensor.tensor import fresh, strided, value_of
from torchlike._executor.immediate import Abstract
from torchlike._executor.sparse import LAYER, SparseValue

if TYPE_CHECKING:
    from torchlike._base.device import device as Device
    from torchlike._core.tensor.tensor import Tensor
    from torchlike._core.typed import Grads


class ToCopyBackward0(nodes.Node):
    """The gradient goes back to the device the tensor came from."""

    __slots__ = ("device", "meta")

    def __init__(self, t: Tensor) -> None:
        self.device, self.meta = t.device, Abstract(tuple(t.shape), t.dtype.np)
        self._edges = [nodes.edge_of(t)]
        self._seq, self._ex = nodes.next_sequence(), None

    def _outs(self) -> tuple[Any, ...]:
        return (self.meta,)

    def _release(self) -> None:
        """Nothing is saved."""

    def apply(self, grads: Grads) -> Grads:
        return [place(grads[0], self.device)]

    def _apply_tensors(self, grads: Grads, call: Callable[..., Any]) -> Grads:
        return [move(grads[0], self.device)]


def move(t: Tensor, device: Device) -> Tensor:
    """A copy of ``t`` on ``device`` (the values are lost on meta, and cannot come back)."""
    if watched(t):
        out = redispatch("_to_copy.default", t, dtype=t.dtype, layout=strided, device=device)
        return _recorded(out, t)
    value = value_of(t)
    if isinstance(value, SparseValue):
        return LAYER.moved(t, device)
    if isinstance(value, Abstract) and device.type != "meta":
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")
    return _recorded(fresh(place(value, device)), t)


def _recorded(out: Tensor, t: Tensor) -> Tensor:
    if t.requires_grad and state.grad:
        out._edge, out._rg = (ToCopyBackward0(t), 0), True
    return out
