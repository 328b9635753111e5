"""torch.nn.quantized: the former name of torch.ao.nn.quantized."""

from torchlike.ao.nn.quantized import ELU as ELU
from torchlike.ao.nn.quantized import BatchNorm2d as BatchNorm2d
from torchlike.ao.nn.quantized import BatchNorm3d as BatchNorm3d
from torchlike.ao.nn.quantized import Conv1d as Conv1d
from torchlike.ao.nn.quantized import Conv2d as Conv2d
from torchlike.ao.nn.quantized import Conv3d as Conv3d
from torchlike.ao.nn.quantized import DeQuantize as DeQuantize
from torchlike.ao.nn.quantized import Dropout as Dropout
from torchlike.ao.nn.quantized import Embedding as Embedding
from torchlike.ao.nn.quantized import EmbeddingBag as EmbeddingBag
from torchlike.ao.nn.quantized import FloatFunctional as FloatFunctional
from torchlike.ao.nn.quantized import FXFloatFunctional as FXFloatFunctional
from torchlike.ao.nn.quantized import GroupNorm as GroupNorm
from torchlike.ao.nn.quantized import Hardswish as Hardswish
from torchlike.ao.nn.quantized import InstanceNorm1d as InstanceNorm1d
from torchlike.ao.nn.quantized import InstanceNorm2d as InstanceNorm2d
from torchlike.ao.nn.quantized import InstanceNorm3d as InstanceNorm3d
from torchlike.ao.nn.quantized import LayerNorm as LayerNorm
from torchlike.ao.nn.quantized import LeakyReLU as LeakyReLU
from torchlike.ao.nn.quantized import Linear as Linear
from torchlike.ao.nn.quantized import MaxPool2d as MaxPool2d
from torchlike.ao.nn.quantized import QFunctional as QFunctional
from torchlike.ao.nn.quantized import Quantize as Quantize
from torchlike.ao.nn.quantized import ReLU6 as ReLU6
from torchlike.interop.refusing import refusing
from torchlike.nn.quantized import dynamic as dynamic
from torchlike.nn.quantized import functional as functional

__getattr__ = refusing(__name__, "it is not supported, under its name in torch.ao.nn either")
