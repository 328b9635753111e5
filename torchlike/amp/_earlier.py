"""The scaler under its earlier names, ``torch.cpu.amp`` and ``torch.cuda.amp``."""

from torchlike._base.frames import warn
from torchlike.amp.grad_scaler import GradScaler


class EarlierGradScaler(GradScaler):
    """A :class:`GradScaler` for one type of device, that warns of its name."""

    _type = ""

    def __init__(
        self, init_scale: float = 65536.0, growth_factor: float = 2.0, backoff_factor: float = 0.5,
        growth_interval: int = 2000, enabled: bool = True,
    ) -> None:  # fmt: skip
        kind = self._type
        warn(
            f"`torch.{kind}.amp.GradScaler(args...)` is deprecated. Please use `torch.amp.GradScaler('{kind}', "
            "args...)` instead.",
            FutureWarning,
        )
        super().__init__(kind, init_scale, growth_factor, backoff_factor, growth_interval, enabled)
