"""Samplers: the order in which a loader asks for samples."""

import itertools
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, TypeVar

import numpy as np

from torchlike._base.dtypes import float64
from torchlike._base.rng import Generator, default_generator
from torchlike._core.conversion.factories import as_tensor

__all__ = [
    "BatchSampler",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "SubsetRandomSampler",
    "WeightedRandomSampler",
]

T_co = TypeVar("T_co", covariant=True)


def host_rng(generator: Generator | None) -> np.random.Generator:
    """A numpy generator seeded by one draw: orders are made on the host, where nothing is compiled per length."""
    if generator is None:
        generator = default_generator
    if not isinstance(generator, Generator):
        raise TypeError(f"argument 'generator' must be torch.Generator, not {type(generator).__name__}")
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(generator.draw().tolist())))


def _positive(name: str, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise ValueError(f"{name} should be a positive integer value, but got {name}={value}")


class Sampler(Generic[T_co]):
    """Base class of samplers. A subclass defines ``__iter__``, over indices, and may define ``__len__``."""

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError(f"{type(self).__name__} does not define __iter__")


class SequentialSampler(Sampler[int]):
    """The indices in order."""

    data_source: Sized

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """The indices in random order.

    Args:
        replacement: draw each index independently.
        num_samples: how many to draw; by default as many as there are. Without replacement a larger
            number starts a new permutation after each.
        generator: where the order comes from, by default what ``torch.manual_seed`` seeds.
    """

    data_source: Sized
    replacement: bool

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not isinstance(replacement, bool):
            raise TypeError(f"replacement should be a boolean value, but got replacement={replacement}")
        _positive("num_samples", self.num_samples)

    @property
    def num_samples(self) -> int:
        """How many indices an iteration gives."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        n, left = len(self.data_source), self.num_samples
        rng = host_rng(self.generator)
        if self.replacement:
            yield from rng.integers(n, size=left).tolist()
            return
        if n == 0:
            raise ZeroDivisionError("integer division or modulo by zero: RandomSampler has no sample to draw")
        while left > 0:
            yield from rng.permutation(n)[:left].tolist()
            left -= n

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """The given indices in random order."""

    indices: Sequence[int]

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for i in host_rng(self.generator).permutation(len(self.indices)).tolist():
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Indices drawn with probabilities in proportion to ``weights``.

    Raises:
        ValueError: ``num_samples`` is no positive int, or the weights are no sequence of numbers.
        RuntimeError, when iterated: weights that are negative, not finite or all zero, or more
            samples without replacement than weights.

    >>> import torchlike as torch
    >>> list(torch.utils.data.WeightedRandomSampler([0.0, 1.0, 0.0], 3))
    [1, 1, 1]
    """

    num_samples: int
    replacement: bool

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: Generator | None = None,
    ) -> None:
        _positive("num_samples", num_samples)
        if not isinstance(replacement, bool):
            raise ValueError(f"replacement should be a boolean value, but got replacement={replacement}")
        self.weights = as_tensor(weights, dtype=float64)
        if self.weights.ndim != 1:
            shape = tuple(self.weights.shape)
            raise ValueError(f"weights should be a 1d sequence but given weights have shape {shape}")
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        return iter(_weighted(self.weights.numpy(), self.num_samples, self.replacement, host_rng(self.generator)))

    def __len__(self) -> int:
        return self.num_samples


def _weighted(weights: np.ndarray, n: int, replacement: bool, rng: np.random.Generator) -> list[int]:
    bad = "invalid multinomial distribution"
    if np.any(weights < 0):
        raise RuntimeError(f"{bad} (encountering probability entry < 0)")
    if not np.all(np.isfinite(weights)):
        raise RuntimeError(f"{bad} (encountering probability entry = infinity or NaN)")
    if not np.sum(weights) > 0:
        raise RuntimeError(f"{bad} (sum of probabilities <= 0)")
    if replacement:
        ends = np.cumsum(weights)
        return np.searchsorted(ends, rng.random(n) * ends[-1], side="right").tolist()
    if n > len(weights):
        raise RuntimeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
    with np.errstate(divide="ignore"):  # the first of exponential clocks with these rates: 1 / 0 never rings
        return np.argsort(rng.exponential(size=len(weights)) / weights)[:n].tolist()


class BatchSampler(Sampler[list[int]]):
    """Lists of ``batch_size`` indices of another sampler; the last one is shorter, or dropped.

    >>> import torchlike as torch
    >>> list(torch.utils.data.BatchSampler(range(5), batch_size=2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    sampler: Sampler[int] | Iterable[int]
    batch_size: int
    drop_last: bool

    def __init__(self, sampler: Sampler[int] | Iterable[int], batch_size: int, drop_last: bool) -> None:
        _positive("batch_size", batch_size)
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        while batch := list(itertools.islice(indices, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        whole, rest = divmod(len(self.sampler), self.batch_size)  # type: ignore[arg-type]
        return whole + (rest > 0 and not self.drop_last)
