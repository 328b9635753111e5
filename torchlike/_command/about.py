"""`python -m torchlike info`: versions, devices, caches."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
from pathlib import Path

import jax

from torchlike._base import cache
from torchlike._executor.execution import get_execution
from torchlike.version import STANDS_FOR, TORCHLIKE

_PACKAGES = ("jax", "jaxlib", "numpy", "ml_dtypes")


def main() -> None:
    """Print what somebody who helps would ask for first."""
    print(f"torchlike {TORCHLIKE}, in the place of PyTorch {STANDS_FOR.partition('+')[0]}")
    print(f"python    {platform.python_version()} on {platform.platform()}")
    for name in _PACKAGES:
        print(f"{name:9} {importlib.metadata.version(name)}")
    for device in jax.devices():
        print(f"device    {device.platform}:{device.id} ({device.device_kind})")
    print(f"execution {get_execution()}, x64 {'on' if jax.config.jax_enable_x64 else 'off'}")
    print(f"cache     {_size(cache.folder())}")
    settings = {
        name: value for name, value in sorted(os.environ.items()) if name.startswith(("TORCHLIKE_", "JAX_", "XLA_"))
    }
    for name, value in settings.items():
        print(f"setting   {name}={value}")


def _size(folder: Path | None) -> str:
    if folder is None:
        return "off"
    sizes = []
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):  # another process has just moved it
                sizes.append(os.stat(os.path.join(place, name)).st_size)
    return f"{folder}: {len(sizes)} files, {sum(sizes) / 1e6:.1f} MB"
