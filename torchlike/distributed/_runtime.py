"""The connection of this process to the others: jax's own, with its key-value store.

Note [Late]
~~~~~~~~~~~
What devices there are jax asks once, when its backend starts. A program that has computed before ``init_process_group``
keeps that backend, which knows its own devices alone; on CPUs a second one is made then, which knows all processes, and
collectives copy what they take to it and what they give back. Tensors over several processes have no place there.
"""

import atexit
import os
import re
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import jax
from jax._src import distributed, xla_bridge
from jax._src.lib import _jax, xla_client

from torchlike._executor import shared_cache
from torchlike.distributed._keeper import Keeper
from torchlike.distributed._pulse import Pulse
from torchlike.distributed._rendezvous import World

CHUNK = 1 << 20  # bytes of a value of the store: what gRPC takes in one message
_LONG = 1 << 20  # seconds
_LOOK = 1.0  # seconds of a wait between looks at whether the others still run
_GRACE = 0.3  # seconds for what a process has done before its end
_PULSE = "torchlike/pulse"
_LATE = re.compile(r"timed out task names:\n(.*?)\n\n", re.DOTALL)


class DistError(RuntimeError):
    """What goes wrong between processes."""


class DistBackendError(DistError):
    """A collective failed: a process died, was late, or did something else."""


class DistNetworkError(DistError):
    """A process cannot be reached."""


class DistStoreError(DistError):
    """A key of a store did not appear in time."""


class QueueEmptyError(DistStoreError):
    """There is nothing in a queue of a store."""


class _Connection:
    """This process's place among all. ``world`` is None before the first group of several processes."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.world: World | None = None
        self.broken = ""  # why what hangs in the backend will never end
        self.run = ""  # a name of all processes for this run
        self.boards: Counter[str] = Counter()  # how many groups of a name there were
        self.pulse: Pulse | None = None  # by which others see that this process runs
        self.keeper: Keeper | None = None  # what keeps jax's service, if this process has started it
        self.apart: Any = None  # a backend for collectives alone, where jax's own had started; see Note [Late]


connection = _Connection()


def connect(world: World, timeout: float) -> None:
    """Connect to the other processes, once; jax's backends then know all devices.

    Raises:
        RuntimeError: the backend of an accelerator has started, or this process is connected as another rank.
        DistNetworkError: they are not all here in time; names those that are missing.
    """
    with connection.lock:
        if connection.world is not None:
            _demand_same(connection.world, world)
            return
        late = False
        if distributed.global_state.client is None:
            late = _has_started(world)
            _start(world, timeout)
        elif (distributed.global_state.process_id, distributed.global_state.num_processes) != (world.rank, world.size):
            raise RuntimeError(
                f"init_process_group: jax.distributed is initialized as process {distributed.global_state.process_id} "
                f"of {distributed.global_state.num_processes}, not as {world.rank} of {world.size}"
            )
        connection.world = world
    connection.pulse = Pulse(world.address)
    put(f"{_PULSE}/{world.rank}", connection.pulse.place)
    if world.rank == 0:
        put("torchlike/run", uuid.uuid4().hex.encode())
    wait_for_all("torchlike/connected", range(world.size), timeout, "init_process_group")
    connection.run = get("torchlike/run", timeout, "init_process_group").decode()
    # what starts the backend, for which all processes must be here
    connection.apart = _backend_apart(world) if late else None
    shared_cache.install()
    devices()
    atexit.register(_leave)


def is_connected() -> bool:
    """Whether this process is connected to others."""
    return connection.world is not None


def _demand_same(old: World, new: World) -> None:
    if (old.rank, old.size) != (new.rank, new.size):
        raise RuntimeError(
            f"init_process_group: this process is rank {old.rank} of {old.size} and cannot become rank {new.rank} of "
            f"{new.size}: jax connects once in the life of a process. Start another process."
        )


def _has_started(world: World) -> bool:
    """Whether jax's backend has, and knows CPUs alone. RuntimeError: it knows an accelerator."""
    if not xla_bridge.backends_are_initialized():
        return False
    if jax.default_backend() != "cpu":
        raise RuntimeError(
            f"init_process_group with {world.size} processes must come before the first tensor is computed or moved: "
            "jax's backend has started in this process and knows its own devices alone. Call init_process_group "
            "earlier, or start the script with `python -m torchlike run --nproc N SCRIPT`, which connects first."
        )
    return True


