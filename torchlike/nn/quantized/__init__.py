"""torch.nn.quantized: the former name of torch.ao.nn.quantized."""

from torchlike.ao.nn import quantized as _home
from torchlike.interop.former import former
from torchlike.nn.quantized import dynamic as dynamic
from torchlike.nn.quantized import functional as functional

__getattr__ = former(_home, globals())
