"""torch.nn.intrinsic.quantized: the former name of torch.ao.nn.intrinsic.quantized."""

from torchlike.ao.nn.intrinsic.quantized import BNReLU2d as BNReLU2d
from torchlike.ao.nn.intrinsic.quantized import BNReLU3d as BNReLU3d
from torchlike.ao.nn.intrinsic.quantized import ConvReLU1d as ConvReLU1d
from torchlike.ao.nn.intrinsic.quantized import ConvReLU2d as ConvReLU2d
from torchlike.ao.nn.intrinsic.quantized import ConvReLU3d as ConvReLU3d
from torchlike.ao.nn.intrinsic.quantized import LinearReLU as LinearReLU
from torchlike.interop.refusing import refusing

__getattr__ = refusing(__name__, "it is not supported, under its name in torch.ao.nn either")
