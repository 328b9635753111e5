"""The workers of one iteration over a loader, seen from the process that started them."""

import contextlib
import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection, wait
from typing import Any

import torchlike._executor.forked as forked
from torchlike.utils.data._utils import transport
from torchlike.utils.data._utils.worker import Name, OnCPU, Plan, work

_PATIENCE = 5.0  # seconds: between looks whether workers live, and that they have for ending


def context_of(given: Any) -> Any:
    """The multiprocessing context of a loader's option."""
    if given is None:
        found = multiprocessing.get_context()
        return found if forked.READY or found.get_start_method() != "fork" else multiprocessing.get_context("spawn")
    return multiprocessing.get_context(given) if isinstance(given, str) else given


def _prepare(method: str) -> None:
    """Start what starts processes: it would inherit that Ctrl-C waits, or end the wait."""
    if method != "fork" and os.name == "posix":
        from multiprocessing import forkserver, resource_tracker

        resource_tracker.ensure_running()
        if method == "forkserver":
            forkserver.ensure_running()


@contextlib.contextmanager
def _ctrl_c_waits() -> Iterator[bool]:
    """Within, a Ctrl-C waits for this thread and for the processes that it starts; gives whether it did not before."""
    if not hasattr(signal, "pthread_sigmask"):
        yield False
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield signal.SIGINT not in before
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Pool:
    """Worker processes, and a line to each of them."""

    def __init__(self, context: Any, plan: Plan) -> None:
        self._process = os.getpid()
        self.workers: list[Any] = []
        self.lines: list[Connection] = []
        self.closed = False
        method = context.get_start_method()
        try:
            _prepare(method)
            for i in range(plan.num_workers):
                self._start(context, method == "fork", i, plan)
        except BaseException:
            self.close()
            raise

    def _start(self, context: Any, forks: bool, number: int, plan: Plan) -> None:
        mine, theirs = multiprocessing.Pipe()
        self.lines.append(mine)
        others = tuple(self.lines) if forks else ()
        try:
            with _ctrl_c_waits() as waits:
                args = (None if forks else OnCPU(), theirs, number, plan, others, waits)
                worker = context.Process(target=work, args=args, daemon=True, name=Name(f"DataLoader worker {number}"))
                worker.start()
                self.workers.append(worker)
        finally:
            theirs.close()

    def ask(self, number: int, task: Any) -> None:
        """Give a worker a task."""
        try:
            self.lines[number].send(task)
        except OSError:
            self._lost([number])

    def answers(self, numbers: Any, timeout: float | None) -> list[Any]:
        """What some workers have sent, after ``timeout`` seconds nothing. RuntimeError where one of them has ended."""
        until = None if timeout is None else time.monotonic() + timeout
        lines = {self.lines[i]: i for i in numbers}
        while True:
            left = _PATIENCE if until is None else min(_PATIENCE, max(0.0, until - time.monotonic()))
            ready = wait(list(lines), left)
            if ready:
                return [self._answer(line, lines[line]) for line in ready]  # type: ignore[index,arg-type]
            if gone := [i for i in lines.values() if not self.workers[i].is_alive()]:
                if not wait([self.lines[i] for i in gone], 0):
                    self._lost(gone)
            elif until is not None and time.monotonic() >= until:
                return []

    def _answer(self, line: Connection, number: int) -> Any:
        try:
            return transport.receive(line)
        except (EOFError, OSError):
            self._lost([number])

    def _lost(self, numbers: list[int]) -> None:
        """Say which workers have ended, and how."""
        workers = [self.workers[i] for i in numbers]
        for worker in workers:
            worker.join(_PATIENCE)
        pids, first = ", ".join(str(w.pid) for w in workers), workers[0]
        self.close()
        raise RuntimeError(f"DataLoader worker (pid(s) {pids}) exited unexpectedly") from RuntimeError(_end_of(first))

    def close(self) -> None:
        """End the workers: those that are busy finish what they do, for some seconds."""
        if self.closed or self._process != os.getpid():  # a child of a fork has a copy of this object
            return
        self.closed = True
        for line in self.lines:
            try:
                line.send(None)  # its end alone may not be seen: workers of other loaders have inherited it
            except OSError:
                pass
            line.close()
        until = time.monotonic() + _PATIENCE
        for worker in self.workers:
            worker.join(max(0.0, until - time.monotonic()))
        for worker in self.workers:
            if worker.is_alive():
                worker.terminate()
        for worker in self.workers:
            worker.join(1)
            if worker.is_alive():
                worker.kill()
                worker.join()

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:  # at the end of the interpreter modules are gone
            pass


def _end_of(worker: Any) -> str:
    code = worker.exitcode
    if code is not None and code < 0:
        description = signal.strsignal(-code) or signal.Signals(-code).name
        hint = " It is possible that dataloader's workers are out of shared memory." if -code == signal.SIGBUS else ""
        return f"DataLoader worker (pid {worker.pid}) is killed by signal: {description}. {hint}"
    return (
        f"DataLoader worker (pid {worker.pid}) exited unexpectedly with exit code {code}. Details are lost with the "
        "process; with num_workers=0 the error shows where it is raised."
    )
