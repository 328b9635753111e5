"""``functorch.einops``: dimensions rearranged by a pattern."""

from torchlike._functorch.rearrange import rearrange as rearrange

__all__ = ["rearrange"]
