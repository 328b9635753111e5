"""torch.nn.intrinsic: the former name of torch.ao.nn.intrinsic."""

from torchlike.ao.nn import intrinsic as _home
from torchlike.interop.former import former
from torchlike.nn.intrinsic import qat as qat
from torchlike.nn.intrinsic import quantized as quantized

__getattr__ = former(_home, globals())
