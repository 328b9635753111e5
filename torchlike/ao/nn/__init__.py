"""torch.ao.nn: layers over quantized tensors, and those that are trained for it."""

from torchlike.ao.nn import intrinsic as intrinsic
from torchlike.ao.nn import qat as qat
from torchlike.ao.nn import quantized as quantized
from torchlike.interop.refusing import refusing

__getattr__ = refusing(__name__, "it is not supported; torch.ao.nn.quantized, qat and intrinsic are")
