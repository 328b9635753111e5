"""Groups of processes. A group has one process: what needs more is refused."""

import itertools
import threading
from datetime import timedelta
from typing import Any

from torchlike._base.device import is_present
from torchlike.distributed import _rendezvous

__all__ = [
    "GroupMember", "ProcessGroup", "Work", "barrier", "destroy_process_group", "get_backend", "get_process_group_ranks",
    "get_rank", "get_world_size", "group", "init_process_group", "is_available", "is_initialized",
    "is_torchelastic_launched", "monitored_barrier", "new_group",
]  # fmt: skip


class ProcessGroup:
    """Processes that work together; ``group.WORLD`` is all of them."""

    def __init__(self, rank: int, size: int, backend: str, name: str) -> None:
        self._rank, self._size, self._backend, self.group_name = rank, size, backend, name

    def rank(self) -> int:
        """The number of this process in the group."""
        return self._rank

    def size(self) -> int:
        """How many processes are in the group."""
        return self._size

    def name(self) -> str:
        """The name of the backend."""
        return self._backend


class Work:
    """What ``async_op=True`` returns: with one process all is done at once."""

    def __init__(self, result: Any = None) -> None:
        self._result = result

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait until it is done: True."""
        return True

    def is_completed(self) -> bool:
        """True: it is done."""
        return True

    def is_success(self) -> bool:
        """True: it went well."""
        return True

    def result(self) -> Any:
        """The tensors it wrote."""
        return self._result


class _Groups:
    """The groups of this process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.world: ProcessGroup | None = None
        self.others: list[ProcessGroup] = []
        self.names = itertools.count()


_groups = _Groups()


class _World(type):
    @property
    def WORLD(cls) -> ProcessGroup | None:
        """The group of all processes, or None."""
        return _groups.world


class group(metaclass=_World):
    """Holds ``WORLD``, the group of all processes (None as long as there is none)."""


class GroupMember(metaclass=_World):
    """Holds ``WORLD``, and ``NON_GROUP_MEMBER``: a group that this process is not in."""

    NON_GROUP_MEMBER = -100


def found(given: Any = None) -> ProcessGroup:
    """The group that an argument means: by default that of all processes. ValueError where it is none."""
    if given is None:
        if _groups.world is None:
            raise ValueError(
                "Default process group has not been initialized, please make sure to call init_process_group."
            )
        return _groups.world
    if given is not _groups.world and given not in _groups.others:
        raise ValueError(f"Group {given} is not registered, please create group with torch.distributed.new_group API")
    return given


def one_process(size: int, what: str) -> None:
    """Refuse more processes than one."""
    if size > 1:
        raise NotImplementedError(
            f"{what} with {size} processes is not supported: torch.distributed of torchlike is one process, which may "
            "compute on all of its devices (nn.DataParallel)"
        )


_CANNOT = {
    "nccl": "Distributed package doesn't have NCCL built in: jax has no GPU here; use gloo",
    "mpi": "Distributed package doesn't have MPI built in; use gloo",
}


def _checked_backend(backend: Any) -> str:
    """The backend's name in lower case: gloo or xla, with a GPU nccl, or these by type of device."""
    if backend is None:
        return "undefined"
    if not isinstance(backend, str):
        raise ValueError(f"Backend constructor parameter must be string-ish, not {type(backend).__name__}")
    name = backend.lower()
    for part in name.split(","):
        kind = part.rpartition(":")[2]
        if kind in _CANNOT and not (kind == "nccl" and is_present("cuda")):
            raise RuntimeError(_CANNOT[kind])
        if kind not in ("gloo", "xla", "nccl", "undefined"):
            raise AssertionError(f"Unknown backend type {backend}: use gloo, nccl or xla")
    return name


def _checked_timeout(timeout: Any) -> None:
    if timeout is not None and not isinstance(timeout, timedelta):
        raise TypeError(f"Expected timeout argument to be of type datetime.timedelta, got {timeout}")


