"""Groups of processes: how they are made, named and ended."""

import contextlib
import itertools
import os
import threading
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

import jax

from torchlike._base.device import as_device, is_present
from torchlike._base.frames import warn
from torchlike._base.volatile import volatile
from torchlike.distributed import _rendezvous, _runtime
from torchlike.distributed._group_store import store_of
from torchlike.distributed._runtime import DistBackendError as DistBackendError
from torchlike.distributed._runtime import DistError as DistError
from torchlike.distributed._runtime import DistNetworkError as DistNetworkError
from torchlike.distributed._runtime import DistStoreError as DistStoreError
from torchlike.distributed._stores import Store

__all__ = [
    "Backend", "DebugLevel", "DistBackendError", "DistError", "DistNetworkError", "DistStoreError", "GroupMember",
    "ProcessGroup", "default_pg_timeout", "destroy_process_group", "get_backend", "get_backend_config",
    "get_debug_level", "get_default_backend_for_device", "get_global_rank", "get_group_rank", "get_node_local_rank",
    "get_pg_count", "get_process_group_ranks", "get_rank", "get_world_size", "group", "init_process_group",
    "is_available", "is_backend_available", "is_gloo_available", "is_initialized", "is_mpi_available",
    "is_nccl_available", "is_torchelastic_launched", "is_ucc_available", "is_xccl_available", "new_group",
    "new_subgroups", "new_subgroups_by_enumeration", "set_debug_level", "set_debug_level_from_env", "split_group",
]  # fmt: skip

default_pg_timeout = timedelta(minutes=30)


class ProcessGroup:
    """Processes that work together; ``group.WORLD`` is all of them."""

    group_desc = "undefined"  # what its maker said of it

    def __init__(self, ranks: tuple[int, ...], me: int, backend: str, name: str, timeout: timedelta) -> None:
        self.ranks, self._me, self._backend, self.group_name, self.timeout = ranks, me, backend, name, timeout
        self.is_fake = "fake" in backend  # the others are not there
        self.lock = threading.RLock()
        self.calls = itertools.count(1)
        self.shared = itertools.count()  # numbers of memory that ranks share
        self.latest: Any = None  # waits for the collective that this process began last
        self.sent: dict[Any, Any] = {}  # numbers of messages from one process to another
        self.agreed: set[Any] = set()  # collectives that all ranks have been seen to do alike
        self.board: Any = None  # of what ranks on this machine begin, once there is one; False where there cannot be
        self.store: Store | None = None  # once a program has asked for it
        self.compared = 0  # the number of the last one that was compared
        self.unread: list[str] = []  # keys of the store that this process has set and others may not have read

    def rank(self) -> int:
        """The number of this process in the group."""
        return self.ranks.index(self._me)

    def size(self) -> int:
        """How many processes are in the group."""
        return len(self.ranks)

    def name(self) -> str:
        """The name of the backend."""
        return self._backend

    def key(self, *parts: Any) -> str:
        """A key of the store for this group alone."""
        return "/".join(["torchlike", self.group_name, *map(str, parts)])

    def seconds(self, timeout: timedelta | None = None) -> float:
        """How long a collective may take."""
        return (self.timeout if timeout is None else timeout).total_seconds()


