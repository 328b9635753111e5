"""The error of a device whose memory does not suffice."""

import jax


class OutOfMemoryError(RuntimeError):
    """A device has no memory left."""


def is_exhausted(error: BaseException) -> bool:
    """Whether XLA says that memory does not suffice."""
    return isinstance(error, jax.errors.JaxRuntimeError) and "RESOURCE_EXHAUSTED" in str(error)


def exhausted(error: BaseException) -> OutOfMemoryError:
    """PyTorch's error, by whose first words programs know it; the rest is XLA's."""
    return OutOfMemoryError(f"CUDA out of memory. {str(error).partition(': ')[2] or error}")
