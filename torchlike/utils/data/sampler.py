"""Samplers: the order in which a loader asks for samples."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, TypeVar

import numpy as np

from torchlike._base.dtypes import float64
from torchlike._base.mersenne import Mersenne
from torchlike._base.rng import Generator, default_generator
from torchlike._core.conversion.factories import as_tensor
from torchlike._functions import samples

__all__ = [
    "BatchSampler",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "SubsetRandomSampler",
    "WeightedRandomSampler",
]

T_co = TypeVar("T_co", covariant=True)
_BLOCK = 32  # indices that are drawn at a time, with replacement


class Order:
    """Random integers for the order of samples, made on the host: PyTorch's, or of the generator's counter."""

    def __init__(self, generator: Generator | None) -> None:
        found = default_generator if generator is None else generator
        if not isinstance(found, Generator):
            raise TypeError(f"argument 'generator' must be torch.Generator, not {type(generator).__name__}")
        self.generator = found
        self.torch = found.stream == "torch"
        self._numpy: Any = None

    @property
    def numpy(self) -> np.random.Generator:
        """A numpy generator seeded by one draw of the counter."""
        if self._numpy is None:
            words = self.generator.draw().tolist()
            self._numpy = np.random.Generator(np.random.Philox(np.random.SeedSequence(words)))
        return self._numpy

    def permutation(self, n: int) -> np.ndarray:
        """0..n-1 in random order."""
        return self._drawn(lambda e: samples.permutation(e, n), lambda g: g.permutation(n))

    def integers(self, n: int, size: int) -> np.ndarray:
        """``size`` integers below ``n``."""
        return self._drawn(lambda e: samples.integers(e, size, 0, n), lambda g: g.integers(n, size=size))

    def seed(self) -> int:
        """A seed of 63 bits."""
        seeds = self._drawn(lambda e: samples.any_integers(e, 1, 2**63, True), lambda g: g.integers(2**63 - 1, size=1))
        return int(seeds[0])

    def weighted(self, weights: np.ndarray, n: int) -> np.ndarray:
        """``n`` indices with replacement, with probabilities in proportion to ``weights``."""

        def by_numpy(g: np.random.Generator) -> np.ndarray:
            ends = np.cumsum(weights)
            return np.searchsorted(ends, g.random(n) * ends[-1], side="right")

        def by_torch(e: Mersenne) -> np.ndarray:
            return samples.weighted(e, weights, n) if n > 1 else self._race(samples.exponential(e, *kind), weights, n)

        kind = len(weights), np.dtype(np.float64)
        return self._drawn(by_torch, by_numpy)

    def distinct(self, weights: np.ndarray, n: int) -> np.ndarray:
        """``n`` indices without replacement: the first of exponential clocks with these rates."""
        clocks = self._drawn(
            lambda e: samples.exponential(e, len(weights), np.dtype(np.float64)),
            lambda g: g.exponential(size=len(weights)),
        )
        return self._race(clocks, weights, n)

    def _race(self, clocks: np.ndarray, weights: np.ndarray, n: int) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.argsort(-(weights / clocks), kind="stable")[:n]

    def _drawn(self, by_torch: Callable[[Mersenne], np.ndarray], by_numpy: Callable[..., np.ndarray]) -> np.ndarray:
        if not self.torch:
            return by_numpy(self.numpy)
        with self.generator._lock:
            return by_torch(self.generator.engine)


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
        order = Order(self.generator)
        if self.generator is None:
            order = Order(Generator().manual_seed(order.seed()))
        if self.replacement:
            for _ in range(left // _BLOCK):
                yield from order.integers(n, _BLOCK).tolist()
            yield from order.integers(n, left % _BLOCK).tolist()
            return
        if n == 0:
            raise ZeroDivisionError("integer division or modulo by zero: RandomSampler has no sample to draw")
        for _ in range(left // n):
            yield from order.permutation(n).tolist()
        yield from order.permutation(n)[: left % n].tolist()

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """The given indices in random order."""

    indices: Sequence[int]

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for i in Order(self.generator).permutation(len(self.indices)).tolist():
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
        yield from _weighted(self.weights.numpy(), self.num_samples, self.replacement, Order(self.generator))

    def __len__(self) -> int:
        return self.num_samples


def _weighted(weights: np.ndarray, n: int, replacement: bool, order: Order) -> list[int]:
    bad = "invalid multinomial distribution"
    if np.any(weights < 0):
        raise RuntimeError(f"{bad} (encountering probability entry < 0)")
    if not np.all(np.isfinite(weights)):
        raise RuntimeError(f"{bad} (encountering probability entry = infinity or NaN)")
    if not np.sum(weights) > 0:
        raise RuntimeError(f"{bad} (sum of probabilities <= 0)")
    if replacement:
        return order.weighted(weights, n).tolist()
    if n > len(weights):
        raise RuntimeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
    return order.distinct(weights, n).tolist()


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
