"""``functorch.einops``: dimensions rearranged by a pattern."""

from torchlike.func._rearrange import rearrange as rearrange

__all__ = ["rearrange"]
