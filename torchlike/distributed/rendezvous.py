"""Where processes meet, as a store and numbers: ``torch.distributed.rendezvous``."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from torchlike.distributed import _rendezvous
from torchlike.distributed._stores import FileStore, Store, TCPStore
from torchlike.distributed.distributed_c10d import default_pg_timeout

__all__ = ["register_rendezvous_handler", "rendezvous"]


def register_rendezvous_handler(scheme: str, handler: Callable[..., Iterator[tuple[Store, int, int]]]) -> None:
    """Let ``handler(url, **options)`` say where processes meet for ``scheme://`` URLs.

    Numbers that are known stand in the URL, as in ``mine://place?rank=0&world_size=2``. It gives an iterator of
    (store, rank, world size), of which :func:`rendezvous` and ``init_process_group(init_method=url)`` take the first.
    RuntimeError for a scheme that has a handler already.
    """
    if scheme in ("env", "tcp", "file") or scheme in _rendezvous.HANDLERS:
        raise RuntimeError(f"Rendezvous handler for {scheme}:// already registered")
    _rendezvous.HANDLERS[scheme] = handler


def rendezvous(url: str, rank: int = -1, world_size: int = -1, **kwargs: Any) -> Iterator[tuple[Any, int, int]]:
    """An iterator of (a store that all processes share, the rank of this one, how many there are).

    Args:
        url: ``env://``, ``tcp://host:port``, ``file:///path`` or a registered scheme. rank, world_size: over those that
            the URL (``?rank=0&world_size=2``) or the environment tells; -1 for theirs.

    Raises:
        RuntimeError: the URL is no string, or nobody knows its scheme. ValueError: a number is missing.

    >>> import torchlike as torch
    >>> store, rank, size = next(torch.distributed.rendezvous("tcp://127.0.0.1:0", 0, 1))
    >>> store.set("a", "b")
    >>> store.get("a"), rank, size
    (b'b', 0, 1)
    """
    if not isinstance(url, str):
        raise RuntimeError(f"`url` must be a string. {type(url)}: {url}")
    parts = urlsplit(url)
    if parts.scheme in _rendezvous.HANDLERS:
        return _rendezvous.asked(url, rank, world_size, **kwargs)
    return _known(parts, rank, world_size, **kwargs)


def _known(
    url: Any, rank: int, world_size: int, timeout: timedelta = default_pg_timeout
) -> Iterator[tuple[Any, int, int]]:
    told = dict(parse_qsl(url.query))
    rank, world_size = int(told.get("rank", rank)), int(told.get("world_size", world_size))
    if url.scheme == "file":
        _rendezvous.demand_numbers(url.scheme, rank, world_size)
        yield FileStore(url.path, world_size), rank, world_size
        return
    if url.scheme == "env":
        world = _rendezvous.of_environment(rank, world_size)
    else:
        world = _rendezvous.world_of(url._replace(query="").geturl(), None, rank, world_size, timeout.total_seconds())
    host, _, port = world.address.rpartition(":")
    yield TCPStore(host, int(port), world.size, world.rank == 0, timeout), world.rank, world.size
