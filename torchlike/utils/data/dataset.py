"""Datasets: samples by index, or samples in a stream."""

import bisect
import itertools
import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from torchlike._base.rng import Generator
from torchlike._core.conversion.factories import as_tensor
from torchlike._core.tensor.tensor import Tensor
from torchlike.utils.data._utils.collate import is_host_data
from torchlike.utils.data.sampler import Order

__all__ = [
    "ChainDataset",
    "ConcatDataset",
    "Dataset",
    "IterableDataset",
    "StackDataset",
    "Subset",
    "TensorDataset",
    "random_split",
]

T_co = TypeVar("T_co", covariant=True)


class Dataset(Generic[T_co]):
    """Samples by index. A subclass defines ``__getitem__`` and, for most samplers, ``__len__``.

    It may define ``__getitems__(indices)``, which gives the list of samples of a batch at once.
    """

    def __getitem__(self, index) -> T_co:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: "Dataset[T_co]") -> "ConcatDataset[T_co]":
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T_co], ABC):
    """Samples in a stream. A subclass defines ``__iter__``.

    With several workers each iterates over a copy of its own: ``get_worker_info()`` tells it which
    part of the stream to give.
    """

    @abstractmethod
    def __iter__(self) -> Iterator[T_co]: ...

    def __add__(self, other: Dataset[T_co]):
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Samples along the first dimension of tensors of one length.

    >>> import torchlike as torch
    >>> torch.utils.data.TensorDataset(torch.arange(4), torch.ones(4, 2))[1]
    (tensor(1), tensor([1., 1.]))
    """

    tensors: tuple[Tensor, ...]

    def __init__(self, *tensors: Tensor) -> None:
        if any(t.size(0) != tensors[0].size(0) for t in tensors):
            raise AssertionError("Size mismatch between tensors")
        self.tensors = tensors

    def __getitem__(self, index):
        return tuple(t[index] for t in self.tensors)

    def __len__(self) -> int:
        return self.tensors[0].size(0)


class StackDataset(Dataset[Any]):
    """Samples of several datasets side by side: a tuple of theirs, or a dict where they are given by keyword.

    Raises:
        ValueError: no dataset, both kinds, or datasets of unequal length.
    """

    datasets: tuple | dict

    def __init__(self, *args: Dataset, **kwargs: Dataset) -> None:
        if args and kwargs:
            raise ValueError(
                "Supported either ``tuple``- (via ``args``) or``dict``- (via ``kwargs``) like input/output, "
                "but both types are given."
            )
        if not args and not kwargs:
            raise ValueError("At least one dataset should be passed")
        self.datasets = kwargs or args
        members = self._members()
        self._length = len(members[0])
        if any(len(dataset) != self._length for dataset in members):
            raise ValueError("Size mismatch between datasets")

    def _members(self) -> list[Any]:
        return list(self.datasets.values() if isinstance(self.datasets, dict) else self.datasets)

    def _joined(self, samples: Sequence[Any]) -> Any:
        return dict(zip(self.datasets, samples, strict=True)) if isinstance(self.datasets, dict) else tuple(samples)

    def __getitem__(self, index):
        return self._joined([dataset[index] for dataset in self._members()])

    def __getitems__(self, indices: list) -> list[Any]:
        columns = []
        for dataset in self._members():
            columns.append(_items(dataset, indices))
            if len(columns[-1]) != len(indices):
                raise ValueError(
                    f"Nested dataset's output size mismatch. Expected {len(indices)}, got {len(columns[-1])}"
                )
        return [self._joined(samples) for samples in zip(*columns, strict=True)]

    def __len__(self) -> int:
        return self._length


def _items(dataset: Any, indices: Sequence[Any]) -> Sequence[Any]:
    if callable(getattr(dataset, "__getitems__", None)):
        return dataset.__getitems__(indices)
    return [dataset[index] for index in indices]


class ConcatDataset(Dataset[T_co]):
    """The samples of several datasets, one after the other.

    Attributes:
        datasets: the list of them. cumulative_sizes: where each of them ends.
    """

    datasets: list[Dataset[T_co]]
    cumulative_sizes: list[int]

    @staticmethod
    def cumsum(sequence: Iterable) -> list[int]:
        """The running sums of the lengths of ``sequence``."""
        return list(itertools.accumulate(len(dataset) for dataset in sequence))

    def __init__(self, datasets: Iterable[Dataset]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(dataset, IterableDataset) for dataset in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = self.cumsum(self.datasets)

    @property
    def cummulative_sizes(self) -> list[int]:
        """The former name of ``cumulative_sizes``."""
        warnings.warn("cummulative_sizes attribute is renamed to cumulative_sizes", DeprecationWarning, stacklevel=2)
        return self.cumulative_sizes

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, idx: int):
        if idx < 0:
            if -idx > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            idx += len(self)
        which = bisect.bisect_right(self.cumulative_sizes, idx)
        if which == len(self.datasets):
            raise IndexError(f"list index out of range: {idx} in a ConcatDataset of length {len(self)}")
        return self.datasets[which][idx - (self.cumulative_sizes[which - 1] if which else 0)]


class ChainDataset(IterableDataset):
    """The samples of several iterable datasets, one after the other."""

    def __init__(self, datasets: Iterable[Dataset]) -> None:
        self.datasets = datasets

    def __iter__(self):
        for dataset in self.datasets:
            _check_iterable(dataset)
            yield from dataset

    def __len__(self) -> int:
        total = 0
        for dataset in self.datasets:
            _check_iterable(dataset)
            total += len(dataset)  # type: ignore[arg-type]
        return total


def _check_iterable(dataset: Any) -> None:
    if not isinstance(dataset, IterableDataset):
        raise AssertionError("ChainDataset only supports IterableDataset")


class Subset(Dataset[T_co]):
    """The samples of ``dataset`` at ``indices``."""

    dataset: Dataset[T_co]
    indices: Sequence[int]

    def __init__(self, dataset: Dataset[T_co], indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, idx):
        if isinstance(idx, list):
            return self.dataset[[self.indices[i] for i in idx]]
        return self.dataset[self.indices[idx]]

    def __getitems__(self, indices: list[int]) -> Sequence[T_co]:
        return _items(self.dataset, [self.indices[i] for i in indices])

    def __len__(self) -> int:
        return len(self.indices)


def random_split(dataset: Dataset, lengths: Sequence[int | float], generator: Generator | None = None) -> list[Subset]:
    """Split a dataset at random into subsets that do not overlap.

    Args:
        lengths: the sizes, or fractions that sum to 1; what rounding leaves goes to the first ones.
        generator: where the permutation comes from.

    Raises:
        ValueError: the sizes do not sum to the length of the dataset, or a fraction is not in [0, 1].

    >>> import torchlike as torch
    >>> [len(part) for part in torch.utils.data.random_split(range(10), [0.7, 0.3])]
    [7, 3]
    """
    total = len(dataset)  # type: ignore[arg-type]
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        lengths = _sizes(lengths, total)
    if sum(lengths) != total:
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    indices = Order(generator).permutation(total).tolist()
    ends = itertools.accumulate(lengths)
    return [Subset(dataset, indices[end - n : end]) for end, n in zip(ends, lengths, strict=True)]


def _sizes(fractions: Sequence[float], total: int) -> list[int]:
    for i, fraction in enumerate(fractions):
        if fraction < 0 or fraction > 1:
            raise ValueError(f"Fraction at index {i} is not between 0 and 1")
    sizes = [math.floor(total * fraction) for fraction in fractions]
    for i in range(total - sum(sizes)):
        sizes[i % len(sizes)] += 1
    for i, size in enumerate(sizes):
        if size == 0:
            message = f"Length of split at index {i} is 0. This might result in an empty dataset."
            warnings.warn(message, stacklevel=3)
    return sizes


def gathered(dataset: Any, indices: Sequence[int]) -> list[Tensor] | None:
    """The collated batch at ``indices`` of a (subset of a) TensorDataset by one read per tensor, else None."""
    while type(dataset) is Subset:
        indices = [dataset.indices[i] for i in indices]
        dataset = dataset.dataset
    if type(dataset) is not TensorDataset or not all(type(t) is Tensor for t in dataset.tensors):
        return None
    where = np.asarray(indices)
    if where.ndim != 1 or where.dtype.kind not in "iu":
        return None
    return [_rows(t, where) for t in dataset.tensors]


def _rows(t: Tensor, where: np.ndarray) -> Tensor:
    return as_tensor(t._host()[where]) if is_host_data(t) else t[as_tensor(where)]
