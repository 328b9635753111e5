"""Launchers on several machines that meet at an address, and stay together: the c10d rendezvous.

The launcher that can listen at the address keeps a store, and says there in rounds which machines take part. A round is
over when a process of any machine has failed, a machine is gone, or one has come for which there is room.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import socket
import threading
import time
from collections.abc import Iterator
from datetime import timedelta

from torchlike.distributed import _pulse
from torchlike.distributed._runtime import DistNetworkError
from torchlike.distributed._stores import PrefixStore, TCPStore

PORT = 29400  # where launchers meet that are told a host alone
_PAUSE = 0.05
_LEAVING = 5.0  # seconds that the store stays for those that have not read the end
_DEFAULTS = {"join_timeout": 600.0, "last_call_timeout": 30.0, "keep_alive_interval": 5.0, "keep_alive_max_attempt": 3}


@contextlib.contextmanager
def met(options: argparse.Namespace) -> Iterator[Meeting]:
    """The meeting of this launcher with the others: as many as ``--nnodes`` says.

    TimeoutError where too few come, RuntimeError for one more than may.
    """
    times = _times(options.rdzv_conf)
    store, first = _store(options, times["join_timeout"])
    run = options.rdzv_id or "none"
    kept = PrefixStore(run, store)
    number = 0 if first else kept.add("machines", 1)
    if number >= options.nnodes_range[1] and not options.max_restarts:
        host = f"{options.master_addr}:{options.master_port or PORT}"
        raise RuntimeError(f"{host} has met the {options.nnodes_range[1]} machines of --nnodes already: run {run}")
    host = _Host(PrefixStore(run, store.clone()), options, times) if first else None
    meeting = Meeting(kept, options, number, times, host)
    try:
        yield meeting
    finally:
        meeting.close()


def _times(conf: str) -> dict[str, float]:
    """What ``NAME=VALUE,...`` says of them."""
    told = dict(part.partition("=")[::2] for part in conf.split(",") if part)
    return {name: float(told.get(name, default)) for name, default in _DEFAULTS.items()}


def _store(options: argparse.Namespace, seconds: float) -> tuple[TCPStore, bool]:
    """(the store that all launchers share, whether this is the one that keeps it)."""
    host, port, timeout = options.master_addr, options.master_port or PORT, timedelta(seconds=seconds)
    may = _is_here(host) if options.told_rank is None else options.told_rank == 0
    if may:
        with contextlib.suppress(DistNetworkError):  # another launcher of this machine listens
            return TCPStore(host, port, is_master=True, timeout=timeout), True
    return TCPStore(host, port, timeout=timeout), False


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


@dataclasses.dataclass(frozen=True)
class Round:
    """Some machines that start their processes together: ``machines`` are (number, processes) in the order of ranks."""

    number: int
    attempt: int
    machines: list[tuple[int, int]]
    port: int

    def of(self, number: int) -> dict[str, int]:
        """What a machine needs to know."""
        place = [machine for machine, _ in self.machines].index(number)
        counts = [count for _, count in self.machines]
        return {
            "node_rank": place, "nnodes": len(counts), "first_rank": sum(counts[:place]), "world_size": sum(counts),
            "master_port": self.port, "attempt": self.attempt,
        }  # fmt: skip


class Meeting:
    """This machine among those of a run; ``number`` is how many had come before it."""

    def __init__(
        self, store: PrefixStore, options: argparse.Namespace, number: int, times: dict[str, float], host: _Host | None
    ) -> None:
        self.number, self._store, self._options, self._host, self._times = number, store, options, host, times
        self._round: Round | None = None
        self._pulse = _pulse.Pulse(f"{options.master_addr}:{options.master_port or PORT}")
        self._closed = threading.Event()
        told = [self._pulse.place.decode(), options.told_rank, options.nproc_per_node]
        store.set(f"machine/{number}", json.dumps(told))
        threading.Thread(target=self._beat, daemon=True, name="torchlike-beat").start()

    def _beat(self) -> None:
        store, count = self._store, 0
        with contextlib.suppress(DistNetworkError):
            while not self._closed.wait(self._times["keep_alive_interval"] if count else 0):
                count += 1
                store.set(f"beat/{self.number}", str(count))

    def close(self) -> None:
        """Leave."""
        with contextlib.suppress(DistNetworkError):
            self._store.set(f"left/{self.number}", "")
        if self._host is not None:
            self._host.close()
        self._closed.set()
        self._pulse.close()

    def rounds(self) -> Iterator[argparse.Namespace]:
        """The options of each round that this machine takes part in, until the end of the run."""
        last = 0
        while True:
            self._store.set(f"here/{self.number}", str(last))
            end = time.monotonic() + self._times["join_timeout"]
            while (found := self._latest(last)) is None:
                if self._store.check(["end"]):
                    return
                if time.monotonic() > end + _LEAVING:  # the host's own patience comes first
                    raise TimeoutError(f"no room in the run came within {self._times['join_timeout']:g} seconds")
                time.sleep(_PAUSE)
            self._round, last = found, found.number
            told = {**found.of(self.number), "rdzv_id": self._options.rdzv_id or "none"}
            yield argparse.Namespace(**{**vars(self._options), **told})

    def _latest(self, last: int) -> Round | None:
        """The round that goes on, if it is a new one with this machine."""
        if not self._store.check(["round"]):
            return None
        found = Round(**json.loads(self._store.get("round")))
        return found if found.number > last and self.number in dict(found.machines) else None

    def is_over(self) -> bool:
        """Whether the round is, or the run."""
        assert self._round is not None
        return self._store.check([f"over/{self._round.number}"]) or self._store.check(["end"])

    def tell(self, failure: str) -> str:
        """Say how the processes here have ended (nothing: well); why there is another round, once that is known."""
        assert self._round is not None
        self._store.set(f"told/{self._round.number}/{self.number}", failure)
        while not self.is_over():
            time.sleep(_PAUSE)
        over = f"over/{self._round.number}"
        return self._store.get(over).decode() if self._store.check([over]) else ""

    def end(self) -> str:
        """Why the run has failed; nothing if it has not."""
        return self._store.get("end").decode()


class _Host:
    """What the launcher that keeps the store does for all, in a thread."""

    def __init__(self, store: PrefixStore, options: argparse.Namespace, times: dict[str, float]) -> None:
        self._store, self._options, self._times = store, options, times
        self._low, self._high = options.nnodes_range
        self._pulse = _pulse.Pulse(f"{options.master_addr}:{options.master_port or PORT}")
        self._beats: dict[int, tuple[bytes, float]] = {}  # what each said last, and when that was new
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="torchlike-rendezvous")
        self._thread.start()

    def close(self) -> None:
        """Stay until all that live have left."""
        end = time.monotonic() + _LEAVING
        while time.monotonic() < end and any(not self._has(f"left/{n}") for n in self._living()):
            time.sleep(_PAUSE)
        self._closed.set()
        self._thread.join()
        self._pulse.close()

    def _run(self) -> None:
        try:
            self._store.set("end", self._led())
        except Exception as error:
            self._store.set("end", f"{type(error).__name__}: {error}")

    def _led(self) -> str:
        """Lead the run to its end; why it has failed."""
        number = restarts = 0
        while True:
            machines = self._gathered(number)
            if len(machines) < self._low:
                where = f"{self._options.master_addr}:{self._options.master_port or PORT}"
                some = f"{len(machines)} of {self._low} machines came to {where}"
                return f"TimeoutError: {some} within {self._times['join_timeout']:g} seconds"
            number += 1
            port = _free_port(self._options.master_addr)
            self._store.set("round", json.dumps(dataclasses.asdict(Round(number, restarts, machines, port))))
            why, counts = self._watched(number, [n for n, _ in machines])
            if not why:
                return ""
            left = self._options.max_restarts - restarts
            if counts and not left:
                return why
            restarts += counts
            then = f"starting anew ({left - counts} of {self._options.max_restarts} restarts left)"
            self._store.set(f"over/{number}", f"{why}; {then}")

    def _has(self, key: str) -> bool:
        return self._store.check([key])

    def _all(self) -> list[int]:
        return [n for n in range(self._store.add("machines", 0) + 1) if self._has(f"machine/{n}")]

    def _living(self) -> list[int]:
        return [n for n in self._all() if not self._has(f"left/{n}") and not self._is_gone(n)]

    def _is_gone(self, n: int) -> bool:
        """Whether a machine's launcher has ended, or says nothing any more."""
        place = json.loads(self._store.get(f"machine/{n}"))[0].encode()
        if self._pulse.has_ended(place):
            return True
        beat, now = self._store.get(f"beat/{n}") if self._has(f"beat/{n}") else b"", time.monotonic()
        if self._beats.get(n, (None, 0.0))[0] != beat:
            self._beats[n] = beat, now
        silent = now - self._beats[n][1]
        return silent > self._times["keep_alive_interval"] * self._times["keep_alive_max_attempt"]

    def _gathered(self, last: int) -> list[tuple[int, int]]:
        """Those that take part in the next round, and are ready for it: fewer than there must be after some time."""
        begun, enough = time.monotonic(), None
        while not self._closed.wait(_PAUSE):
            living = self._living()
            # others may begin only once all have ended what the last round began
            ready = living if all(self._is_ready(n, last) for n in living) else []
            now = time.monotonic()
            enough = None if len(ready) < self._low else enough or now
            called = enough is not None and now - enough >= self._times["last_call_timeout"]
            if len(ready) >= self._high or called or (enough is None and now - begun > self._times["join_timeout"]):
                return self._ranked(ready or living)
        return []

    def _is_ready(self, n: int, last: int) -> bool:
        return self._has(f"here/{n}") and int(self._store.get(f"here/{n}")) >= (last if self._took_part(n) else 0)

    def _took_part(self, n: int) -> bool:
        return self._has("round") and n in dict(json.loads(self._store.get("round"))["machines"])

    def _ranked(self, ready: list[int]) -> list[tuple[int, int]]:
        told = {n: json.loads(self._store.get(f"machine/{n}")) for n in ready}
        order = sorted(ready, key=lambda n: (n if told[n][1] is None else told[n][1], n))
        return [(n, told[n][2]) for n in order[: self._high]]

    def _watched(self, number: int, machines: list[int]) -> tuple[str, bool]:
        """(why a round is over, nothing if all went well; whether that counts as a restart)."""
        while not self._closed.wait(_PAUSE):
            told = self._told(number, machines)
            # first: processes of the others fail because of them
            gone = [n for n in machines if n not in told and (self._has(f"left/{n}") or self._is_gone(n))]
            if gone:
                return f"machine {machines.index(gone[0])} of {len(machines)} is gone", False
            failed = [text for text in told.values() if text]
            if failed:
                return failed[0], True
            if len(told) == len(machines):
                break
            if len(machines) < self._high and not told and set(self._living()) - set(machines):
                return "another machine has come", False
        return "", False

    def _told(self, number: int, machines: list[int]) -> dict[int, str]:
        keys = {n: f"told/{number}/{n}" for n in machines}
        return {n: self._store.get(key).decode() for n, key in keys.items() if self._has(key)}
