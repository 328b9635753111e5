"""Pooling layers."""

from torchlike._core.tensor.tensor import Tensor
from torchlike.nn import functional as F
from torchlike.nn.modules.module import Module
from torchlike.nn.modules.utils import _pair, _single, _triple

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d", "FractionalMaxPool2d",
    "FractionalMaxPool3d", "LPPool1d", "LPPool2d", "LPPool3d",
    "MaxPool1d", "MaxPool2d", "MaxPool3d", "MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d",
]  # fmt: skip


class _MaxPoolNd(Module):
    __constants__ = ["kernel_size", "stride", "padding", "dilation", "return_indices", "ceil_mode"]

    def __init__(
        self,
        kernel_size,
        stride=None,
        padding=0,
        dilation=1,
        return_indices: bool = False,
        ceil_mode: bool = False,
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


class _MaxUnpoolNd(Module):
    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"

    def _set(self, as_tuple, kernel_size, stride, padding):
        self.kernel_size = as_tuple(kernel_size)
        self.stride = as_tuple(stride if stride is not None else kernel_size)
        self.padding = as_tuple(padding)


class MaxUnpool1d(_MaxUnpoolNd):
    """Zeros with pooled maxima back where :class:`MaxPool1d` found them; ``forward(input, indices,
    output_size)``.

    >>> import torchlike as torch
    >>> top, at = torch.nn.MaxPool1d(2, return_indices=True)(torch.tensor([[1.0, 3.0]]))
    >>> torch.nn.MaxUnpool1d(2)(top, at)
    tensor([[0., 3.]])
    """

    def __init__(self, kernel_size, stride=None, padding=0) -> None:
        super().__init__()
        self._set(_single, kernel_size, stride, padding)

    def forward(self, input: Tensor, indices: Tensor, output_size: list[int] | None = None) -> Tensor:
        return F.max_unpool1d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool2d(_MaxUnpoolNd):
    """Zeros with pooled maxima back where :class:`MaxPool2d` found them; see :class:`MaxUnpool1d`."""

    def __init__(self, kernel_size, stride=None, padding=0) -> None:
        super().__init__()
        self._set(_pair, kernel_size, stride, padding)

    def forward(self, input: Tensor, indices: Tensor, output_size: list[int] | None = None) -> Tensor:
        return F.max_unpool2d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool3d(_MaxUnpoolNd):
    """Zeros with pooled maxima back where :class:`MaxPool3d` found them; see :class:`MaxUnpool1d`."""

    def __init__(self, kernel_size, stride=None, padding=0) -> None:
        super().__init__()
        self._set(_triple, kernel_size, stride, padding)

    def forward(self, input: Tensor, indices: Tensor, output_size: list[int] | None = None) -> Tensor:
        return F.max_unpool3d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class _AvgPoolNd(Module):
    __constants__ = ["kernel_size", "stride", "padding", "ceil_mode", "count_include_pad"]

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPoolNd):
    """The mean of every window of the last dimension of [N, C, L] or [C, L].

    Args:
        stride: distance of windows (default: ``kernel_size``).
        ceil_mode: whether the last window may hang over the end.
        count_include_pad: whether padding counts in the means.

    >>> import torchlike as torch
    >>> torch.nn.AvgPool1d(3, stride=2)(torch.tensor([[[1.0, 2, 3, 4, 5, 6, 7]]]))
    tensor([[[2., 4., 6.]]])
    """

    def __init__(
        self, kernel_size, stride=None, padding=0, ceil_mode: bool = False, count_include_pad: bool = True
    ) -> None:
        super().__init__()
        self.kernel_size = _single(kernel_size)
        self.stride = _single(stride if stride is not None else kernel_size)
        self.padding = _single(padding)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)


