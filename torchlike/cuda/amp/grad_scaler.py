"""An earlier name of what ``torch.amp`` has."""

from torchlike.amp._earlier import EarlierGradScaler
from torchlike.amp.grad_scaler import OptState as OptState

__all__ = ["GradScaler", "OptState"]


class GradScaler(EarlierGradScaler):
    """``torch.amp.GradScaler("cuda", ...)``, which is to be used instead; warns of it."""

    _type = "cuda"
