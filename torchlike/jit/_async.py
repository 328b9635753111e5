"""``torch.jit.fork`` and ``wait``."""

from collections.abc import Callable
from typing import Any

from torchlike.futures import Future


def fork(func: Callable, *args: Any, **kwargs: Any) -> Future:
    """A future of ``func(*args, **kwargs)``, which runs before this returns, as in PyTorch outside of a script.

    >>> import torchlike as torch
    >>> torch.jit.wait(torch.jit.fork(torch.neg, torch.ones(2)))
    tensor([-1., -1.])
    """
    future: Future = Future()
    future.set_result(func(*args, **kwargs))
    return future


def wait(future: Future) -> Any:
    """The result of a future. Raises RuntimeError for None, TypeError for what is no future."""
    if future is None:
        raise RuntimeError("Future can't be None")
    if not isinstance(future, Future):
        raise TypeError(f"wait(): incompatible function arguments: expected a future, not {future!r}")
    return future.wait()


_fork, _wait = fork, wait
