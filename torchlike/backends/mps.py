"""Apple's GPUs, which jax's metal plugin may have and torchlike does not use."""


def is_available() -> bool:
    """Whether torchlike computes on an Apple GPU: no."""
    return False


def is_built() -> bool:
    """Whether torchlike was built for Apple GPUs: no."""
    return False
