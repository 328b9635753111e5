"""DataLoader: batches of a dataset, fetched when they are asked for or ahead of that by worker processes."""

import functools
import itertools
import math
import multiprocessing
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

import torchlike.distributed as distributed
from torchlike._base.device import local_devices
from torchlike._base.frames import warn
from torchlike._base.rng import Generator
from torchlike._base.threads import cores
from torchlike.utils.data._utils.collate import default_collate, default_convert
from torchlike.utils.data._utils.fetch import DatasetKind as _DatasetKind
from torchlike.utils.data._utils.fetch import Fetcher
from torchlike.utils.data._utils.pool import Pool, context_of
from torchlike.utils.data._utils.worker import DATA, ERROR, Plan, get_worker_info
from torchlike.utils.data.datapipes.datapipe import IterDataPipe
from torchlike.utils.data.dataset import Dataset, IterableDataset
from torchlike.utils.data.graph_settings import (
    Again,
    apply_sharding,
    apply_shuffle_settings,
    pass_seed,
    seed_shufflers,
)
from torchlike.utils.data.sampler import BatchSampler, Order, RandomSampler, Sampler, SequentialSampler

__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]

T_co = TypeVar("T_co", covariant=True)
_collate_fn_t = Callable[[list], Any]
_worker_init_fn_t = Callable[[int], None]
_FROZEN = {"batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"}


class _InfiniteConstantSampler(Sampler):
    """What asks a stream for its next sample: None, without end."""

    def __iter__(self):
        return itertools.repeat(None)


