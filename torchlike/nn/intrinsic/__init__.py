"""torch.nn.intrinsic: the former name of torch.ao.nn.intrinsic."""

from torchlike.ao.nn.intrinsic import BNReLU2d as BNReLU2d
from torchlike.ao.nn.intrinsic import BNReLU3d as BNReLU3d
from torchlike.ao.nn.intrinsic import ConvBn1d as ConvBn1d
from torchlike.ao.nn.intrinsic import ConvBn2d as ConvBn2d
from torchlike.ao.nn.intrinsic import ConvBn3d as ConvBn3d
from torchlike.ao.nn.intrinsic import ConvBnReLU1d as ConvBnReLU1d
from torchlike.ao.nn.intrinsic import ConvBnReLU2d as ConvBnReLU2d
from torchlike.ao.nn.intrinsic import ConvBnReLU3d as ConvBnReLU3d
from torchlike.ao.nn.intrinsic import ConvReLU1d as ConvReLU1d
from torchlike.ao.nn.intrinsic import ConvReLU2d as ConvReLU2d
from torchlike.ao.nn.intrinsic import ConvReLU3d as ConvReLU3d
from torchlike.ao.nn.intrinsic import LinearBn1d as LinearBn1d
from torchlike.ao.nn.intrinsic import LinearReLU as LinearReLU
from torchlike.interop.refusing import refusing
from torchlike.nn.intrinsic import qat as qat
from torchlike.nn.intrinsic import quantized as quantized

__getattr__ = refusing(__name__, "it is not supported, under its name in torch.ao.nn either")
