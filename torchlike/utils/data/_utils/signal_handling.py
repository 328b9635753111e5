"""What loaders of others tell PyTorch's handlers of signals: they notice the end of a worker while they wait."""

from collections.abc import Iterable

_SIGCHLD_handler_set = False
_workers: dict[int, tuple[int, ...]] = {}


def _set_worker_pids(loader_id: int, worker_pids: Iterable[int]) -> None:
    """Remember the workers of a loader; ValueError for one that has some."""
    if loader_id in _workers:
        raise ValueError("_set_worker_pids should be called only once for each _BaseDataLoaderIter.")
    _workers[loader_id] = tuple(worker_pids)


def _remove_worker_pids(loader_id: int) -> None:
    """Forget them; ValueError where there are none."""
    if _workers.pop(loader_id, None) is None:
        raise ValueError("Cannot find worker information for _BaseDataLoaderIter.")


def _set_worker_signal_handlers() -> None:
    """Accepted, in a worker."""


def _set_SIGCHLD_handler() -> None:  # noqa: N802  (PyTorch's name)
    """Accepted, in the process that starts workers."""