class DataLoader(Generic[T_co]):
    """Batches of a dataset.

    Args:
        dataset: by index, or an IterableDataset.
        batch_size: samples per batch; None gives single samples.
        shuffle: take them in random order, anew each time.
        sampler, batch_sampler: what gives the indices, one by one or batch by batch, instead.
        num_workers: how many processes load ahead; 0 loads in the calling one.
        collate_fn: makes a batch of a list of samples; by default :func:`default_collate`.
        pin_memory, pin_memory_device: accepted, without effect; without an accelerator ``pin_memory`` warns.
        drop_last: leave out a last batch that is not full.
        timeout: seconds to wait for a worker before RuntimeError; 0 waits for ever.
        worker_init_fn: called in each worker with its number.
        multiprocessing_context: how processes are started: "fork", "spawn", "forkserver", or such a context; by
            default as Python's multiprocessing does. Forked ones see what is in memory and begin in the autocast and
            the grad mode of the calling thread; to the others everything is pickled. All of them compute on the CPU.
        generator: where the order comes from, by default what ``torch.manual_seed`` seeds.
        prefetch_factor: how many batches each worker loads ahead (2).
        persistent_workers: let the workers live, with their copies of the dataset, from one iteration to the next.
        in_order: give batches in the order of the sampler, rather than as they are ready.

    Raises:
        ValueError: options that exclude each other.
        RuntimeError, when iterated: a worker has ended, or did not answer within ``timeout``. What a worker's code
            raises is raised again with its traceback in the message.

    >>> import torchlike as torch
    >>> [batch.tolist() for batch in torch.utils.data.DataLoader(torch.arange(5), batch_size=2)]
    [[0, 1], [2, 3], [4]]
    """

    def __init__(
        self,
        dataset: Dataset[T_co],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Sampler | Iterable | None = None,
        batch_sampler: Sampler[list] | Iterable[list] | None = None,
        num_workers: int = 0,
        collate_fn: _collate_fn_t | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None,
        multiprocessing_context=None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers, multiprocessing_context)
        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = 2 if num_workers > 0 and prefetch_factor is None else prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.in_order = in_order
        if isinstance(dataset, IterDataPipe):
            apply_shuffle_settings(dataset, shuffle)  # an added shuffler is not read, as in PyTorch
            shuffle = None
        is_stream = isinstance(dataset, IterableDataset)
        self._dataset_kind = _DatasetKind.Iterable if is_stream else _DatasetKind.Map
        if is_stream:
            _check_stream(shuffle, sampler, batch_sampler)
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError(
                    "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last"
                )
            batch_size = None
        elif batch_size is None and drop_last:
            raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")
        if sampler is None:
            sampler = _default_sampler(dataset, is_stream, bool(shuffle), generator)
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.generator = generator
        batches = batch_sampler is not None
        self.collate_fn = collate_fn or (default_collate if batches else default_convert)
        self.persistent_workers = persistent_workers
        self._IterableDataset_len_called: int | None = None
        self._iterator: _MultiProcessingDataLoaderIter | None = None  # that with the workers that stay
        self._initialized = True

    def __setattr__(self, attr: str, val: Any) -> None:
        if attr in _FROZEN and "_initialized" in self.__dict__:
            raise ValueError(f"{attr} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(attr, val)

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        """What gives the index or indices of each item."""
        return self.batch_sampler if self._auto_collation else self.sampler

    def __iter__(self) -> "_BaseDataLoaderIter":
        if self.num_workers == 0 or not self.persistent_workers:
            return self._get_iterator()
        kept = self._iterator
        if kept is None or kept._pool.closed:
            self._iterator = kept = _MultiProcessingDataLoaderIter(self)
        else:
            kept._reset(self)
        return kept

    def _get_iterator(self) -> "_BaseDataLoaderIter":
        return (_MultiProcessingDataLoaderIter if self.num_workers else _SingleProcessDataLoaderIter)(self)

    def check_worker_number_rationality(self) -> None:
        """Warn about more workers than there are cores for."""
        _check_number(self.num_workers, 3)

    def __len__(self) -> int:
        if self._dataset_kind == _DatasetKind.Map:
            return len(self._index_sampler)
        length = self._IterableDataset_len_called = len(self.dataset)  # type: ignore[arg-type]
        if self.batch_size is None:
            return length
        return length // self.batch_size if self.drop_last else math.ceil(length / self.batch_size)


def _check_workers(num_workers, timeout, prefetch_factor, persistent_workers, context) -> None:
    if num_workers < 0:
        raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if num_workers == 0:
        if prefetch_factor is not None:
            raise ValueError(
                "prefetch_factor option could only be specified in multiprocessing.let num_workers > 0 to "
                "enable multiprocessing, otherwise set prefetch_factor to None."
            )
        if persistent_workers:
            raise ValueError("persistent_workers option needs num_workers > 0")
        if context is not None:
            raise ValueError(
                "multiprocessing_context can only be used with multi-process loading (num_workers > 0), "
                "but got num_workers=0"
            )
        return
    if prefetch_factor is not None and prefetch_factor < 0:
        raise ValueError("prefetch_factor option should be non-negative")
    _check_context(context)
    _check_number(num_workers, 4)


def _check_number(num_workers: int, stacklevel: int) -> None:
    """Warn about more workers than there are cores for."""
    if num_workers > cores():
        warnings.warn(
            f"This DataLoader will create {num_workers} worker processes in total. Our suggested max number of worker "
            f"in current system is {cores()}, which is smaller than what this DataLoader is going to create. Please be "
            "aware that excessive worker creation might get DataLoader running slow or even freeze, lower the worker "
            "number to avoid potential slowness/freeze if necessary.",
            stacklevel=stacklevel,
        )


def _check_context(context: Any) -> None:
    if isinstance(context, str):
        methods = multiprocessing.get_all_start_methods()
        if context not in methods:
            raise ValueError(
                f"multiprocessing_context option should specify a valid start method in {methods}, "
                f"but got multiprocessing_context={context!r}"
            )
    elif context is not None and not isinstance(context, multiprocessing.context.BaseContext):
        raise TypeError(
            "multiprocessing_context option should be a valid context object or a string specifying the start "
            f"method, but got multiprocessing_context={context}"
        )


def _check_stream(shuffle, sampler, batch_sampler) -> None:
    given = {"shuffle": shuffle or None, "sampler": sampler, "batch_sampler": batch_sampler}
    for name, value in given.items():
        if value is not None:
            raise ValueError(
                f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={value}"
            )


def _default_sampler(dataset: Any, is_stream: bool, shuffle: bool, generator: Generator | None) -> Sampler:
    if is_stream:
        return _InfiniteConstantSampler()
    return RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)


