"""torch.nn.intrinsic.qat: the former name of torch.ao.nn.intrinsic.qat."""

from torchlike.ao.nn.intrinsic import qat as _home
from torchlike.interop.former import former

__getattr__ = former(_home, globals())
