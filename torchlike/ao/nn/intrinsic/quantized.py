"""torch.ao.nn.intrinsic.quantized: fused layers over quantized tensors."""

from __future__ import annotations

from typing import Any

from torchlike.ao.nn.quantized import conv, layers, linear
from torchlike.ao.nn.quantized._compute import linear as linear_of
from torchlike.interop.refusing import refusing

__getattr__ = refusing(__name__, "it is not supported; ConvReLU2d and LinearReLU are")


class LinearReLU(linear.Linear):
    """A linear layer and relu."""

    _name = "QuantizedLinearReLU"

    def forward(self, x: Any) -> Any:
        """The layers of ``x``."""
        return linear_of(x, self.weight(), self.bias(), self.scale, self.zero_point, True)


class _ConvReLU(conv._ConvNd):
    """A convolution and relu."""

    _relu = True
    _name = "QuantizedConvReLU"


class ConvReLU1d(_ConvReLU):
    """A convolution of one dimension and relu."""

    _n = 1


class ConvReLU2d(_ConvReLU):
    """A convolution of two dimensions and relu."""

    _n = 2


class ConvReLU3d(_ConvReLU):
    """A convolution of three dimensions and relu."""

    _n = 3


class BNReLU2d(layers.BatchNorm2d):
    """Batch norm of images and relu."""

    _relu = True


class BNReLU3d(layers.BatchNorm3d):
    """Batch norm of volumes and relu."""

    _relu = True