# -- iterating ----------------------------------------------------------------------------------------
class _BaseDataLoaderIter:
    """One iteration over a loader."""

    def __init__(self, loader: DataLoader) -> None:
        if loader.pin_memory and not any(map(local_devices, ("gpu", "tpu"))):
            warn("pin_memory=True, but there is no accelerator: memory is not pinned.")
        # The loader itself is not kept: it may keep this, and workers are to end when both are dropped.
        self._dataset = loader.dataset
        self._num_workers = loader.num_workers
        self._prefetch_factor = loader.prefetch_factor
        self._persistent_workers = loader.persistent_workers
        self._timeout = loader.timeout
        self._in_order = loader.in_order
        self._index_sampler = loader._index_sampler
        self._shared_seed: int | None = None
        self._pg = self._pin_memory_device = None
        _BaseDataLoaderIter._reset(self, loader)
        # What loaders that others derive from this read.
        self._dataset_kind, self._auto_collation = loader._dataset_kind, loader._auto_collation
        self._drop_last, self._collate_fn = loader.drop_last, loader.collate_fn
        self._pin_memory = loader.pin_memory and any(map(local_devices, ("gpu", "tpu")))
        self._world_size, self._rank = _place() if isinstance(self._dataset, IterDataPipe) else (1, 0)
        self._profile_name = f"enumerate(DataLoader)#{type(self).__name__}.__next__"
        self._base_seed = Order(loader.generator).seed()  # drawn without workers too, as in PyTorch

    def _reset(self, loader: DataLoader, first_iter: bool = False) -> None:
        """Start over."""
        self._sampler_iter = iter(self._index_sampler)
        self._num_yielded = 0
        self._IterableDataset_len_called = loader._IterableDataset_len_called
        if isinstance(self._dataset, IterDataPipe):
            self._shared_seed = seed_shufflers(self._dataset, loader.generator)

    def _next_index(self) -> Any:
        return next(self._sampler_iter)

    def _next_data(self) -> Any:
        raise NotImplementedError

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        data = self._next_data()
        self._num_yielded += 1
        if self._IterableDataset_len_called is not None and self._num_yielded > self._IterableDataset_len_called:
            workers = (
                "For multiprocessing data-loading, this is what comes of workers that each give the whole stream: let "
                "each give a part of it, by torch.utils.data.get_worker_info()."
            )
            warnings.warn(
                f"Length of IterableDataset {self._dataset} was reported to be {self._IterableDataset_len_called}"
                f"(when accessing len(dataloader)), but {self._num_yielded} samples have been fetched. "
                + (workers if self._num_workers > 0 else ""),
                stacklevel=2,
            )
        return data

    def __len__(self) -> int:
        return len(self._index_sampler)


def _place() -> tuple[int, int]:
    """How many processes share the data, and which of them this is."""
    alone = not (distributed.is_available() and distributed.is_initialized())
    return (1, 0) if alone else (distributed.get_world_size(), distributed.get_rank())


