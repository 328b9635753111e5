"""The error of a device whose memory does not suffice."""

import re
from typing import TypeVar

import jax

from torchlike._base.frames import JAX_NOTE


class OutOfMemoryError(RuntimeError):
    """A device has no memory left."""


EXHAUSTED = jax.errors.JaxRuntimeError, MemoryError  # what may say so
# XLA's text; the second is that of what needs what could not be computed.
_TEXT = re.compile("RESOURCE_EXHAUSTED: (.*)|(Out of memory allocating.*)", re.DOTALL)
E = TypeVar("E", bound=BaseException)


def told(error: E) -> E | RuntimeError:
    """PyTorch's error, by whose words programs know it, where XLA or numpy says that memory does not suffice; the rest
    of its text is theirs. Any other error as it is.
    """
    said = _TEXT.search(str(error)) if isinstance(error, jax.errors.JaxRuntimeError) else None
    if not (said or isinstance(error, MemoryError)):
        return error
    text = said[1] or said[2] if said else str(error)
    found = (
        RuntimeError(f"DefaultCPUAllocator: can't allocate memory: {text}") if jax.default_backend() == "cpu" else
        OutOfMemoryError(f"CUDA out of memory. {text}")
    )  # fmt: skip
    for note in getattr(error, "__notes__", ()):
        if JAX_NOTE not in note:
            found.add_note(note)
    return found
