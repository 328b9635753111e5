"""torch.testing._utils: random numbers that a test leaves as they were."""

from collections.abc import Iterator
from contextlib import contextmanager

from torchlike.random import fork_rng

__all__ = ["freeze_rng_state"]


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
