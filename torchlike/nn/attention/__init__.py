"""The choice of attention kernels: ``torch.nn.attention``."""

from torchlike.nn.attention._backends import SDPBackend as SDPBackend
from torchlike.nn.attention._backends import sdpa_kernel as sdpa_kernel
