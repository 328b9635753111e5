"""Apple's GPUs, which jax's metal plugin may have and torchlike does not use."""


def is_available() -> bool:
    """Whether torchlike computes on an Apple GPU: no."""
    return False


def is_built() -> bool:
    """Whether torchlike was built for Apple GPUs: no."""
    return False


def is_macos_or_newer(major: int, minor: int) -> bool:
    """Whether macOS is at least this version, for a GPU that torchlike does not use: no."""
    return False


def is_macos13_or_newer(minor: int = 0) -> bool:
    """As :func:`is_macos_or_newer`."""
    return False
