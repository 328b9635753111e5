"""torch.ao.nn.intrinsic: layers one after the other that quantization takes for one."""

from torchlike.ao.nn.intrinsic import qat as qat
from torchlike.ao.nn.intrinsic import quantized as quantized
from torchlike.ao.nn.intrinsic.fused import BNReLU2d as BNReLU2d
from torchlike.ao.nn.intrinsic.fused import BNReLU3d as BNReLU3d
from torchlike.ao.nn.intrinsic.fused import ConvBn1d as ConvBn1d
from torchlike.ao.nn.intrinsic.fused import ConvBn2d as ConvBn2d
from torchlike.ao.nn.intrinsic.fused import ConvBn3d as ConvBn3d
from torchlike.ao.nn.intrinsic.fused import ConvBnReLU1d as ConvBnReLU1d
from torchlike.ao.nn.intrinsic.fused import ConvBnReLU2d as ConvBnReLU2d
from torchlike.ao.nn.intrinsic.fused import ConvBnReLU3d as ConvBnReLU3d
from torchlike.ao.nn.intrinsic.fused import ConvReLU1d as ConvReLU1d
from torchlike.ao.nn.intrinsic.fused import ConvReLU2d as ConvReLU2d
from torchlike.ao.nn.intrinsic.fused import ConvReLU3d as ConvReLU3d
from torchlike.ao.nn.intrinsic.fused import LinearBn1d as LinearBn1d
from torchlike.ao.nn.intrinsic.fused import LinearLeakyReLU as LinearLeakyReLU
from torchlike.ao.nn.intrinsic.fused import LinearReLU as LinearReLU
from torchlike.ao.nn.intrinsic.fused import LinearTanh as LinearTanh
from torchlike.ao.nn.intrinsic.fused import _FusedModule as _FusedModule
from torchlike.interop.refusing import refusing

__getattr__ = refusing(__name__, "it is not supported; ConvReLU2d and its like are")
