"""Another size for a tensor over its storage, which other tensors may show too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchlike._base.deterministic import unwritten
from torchlike._base.layout import Layout, contiguous_strides, numel
from torchlike._core.dispatch.dispatch import call
from torchlike._core.dispatch.view_calls import call_view
from torchlike._core.tensor.mutation import become, reshape
from torchlike._core.tensor.shared_memory import demand_resizable
from torchlike._ops import pad as pads
from torchlike._ops import view as views

if TYPE_CHECKING:
    from torchlike._core.tensor.tensor import Tensor
    from torchlike._core.typed import Shape


def grows(t: Tensor, shape: Shape) -> bool:
    """Whether the storage of ``t`` is too small for that shape, densely. RuntimeError if it cannot grow."""
    if t._layout.offset + numel(shape) <= numel(t._storage.form.shape):
        return False
    demand_resizable(t._storage)
    return True


def resize(t: Tensor, shape: Shape, strides: tuple[int, ...]) -> None:
    """Give ``t`` a shape and dense strides over its storage, grown where it must; no version counts it.

    Growing gives the tensor a storage of its own; other tensors over the old one keep it.
    """
    offset = t._layout.offset
    if grows(t, shape):
        _grow(t, offset + numel(shape))
    storage = t._storage
    if storage.form.shape == shape and storage.strides is None and strides == contiguous_strides(shape):
        reshape(t, None)
    else:
        layout = Layout(shape, strides, offset)
        reshape(t, call_view(views.as_strided, (t.detach(),), layout)._view)


def _grow(t: Tensor, count: int) -> None:
    size = numel(t._storage.form.shape)
    flat = call_view(views.as_strided, (t.detach(),), ((size,), (1,), 0))
    number = unwritten(t.dtype) or None
    become(t, call(pads.constant_pad_nd, (flat, number), ((0, count - size),))._storage, None)
