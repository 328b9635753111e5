"""torch._C._nn: the functions of torch.nn.functional, under the names that PyTorch's C++ code has for them."""

from typing import Any

import torchlike.nn.functional as _home
from torchlike._C._families import names_of
from torchlike.nn.modules._convert import _parse_to as _of_module_to

__getattr__ = names_of(__name__, _home, "")


def _parse_to(*args: Any, **kwargs: Any) -> tuple:
    """(device, dtype, non_blocking, memory_format) from the arguments of ``Module.to``.

    >>> import torchlike as torch
    >>> torch._C._nn._parse_to("cpu", torch.float64)
    (device(type='cpu'), torch.float64, False, None)
    """
    return _of_module_to(args, kwargs)
