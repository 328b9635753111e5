"""Settings of all pipes that a pipe is made of."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

from torchlike._base.dtypes import int64
from torchlike._core.conversion.factories import empty
from torchlike._functions.generator import Generator
from torchlike.utils.data.datapipes.combinatorics import ShufflerIterDataPipe, ShufflerOfIndices
from torchlike.utils.data.datapipes.datapipe import IterDataPipe, MapDataPipe


def _pipes(pipe: Any, seen: set[int]) -> Iterator[Any]:
    """A pipe, and those that it holds."""
    if isinstance(pipe, list | tuple):
        for inner in pipe:
            yield from _pipes(inner, seen)
    elif isinstance(pipe, IterDataPipe | MapDataPipe) and id(pipe) not in seen:
        seen.add(id(pipe))
        yield pipe
        for inner in vars(pipe).values():
            yield from _pipes(inner, seen)


def _shufflers(pipe: Any) -> list:
    return [p for p in _pipes(pipe, set()) if isinstance(p, ShufflerIterDataPipe | ShufflerOfIndices)]


def apply_shuffle_settings(datapipe: Any, shuffle: bool | None = None) -> Any:
    """Switch the shuffling of a pipe on or off, of all pipes that it is made of; None leaves them.

    A pipe in which nothing shuffles gets a shuffler if ``shuffle`` is True, and a UserWarning says so.

    >>> from torchlike.utils.data.datapipes.iter import IterableWrapper
    >>> list(apply_shuffle_settings(IterableWrapper([1, 2]).shuffle(), shuffle=False))
    [1, 2]
    """
    if shuffle is None:
        return datapipe
    found = _shufflers(datapipe)
    if shuffle and not found:
        warnings.warn(
            "`shuffle=True` was set, but the datapipe does not contain a `Shuffler`. Adding one at the end, which a "
            "DataLoader does not read: call shuffle() on the pipe.",
            stacklevel=2,
        )
        datapipe = datapipe.shuffle()
        found = [datapipe]
    for pipe in found:
        pipe.set_shuffle(shuffle)
    return datapipe


def apply_random_seed(datapipe: Any, rng: Any) -> Any:
    """Give each shuffler that a pipe is made of a seed drawn from the Generator ``rng``."""
    for pipe in _shufflers(datapipe):
        pipe.set_seed(int(empty((), dtype=int64).random_(generator=rng).item()))
    return datapipe


def seed_shufflers(datapipe: Any, generator: Any) -> None:
    """Seed the shufflers for one pass of a loader, from one number of its generator, as PyTorch does."""
    seed = int(empty((), dtype=int64).random_(generator=generator).item())
    apply_random_seed(datapipe, Generator().manual_seed(seed))
