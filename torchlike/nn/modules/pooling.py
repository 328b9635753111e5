"""Pooling layers."""

from torchlike._core.tensor import Tensor
from torchlike.nn import functional as F
from torchlike.nn.modules.module import Module

__all__ = ["MaxPool1d", "MaxPool2d", "MaxPool3d"]


class _MaxPoolNd(Module):
    __constants__ = ["kernel_size", "stride", "padding", "dilation", "return_indices", "ceil_mode"]

    def __init__(
        self, kernel_size, stride=None, padding=0, dilation=1, return_indices: bool = False, ceil_mode: bool = False
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )

    def _pool(self, pool, input):
        return pool(
            input, self.kernel_size, self.stride, self.padding, self.dilation, ceil_mode=self.ceil_mode,
            return_indices=self.return_indices,
        )  # fmt: skip


class MaxPool1d(_MaxPoolNd):
    """The maximum of every window of the last dimension of [N, C, L] or [C, L].

    Args:
        stride: distance of windows (default: ``kernel_size``).
        padding: how far windows may start before the input; at most half of ``kernel_size``.
        dilation: distance of the elements of a window.
        return_indices: also return the positions of the maxima.
        ceil_mode: whether the last window may hang over the end.

    >>> import torchlike as torch
    >>> torch.nn.MaxPool1d(3, stride=2)(torch.ones(20, 16, 50)).shape
    torch.Size([20, 16, 24])
    """

    def forward(self, input: Tensor):
        return self._pool(F.max_pool1d, input)


class MaxPool2d(_MaxPoolNd):
    """The maximum of every window of [N, C, H, W] or [C, H, W]; arguments as :class:`MaxPool1d`.

    >>> import torchlike as torch
    >>> torch.nn.MaxPool2d((3, 2), stride=(2, 1))(torch.ones(20, 16, 50, 32)).shape
    torch.Size([20, 16, 24, 31])
    """

    def forward(self, input: Tensor):
        return self._pool(F.max_pool2d, input)


class MaxPool3d(_MaxPoolNd):
    """The maximum of every window of [N, C, D, H, W] or [C, D, H, W]; arguments as :class:`MaxPool1d`.

    >>> import torchlike as torch
    >>> torch.nn.MaxPool3d(2)(torch.ones(1, 1, 4, 4, 4)).shape
    torch.Size([1, 1, 2, 2, 2])
    """

    def forward(self, input: Tensor):
        return self._pool(F.max_pool3d, input)
