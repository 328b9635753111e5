"""Whether other threads run Python code, threads for what XLA calls back, and the processors for all of them."""

import functools
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

try:
    from _thread import _count as others
except ImportError:  # no interpreter's public name tells it without a lock

    def others() -> int:
        return threading.active_count() - 1


def alone() -> bool:
    """Whether this is the only thread that may touch tensors: tqdm has one that draws late bars anew."""
    count = others()
    return count == 0 or (count == 1 and _draws_bars())


def _draws_bars() -> bool:
    """Whether the thread of tqdm's runs."""
    module = sys.modules.get("tqdm.std")
    monitor = None if module is None else module.tqdm.monitor
    return monitor is not None and monitor.is_alive()


def in_own_thread(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` in a thread that Python has started, for which the caller waits.

    XLA calls back from its threads, and Python takes away what it keeps of such a thread after each call. Objects of
    jax among a thread's local values ask for that anew as they are freed, and the process ends (CPython 3.11).
    """

    @functools.wraps(function)
    def run(*args: Any) -> Any:
        results: list[Any] = []
        errors: list[BaseException] = []

        def body() -> None:
            try:
                results.append(function(*args))
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=body, name="torchlike host callback", daemon=True)
        thread.start()
        thread.join()
        if errors:
            raise errors.pop()
        return results.pop()

    return run


def cores() -> int:
    """How many processors there are for this process: those that it is bound to, where the system tells."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
