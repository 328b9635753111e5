"""What asked and set autocast before the functions took a type of device: each warns and does what they do."""

from collections.abc import Callable
from typing import Any

from torchlike._base.dtypes import dtype
from torchlike._base.frames import warn
from torchlike._core.autocast import settings


def _deprecated(name: str, kind: str, what: str, argument: str = "") -> Callable:
    """The function ``name``, which is now ``what`` of devices of type ``kind``."""
    function = getattr(settings, what)
    now = f"torch.{what}({', '.join(filter(None, (repr(kind), argument)))})"
    message = f"torch.{name}({argument}) is deprecated. Please use {now} instead."

    def ask() -> Any:
        warn(message, DeprecationWarning)
        return function(kind)

    def set_(value: Any, /) -> None:
        expected, text = (bool, "a bool") if argument == "enabled" else (dtype, "a torch.dtype")
        if not isinstance(value, expected):
            raise TypeError(f"{argument} must be {text} (got {type(value).__name__})")
        warn(message, DeprecationWarning)
        function(kind, value)

    made: Callable = set_ if argument else ask
    made.__name__ = made.__qualname__ = name
    made.__doc__ = f"``{now}``, which is to be used instead; warns of it."
    return made


is_autocast_cpu_enabled = _deprecated("is_autocast_cpu_enabled", "cpu", "is_autocast_enabled")
is_autocast_xla_enabled = _deprecated("is_autocast_xla_enabled", "xla", "is_autocast_enabled")
is_autocast_ipu_enabled = _deprecated("is_autocast_ipu_enabled", "ipu", "is_autocast_enabled")
set_autocast_cpu_enabled = _deprecated("set_autocast_cpu_enabled", "cpu", "set_autocast_enabled", "enabled")
set_autocast_xla_enabled = _deprecated("set_autocast_xla_enabled", "xla", "set_autocast_enabled", "enabled")
set_autocast_ipu_enabled = _deprecated("set_autocast_ipu_enabled", "ipu", "set_autocast_enabled", "enabled")
get_autocast_cpu_dtype = _deprecated("get_autocast_cpu_dtype", "cpu", "get_autocast_dtype")
get_autocast_gpu_dtype = _deprecated("get_autocast_gpu_dtype", "cuda", "get_autocast_dtype")
get_autocast_xla_dtype = _deprecated("get_autocast_xla_dtype", "xla", "get_autocast_dtype")
get_autocast_ipu_dtype = _deprecated("get_autocast_ipu_dtype", "ipu", "get_autocast_dtype")
set_autocast_cpu_dtype = _deprecated("set_autocast_cpu_dtype", "cpu", "set_autocast_dtype", "dtype")
set_autocast_gpu_dtype = _deprecated("set_autocast_gpu_dtype", "cuda", "set_autocast_dtype", "dtype")
set_autocast_xla_dtype = _deprecated("set_autocast_xla_dtype", "xla", "set_autocast_dtype", "dtype")
set_autocast_ipu_dtype = _deprecated("set_autocast_ipu_dtype", "ipu", "set_autocast_dtype", "dtype")
