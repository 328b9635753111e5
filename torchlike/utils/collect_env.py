"""What somebody who helps asks for first: versions, the system, devices."""

import os
import platform
import sys

import jax
import numpy as np

from torchlike.interop.alias import missing_names
from torchlike.version import STANDS_FOR

__all__ = ["get_pretty_env_info", "main"]

__getattr__ = missing_names(__name__)


def get_pretty_env_info() -> str:
    """The environment as text.

    >>> import torchlike as torch
    >>> print(torch.utils.collect_env.get_pretty_env_info().splitlines()[0].split(":")[0])
    PyTorch version
    """
    lines = {
        "PyTorch version": STANDS_FOR,
        "Is CUDA available": str(jax.default_backend() == "gpu"),
        "OS": platform.platform(),
        "Python version": sys.version.replace("\n", " "),
        "jax version": jax.__version__,
        "numpy version": np.__version__,
        "CPU": f"{platform.machine()}, {os.cpu_count()} cores",
        "Devices": ", ".join(str(device) for device in jax.devices()),
    }
    return "\n".join(f"{name}: {value}" for name, value in lines.items())


def main() -> None:
    """Print the environment."""
    print(get_pretty_env_info())


if __name__ == "__main__":
    main()
