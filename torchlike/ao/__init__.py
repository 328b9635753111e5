"""torch.ao: names of quantization, so that programs that offer it can be imported."""

from torchlike.ao import quantization as quantization
from torchlike.interop.alias import missing_names

__getattr__ = missing_names(__name__)
