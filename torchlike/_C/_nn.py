"""``torch._C._nn``: torch.nn.functional's functions, and other operators, under their C++ names.

And how ``Module.to`` reads its arguments.
"""

from typing import Any

import torchlike._base.device as devices
import torchlike._base.dtypes as dtypes
from torchlike._aten.packets import ops
from torchlike._base.state import state
from torchlike._C._families import names_of
from torchlike._core.tensor.tensor import Tensor
from torchlike.nn import functional
from torchlike.overrides import handle_torch_function, has_torch_function

__all__ = ["_parse_to"]

_functions = names_of(__name__, functional)


def __getattr__(name: str) -> Any:
    try:
        return _functions(name)
    except AttributeError:
        if name.startswith("__") or not hasattr(ops.aten, name):
            raise
    return getattr(ops.aten, name)


def _parse_to(
    *args: Any, device: Any = None, dtype: Any = None, non_blocking: bool = False, memory_format: Any = None,
    copy: bool = False,
) -> tuple[Any, Any, bool, Any]:  # fmt: skip
    """(device, dtype, non_blocking, memory_format) of a call of ``to``: a tensor, a dtype, or a device and a dtype.

    >>> import torchlike as torch
    >>> torch._C._nn._parse_to("cpu", torch.float32)
    (device(type='cpu'), torch.float32, False, None)
    """
    if state.function_modes and has_torch_function((device,)):
        named = {"device": device, "dtype": dtype, "non_blocking": non_blocking, "copy": copy}
        given = {
            k: v for k, v in (named | {"memory_format": memory_format}).items() if v is not None and v is not False
        }
        return handle_torch_function(_parse_to, (), *args, **given)
    rest = list(args)
    if rest and isinstance(rest[0], Tensor):
        other = rest.pop(0)
        device, dtype = other.device, other.dtype
    elif rest and isinstance(rest[0], dtypes.dtype):
        dtype = rest.pop(0)
    elif rest:
        device = rest.pop(0)
        if rest and (rest[0] is None or isinstance(rest[0], dtypes.dtype)):
            dtype = rest.pop(0)
    if rest:
        non_blocking = bool(rest.pop(0))
    if dtype is not None and not isinstance(dtype, dtypes.dtype):
        raise TypeError(f"to(): argument 'dtype' must be torch.dtype, not {type(dtype).__name__}")
    return None if device is None else devices.as_device(device), dtype, non_blocking, memory_format