class _Groups:
    """The groups of this process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.world: ProcessGroup | None = None
        self.others: list[ProcessGroup] = []
        self.names, self.made = itertools.count(), 0
        self.elsewhere: tuple[int, ...] = ()  # the ranks of the last group that was made without this process
        self.worlds = itertools.count()
        self.level: str | None = None
        self.detail = False

    def every(self) -> list[ProcessGroup]:
        """All of them, that of all processes first."""
        return [*([] if self.world is None else [self.world]), *self.others]


_groups = _Groups()


class _OfWorld(type):
    @property
    def WORLD(cls) -> ProcessGroup | None:
        """The group of all processes, or None."""
        return _groups.world


class group(metaclass=_OfWorld):
    """Holds ``WORLD``, the group of all processes (None as long as there is none)."""


class GroupMember(metaclass=_OfWorld):
    """Holds ``WORLD``, and ``NON_GROUP_MEMBER``: a group that this process is not in."""

    NON_GROUP_MEMBER = -100


class Backend(str):
    """The name of a backend, in lower case. All mean the collectives of XLA. ValueError for what is no string.

    >>> import torchlike as torch
    >>> torch.distributed.Backend("GLOO")
    'gloo'
    """

    GLOO, NCCL, XLA, UNDEFINED = "gloo", "nccl", "xla", "undefined"
    default_device_backend_map = {"cpu": GLOO, "cuda": NCCL}  # of the devices that jax has
    MPI, UCC, XCCL, FAKE = "mpi", "ucc", "xccl", "fake"  # to be compared with: none of them is here

    def __new__(cls, name: str) -> "Backend":
        return super().__new__(cls, _named(name))


class DebugLevel:
    """What ``TORCH_DISTRIBUTED_DEBUG`` says: OFF, INFO or DETAIL."""

    OFF, INFO, DETAIL = "OFF", "INFO", "DETAIL"


@volatile
def get_debug_level() -> str:
    """What :func:`set_debug_level` or ``TORCH_DISTRIBUTED_DEBUG`` has said.

    With DETAIL each collective is first compared between ranks.
    """
    level = _groups.level or os.environ.get("TORCH_DISTRIBUTED_DEBUG", "OFF").upper()
    if level not in ("OFF", "INFO", "DETAIL"):
        raise RuntimeError(f"TORCH_DISTRIBUTED_DEBUG is {level!r}; expected OFF, INFO or DETAIL")
    return level


def set_debug_level(level: str) -> None:
    """Let :func:`get_debug_level`, and groups that are made from now on, have this level of :class:`DebugLevel`."""
    if level not in (DebugLevel.OFF, DebugLevel.INFO, DebugLevel.DETAIL):
        raise TypeError(f"set_debug_level(): expected one of torch.distributed.DebugLevel, not {level!r}")
    _groups.level = level


def set_debug_level_from_env() -> None:
    """Let ``TORCH_DISTRIBUTED_DEBUG`` say the level again."""
    _groups.level = None
    get_debug_level()


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


def _get_default_group() -> ProcessGroup:
    """The group of all processes, as programs ask for it by this name. ValueError where there is none."""
    return found()


def _get_default_store() -> Store:
    """The store at which all processes have met, by the name that programs know. ValueError where there is none."""
    return store_of(found())


def group_of(ranks: tuple[int, ...]) -> ProcessGroup:
    """The group of these ranks. ValueError where there is none any more."""
    every = _groups.every()
    for group in every:
        if group.ranks == ranks:
            return group
    raise ValueError(f"there is no group of {_runtime.named(ranks)}, or not any more; make one with new_group()")


def _resolve_process_group(group_name: str) -> ProcessGroup:
    """The group of a ``group_name``. RuntimeError where there is none."""
    for group in _groups.every():
        if group.group_name == group_name:
            return group
    raise RuntimeError(f"Could not resolve the process group registered under the name {group_name}")


def is_member(given: Any) -> bool:
    """Whether this process is in a group."""
    return not (isinstance(given, int) and given == GroupMember.NON_GROUP_MEMBER)


def takes_part(given: Any, name: str) -> bool:
    """Whether this process is in a group; if not, it is warned that what it calls does nothing."""
    member = is_member(given)
    if not member:
        warn(f"Running {name} on global rank {get_rank()} which does not belong to the given group.")
    return member


def _demand_member(given: Any) -> None:
    """ValueError where this process is not in a group."""
    if not is_member(given):
        raise ValueError("Invalid process group specified")


def _rank_not_in_group(group: Any) -> bool:
    """Whether this process is not in a group, as programs ask by this name."""
    return not is_member(group)


def compares() -> bool:
    """Whether collectives are compared between ranks before they start."""
    return _groups.detail


_CANNOT = {
    "nccl": "Distributed package doesn't have NCCL built in: jax has no GPU here; use gloo",
    "mpi": "Distributed package doesn't have MPI built in; use gloo",
}


def _named(backend: Any) -> str:
    if not isinstance(backend, str):
        raise ValueError(f"Backend constructor parameter must be string-ish, not {type(backend).__name__}")
    return backend.lower()


def _checked_backend(backend: Any) -> str:
    """The backend's name in lower case: gloo or xla, with a GPU nccl, or these by type of device."""
    if backend is None:
        return "undefined"
    name = _named(backend)
    for part in name.split(","):
        kind = part.rpartition(":")[2]
        if kind in _CANNOT and not (kind == "nccl" and _has_gpu()):
            raise RuntimeError(_CANNOT[kind])
        if kind not in ("gloo", "xla", "nccl", "fake", "undefined"):
            raise AssertionError(f"Unknown backend type {backend}: use gloo, nccl or xla")
    return name