def _sharding_worker_init_fn(worker_init_fn: Callable | None, world_size: int, rank_id: int, worker_id: int) -> None:
    """What a worker does first with a pipe: it takes its part of the items."""
    info = get_worker_info()
    assert info is not None
    apply_sharding(info.dataset, info.num_workers * world_size, worker_id * world_size + rank_id)
    if worker_init_fn is not None:
        worker_init_fn(worker_id)


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    """Fetches when asked, in the calling thread."""

    def __init__(self, loader: DataLoader) -> None:
        super().__init__(loader)
        if loader.timeout != 0:
            raise AssertionError("timeout needs workers: set num_workers, or timeout=0")
        options = (loader._dataset_kind, loader._auto_collation, loader.collate_fn, loader.drop_last)
        if isinstance(loader.dataset, IterDataPipe):
            apply_sharding(loader.dataset, *_place())
        self._fetch = Fetcher(loader.dataset, *options)

    def _next_data(self) -> Any:
        return self._fetch(next(self._sampler_iter))


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """Has worker processes fetch ahead: they take turns, those whose streams have ended left out."""

    def __init__(self, loader: DataLoader) -> None:
        super().__init__(loader)
        if loader.prefetch_factor <= 0:
            raise AssertionError("prefetch_factor must be positive where there are workers")
        options = (loader.dataset, loader._dataset_kind, loader._auto_collation, loader.collate_fn, loader.drop_last)
        init = loader.worker_init_fn
        if isinstance(loader.dataset, IterDataPipe):
            init = functools.partial(_sharding_worker_init_fn, init, *_place())
            pass_seed(loader.generator)  # PyTorch draws one more, and leaves it
        plan = Plan(*options, init, self._base_seed, loader.num_workers)
        self._pool = Pool(context_of(loader.multiprocessing_context), plan)
        self._workers = self._pool.workers
        self._round = 0
        self._begin()

    def _shutdown_workers(self) -> None:
        """End the workers, as happens when this is dropped."""
        self._pool.close()

    def _reset(self, loader: DataLoader, first_iter: bool = False) -> None:
        """Start over with the workers that there are."""
        super()._reset(loader, first_iter)
        self._round += 1
        self._begin(Again(self._shared_seed))

    def _begin(self, again: Again | None = None) -> None:
        numbers = range(len(self._workers))
        self._fresh = {} if again is None else dict.fromkeys(numbers, again)  # those that have yet to start over
        self._turns = itertools.cycle(numbers)
        self._ended: set[int] = set()
        self._asked: dict[int, int] = {}  # the tasks that are out, in order: the worker of each
        self._answers: dict[int, tuple[str, Any]] = {}
        self._count = 0
        for _ in range(self._prefetch_factor * len(self._workers)):
            self._ask()

    def _ask(self) -> None:
        """Give the next indices, if there are any, to the next worker, if one is left."""
        if len(self._ended) == len(self._workers):
            return
        try:
            indices = next(self._sampler_iter)
        except StopIteration:
            return
        worker = self._next_worker()
        self._asked[self._count] = worker
        self._pool.ask(worker, ((self._round, self._count), indices, self._fresh.pop(worker, None)))
        self._count += 1

    def _next_worker(self) -> int:
        if self._in_order:
            return next(w for w in self._turns if w not in self._ended)
        busy = list(self._asked.values())
        return min((w for w in range(len(self._workers)) if w not in self._ended), key=busy.count)

    def _next_data(self) -> Any:
        while self._asked:
            number = self._take()
            worker = self._asked.pop(number)
            kind, data = self._answers.pop(number)
            if kind == DATA:
                self._ask()
                return data
            if kind == ERROR:
                self._ask()
                data.reraise()
            if worker not in self._ended:
                self._ended.add(worker)
                self._ask()
        if not self._persistent_workers:
            self._pool.close()
        raise StopIteration

    def _take(self) -> int:
        """The number of the first task, once it is answered; of any that is answered where order does not matter."""
        timeout = self._timeout
        while True:
            first = next(iter(self._asked if self._in_order else self._answers), None)
            if first in self._answers:
                return first
            found = self._pool.answers(set(self._asked.values()), timeout if timeout > 0 else None)
            if not found:
                raise RuntimeError(f"DataLoader timed out after {timeout} seconds")
            for (round_, number), *answer in found:
                if round_ == self._round:
                    self._answers[number] = answer
