"""An earlier name of what ``torch.amp`` has."""

from torchlike import amp
from torchlike._base import dtypes
from torchlike._base.frames import warn

__all__ = ["autocast"]


class autocast(amp.autocast):
    """``torch.autocast("cpu", ...)``, which is to be used instead; warns of it."""

    def __init__(self, enabled: bool = True, dtype: dtypes.dtype = dtypes.bfloat16, cache_enabled: bool = True) -> None:
        warn(
            "`torch.cpu.amp.autocast(args...)` is deprecated. Please use `torch.amp.autocast('cpu', args...)` instead.",
            FutureWarning,
        )
        super().__init__("cpu", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)
