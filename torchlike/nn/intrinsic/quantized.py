"""torch.nn.intrinsic.quantized: the former name of torch.ao.nn.intrinsic.quantized."""

from torchlike.ao.nn.intrinsic import quantized as _home
from torchlike.interop.former import former

__getattr__ = former(_home, globals())
