"""Where compiled kernels are kept between processes."""

import os
from pathlib import Path


def folder() -> Path | None:
    """The folder of the environment variable ``TORCHLIKE_CACHE``, or the user's own; None where that is 0."""
    choice = os.environ.get("TORCHLIKE_CACHE", "")
    if choice.lower() in ("0", "off", "false"):
        return None
    if choice:
        return Path(choice)
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "torchlike" / "xla"
