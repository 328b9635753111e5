"""torch.multiprocessing: Python's own, with ``spawn``. Processes that are sent a tensor of the CPU share its memory.

Heavy computing belongs in spawned processes: XLA's threads do not survive a fork, and have the parent compute.
"""

import multiprocessing
import traceback
from collections.abc import Callable
from multiprocessing import *  # noqa: F403
from multiprocessing import connection as connection
from multiprocessing import get_context, process, reduction
from typing import Any

from torchlike._base.volatile import volatile
from torchlike._core.conversion import processes
from torchlike.interop.alias import missing_names

__all__ = [
    *multiprocessing.__all__, "ProcessContext", "ProcessException", "ProcessExitedException", "ProcessRaisedException",
    "connection", "get_all_sharing_strategies", "get_sharing_strategy", "process", "reduction",
    "set_sharing_strategy", "spawn", "start_processes",
]  # fmt: skip

__getattr__ = missing_names(__name__)

processes.install()

_STRATEGIES = {"file_descriptor", "file_system"}
_strategy = ["file_descriptor"]


def get_all_sharing_strategies() -> set[str]:
    """The names that :func:`set_sharing_strategy` takes."""
    return set(_STRATEGIES)


@volatile
def get_sharing_strategy() -> str:
    """What :func:`set_sharing_strategy` was told."""
    return _strategy[0]


def set_sharing_strategy(new_strategy: str) -> None:
    """Keep the name of a way to share memory; there is but one. AssertionError for an unknown name."""
    if new_strategy not in _STRATEGIES:
        raise AssertionError(f"invalid sharing strategy {new_strategy!r}, expected one of {sorted(_STRATEGIES)}")
    _strategy[0] = new_strategy


class ProcessException(Exception):  # noqa: N818
    """A spawned process failed. ``error_index``: which; ``pid``: its process id."""

    def __init__(self, msg: str, error_index: int, pid: int) -> None:
        super().__init__(msg)
        self.msg, self.error_index, self.pid = msg, error_index, pid


class ProcessRaisedException(ProcessException):
    """A spawned process raised an exception; the message has its traceback."""


class ProcessExitedException(ProcessException):
    """A spawned process ended with the status ``exit_code`` or by the signal ``signal_name``."""

    def __init__(self, msg: str, error_index: int, error_pid: int, exit_code: int, signal_name: str | None = None):
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name


def _run(fn: Callable, index: int, args: tuple, errors: Any) -> None:
    try:
        fn(index, *args)
    except KeyboardInterrupt:
        pass
    except Exception:
        errors.put(traceback.format_exc())
        raise SystemExit(1) from None


class ProcessContext:
    """Processes that :func:`spawn` started. ``processes``: they."""

    def __init__(self, processes: list, errors: list) -> None:
        self.processes, self._errors = processes, errors

    def pids(self) -> list[int]:
        """Their process ids."""
        return [p.pid for p in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait for the processes; whether all have ended well. The first that fails ends the others.

        Raises:
            ProcessRaisedException: one raised an exception. ProcessExitedException: one ended with another status.
        """
        ready = connection.wait([p.sentinel for p in self.processes if p.is_alive()], timeout)
        for process_ in self.processes:
            if process_.sentinel in ready:
                process_.join()
        failed = next((i for i, p in enumerate(self.processes) if p.exitcode not in (0, None)), None)
        if failed is None:
            return all(p.exitcode == 0 for p in self.processes)
        for process_ in self.processes:
            if process_.is_alive():
                process_.terminate()
            process_.join(grace_period)
        self._fail(failed)
        return False

    def _fail(self, index: int) -> None:
        process_, errors = self.processes[index], self._errors[index]
        if errors.empty():
            text = f"process {index} terminated with exit code {process_.exitcode}"
            raise ProcessExitedException(text, index, process_.pid, process_.exitcode)
        text = f"\n\n-- Process {index} terminated with the following error:\n{errors.get()}\n"
        raise ProcessRaisedException(text, index, process_.pid)


def start_processes(
    fn: Callable, args: tuple = (), nprocs: int = 1, join: bool = True, daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:  # fmt: skip
    """Run ``fn(i, *args)`` in ``nprocs`` processes, i from 0.

    Args:
        join: wait for all of them, and raise where one fails; else give their ProcessContext.
        daemon: whether they end with this process.

    Raises:
        ProcessRaisedException, ProcessExitedException: as :meth:`ProcessContext.join`.
    """
    context: Any = get_context(start_method)
    errors = [context.SimpleQueue() for _ in range(nprocs)]
    processes = [context.Process(target=_run, args=(fn, i, args, errors[i]), daemon=daemon) for i in range(nprocs)]
    for process_ in processes:
        process_.start()
    started = ProcessContext(processes, errors)
    if not join:
        return started
    while not started.join():
        pass
    return None


def spawn(
    fn: Callable, args: tuple = (), nprocs: int = 1, join: bool = True, daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:  # fmt: skip
    """:func:`start_processes` by spawning."""
    return start_processes(fn, args, nprocs, join, daemon, start_method)
