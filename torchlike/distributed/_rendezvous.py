"""How many processes there are, and which this is: what ``init_process_group`` was told, or the environment."""

import os
from typing import Any
from urllib.parse import parse_qsl, urlsplit

_NEEDED = {"tcp": ("rank", "world_size"), "file": ("rank", "world_size")}


def world_of(init_method: str | None, store: Any, rank: int, world_size: int) -> tuple[int, int]:
    """(rank, world size). Nothing is opened or connected.

    Raises:
        ValueError: a number is missing. AssertionError: both a URL and a store, or a store without numbers.
        RuntimeError: a URL that is none of env://, tcp:// and file://.
    """
    if store is not None:
        if init_method is not None:
            raise AssertionError("Cannot specify both init_method and store.")
        if world_size <= 0:
            raise AssertionError("world_size must be positive if using store")
        if rank < 0:
            raise AssertionError("rank must be non-negative if using store")
        return rank, world_size
    url = urlsplit(init_method or "env://")
    told = dict(parse_qsl(url.query))
    rank = int(told.get("rank", rank))
    world_size = int(told.get("world_size", world_size))
    if url.scheme == "env":
        return _of_environment(rank, world_size)
    if url.scheme not in _NEEDED:
        raise RuntimeError(f"No rendezvous handler for {url.scheme}://; use env://, tcp:// or file://")
    for name, number in (("rank", rank), ("world size", world_size)):
        if number < 0:
            raise ValueError(
                f"Error initializing torch.distributed using {url.scheme}:// rendezvous: {name} parameter missing"
            )
    return rank, world_size


def _of_environment(rank: int, world_size: int) -> tuple[int, int]:
    rank = int(_variable("RANK")) if rank < 0 else rank
    world_size = int(_variable("WORLD_SIZE")) if world_size < 0 else world_size
    _variable("MASTER_ADDR")
    int(_variable("MASTER_PORT"))
    return rank, world_size


def _variable(name: str) -> str:
    found = os.environ.get(name)
    if found is None:
        raise ValueError(
            f"Error initializing torch.distributed using env:// rendezvous: environment variable {name} expected, "
            "but not set"
        )
    return found


def launched_with() -> int:
    """How many processes a launcher says that it started; 1 without one."""
    text = os.environ.get("WORLD_SIZE", "")
    return int(text) if text.isdigit() else 1
