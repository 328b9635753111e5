"""Memory formats: how the strides of a tensor are chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchlike._base.layout import channels_last_strides, contiguous_strides, preserve_strides
from torchlike._core.tensor.memory_order import restride
from torchlike._core.tensor.tensor import MemoryFormat, channels_last, contiguous_format, demand_format, preserve_format

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchlike._base.layout import Layout
    from torchlike._core.tensor.tensor import Tensor


def format_strides(shape: Sequence[int], memory_format: MemoryFormat) -> tuple[int, ...]:
    """The strides of a shape in a memory format other than preserve_format."""
    if memory_format is contiguous_format:
        return contiguous_strides(shape)
    return channels_last_strides(shape, 4 if memory_format is channels_last else 5)


def new_strides(shape: Sequence[int], memory_format: MemoryFormat | None, layout: Layout | None) -> tuple[int, ...]:
    """The strides of a new tensor in a memory format; ``layout`` is what preserve_format preserves."""
    if memory_format is preserve_format:
        return contiguous_strides(shape) if layout is None else preserve_strides(layout)
    if memory_format is None or memory_format is contiguous_format:
        return contiguous_strides(shape)
    demand_format("memory_format", memory_format)
    return format_strides(shape, memory_format)


def formatted(t: Tensor, memory_format: MemoryFormat | None, layout: Layout | None = None) -> Tensor:
    """A fresh tensor with the strides of a memory format; ``layout`` is what preserve_format preserves."""
    shape = t._storage.form.shape
    strides = new_strides(shape, memory_format, layout)
    if strides != contiguous_strides(shape):
        restride(t, strides)
    return t
