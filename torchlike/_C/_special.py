"""torch._C._special: the functions of torch.special, under the names that PyTorch's C++ code has for them."""

import torchlike.special as _home
from torchlike._C._families import names_of

__getattr__ = names_of(__name__, _home, "special_")
