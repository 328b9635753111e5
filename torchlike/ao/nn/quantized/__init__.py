"""torch.ao.nn.quantized: layers over quantized tensors."""

from torchlike.ao.nn.quantized import dynamic as dynamic
from torchlike.ao.nn.quantized import functional as functional
from torchlike.ao.nn.quantized.conv import Conv1d as Conv1d
from torchlike.ao.nn.quantized.conv import Conv2d as Conv2d
from torchlike.ao.nn.quantized.conv import Conv3d as Conv3d
from torchlike.ao.nn.quantized.conv_transposed import ConvTranspose1d as ConvTranspose1d
from torchlike.ao.nn.quantized.conv_transposed import ConvTranspose2d as ConvTranspose2d
from torchlike.ao.nn.quantized.conv_transposed import ConvTranspose3d as ConvTranspose3d
from torchlike.ao.nn.quantized.embedding import Embedding as Embedding
from torchlike.ao.nn.quantized.embedding import EmbeddingBag as EmbeddingBag
from torchlike.ao.nn.quantized.functional_modules import FloatFunctional as FloatFunctional
from torchlike.ao.nn.quantized.functional_modules import FXFloatFunctional as FXFloatFunctional
from torchlike.ao.nn.quantized.functional_modules import QFunctional as QFunctional
from torchlike.ao.nn.quantized.layers import ELU as ELU
from torchlike.ao.nn.quantized.layers import BatchNorm2d as BatchNorm2d
from torchlike.ao.nn.quantized.layers import BatchNorm3d as BatchNorm3d
from torchlike.ao.nn.quantized.layers import DeQuantize as DeQuantize
from torchlike.ao.nn.quantized.layers import Dropout as Dropout
from torchlike.ao.nn.quantized.layers import GroupNorm as GroupNorm
from torchlike.ao.nn.quantized.layers import Hardswish as Hardswish
from torchlike.ao.nn.quantized.layers import InstanceNorm1d as InstanceNorm1d
from torchlike.ao.nn.quantized.layers import InstanceNorm2d as InstanceNorm2d
from torchlike.ao.nn.quantized.layers import InstanceNorm3d as InstanceNorm3d
from torchlike.ao.nn.quantized.layers import LayerNorm as LayerNorm
from torchlike.ao.nn.quantized.layers import LeakyReLU as LeakyReLU
from torchlike.ao.nn.quantized.layers import Quantize as Quantize
from torchlike.ao.nn.quantized.layers import ReLU6 as ReLU6
from torchlike.ao.nn.quantized.linear import Linear as Linear
from torchlike.interop.refusing import refusing
from torchlike.nn import MaxPool2d as MaxPool2d

__getattr__ = refusing(__name__, "it is not supported; keep the layer of floats between DeQuantStub and QuantStub")
