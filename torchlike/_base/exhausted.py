"""The error of a device whose memory does not suffice."""

from typing import TypeVar

import jax

from torchlike._base.frames import JAX_NOTE


class OutOfMemoryError(RuntimeError):
    """A device has no memory left."""


EXHAUSTED = jax.errors.JaxRuntimeError, MemoryError  # what may say so
_TEXTS = "RESOURCE_EXHAUSTED", "Out of memory allocating"  # the second of what needs what could not be computed
E = TypeVar("E", bound=BaseException)


def told(error: E) -> E | RuntimeError:
    """PyTorch's error, by whose words programs know it, where XLA or numpy says that memory does not suffice; the rest
    of its text is theirs. Any other error as it is.
    """
    ours = isinstance(error, jax.errors.JaxRuntimeError) and any([text in str(error) for text in _TEXTS])
    if not (ours or isinstance(error, MemoryError)):
        return error
    text = str(error).rpartition(": ")[2] if ours else str(error)
    found = (
        RuntimeError(f"DefaultCPUAllocator: can't allocate memory: {text}") if jax.default_backend() == "cpu" else
        OutOfMemoryError(f"CUDA out of memory. {text}")
    )  # fmt: skip
    for note in getattr(error, "__notes__", ()):
        if JAX_NOTE not in note:
            found.add_note(note)
    return found
