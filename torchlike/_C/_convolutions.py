"""Which kernel PyTorch would take for a convolution."""

from collections.abc import Sequence
from enum import Enum

from torchlike._core.conversion.factories import empty
from torchlike._core.tensor.tensor import Tensor
from torchlike._functions._install import FUNCTIONS


class _ConvBackend(Enum):
    """PyTorch's kernels of convolutions; here XLA computes all of them.

    >>> import torchlike as torch
    >>> torch._C._ConvBackend(13), int(torch._C._ConvBackend.Slow2d)
    (<_ConvBackend.Slow2d: 13>, 13)
    """

    CudaDepthwise2d = 0
    CudaDepthwise3d = 1
    Cudnn = 2
    CudnnTranspose = 3
    Empty = 4
    Miopen = 5
    MiopenDepthwise = 6
    MiopenTranspose = 7
    Mkldnn = 8
    MkldnnEmpty = 10
    NnpackSpatial = 11
    Overrideable = 12
    Slow2d = 13
    Slow3d = 14
    SlowDilated2d = 15
    SlowDilated3d = 16
    SlowTranspose2d = 17
    SlowTranspose3d = 18
    Winograd3x3Depthwise = 19
    Xnnpack2d = 20
    Mps = 21
    MpsTranspose = 22

    def __int__(self) -> int:
        return self.value

    __index__ = __int__


_ConvBackend.__module__ = "torch._C"
# (dimensions, any dilation) -> the kernel: one dimension is computed as two, and transposed ones take any dilation
_SLOW = {
    (2, False): _ConvBackend.Slow2d, (3, False): _ConvBackend.Slow3d,
    (2, True): _ConvBackend.SlowDilated2d, (3, True): _ConvBackend.SlowDilated3d,
}  # fmt: skip
_SLOW_TRANSPOSE = {2: _ConvBackend.SlowTranspose2d, 3: _ConvBackend.SlowTranspose3d}


def _select_conv_backend(
    input: Tensor, weight: Tensor, bias: Tensor | None, stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], transposed: bool, output_padding: Sequence[int], groups: int,
    bias_sizes: Sequence[int] | None = None,
) -> _ConvBackend:  # fmt: skip
    """The kernel that a PyTorch without oneDNN and NNPACK takes for ``torch.convolution`` of these arguments.

    It names PyTorch's kernel only: here XLA computes every convolution. On CPUs the answer is PyTorch's, ``Empty`` for
    inputs without examples or channels; on every other device it is ``Overrideable``, which PyTorch says of devices
    whose kernels are not its own. RuntimeError for arguments that the convolution refuses, TypeError for what are no
    tensors.

    >>> import torchlike as torch
    >>> x, w = torch.ones(1, 2, 5, 5), torch.ones(4, 2, 3, 3)
    >>> torch._C._select_conv_backend(x, w, None, [1, 1], [0, 0], [2, 2], False, [0, 0], 1)
    <_ConvBackend.SlowDilated2d: 15>
    """
    for name, value in (("input", input), ("weight", weight), ("bias", bias)):
        if not (isinstance(value, Tensor) or (name == "bias" and value is None)):
            raise TypeError(f"_select_conv_backend(): argument '{name}' must be Tensor, not {type(value).__name__}")
    shapes = [None if x is None else empty(x.shape, dtype=input.dtype, device="meta") for x in (input, weight, bias)]
    FUNCTIONS["convolution"](*shapes, stride, padding, dilation, transposed, output_padding, groups)
    if 0 in input.shape[:2]:
        return _ConvBackend.Empty
    if input.device.type != "cpu":
        return _ConvBackend.Overrideable
    dimensions = max(input.dim() - 2, 2)
    if dimensions not in _SLOW_TRANSPOSE:
        raise RuntimeError(f"unsupported ConvNd parameters: _select_conv_backend() of an input of {input.dim()} dims")
    return _SLOW_TRANSPOSE[dimensions] if transposed else _SLOW[dimensions, any(d != 1 for d in dilation)]
