"""torch.nn.qat: the former name of torch.ao.nn.qat."""

from torchlike.ao.nn import qat as _home
from torchlike.interop.former import former

__getattr__ = former(_home, globals())