def _has_gpu() -> bool:
    """Asked before jax's backend may start, where several processes are to come."""
    return is_present("cuda") if _rendezvous.launched_with() == 1 or _runtime.is_connected() else True


def _checked_timeout(timeout: Any) -> timedelta:
    if timeout is not None and not isinstance(timeout, timedelta):
        raise TypeError(f"Expected timeout argument to be of type datetime.timedelta, got {timeout}")
    return default_pg_timeout if timeout is None else timeout


def is_available() -> bool:
    """True: there is ``torch.distributed``."""
    return True


def is_gloo_available() -> bool:
    """True: jax has gloo's collectives for CPUs."""
    return True


def is_nccl_available() -> bool:
    """Whether jax has a GPU here."""
    return is_present("cuda")


def is_mpi_available() -> bool:
    """False."""
    return False


def is_ucc_available() -> bool:
    """False."""
    return False


def is_xccl_available() -> bool:
    """False."""
    return False


def is_backend_available(backend: str) -> bool:
    """Whether ``init_process_group`` takes this name."""
    return backend.lower() in ("gloo", "xla", "fake") or backend.lower() == "nccl" and is_nccl_available()


def is_initialized() -> bool:
    """Whether there is a group of all processes."""
    return _groups.world is not None


def is_torchelastic_launched() -> bool:
    """Whether a launcher started this process: ``torchlike run --nproc`` or ``torch.distributed.run``."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """The number of this process on its machine, from LOCAL_RANK. RuntimeError without it and ``fallback_rank``."""
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is None:
        raise RuntimeError("LOCAL_RANK is not in the environment. Consider passing fallback_rank, or a launcher")
    return int(fallback_rank)


def init_process_group(
    backend: str | None = None, init_method: str | None = None, timeout: timedelta | None = None, world_size: int = -1,
    rank: int = -1, store: Any = None, group_name: str = "", pg_options: Any = None, device_id: Any = None,
) -> None:  # fmt: skip
    """Make the group of all processes, which this one joins. With several it comes before the first computation.

    Args:
        backend: "gloo", "xla", or with a GPU "nccl": all mean the collectives of XLA on jax's devices. "fake": the
            others are not there, and collectives are as if they had given what this process gives.
        init_method: a URL env://, tcp:// or file://, that tells where rank 0 is found, and rank and world size, if
            they are no arguments; by default env://: the variables RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT of a
            launcher, or those of Slurm or a TPU pod.
        timeout: after which a collective in which a process is missing is an error; 30 minutes by default.
        store: instead of a URL. group_name, pg_options, device_id: without effect.

    Raises:
        ValueError: there is a group already, or numbers are missing or wrong. RuntimeError: jax's backend has started
            already. DistNetworkError, DistBackendError: others did not come in time.

    >>> import torchlike as torch
    >>> torch.distributed.init_process_group("gloo", init_method="tcp://127.0.0.1:1", rank=0, world_size=1)
    >>> torch.distributed.get_rank(), torch.distributed.get_world_size()
    (0, 1)
    >>> torch.distributed.destroy_process_group()
    """
    name = _checked_backend(backend)
    limit = _checked_timeout(timeout)
    with _groups.lock:
        if _groups.world is not None:
            raise ValueError("trying to initialize the default process group twice!")
        level = get_debug_level()
        fake = name == Backend.FAKE
        if fake:
            _rendezvous.demand_numbers("fake", rank, world_size)
            world = _rendezvous.World(rank, world_size, "", False)
        else:
            world = _rendezvous.world_of(init_method, store, rank, world_size, limit.total_seconds())
        if world.size > 1 and not fake:
            _runtime.connect(world, limit.total_seconds())
        _groups.names, _groups.made = itertools.count(1), 1
        title = f"world{next(_groups.worlds)}"
        made = ProcessGroup(tuple(range(world.size)), world.rank, name, title, limit)
        made.group_desc = "default_pg"
        if world.size > 1 and not fake:
            _runtime.wait_for_all(made.key("start"), made.ranks, made.seconds(), "init_process_group")
        _groups.world, _groups.detail = made, level == "DETAIL"


def join_launched() -> None:
    """Connect a process that a launcher of this package started, before its script computes anything."""
    if _rendezvous.SERVICE in os.environ and _rendezvous.launched_with() > 1:
        _runtime.connect(_rendezvous.of_environment(), default_pg_timeout.total_seconds())
        del os.environ[_rendezvous.SERVICE]  # processes that this one starts are others


def new_group(
    ranks: Sequence[int] | None = None, timeout: timedelta | None = None, backend: str | None = None,
    pg_options: Any = None, use_local_synchronization: bool = False, group_desc: str | None = None,
    device_id: Any = None,
) -> Any:  # fmt: skip
    """Another group of some of the processes. All processes call it, in the same order, also those not in it.

    What those get is ``GroupMember.NON_GROUP_MEMBER``. ValueError for a rank that there is not, or twice.
    """
    world = found()
    limit = world.timeout if timeout is None else _checked_timeout(timeout)
    chosen = list(world.ranks) if ranks is None else sorted(ranks)
    if len(set(chosen)) < len(chosen):
        raise ValueError(f"new_group: {list(ranks or ())} names a rank twice")
    if len(chosen) > world.size():
        raise ValueError("the new group's world size should be less or equal to the world size set by default")
    for number in chosen:
        if number not in world.ranks:
            raise ValueError(
                f"Rank {number} is out of range. Valid ranks are 0 to {world.size() - 1} (world_size={world.size()})"
            )
    name = world.name() if backend is None else _checked_backend(backend)
    with _groups.lock:
        number = next(_groups.names)
        _groups.made = number + 1
        if world.rank() not in chosen:
            _groups.elsewhere = tuple(chosen)
            return GroupMember.NON_GROUP_MEMBER
        made = ProcessGroup(tuple(chosen), world.rank(), name, f"{world.group_name}.{number}", limit)
        made.group_desc = group_desc or made.group_desc
        _groups.others.append(made)
    return made


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: Sequence[Sequence[int]], timeout: timedelta | None = None, backend: str | None = None,
    pg_options: Any = None, group_desc: str | None = None,
) -> tuple[Any, list[Any]]:  # fmt: skip
    """Groups that have no process in common: the one that this process is in (or None), and all of them."""
    every = list(itertools.chain.from_iterable(ranks_per_subgroup_list))
    if len(set(every)) < len(every):
        raise ValueError(_in_two(ranks_per_subgroup_list))
    made = [new_group(ranks, timeout, backend, pg_options) for ranks in ranks_per_subgroup_list]
    return next((g for g in made if is_member(g)), None), made


def _in_two(lists: Sequence[Sequence[int]]) -> str:
    """What is said of a rank in two of some lists."""
    seen: dict[int, Sequence[int]] = {}
    for ranks in lists:
        for rank in ranks:
            if rank in seen:
                return f"Rank {rank} has appeared in both subgroup {list(seen[rank])} and {list(ranks)}"
            seen[rank] = ranks
    raise AssertionError("each rank is in one list")


def split_group(
    parent_pg: ProcessGroup | None = None, split_ranks: Sequence[Sequence[int]] | None = None,
    timeout: timedelta | None = None, pg_options: Any = None, group_desc: str | None = None, backend: str | None = None,
) -> Any:  # fmt: skip
    """A group for each list of ranks of ``parent_pg``: the one that this process is in, or None.

    ValueError for no lists, and for a rank in two of them. PyTorch asks for NCCL.
    """
    parent = found(parent_pg)
    if not split_ranks:
        raise ValueError("split_ranks cannot be None or empty")
    whole = [[get_global_rank(parent, rank) for rank in ranks] for ranks in split_ranks]
    return new_subgroups_by_enumeration(whole, timeout, backend, pg_options)[0]


def new_subgroups(
    group_size: int | None = None, group: ProcessGroup | None = None, timeout: timedelta | None = None,
    backend: str | None = None, pg_options: Any = None, group_desc: str | None = None,
) -> tuple[Any, list[Any]]:  # fmt: skip
    """Groups of ``group_size`` consecutive ranks each: the one of this process, and all of them.

    ``group_size``: by default as many as a host has processes, where they compute on accelerators.

    ValueError for a size of which the number of ranks is no multiple; without one on CPUs.
    """
    ranks = found(group).ranks
    if group_size is None:
        if jax.default_backend() == "cpu":
            raise ValueError(
                "Default group size only takes effect when CUDA is available: on CPUs say how many ranks a group has"
            )
        group_size = int(os.environ.get("LOCAL_WORLD_SIZE", jax.local_device_count()))
    if group_size <= 0:
        raise ValueError(f"The arg 'group_size' ({group_size}) must be positive")
    if group_size > len(ranks):
        raise ValueError(f"The arg 'group_size' ({group_size}) must not exceed the world size ({len(ranks)})")
    if len(ranks) % group_size:
        raise ValueError(f"The world size must be divisible by 'group_size': {len(ranks)} by {group_size}")
    parts = [ranks[i : i + group_size] for i in range(0, len(ranks), group_size)]
    return new_subgroups_by_enumeration(parts, timeout, backend, pg_options)


def destroy_process_group(group: ProcessGroup | None = None) -> None:
    """End a group, by default that of all processes, and all others with it. AssertionError where there is none.

    Nobody is waited for. The connection of jax stays: another group of all processes may follow.
    """
    with _groups.lock:
        if _groups.world is None:
            raise AssertionError("Process group cannot be None")
        if not is_member(group):
            return
        chosen = found(group)
        if chosen is _groups.world:
            _groups.world = None
            _groups.others.clear()
            _groups.elsewhere = ()
        else:
            _groups.others.remove(chosen)


def get_rank(group: Any = None) -> int:
    """The number of this process in a group; -1 outside of it."""
    return found(group).rank() if is_member(group) else -1


def get_world_size(group: Any = None) -> int:
    """How many processes are in a group; -1 for one that this process is not in."""
    return found(group).size() if is_member(group) else -1


def get_backend(group: Any = None) -> str:
    """The name of a group's backend."""
    if not is_member(group):
        raise ValueError("Invalid process group specified")
    return found(group).name()


