"""An earlier name of what ``torch.amp`` has."""

from torchlike import amp
from torchlike._base.frames import warn
from torchlike.amp.grad_scaler import OptState as OptState

__all__ = ["GradScaler", "OptState"]


class GradScaler(amp.GradScaler):
    """``torch.amp.GradScaler("cuda", ...)``, which is to be used instead; warns of it."""

    def __init__(
        self, init_scale: float = 65536.0, growth_factor: float = 2.0, backoff_factor: float = 0.5,
        growth_interval: int = 2000, enabled: bool = True,
    ) -> None:  # fmt: skip
        warn(
            "`torch.cuda.amp.GradScaler(args...)` is deprecated. Please use `torch.amp.GradScaler('cuda', args...)` "
            "instead.",
            FutureWarning,
        )
        super().__init__("cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
