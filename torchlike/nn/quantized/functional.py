"""torch.nn.quantized.functional: the former name of torch.ao.nn.quantized.functional."""

from torchlike.ao.nn.quantized import functional as _home
from torchlike.interop.former import former

__getattr__ = former(_home, globals())
