"""``torch._C._nn``: torch.nn.functional's functions, and other operators, under their C++ names.

And how ``Module.to`` reads its arguments.
"""

from typing import Any

from torchlike._aten.packets import ops
from torchlike._base.state import state
from torchlike._C._families import names_of
from torchlike._functions.to_forms import parse_to
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


def _parse_to(*args: Any, **kwargs: Any) -> tuple[Any, Any, bool, Any]:
    """(device, dtype, non_blocking, memory_format) of a call of ``to``: a tensor, a dtype, or a device and a dtype.

    >>> import torchlike as torch
    >>> torch._C._nn._parse_to("cpu", torch.float32)
    (device(type='cpu'), torch.float32, False, None)
    """
    if state.function_modes and has_torch_function((kwargs.get("device"),)):
        given = {name: x for name, x in kwargs.items() if x is not None and x is not False}
        return handle_torch_function(_parse_to, (), *args, **given)
    asked = parse_to(args, kwargs)
    if asked.copy:
        raise RuntimeError(".to() does not accept copy argument")
    return asked.device, asked.dtype, asked.non_blocking, asked.memory_format
