"""Launchers on several machines that meet at an address, where their numbers are dealt out: the c10d rendezvous."""

from __future__ import annotations

import argparse
import contextlib
import socket
import time
from collections.abc import Iterator
from datetime import timedelta

from torchlike.distributed._runtime import DistNetworkError
from torchlike.distributed._stores import TCPStore

PORT = 29400  # where launchers meet that are told a host alone
_PATIENCE = 600.0  # seconds to wait for the others
_PAUSE = 0.05


@contextlib.contextmanager
def met(options: argparse.Namespace) -> Iterator[argparse.Namespace]:
    """``options`` with this machine's number, and where the processes of all are to meet.

    The launcher that can listen at the address is machine 0. TimeoutError where not all come, RuntimeError for one more
    than ``--nnodes`` says.
    """
    host, port, run = options.master_addr, options.master_port or PORT, options.rdzv_id or "none"
    seconds = _patience(options.rdzv_conf)
    first, store = _store(host, port, seconds)
    number = 0 if first else store.add(f"{run}/machines", 1)
    if number >= options.nnodes:
        raise RuntimeError(f"{host}:{port} has met the {options.nnodes} machines of --nnodes already: run {run}")
    if first:
        _await_others(store, f"{run}/machines", options.nnodes, f"{host}:{port}", seconds)
        store.set(f"{run}/port", str(_free_port(host)))
    found = int(store.get(f"{run}/port"))
    told = {"node_rank": number, "master_port": found, "rdzv_id": run}
    yield argparse.Namespace(**{**vars(options), **told})


def _patience(conf: str) -> float:
    """``join_timeout`` of NAME=VALUE,..."""
    told = dict(part.partition("=")[::2] for part in conf.split(",") if part)
    return float(told.get("join_timeout", _PATIENCE))


def _store(host: str, port: int, seconds: float) -> tuple[bool, TCPStore]:
    """(whether this is the one that listens, the store that all launchers share)."""
    timeout = timedelta(seconds=seconds)
    if _is_here(host):
        with contextlib.suppress(DistNetworkError):  # another launcher of this machine listens
            return True, TCPStore(host, port, is_master=True, timeout=timeout)
    return False, TCPStore(host, port, timeout=timeout)


def _is_here(host: str) -> bool:
    try:
        _free_port(host)
    except OSError:
        return False
    return True


def _free_port(host: str) -> int:
    family, _, _, _, place = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
    with socket.socket(family) as probe:
        probe.bind(place)
        return int(probe.getsockname()[1])


def _await_others(store: TCPStore, key: str, count: int, where: str, seconds: float) -> None:
    end = time.monotonic() + seconds
    while (others := store.add(key, 0)) < count - 1:
        if time.monotonic() > end:
            raise TimeoutError(f"{others + 1} of {count} machines came to {where} within {seconds:g} seconds")
        time.sleep(_PAUSE)
