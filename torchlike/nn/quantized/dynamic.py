"""torch.nn.quantized.dynamic: the former name of torch.ao.nn.quantized.dynamic."""

from torchlike.ao.nn.quantized import dynamic as _home
from torchlike.interop.former import former

__getattr__ = former(_home, globals())
