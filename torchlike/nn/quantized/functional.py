"""torch.nn.quantized.functional: the former name of torch.ao.nn.quantized.functional."""

from torchlike.ao.nn.quantized.functional import adaptive_avg_pool2d as adaptive_avg_pool2d
from torchlike.ao.nn.quantized.functional import adaptive_avg_pool3d as adaptive_avg_pool3d
from torchlike.ao.nn.quantized.functional import avg_pool2d as avg_pool2d
from torchlike.ao.nn.quantized.functional import avg_pool3d as avg_pool3d
from torchlike.ao.nn.quantized.functional import celu as celu
from torchlike.ao.nn.quantized.functional import clamp as clamp
from torchlike.ao.nn.quantized.functional import conv1d as conv1d
from torchlike.ao.nn.quantized.functional import conv2d as conv2d
from torchlike.ao.nn.quantized.functional import conv3d as conv3d
from torchlike.ao.nn.quantized.functional import elu as elu
from torchlike.ao.nn.quantized.functional import hardsigmoid as hardsigmoid
from torchlike.ao.nn.quantized.functional import hardswish as hardswish
from torchlike.ao.nn.quantized.functional import hardtanh as hardtanh
from torchlike.ao.nn.quantized.functional import interpolate as interpolate
from torchlike.ao.nn.quantized.functional import leaky_relu as leaky_relu
from torchlike.ao.nn.quantized.functional import linear as linear
from torchlike.ao.nn.quantized.functional import max_pool1d as max_pool1d
from torchlike.ao.nn.quantized.functional import max_pool2d as max_pool2d
from torchlike.ao.nn.quantized.functional import threshold as threshold
from torchlike.ao.nn.quantized.functional import upsample as upsample
from torchlike.ao.nn.quantized.functional import upsample_bilinear as upsample_bilinear
from torchlike.ao.nn.quantized.functional import upsample_nearest as upsample_nearest
from torchlike.interop.refusing import refusing

__getattr__ = refusing(__name__, "it is not supported, under its name in torch.ao.nn either")
