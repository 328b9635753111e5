"""An earlier name of what ``torch.amp`` has."""

from torchlike.amp._earlier import EarlierGradScaler

__all__ = ["GradScaler"]


class GradScaler(EarlierGradScaler):
    """``torch.amp.GradScaler("cpu", ...)``, which is to be used instead; warns of it."""

    _type = "cpu"
