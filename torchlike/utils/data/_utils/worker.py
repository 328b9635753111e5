"""Workers that load ahead: threads, which share memory and need no pickling."""

import copy
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from torchlike._base.state import is_grad_enabled, set_grad_enabled
from torchlike._core.autocast.settings import restored

END = object()  # a worker whose iterable dataset is exhausted


@dataclass(frozen=True)
class WorkerInfo:
    """What a worker knows of itself.

    Attributes:
        id: its number, from 0. num_workers: how many there are.
        seed: a seed of its own. dataset: its copy of the dataset.
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any


class _Here(threading.local):
    info: WorkerInfo | None = None


_here = _Here()


def get_worker_info() -> WorkerInfo | None:
    """In a worker of a DataLoader what it is, elsewhere None."""
    return _here.info


def _own_copy(dataset: Any) -> Any:
    """A shallow copy, so that a worker can set attributes of its dataset; the dataset where it cannot be copied."""
    try:
        return copy.copy(dataset)
    except Exception:
        return dataset


class Modes:
    """Autocast and the grad mode of the thread that makes this, for a thread that has none of its own as yet."""

    def __init__(self) -> None:
        self._autocast, self._grad = restored(), is_grad_enabled()

    def enter(self) -> None:
        """Set them in this thread, for good."""
        self._autocast.__enter__()
        set_grad_enabled(self._grad)


class Worker:
    """One thread that fetches items, in the order in which they are asked for.

    Args:
        info: its number, how many workers there are, its seed.
        start: makes ``fetch(indices)`` of a dataset; that raises StopIteration where a stream ends.
        init: called first, in the thread, with the number. modes: what the thread is to be in.
    """

    def __init__(
        self,
        info: tuple[int, int, int],
        dataset: Any,
        start: Callable,
        init: Callable | None,
        modes: Modes | None = None,
    ):
        self.info = WorkerInfo(*info, _own_copy(dataset))
        self._modes = modes
        self._start, self._init = start, init
        self._fetch: Callable[[Any], Any] | None = None
        # An executor's threads are ended in good order when the interpreter exits; bare daemons are not.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"DataLoader worker {self.info.id}")

    def submit(self, indices: Any) -> Future:
        """The item at ``indices`` as a future; ``END`` where the worker's stream has ended."""
        return self._thread.submit(self._run, indices)

    def _run(self, indices: Any) -> Any:
        try:
            _here.info = self.info
            if self._fetch is None:
                if self._modes is not None:
                    self._modes.enter()
                    self._modes = None
                if self._init is not None:
                    self._init(self.info.id)
                self._fetch = self._start(self.info.dataset)
            return self._fetch(indices)
        except StopIteration:
            return END
        except Exception as error:
            error.add_note(f"Caught {type(error).__name__} in DataLoader worker {self.info.id}.")
            raise

    def close(self) -> None:
        """Let the thread end after what it is doing."""
        self._thread.shutdown(wait=False, cancel_futures=True)
