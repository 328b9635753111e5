"""How this library came to be, under the name that PyTorch has for it."""

import os
import platform

import jax
import numpy as np

from torchlike.version import TORCHLIKE


def show() -> str:
    """The versions and settings that matter, as text.

    >>> import torchlike as torch
    >>> print(torch.__config__.show().splitlines()[0])
    torchlike 0.1.0, PyTorch's API computed by JAX, with:
    """
    lines = [f"torchlike {TORCHLIKE}, PyTorch's API computed by JAX, with:", f"  - jax {jax.__version__}"]
    lines += [f"  - numpy {np.__version__}", f"  - Python {platform.python_version()} on {platform.platform()}"]
    return "\n".join(lines) + "\n"


def _cxx_flags() -> str:
    """The flags of C++ compilers: none, nothing here is compiled by one."""
    return ""


def parallel_info() -> str:
    """What is known of threads, as text."""
    return f"torchlike/Parallel:\n\tXLA chooses the number of threads; the machine has {os.cpu_count()} cores\n"
