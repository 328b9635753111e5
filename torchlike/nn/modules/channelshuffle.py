"""The import path of ChannelShuffle."""

from torchlike.nn.modules.pixelshuffle import ChannelShuffle

__all__ = ["ChannelShuffle"]
