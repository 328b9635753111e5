"""torch.ao: quantization in eager mode."""

from torchlike.ao import nn as nn
from torchlike.ao import quantization as quantization
from torchlike.interop.refusing import refusing

__getattr__ = refusing(__name__, "torchlike has no quantized types; keep float32 or bfloat16")
