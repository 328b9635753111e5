"""The functions behind the layers: ``torch.nn.functional``."""

from torchlike.nn.functional._all import *  # noqa: F403
