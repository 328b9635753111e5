"""Earlier names of what ``torch.amp`` has."""

import functools
from collections.abc import Callable
from typing import Any

from torchlike import amp
from torchlike._base import dtypes
from torchlike._base.frames import warn

__all__ = ["autocast", "custom_bwd", "custom_fwd"]


def _deprecated(name: str, now: str) -> None:
    warn(f"`torch.cuda.amp.{name}(args...)` is deprecated. Please use `torch.amp.{now}` instead.", FutureWarning)


class autocast(amp.autocast):
    """``torch.autocast("cuda", ...)``, which is to be used instead; warns of it."""

    def __init__(self, enabled: bool = True, dtype: dtypes.dtype = dtypes.float16, cache_enabled: bool = True) -> None:
        _deprecated("autocast", "autocast('cuda', args...)")
        super().__init__("cuda", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


def custom_fwd(fwd: Callable | None = None, *, cast_inputs: dtypes.dtype | None = None) -> Any:
    """``torch.amp.custom_fwd(device_type="cuda")``, which is to be used instead; warns of it."""
    _deprecated("custom_fwd", "custom_fwd(args..., device_type='cuda')")
    return functools.partial(amp.custom_fwd, device_type="cuda")(fwd=fwd, cast_inputs=cast_inputs)


def custom_bwd(bwd: Callable) -> Any:
    """``torch.amp.custom_bwd(device_type="cuda")``, which is to be used instead; warns of it."""
    _deprecated("custom_bwd", "custom_bwd(args..., device_type='cuda')")
    return amp.custom_bwd(bwd, device_type="cuda")
