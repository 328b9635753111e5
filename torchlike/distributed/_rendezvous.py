"""How many processes there are, which this is, and where they meet: arguments, a URL, a store or the environment."""

import dataclasses
import os
import socket
import time
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from jax._src.clusters.slurm_cluster import SlurmCluster

_NEEDED = {"tcp": ("rank", "world_size"), "file": ("rank", "world_size")}
_KEY = "torchlike/rendezvous"
HANDLERS: dict[str, Any] = {}  # {scheme of a URL: what a user has registered for it}
_POD_PORT = 8482  # at which hosts of a TPU pod meet, as jax's do
SERVICE = "TORCHLIKE_SERVICE"  # host:port of jax's coordination service that a launcher keeps


@dataclasses.dataclass(frozen=True)
class World:
    """This process among others. ``address``: where they meet; ``serves``: whether this process keeps that place."""

    rank: int
    size: int
    address: str
    serves: bool


def world_of(init_method: str | None, store: Any, rank: int, world_size: int, timeout: float) -> World:
    """What is asked for. With one process nothing is opened, connected or waited for.

    Raises:
        ValueError: a number is missing, or the rank is out of range. AssertionError: both a URL and a store, or a
            store without numbers. RuntimeError: a URL that is none of env://, tcp:// and file://.
    """
    if store is not None:
        return _of_store(init_method, store, rank, world_size, timeout)
    url = urlsplit(init_method or "env://")
    told = dict(parse_qsl(url.query))
    rank = int(told.get("rank", rank))
    world_size = int(told.get("world_size", world_size))
    if url.scheme == "env":
        return of_environment(rank, world_size)
    if url.scheme in HANDLERS:
        found, rank, world_size, *_ = next(
            asked(str(init_method), rank, world_size, timeout=timedelta(seconds=timeout))
        )
        return _of_store(None, found, rank, world_size, timeout)
    if url.scheme not in _NEEDED:
        raise RuntimeError(f"No rendezvous handler for {url.scheme}://; use env://, tcp:// or file://")
    demand_numbers(url.scheme, rank, world_size)
    if url.scheme == "tcp":
        return World(rank, world_size, url.netloc, rank == 0)
    return _met(rank, world_size, lambda: _by_file(Path(url.netloc + url.path), rank, timeout))


def asked(url: str, rank: int, world_size: int, **options: Any) -> Any:
    """What a user's handler says of a URL, to which numbers that are given are added."""
    parts, given = urlsplit(url), [("rank", rank), ("world_size", world_size)]
    numbers = [(name, str(number)) for name, number in given if number >= 0]
    told = parse_qsl(parts.query)
    if numbers and {"rank", "world_size"} & dict(told).keys():
        raise AssertionError(f"The url: {url} has node-specific arguments(rank, world_size) already.")
    return HANDLERS[parts.scheme](
        parts._replace(query=urlencode(told + numbers)).geturl() if numbers else url, **options
    )


def demand_numbers(scheme: str, rank: int, world_size: int) -> None:
    """ValueError where one is missing, or the rank is out of range."""
    for name, number in (("rank", rank), ("world size", world_size)):
        if number < 0:
            raise ValueError(
                f"Error initializing torch.distributed using {scheme}:// rendezvous: {name} parameter missing"
            )
    _demand_rank(rank, world_size)


def _of_store(init_method: str | None, store: Any, rank: int, world_size: int, timeout: float) -> World:
    if init_method is not None:
        raise AssertionError("Cannot specify both init_method and store.")
    if world_size <= 0:
        raise AssertionError("world_size must be positive if using store")
    if rank < 0:
        raise AssertionError("rank must be non-negative if using store")
    _demand_rank(rank, world_size)
    return _met(rank, world_size, lambda: _by_store(store, rank))


def _met(rank: int, size: int, meet: Any) -> World:
    return World(rank, size, meet() if size > 1 else "", rank == 0)


def _demand_rank(rank: int, size: int) -> None:
    if not 0 <= rank < size:
        raise ValueError(f"Rank {rank} is out of range. Valid ranks are 0 to {size - 1} (world_size={size})")


def of_environment(rank: int = -1, world_size: int = -1) -> World:
    """The world that the variables of a launcher, or of Slurm or a TPU pod, tell."""
    cluster = None if "RANK" in os.environ else _of_slurm() or _of_tpu_pod()
    if cluster is not None:
        rank = cluster.rank if rank < 0 else rank
        world_size = cluster.size if world_size < 0 else world_size
    rank = int(_variable("RANK")) if rank < 0 else rank
    world_size = int(_variable("WORLD_SIZE")) if world_size < 0 else world_size
    if SERVICE in os.environ:
        _demand_rank(rank, world_size)
        return World(rank, world_size, os.environ[SERVICE], False)
    if cluster is not None and "MASTER_ADDR" not in os.environ:
        _demand_rank(rank, world_size)
        return World(rank, world_size, cluster.address, rank == 0)
    host, port = _variable("MASTER_ADDR"), int(_variable("MASTER_PORT"))
    _demand_rank(rank, world_size)
    # PyTorch's own launcher keeps its store at the port
    port += os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    return World(rank, world_size, f"{host}:{port}", rank == 0)


def _of_slurm() -> World | None:
    """What Slurm says of this task, if there are several."""
    if not SlurmCluster.is_env_present() or int(os.environ["SLURM_NTASKS"]) < 2:
        return None
    rank, size = SlurmCluster.get_process_id(), SlurmCluster.get_process_count()
    return World(rank, size, SlurmCluster.get_coordinator_address(60, None), rank == 0)


def _of_tpu_pod() -> World | None:
    """What the variables of a TPU pod say, of one slice or several, if it has several hosts: a process on each."""
    hosts, own = os.environ.get("TPU_WORKER_HOSTNAMES", "").split(","), os.environ.get("TPU_WORKER_ID", "")
    size = len(hosts) * int(os.environ.get("MEGASCALE_NUM_SLICES") or 1)
    if not own.isdigit() or size < 2:
        return None
    rank = int(own) + len(hosts) * int(os.environ.get("MEGASCALE_SLICE_ID") or 0)
    head = (os.environ.get("MEGASCALE_COORDINATOR_ADDRESS") or hosts[0]).partition(":")[0]
    return World(rank, size, f"{head}:{os.environ.get('MASTER_PORT') or _POD_PORT}", rank == 0)


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


# -- places to meet that say nothing of an address ---------------------------------------------------------------------


def free_address() -> str:
    """A host name of this machine with a port that nobody uses."""
    host = os.environ.get("MASTER_ADDR", "")
    if not host:
        try:
            host = socket.gethostbyname(socket.gethostname())
        except OSError:
            host = "127.0.0.1"
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.bind(("", 0))
        return f"{host}:{probe.getsockname()[1]}"


def _by_store(store: Any, rank: int) -> str:
    if rank == 0:
        store.set(_KEY, free_address())
    return store.get(_KEY).decode()


def _by_file(path: Path, rank: int, timeout: float) -> str:
    """The address that rank 0 writes into a file, whole, and that the others wait for."""
    if rank == 0:
        address, beside = free_address(), path.with_name(path.name + ".writing")
        beside.write_text(address)
        beside.replace(path)
        return address
    end = time.monotonic() + timeout
    while not path.exists() or not (text := path.read_text()):
        if time.monotonic() > end:
            raise RuntimeError(
                f"init_process_group: rank 0 has not written {path} within {timeout:g} seconds; is it started, and "
                "does it see the same file?"
            )
        time.sleep(0.02)
    return text
