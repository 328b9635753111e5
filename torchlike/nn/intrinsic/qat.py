"""torch.nn.intrinsic.qat: the former name of torch.ao.nn.intrinsic.qat."""

from torchlike.ao.nn.intrinsic.qat import ConvBn1d as ConvBn1d
from torchlike.ao.nn.intrinsic.qat import ConvBn2d as ConvBn2d
from torchlike.ao.nn.intrinsic.qat import ConvBn3d as ConvBn3d
from torchlike.ao.nn.intrinsic.qat import ConvBnReLU1d as ConvBnReLU1d
from torchlike.ao.nn.intrinsic.qat import ConvBnReLU2d as ConvBnReLU2d
from torchlike.ao.nn.intrinsic.qat import ConvBnReLU3d as ConvBnReLU3d
from torchlike.ao.nn.intrinsic.qat import ConvReLU1d as ConvReLU1d
from torchlike.ao.nn.intrinsic.qat import ConvReLU2d as ConvReLU2d
from torchlike.ao.nn.intrinsic.qat import ConvReLU3d as ConvReLU3d
from torchlike.ao.nn.intrinsic.qat import LinearBn1d as LinearBn1d
from torchlike.ao.nn.intrinsic.qat import LinearReLU as LinearReLU
from torchlike.ao.nn.intrinsic.qat import freeze_bn_stats as freeze_bn_stats
from torchlike.ao.nn.intrinsic.qat import update_bn_stats as update_bn_stats
from torchlike.interop.refusing import refusing

__getattr__ = refusing(__name__, "it is not supported, under its name in torch.ao.nn either")
