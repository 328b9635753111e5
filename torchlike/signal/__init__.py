"""``torch.signal``: windows."""

from torchlike.signal import windows as windows

__all__ = ["windows"]
