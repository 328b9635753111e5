"""Moves between devices, recorded so that gradients move back."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from torchlike._base.layout import preserve_strides
from torchlike._base.state import state
from torchlike._core.autograd import node as nodes
from torchlike._core.conversion.convert import place
from torchlike._core.dispatch.layers import DEVICES, Call
from torchlike._core.dispatch.observers import redispatch, watched
from torchlike._core.tensor.memory_order import restride
from torchlike._core.tensor.tensor import Tensor, device_of, fresh, strided, value_of
from torchlike._executor.failure import refuse_devices
from torchlike._executor.immediate import Abstract
from torchlike._executor.sparse import LAYER, SparseValue

if TYPE_CHECKING:
    from torchlike._base.device import device as Device
    from torchlike._core.typed import Grads


@DEVICES.install
def _together(call: Call) -> Any:
    """A call with values of several devices, made once those that PyTorch lets go to the others are with them.

    These are tensors of the CPU that have no dimensions, in calls that take no list, and indices of the CPU.
    """
    made: list[Any] = list(call.inputs)
    tensors = {i: x for i, x in enumerate(made) if isinstance(x, Tensor)}
    indices = call.op.declaration.spans(call.static).get("indices", ()) if call.op.declaration.lists else ()
    moving = {i for i, x in tensors.items() if device_of(x).type == "cpu" and (i in indices or not x.ndim)}
    places = {device_of(x) for i, x in tensors.items() if i not in moving}
    fixed = 1 if call.form.writes else 0
    for i in tensors if len(places) == 1 else ():
        if i in moving and i >= fixed and (i in indices or not call.op.declaration.lists):
            made[i] = move(made[i], *places)
    if all([a is b for a, b in zip(made, call.inputs, strict=True)]):
        refuse_devices(call.op.name, [value_of(x) for x in tensors.values()])
    return call.run(tuple(made))


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
    return _recorded(_strided_as(t, fresh(place(value, device))), t)


def _strided_as(t: Tensor, out: Tensor) -> Tensor:
    """A copy, with the order in memory of the elements of ``t``."""
    if t._view is not None:
        restride(out, preserve_strides(t._view.layout))
    return out


def _recorded(out: Tensor, t: Tensor) -> Tensor:
    if nodes.requires_grad(t) and state.grad:
        out._edge, out._rg = (ToCopyBackward0(t), 0), True
    return out
