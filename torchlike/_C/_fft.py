"""torch._C._fft: the functions of torch.fft, under the names that PyTorch's C++ code has for them."""

import torchlike.fft as _home
from torchlike._C._families import names_of

__getattr__ = names_of(__name__, _home, "fft_")
