"""Layer, group, root-mean-square and local response normalisation."""

import importlib
import numbers

from torchlike._core.conversion.factories import empty
from torchlike._core.tensor.tensor import Tensor
from torchlike.nn import functional as F
from torchlike.nn.modules._start import scale_and_shift
from torchlike.nn.modules.module import Module
from torchlike.nn.parameter import Parameter

__all__ = ["CrossMapLRN2d", "GroupNorm", "LayerNorm", "LocalResponseNorm", "RMSNorm"]


def _parameters(module, shape, device, dtype, **wanted):
    for name, yes in wanted.items():
        module.register_parameter(name, Parameter(empty(shape, device=device, dtype=dtype)) if yes else None)


def _shape(normalized_shape):
    return (normalized_shape,) if isinstance(normalized_shape, numbers.Integral) else tuple(normalized_shape)


class LayerNorm(Module):
    """Normalizes over the last dimensions, whose sizes are ``normalized_shape`` (an int or a list).

    Args:
        eps: added to the variance.
        elementwise_affine: whether there is a learned ``weight`` (and ``bias``) of that shape.

    Raises:
        RuntimeError: an input that does not end in ``normalized_shape``.

    >>> import torchlike as torch
    >>> torch.nn.LayerNorm(10)(torch.ones(20, 5, 10)).shape
    torch.Size([20, 5, 10])
    """

    __constants__ = ["normalized_shape", "eps", "elementwise_affine"]

    def __init__(
        self, normalized_shape, eps: float = 1e-5, elementwise_affine: bool = True, bias: bool = True,
        device=None, dtype=None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.normalized_shape = _shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        affine = elementwise_affine
        _parameters(self, self.normalized_shape, device, dtype, weight=affine, bias=affine and bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to 1 and the bias to 0."""
        scale_and_shift(self.weight, self.bias)

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
            f"bias={self.bias is not None}"
        )


class GroupNorm(Module):
    """Normalizes [N, C, ...] over ``num_groups`` groups of channels and the positions.

    Raises:
        ValueError: ``num_channels`` is not divisible by ``num_groups``.

    >>> import torchlike as torch
    >>> torch.nn.GroupNorm(3, 6)(torch.ones(20, 6, 10, 10)).shape
    torch.Size([20, 6, 10, 10])
    """

    __constants__ = ["num_groups", "num_channels", "eps", "affine"]

    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True, device=None,
        dtype=None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        if num_channels % num_groups != 0:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        _parameters(self, num_channels, device, dtype, weight=affine, bias=affine and bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to 1 and the bias to 0."""
        scale_and_shift(self.weight, self.bias)

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """Divides by the root mean square over the last dimensions, and multiplies by a learned ``weight``.

    ``eps`` is added to the mean square (None: the machine epsilon of the computation).

    >>> import torchlike as torch
    >>> torch.nn.RMSNorm(2)(torch.full((1, 2), 3.0))
    tensor([[1., 1.]], grad_fn=<FusedRmsNormBackward0>)
    """

    __constants__ = ["normalized_shape", "eps", "elementwise_affine"]

    def __init__(
        self,
        normalized_shape,
        eps: float | None = None,
        elementwise_affine: bool = True,
        device=None,
        dtype=None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        _parameters(self, self.normalized_shape, device, dtype, weight=elementwise_affine)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to 1."""
        scale_and_shift(self.weight, None)

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class LocalResponseNorm(Module):
    """Divides by a power of the mean square of neighbouring channels; see ``F.local_response_norm``.

    >>> import torchlike as torch
    >>> torch.nn.LocalResponseNorm(2)(torch.ones(1, 4, 2, 2)).shape
    torch.Size([1, 4, 2, 2])
    """

    __constants__ = ["size", "alpha", "beta", "k"]

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(Module):
    """:class:`LocalResponseNorm` of [N, C, H, W], under the name that converted models use.

    As in PyTorch, windows are one channel shorter where ``size`` is even, channel 0 counts in all of them, and the
    gradient sums over windows of its own.

    >>> import torchlike as torch
    >>> torch.nn.CrossMapLRN2d(3)
    CrossMapLRN2d(3, alpha=0.0001, beta=0.75, k=1)
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        functions = importlib.import_module("torchlike.nn.modules._functions")  # with torch.autograd, which is large
        return functions.CrossMapLRN2d.apply(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
