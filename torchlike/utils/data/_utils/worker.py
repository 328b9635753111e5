"""A worker process: it fetches what it is asked for, and sends it back."""

import operator
import os
import queue
import random
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import jax
import numpy as np

from torchlike._functions.generator import manual_seed
from torchlike._functions.info import set_num_threads
from torchlike._utils import ExceptionWrapper
from torchlike.utils.data._utils import transport
from torchlike.utils.data._utils.fetch import DatasetKind, Fetcher

DATA, END, ERROR = "data", "end", "error"
MP_STATUS_CHECK_INTERVAL = 5.0  # seconds after which a worker looks whether the process that started it still runs


@dataclass(frozen=True)
class WorkerInfo:
    """What a worker knows of itself.

    Attributes:
        id: its number, from 0. num_workers: how many there are.
        seed: of the random generators in it. dataset: its copy of the dataset.
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any
    rng: Any = None
    worker_method: str = "multiprocessing"


@dataclass(frozen=True)
class _IterableDatasetStopIteration:
    """What a worker sends where its stream has ended, in loaders that others write."""

    worker_id: int


@dataclass(frozen=True)
class _ResumeIteration:
    """What such a loader sends its workers before another pass; ``seed`` of the shufflers of its pipe."""

    seed: int | None = None


class ManagerWatchdog:
    """Tells a worker whether the process that started it still runs."""

    def __init__(self) -> None:
        self.manager_pid, self.manager_dead = os.getppid(), False

    def is_alive(self) -> bool:
        """Whether it does."""
        self.manager_dead = self.manager_dead or os.getppid() != self.manager_pid
        return not self.manager_dead


_worker_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """In a worker of a DataLoader what it is, elsewhere None."""
    return _worker_info


class OnCPU:
    """Comes first in what a process that does not share our memory is given: jax is to compute on its CPU."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _on_cpu, ()


def _on_cpu() -> OnCPU:
    jax.config.update("jax_platforms", "cpu")
    return OnCPU()


class _Deaf:
    """What has Ctrl-C ignored where it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return signal.signal, (signal.SIGINT, signal.SIG_IGN)


class Name(str):
    """The name of a worker: what a process that does not share our memory is given before all else.

    A forkserver's process takes Ctrl-C for its own until then, and would while it imports what it is to run.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return operator.getitem, ((str(self), _Deaf()), 0)


@dataclass
class Plan:
    """What the workers of a loader do.

    Attributes:
        options: of the Fetcher. init: the user's function, called first with the worker's number. base_seed: that of
        the iteration.
    """

    dataset: Any
    kind: int
    batches: bool
    collate_fn: Callable
    drop_last: bool
    init: Callable | None
    base_seed: int
    num_workers: int

    def fetcher(self) -> Fetcher:
        """What gives the items."""
        return Fetcher(self.dataset, self.kind, self.batches, self.collate_fn, self.drop_last)


def _failure(error: BaseException, worker: int) -> ExceptionWrapper:
    return ExceptionWrapper((type(error), error, error.__traceback__), f"in DataLoader worker process {worker}")


def _generate_state(base_seed: int, worker_id: int) -> list[int]:
    """What numpy is seeded with in a worker."""
    return np.random.SeedSequence([worker_id, base_seed]).generate_state(4).tolist()


def _seeded(number: int, base: int) -> None:
    seed = base + number
    random.seed(seed)
    manual_seed(seed)
    np.random.seed(_generate_state(base, number))


def _listen(link: Connection, asked: queue.SimpleQueue, parent: int) -> None:
    """Take what comes at once, so that who asks never waits; None where nobody is left to ask."""
    try:
        while True:
            while not link.poll(MP_STATUS_CHECK_INTERVAL):
                if os.getppid() != parent:
                    os._exit(1)
            asked.put(link.recv())
    except (EOFError, OSError):
        asked.put(None)


def work(
    _: OnCPU | None, link: Connection, number: int, plan: Plan, close: tuple[Connection, ...] = (), waits: bool = False
) -> None:
    """The life of worker ``number``. ``close``: what it inherited and others use. ``waits``: Ctrl-C does, until now."""
    global _worker_info
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started it, which ends it
    if waits:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    for other in close:
        other.close()
    asked: queue.SimpleQueue = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(link, asked, os.getppid()), daemon=True).start()
    set_num_threads(1)
    _seeded(number, plan.base_seed)
    _worker_info = WorkerInfo(number, plan.num_workers, plan.base_seed + number, plan.dataset)
    broken: ExceptionWrapper | None = None
    try:
        if plan.init is not None:
            plan.init(number)
    except Exception as error:
        broken = _failure(error, number)
    fetch = None
    while (task := asked.get()) is not None:
        key, indices, again = task
        if again is not None:
            again(plan.dataset)
            fetch = None
        if broken is None and fetch is None:
            fetch = _begun(plan, number)
        reply = _fetched(fetch, indices, number, plan.kind) if broken is None else (ERROR, broken)
        try:
            _reply(link, key, reply, number)
        except (BrokenPipeError, ConnectionError):
            return


def _begun(plan: Plan, number: int) -> Any:
    try:
        return plan.fetcher()
    except Exception as error:
        return _failure(error, number)


def _fetched(fetch: Any, indices: Any, number: int, kind: int) -> tuple[str, Any]:
    if isinstance(fetch, ExceptionWrapper):
        return ERROR, fetch
    try:
        return DATA, fetch(indices)
    except Exception as error:
        if isinstance(error, StopIteration) and kind == DatasetKind.Iterable:
            return END, None
        return ERROR, _failure(error, number)


def _reply(link: Connection, key: Any, reply: tuple[str, Any], number: int) -> None:
    try:
        transport.send(link, (key, *reply))
    except (BrokenPipeError, ConnectionError):
        raise
    except Exception as error:  # what cannot be pickled
        failure = _failure(error, number)
        if reply[0] == ERROR:
            failure = reply[1]
            failure.exc_type = RuntimeError
        transport.send(link, (key, ERROR, failure))