def get_backend_config(group: Any = None) -> str:
    """The backend of a group for each kind of device, as in "cpu:gloo,cuda:gloo": one for all."""
    name = get_backend(group)
    return f"cpu:{name},cuda:{name}"


def get_default_backend_for_device(device: Any) -> str:
    """The name of the backend that serves a kind of device. ValueError for meta, which has no values to send.

    >>> import torchlike as torch
    >>> torch.distributed.get_default_backend_for_device("cpu")
    'gloo'
    """
    kind = as_device(device).type
    if kind == "meta":
        raise ValueError(f"Default backend not registered for device : {device}")
    return {"cpu": Backend.GLOO, "cuda": Backend.NCCL}.get(kind, Backend.XLA)


def get_pg_count() -> int:
    """How many groups were made since that of all processes, with it, this process in them or not."""
    return _groups.made if is_initialized() else 0


def get_process_group_ranks(group: ProcessGroup | None) -> list[int]:
    """The numbers, among all processes, of those in a group; of NON_GROUP_MEMBER in the last one without this one."""
    return list(_ranks_of(group))


def _ranks_of(group: Any) -> tuple[int, ...]:
    return found(group).ranks if is_member(group) or not _groups.elsewhere else _groups.elsewhere


def get_group_rank(group: ProcessGroup, global_rank: int) -> int:
    """The number in a group of a process. ValueError where it is not in it."""
    ranks = _ranks_of(group)
    if global_rank not in ranks:
        raise ValueError(f"Global rank {global_rank} is not part of group {group}")
    return ranks.index(global_rank)


