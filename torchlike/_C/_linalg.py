"""torch._C._linalg: the functions of torch.linalg, under the names that PyTorch's C++ code has for them."""

import torchlike.linalg as _home
from torchlike._C._families import names_of

__getattr__ = names_of(__name__, _home, "linalg_")