def _backend_apart(world: World) -> Any:
    """See Note [Late]."""
    return xla_client.make_cpu_client(
        asynchronous=True, distributed_client=client(), node_id=world.rank, num_nodes=world.size, num_devices=1,
        collectives=_jax.make_gloo_tcp_collectives(distributed_client=client()),
    )  # fmt: skip


def devices() -> list[jax.Device]:
    """The devices of all processes that collectives use."""
    return list(jax.devices() if connection.apart is None else connection.apart.devices())


def demand_whole(what: str) -> None:
    """RuntimeError where jax's own backend does not know the other processes."""
    if connection.apart is not None:
        raise RuntimeError(
            f"{what} over several processes: init_process_group came after the first tensor was computed, when "
            "jax's backend had started and knew its own devices alone. Call init_process_group earlier, or start the "
            "script with `python -m torchlike run --nproc N SCRIPT`, which connects first."
        )


def _start(world: World, timeout: float) -> None:
    """What ``jax.distributed.initialize`` does, but that a dead process does not end the others without a word."""
    if jax.config.jax_cpu_collectives_implementation in (None, "none"):
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
    shared, seconds = distributed.global_state, max(1.0, timeout)
    if world.serves:
        connection.keeper = _keeper_at(world)
    begun = threading.Event()

    def enter() -> None:
        client.connect()
        begun.set()

    try:
        client = _jax.get_distributed_runtime_client(
            world.address, world.rank, init_timeout=_LONG, heartbeat_timeout=100, shutdown_on_destruction=False,
            use_compression=True,
        )  # fmt: skip
    except Exception as error:
        raise DistNetworkError(f"init_process_group: no way to {world.address} ({_first_line(error)})") from error
    # in a thread, since jax ends the process where others do not come in time
    threading.Thread(target=enter, daemon=True, name="torchlike-connect").start()
    if not begun.wait(seconds):
        others = named([rank for rank in range(world.size) if rank != world.rank])
        connection.broken = (
            f"init_process_group: rank {world.rank} of {world.size} met not all of {others} at {world.address} within "
            f"{seconds:g} seconds: are all processes started, and is the address right?"
        )
        atexit.register(_leave)
        raise DistNetworkError(connection.broken)
    shared.client = client
    shared.process_id, shared.num_processes, shared.coordinator_address = world.rank, world.size, world.address


def _keeper_at(world: World) -> Keeper:
    try:
        return Keeper(world.address, world.size)
    except OSError as error:
        raise DistNetworkError(f"init_process_group: {error}") from error


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]


def _leave() -> None:
    """At exit: what hangs in the backend is left behind."""
    if connection.broken:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)  # jax would wait for the collective


# -- the key-value store -----------------------------------------------------------------------------------------------


def client() -> Any:
    """jax's client of the store."""
    found = distributed.global_state.client
    if found is None:
        raise ValueError("torch.distributed: this process is not connected; call init_process_group")
    return found


def put(key: str, value: bytes) -> None:
    """Set a key, in parts if the value is long."""
    parts = [value[i : i + CHUNK] for i in range(CHUNK, len(value), CHUNK)]
    for i, part in enumerate(parts):
        client().key_value_set_bytes(f"{key}/part{i}", part, True)
    head = len(parts).to_bytes(4, "little") + value[:CHUNK]
    client().key_value_set_bytes(key, head, True)


def get(key: str, timeout: float, message: str) -> bytes:
    """The value of a key, once it is set. DistBackendError with the text ``late`` if it is not set in time."""
    try:
        head = client().blocking_key_value_get_bytes(key, max(1, round(timeout * 1000)))
    except Exception as error:
        kind = DistBackendError if "DEADLINE_EXCEEDED" in str(error) else DistNetworkError
        raise kind(f"{message} within {timeout:g} seconds ({_first_line(error)})") from error
    count = int.from_bytes(head[:4], "little")
    rest = [client().blocking_key_value_get_bytes(f"{key}/part{i}", 60_000) for i in range(count)]
    return b"".join([head[4:], *rest])


def soon(key: str, seconds: float) -> bytes | None:
    """The value of a key, once it is set; None if that takes longer, which is no error yet."""
    try:
        return get(key, seconds, key)
    except DistBackendError:
        return None


