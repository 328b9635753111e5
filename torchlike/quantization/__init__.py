"""torch.quantization: the former name of torch.ao.quantization."""

from torchlike.ao import quantization as _home
from torchlike.interop.former import former

__getattr__ = former(_home, globals())
