"""Whether there is any use of mixed precision on GPUs."""

from torchlike._base.device import is_present

__all__ = ["amp_definitely_not_available"]


def amp_definitely_not_available() -> bool:
    """Whether jax has neither a GPU nor a TPU here."""
    return not (is_present("cuda") or is_present("xla"))
