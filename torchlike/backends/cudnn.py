"""Switches of cuDNN. XLA chooses its own algorithms, so setting them changes nothing."""

benchmark = False
deterministic = False
enabled = False
allow_tf32 = False


def is_available() -> bool:
    """Whether PyTorch's cuDNN is there: never."""
    return False


def version() -> None:
    """The version of PyTorch's cuDNN: none."""
    return None