def get_global_rank(group: ProcessGroup, group_rank: int) -> int:
    """The number among all processes of one in a group. ValueError where there is none."""
    ranks = _ranks_of(group)
    if not 0 <= group_rank < len(ranks):
        raise ValueError(f"Group rank {group_rank} is not part of group {group}")
    return ranks[group_rank]


def _get_global_rank(group: ProcessGroup, rank: int) -> int:
    """The old name of :func:`get_global_rank`."""
    home = "torch.distributed.distributed_c10d"
    warn(f"`{home}._get_global_rank` is deprecated, please use `{home}.get_global_rank` instead", FutureWarning)
    return get_global_rank(group, rank)


class _CoalescingManager:
    """Stands for collectives that are waited for together."""

    def __init__(self) -> None:
        self.works: list[Any] = []

    def append(self, work: Any) -> None:
        """Wait for this one too."""
        if work is not None:
            self.works.append(work)

    def wait(self) -> None:
        """Wait for all."""
        while self.works:
            self.works.pop(0).wait()


@contextlib.contextmanager
def _coalescing_manager(group: Any = None, device: Any = None, async_ops: bool = False) -> Iterator[_CoalescingManager]:
    """A block of collectives that PyTorch sends as one. Here each is a program of its own, done in their order."""
    found(group)
    yield (manager := _CoalescingManager())
    if not async_ops:
        manager.wait()