def is_set(key: str) -> bool:
    """Whether a key is set."""
    try:
        client().key_value_try_get_bytes(key)
    except Exception:
        return False
    return True


def forget(key: str) -> None:
    """Delete a key and its parts."""
    client().key_value_delete(key)


def awaited(key: str, limit: float, ranks: Sequence[int], late: str, waited: float = 0.0) -> bytes:
    """As :func:`get`, for what some ranks are to set: their end is an error soon, which names them.

    ``waited``: seconds of the limit that are over.
    """
    begun = time.monotonic() - waited
    while (data := soon(key, max(0.01, min(_LOOK, begun + limit - time.monotonic())))) is None:
        spent, gone = time.monotonic() - begun, ended(ranks)
        if gone and (data := soon(key, _GRACE)) is None:
            raise DistBackendError(f"{late}: {_gone(gone, spent, limit)}")
        if data is not None:
            break
        if spent >= limit:
            raise DistBackendError(f"{late} within {limit:g} seconds")
    return data


def ended(ranks: Iterable[int]) -> list[int]:
    """Those of ``ranks`` whose process has ended, as far as that is seen from here."""
    pulse = connection.pulse
    places = {rank: soon(f"{_PULSE}/{rank}", 0.01) for rank in ranks} if pulse else {}
    return [rank for rank, place in places.items() if pulse and place and pulse.has_ended(place)]


def _gone(ranks: Sequence[int], spent: float, limit: float) -> str:
    return f"after {spent:.1f} of {limit:g} seconds {named(ranks)} {'has' if len(ranks) == 1 else 'have'} ended"


def wait_for_all(key: str, ranks: Sequence[int], timeout: float, what: str) -> None:
    """Wait until all of ``ranks`` are here. DistBackendError: names those that are not, in time, or have ended."""
    wait, begun = _Barrier(key, ranks, timeout), time.monotonic()
    while not wait.done.wait(_LOOK):
        gone = ended(ranks)
        if gone and not wait.done.wait(_GRACE):
            gone = absent(f"{key}/late", gone, 0.0) or gone  # others have noticed it, and ended too
            put(f"{key}/late/{_rank()}", b"")
            connection.broken = f"{what}: {_gone(gone, time.monotonic() - begun, timeout)}"
            raise DistBackendError(connection.broken)
    error = wait.error
    if error is not None:
        found = _LATE.search(str(error))
        late = sorted(int(line) for line in found[1].split() if line.isdigit()) if found else []
        if late and f"{len(ranks) - len(late)}/{len(ranks)}" not in str(error):  # jax names some
            late = _others_late(f"{key}/late", ranks)
        raise DistBackendError(f"{what}: {_missing(late)} within {timeout:g} seconds ({_first_line(error)})") from error


class _Barrier:
    """A barrier of jax's in a thread, which nothing can interrupt: ``done``, and then the ``error``."""

    def __init__(self, key: str, ranks: Sequence[int], timeout: float) -> None:
        self.done = threading.Event()
        self.error: Exception | None = None
        self._given = key, max(1, round(timeout * 1000)), list(ranks)
        threading.Thread(target=self._wait, daemon=True, name="torchlike-barrier").start()

    def _wait(self) -> None:
        try:
            client().wait_at_barrier(*self._given)
        except Exception as error:
            self.error = error
        self.done.set()


def _rank() -> int:
    assert connection.world is not None
    return connection.world.rank


def _others_late(key: str, ranks: Sequence[int]) -> list[int]:
    """Who does not say, as this process does, that it was there."""
    put(f"{key}/{_rank()}", b"")
    return absent(key, ranks, 1.0)


def _missing(ranks: Sequence[int]) -> str:
    return f"{named(ranks)} did not arrive" if ranks else "not all ranks arrived"


def named(ranks: Sequence[int]) -> str:
    """Ranks in words.

    >>> named([1]), named([0, 2])
    ('rank 1', 'ranks 0, 2')
    """
    return f"rank{'s' * (len(ranks) != 1)} {', '.join(map(str, ranks))}"


def absent(prefix: str, ranks: Iterable[int], patience: float) -> list[int]:
    """Those of ``ranks`` that do not set ``prefix/rank`` within some seconds."""
    left, end = list(ranks), time.monotonic() + patience
    while left:
        left = [rank for rank in left if not is_set(f"{prefix}/{rank}")]
        if time.monotonic() > end:
            return left
        time.sleep(0.05)
    return left