def is_available() -> bool:
    """True: there is ``torch.distributed``."""
    return True


def is_initialized() -> bool:
    """Whether there is a group of all processes."""
    return _groups.world is not None


def is_torchelastic_launched() -> bool:
    """False: torchlike has no launcher."""
    return False


def init_process_group(
    backend: str | None = None, init_method: str | None = None, timeout: timedelta | None = None, world_size: int = -1,
    rank: int = -1, store: Any = None, group_name: str = "", pg_options: Any = None, device_id: Any = None,
) -> None:  # fmt: skip
    """Make the group of all processes, which is this one.

    Args:
        backend: "gloo" or "xla", with a GPU also "nccl"; all the same, as nothing is sent.
        init_method: a URL env://, tcp:// or file://, that tells rank and world size, or they are arguments; by default
            env://, the variables RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT. Nothing is opened or connected.
        store: instead of a URL. timeout, group_name, pg_options, device_id: without effect.

    Raises:
        ValueError: there is a group already, or the numbers are missing. NotImplementedError: more than one process.

    >>> import torchlike as torch
    >>> torch.distributed.init_process_group("gloo", init_method="tcp://127.0.0.1:1", rank=0, world_size=1)
    >>> torch.distributed.get_rank(), torch.distributed.get_world_size()
    (0, 1)
    >>> torch.distributed.destroy_process_group()
    """
    name = _checked_backend(backend)
    _checked_timeout(timeout)
    with _groups.lock:
        if _groups.world is not None:
            raise ValueError("trying to initialize the default process group twice!")
        number, size = _rendezvous.world_of(init_method, store, rank, world_size)
        one_process(size, "init_process_group")
        if size != 1 or number != 0:
            raise ValueError(f"Rank {number} is out of range. Valid ranks are 0 to {size - 1} (world_size={size})")
        _groups.world = ProcessGroup(0, 1, name, str(next(_groups.names)))


def new_group(
    ranks: list[int] | None = None, timeout: timedelta | None = None, backend: str | None = None, *args: Any,
    **kwargs: Any,
) -> ProcessGroup:  # fmt: skip
    """Another group of processes: there is only rank 0 to be in it. ValueError for another one."""
    world = found()
    _checked_timeout(timeout)
    for number in ranks or ():
        if number != 0:
            raise ValueError(f"Rank {number} is out of range. Valid ranks are 0 to 0 (world_size=1)")
    with _groups.lock:
        name = world.name() if backend is None else _checked_backend(backend)
        made = ProcessGroup(0, 1, name, str(next(_groups.names)))
        _groups.others.append(made)
    return made


def destroy_process_group(group: ProcessGroup | None = None) -> None:
    """End a group, by default that of all processes, and all others with it. AssertionError where there is none."""
    with _groups.lock:
        if _groups.world is None:
            raise AssertionError("Process group cannot be None")
        chosen = found(group)
        if chosen is _groups.world:
            _groups.world = None
            _groups.others.clear()
        else:
            _groups.others.remove(chosen)


def get_rank(group: ProcessGroup | None = None) -> int:
    """The number of this process in a group."""
    return found(group).rank()


def get_world_size(group: ProcessGroup | None = None) -> int:
    """How many processes are in a group."""
    return found(group).size()


def get_backend(group: ProcessGroup | None = None) -> str:
    """The name of a group's backend."""
    return found(group).name()


def get_process_group_ranks(group: ProcessGroup | None) -> list[int]:
    """The numbers, among all processes, of those in a group."""
    return list(range(found(group).size()))


def barrier(
    group: ProcessGroup | None = None, async_op: bool = False, device_ids: Any = None, timeout: timedelta | None = None
) -> Work | None:
    """Wait until all processes are here: with one, nothing to wait for."""
    found(group)
    return Work() if async_op else None


def monitored_barrier(
    group: ProcessGroup | None = None, timeout: timedelta | None = None, wait_all_ranks: bool = False
) -> None:
    """As :func:`barrier`."""
    found(group)