class _AvgPool23d(_AvgPoolNd):
    def __init__(
        self, kernel_size, stride=None, padding=0, ceil_mode: bool = False, count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def _pool(self, pool, input):
        return pool(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad,
            self.divisor_override,
        )  # fmt: skip


class AvgPool2d(_AvgPool23d):
    """The mean of every window of [N, C, H, W] or [C, H, W]; see :class:`AvgPool1d`.

    ``divisor_override`` replaces the number of elements in the means.

    >>> import torchlike as torch
    >>> torch.nn.AvgPool2d((3, 2), stride=(2, 1))(torch.ones(20, 16, 50, 32)).shape
    torch.Size([20, 16, 24, 31])
    """

    __constants__ = [*_AvgPoolNd.__constants__, "divisor_override"]

    def forward(self, input: Tensor) -> Tensor:
        return self._pool(F.avg_pool2d, input)


class AvgPool3d(_AvgPool23d):
    """The mean of every window of [N, C, D, H, W] or [C, D, H, W]; see :class:`AvgPool2d`.

    >>> import torchlike as torch
    >>> torch.nn.AvgPool3d(2)(torch.ones(1, 1, 4, 4, 4)).shape
    torch.Size([1, 1, 2, 2, 2])
    """

    __constants__ = [*_AvgPoolNd.__constants__, "divisor_override"]

    def forward(self, input: Tensor) -> Tensor:
        return self._pool(F.avg_pool3d, input)


class _LPPoolNd(Module):
    __constants__ = ["norm_type", "kernel_size", "stride", "ceil_mode"]

    def __init__(self, norm_type: float, kernel_size, stride=None, ceil_mode: bool = False) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def extra_repr(self) -> str:
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )

    def _pool(self, pool, input):
        return pool(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


class LPPool1d(_LPPoolNd):
    """``(sum of x ** p) ** (1 / p)`` of every window of [N, C, L] or [C, L].

    >>> import torchlike as torch
    >>> torch.nn.LPPool1d(2, 2)(torch.tensor([[[3.0, 4.0]]]))
    tensor([[[5.]]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return self._pool(F.lp_pool1d, input)


class LPPool2d(_LPPoolNd):
    """``(sum of x ** p) ** (1 / p)`` of every window of [N, C, H, W] or [C, H, W]."""

    def forward(self, input: Tensor) -> Tensor:
        return self._pool(F.lp_pool2d, input)


class LPPool3d(_LPPoolNd):
    """``(sum of x ** p) ** (1 / p)`` of every window of [N, C, D, H, W] or [C, D, H, W]."""

    def forward(self, input: Tensor) -> Tensor:
        return self._pool(F.lp_pool3d, input)


class _AdaptiveMaxPoolNd(Module):
    __constants__ = ["output_size", "return_indices"]

    def __init__(self, output_size, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """Maxima over ``output_size`` intervals that cover [N, C, L] or [C, L].

    >>> import torchlike as torch
    >>> torch.nn.AdaptiveMaxPool1d(5)(torch.ones(1, 64, 8)).shape
    torch.Size([1, 64, 5])
    """

    def forward(self, input: Tensor):
        return F.adaptive_max_pool1d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """Maxima over a grid of ``output_size`` cells of [N, C, H, W] or [C, H, W]; None keeps a dimension."""

    def forward(self, input: Tensor):
        return F.adaptive_max_pool2d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """Maxima over a grid of ``output_size`` cells of [N, C, D, H, W] or [C, D, H, W]; None keeps a
    dimension."""

    def forward(self, input: Tensor):
        return F.adaptive_max_pool3d(input, self.output_size, self.return_indices)


class _AdaptiveAvgPoolNd(Module):
    __constants__ = ["output_size"]

    def __init__(self, output_size) -> None:
        super().__init__()
        self.output_size = output_size

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """Means over ``output_size`` intervals that cover [N, C, L] or [C, L].

    >>> import torchlike as torch
    >>> torch.nn.AdaptiveAvgPool1d(5)(torch.ones(1, 64, 8)).shape
    torch.Size([1, 64, 5])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool1d(input, self.output_size)


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """Means over a grid of ``output_size`` cells of [N, C, H, W] or [C, H, W]; None keeps a dimension.

    >>> import torchlike as torch
    >>> torch.nn.AdaptiveAvgPool2d((None, 7))(torch.ones(1, 64, 10, 9)).shape
    torch.Size([1, 64, 10, 7])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool2d(input, self.output_size)


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """Means over a grid of ``output_size`` cells of [N, C, D, H, W] or [C, D, H, W]; None keeps a
    dimension."""

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool3d(input, self.output_size)


class _FractionalMaxPoolNd(Module):
    __constants__ = ["kernel_size", "return_indices", "output_size", "output_ratio"]
    _n: int

    def __init__(
        self, kernel_size, output_size=None, output_ratio=None, return_indices: bool = False, _random_samples=None
    ) -> None:
        super().__init__()
        name, as_tuple = f"FractionalMaxPool{self._n}d", _pair if self._n == 2 else _triple
        if output_size is None and output_ratio is None:
            raise ValueError(f"{name} requires specifying either an output size, or a pooling ratio")
        if output_size is not None and output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        self.kernel_size = as_tuple(kernel_size)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = None if output_size is None else as_tuple(output_size)
        self.output_ratio = None if output_ratio is None else as_tuple(output_ratio)
        if self.output_ratio is not None and not all(0 < ratio < 1 for ratio in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def forward(self, input: Tensor):
        pool = F.fractional_max_pool2d if self._n == 2 else F.fractional_max_pool3d
        sizes = (self.kernel_size, self.output_size, self.output_ratio)
        return pool(input, *sizes, self.return_indices, _random_samples=self._random_samples)


class FractionalMaxPool2d(_FractionalMaxPoolNd):
    """The maximum of windows at random places; see ``torch.nn.functional.fractional_max_pool2d``.

    Exactly one of ``output_size`` and ``output_ratio`` (between 0 and 1) says the size of the result.

    >>> import torchlike as torch
    >>> torch.nn.FractionalMaxPool2d(2, output_ratio=0.5)(torch.ones(1, 3, 8, 8)).shape
    torch.Size([1, 3, 4, 4])
    """

    _n = 2


class FractionalMaxPool3d(_FractionalMaxPoolNd):
    """The maximum of windows at random places in [N, C, T, H, W]; see :class:`FractionalMaxPool2d`."""

    _n = 3
