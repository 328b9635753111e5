"""The memory format of the weights of convolutions."""

from typing import TypeVar

from torchlike._core.tensor.tensor import MemoryFormat, preserve_format
from torchlike.nn.modules.conv import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d
from torchlike.nn.modules.module import Module

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]

_M = TypeVar("_M", bound=Module)


def _convert(module: _M, kinds: tuple[type, ...], memory_format: MemoryFormat) -> _M:
    if memory_format is preserve_format:
        raise RuntimeError("Unsupported memory formatPreserve: name the format to convert to")
    if isinstance(module, kinds):
        weight = module.weight
        weight.data = weight.detach().clone(memory_format=memory_format)  # type: ignore[operator]
    for child in module.children():
        _convert(child, kinds, memory_format)
    return module


def convert_conv2d_weight_memory_format(module: _M, memory_format: MemoryFormat) -> _M:
    """Lay out the weights of the 2-dimensional convolutions in ``module`` as ``memory_format`` says.

    Returns ``module``. Strides are what changes: XLA chooses how arrays lie in memory.

    >>> import torchlike as torch
    >>> m = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3))
    >>> m = torch.nn.utils.convert_conv2d_weight_memory_format(m, torch.channels_last)
    >>> m[0].weight.is_contiguous(memory_format=torch.channels_last)
    True
    """
    return _convert(module, (Conv2d, ConvTranspose2d), memory_format)


def convert_conv3d_weight_memory_format(module: _M, memory_format: MemoryFormat) -> _M:
    """Lay out the weights of the 3-dimensional convolutions in ``module`` as ``memory_format`` says."""
    return _convert(module, (Conv3d, ConvTranspose3d), memory_format)
