"""Moves between devices, recorded so that gradients move back."""

from torchlike._base.state import state
from torchlike._core.autograd import node as nodes
from torchlike._core.conversion.convert import place
from torchlike._core.dispatch.observers import seen, watched
from torchlike._core.tensor.tensor import fresh, strided, value_of
from torchlike._executor.immediate import Abstract


class ToCopyBackward0(nodes.Node):
    """The gradient goes back to the device the tensor came from."""

    __slots__ = ("device", "meta")

    def __init__(self, t):
        self.device, self.meta = t.device, Abstract(tuple(t.shape), t.dtype.np)
        self._edges = [nodes.edge_of(t)]
        self._seq, self._ex = nodes.next_sequence(), None

    def _outs(self):
        return (self.meta,)

    def _release(self):
        """Nothing is saved."""

    def apply(self, grads):
        return [place(grads[0], self.device)]

    def _apply_tensors(self, grads, call):
        return [move(grads[0], self.device)]


def move(t, device):
    """A copy of ``t`` on ``device`` (the values are lost on meta, and cannot come back)."""
    if watched(t):
        out = seen("_to_copy.default", t, dtype=t.dtype, layout=strided, device=device)
        return _recorded(out, t)
    value = value_of(t)
    if isinstance(value, Abstract) and device.type != "meta":
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")
    return _recorded(fresh(place(value, device)), t)


def _recorded(out, t):
    if t.requires_grad and state.grad:
        out._edge, out._rg = (ToCopyBackward0(t), 0), True
    return out
