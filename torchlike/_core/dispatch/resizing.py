"""Another size for a tensor over its storage, which other tensors may show too."""

from __future__ import annotations

from sys import getrefcount
from typing import TYPE_CHECKING

from torchlike._base.deterministic import unwritten
from torchlike._base.layout import Layout, contiguous_strides, numel
from torchlike._base.state import state
from torchlike._core.dispatch.dispatch import call
from torchlike._core.dispatch.view_calls import call_view
from torchlike._core.tensor.mutation import become, reshape
from torchlike._core.tensor.shared_memory import demand_resizable, lie_together
from torchlike._core.tensor.storage import Outer
from torchlike._executor.references import KNOWN
from torchlike._executor.spread import Abstract
from torchlike._ops import pad as pads
from torchlike._ops import view as views

if TYPE_CHECKING:
    from torchlike._core.tensor.storage import Storage
    from torchlike._core.tensor.tensor import Tensor
    from torchlike._core.typed import Shape


def grows(t: Tensor, shape: Shape) -> bool:
    """Whether the storage of ``t`` is too small for that shape, densely. RuntimeError if it cannot grow."""
    if t._layout.offset + numel(shape) <= _room(t):
        return False
    demand_resizable(t._storage)
    return True


def _room(t: Tensor) -> int:
    """How many elements of the dtype of ``t`` its storage has room for."""
    form = t._storage.form
    if form.dtype == t.dtype.np:
        return numel(form.shape)
    return numel(form.shape) * form.dtype.itemsize // t.dtype.itemsize


def resize(t: Tensor, shape: Shape, strides: tuple[int, ...]) -> None:
    """Give ``t`` a shape and dense strides over its storage, grown where it must; no version counts it.

    Where other tensors show the storage that grows, both have their numbers in the same memory from then on.
    """
    for is_lazy, undone in ((views.is_neg, views.neg_view), (views.is_conj, views.conj)):
        if is_lazy(t) and grows(t, shape):
            plain = call_view(undone, (t.detach(),), ())  # so that what grows is the memory as it is
            resize(plain, shape, strides)
            lazy = call_view(undone, (plain,), ())
            become(t, lazy._storage, lazy._view)
            return
    offset = t._layout.offset
    if grows(t, shape):
        _grow(t, offset + numel(shape))
    storage = t._storage
    if storage.form.shape == shape and storage.strides is None and strides == contiguous_strides(shape):
        reshape(t, None)
    else:
        layout = Layout(shape, strides, offset)
        reshape(t, call_view(views.as_strided, (t.detach(),), layout)._view)


_EMPTY = Outer, Abstract  # no numbers


def _is_held(t: Tensor, storage: Storage) -> bool:
    """Whether somebody else may show the storage of ``t``."""
    if state.capture is not None:
        if state.capture.others_show(t):
            state.capture.refuse("makes a tensor larger than the storage that others show too")
        return False
    of_t = KNOWN + 1 + (t._vc is storage)  # one more for the caller's variable
    return storage.shared or (getrefcount(storage) > of_t and storage.form.__class__ not in _EMPTY)


def _grow(t: Tensor, count: int) -> None:
    storage = t._storage
    held = _is_held(t, storage)
    size = _room(t)
    if held:  # what others show are whole elements
        whole = max(storage.form.dtype.itemsize // t.dtype.itemsize, 1)
        count = -(-count // whole) * whole
    flat = call_view(views.as_strided, (t.detach(),), ((size,), (1,), 0))
    number = unwritten(t.dtype) or None
    larger = call(pads.constant_pad_nd, (flat, number), ((0, count - size),))._storage
    if held:
        lie_together(storage, larger)
    become(t, larger, None)
