"""torch.testing._utils: random numbers that a test leaves as they were."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torchlike.interop.alias import missing_names
from torchlike.random import fork_rng, manual_seed

__all__ = ["freeze_rng_state", "wrapper_set_seed"]

__getattr__ = missing_names(__name__)


@contextmanager
def freeze_rng_state() -> Iterator[None]:
    """What is drawn within changes no later random number.

    >>> import torchlike as torch
    >>> from torchlike.testing._utils import freeze_rng_state
    >>> with freeze_rng_state():
    ...     first = torch.rand(1)
    >>> torch.equal(first, torch.rand(1))
    True
    """
    with fork_rng():
        yield


def wrapper_set_seed(op: Callable, *args: Any, **kwargs: Any) -> Any:
    """``op(*args, **kwargs)`` after ``manual_seed(42)``, which changes no later random number.

    >>> import torchlike as torch
    >>> from torchlike.testing._utils import wrapper_set_seed
    >>> torch.equal(wrapper_set_seed(torch.rand, 2), wrapper_set_seed(torch.rand, 2))
    True
    """
    with freeze_rng_state():
        manual_seed(42)
        return op(*args, **kwargs)
