"""torch._C._nn: the functions of torch.nn.functional, under the names that PyTorch's C++ code has for them."""

import torchlike.nn.functional as _home
from torchlike._C._families import names_of

__getattr__ = names_of(__name__, _home, "")
