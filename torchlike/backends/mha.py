"""The fast path of nn.MultiheadAttention in evaluation: XLA compiles one path."""

from torchlike.interop.alias import missing_names

__getattr__ = missing_names(__name__)

_is_fastpath_enabled = True


def get_fastpath_enabled() -> bool:
    """What :func:`set_fastpath_enabled` was told; there is one path.

    >>> import torchlike as torch
    >>> torch.backends.mha.get_fastpath_enabled()
    True
    """
    return _is_fastpath_enabled


def set_fastpath_enabled(value: bool) -> None:
    """Kept; the numbers are the same."""
    global _is_fastpath_enabled
    _is_fastpath_enabled = value
