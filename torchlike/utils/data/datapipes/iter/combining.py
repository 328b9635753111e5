"""Pipes that are made of several, and pipes that share another."""

from __future__ import annotations

import copy as copies
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from torchlike.utils.data.datapipes._hook_iterator import told
from torchlike.utils.data.datapipes.datapipe import IterDataPipe, functional_datapipe, length
from torchlike.utils.data.datapipes.utils.common import _check_unpickable_fn


@functional_datapipe("concat")
class ConcaterIterDataPipe(IterDataPipe):
    """The items of one pipe after those of another. TypeError for what is no pipe, ValueError for none."""

    def __init__(self, *datapipes: IterDataPipe) -> None:
        if not datapipes:
            raise ValueError("Expected at least one DataPipe, but got nothing")
        if not all(isinstance(pipe, IterDataPipe) for pipe in datapipes):
            raise TypeError("Expected all inputs to be `IterDataPipe`")
        self.datapipes = datapipes

    def __iter__(self) -> Iterator:
        for pipe in self.datapipes:
            yield from pipe

    def __len__(self) -> int:
        return sum(length(self, *self.datapipes))


@functional_datapipe("zip")
class ZipperIterDataPipe(IterDataPipe):
    """Tuples of the items of several pipes, up to the end of the shortest. TypeError for what is no pipe."""

    def __init__(self, *datapipes: IterDataPipe) -> None:
        if not all(isinstance(pipe, IterDataPipe) for pipe in datapipes):
            raise TypeError("All inputs are required to be `IterDataPipe` for `ZipIterDataPipe`.")
        self.datapipes = datapipes

    def __iter__(self) -> Iterator:
        yield from zip(*self.datapipes, strict=False)

    def __len__(self) -> int:
        return min(length(self, *self.datapipes))


@functional_datapipe("mux")
class MultiplexerIterDataPipe(IterDataPipe):
    """One item of each pipe in turn, until the shortest ends."""

    def __init__(self, *datapipes: IterDataPipe) -> None:
        self.datapipes = datapipes

    def __iter__(self) -> Iterator:
        for items in zip(*self.datapipes, strict=False):
            yield from items

    def __len__(self) -> int:
        return min(length(self, *self.datapipes)) * len(self.datapipes)


# ----- several pipes that read one -----


class _SharedIterDataPipe(IterDataPipe):
    """A pipe that is read once for several others.

    A second pass of one of them begins anew for all, and ends those of the others.
    """

    _name = ""

    def __init__(self, datapipe: Any, num_instances: int, buffer_size: int) -> None:
        self.main_datapipe, self.num_instances, self.buffer_size = datapipe, num_instances, buffer_size
        self._valid_iterator_id = 0
        self.reset()
        if buffer_size < 0:
            warnings.warn(
                f"Unlimited buffer size is set for `{self._name}`, please be aware of OOM at random places",
                stacklevel=4,
            )

    def reset(self) -> None:
        """Begin anew."""
        self._source: Iterator | None = None
        self._waiting: list[deque] = [deque() for _ in range(self.num_instances)]
        self._ended = [False] * self.num_instances

    def _state(self) -> dict:
        return {k: v for k, v in super()._state().items() if k not in ("_source", "_waiting", "_ended")}

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state)
        self.reset()

    def _targets(self, item: Any) -> Any:
        raise NotImplementedError

    def _exhausted(self) -> bool:
        """Whether no item is left to anyone."""
        return all(self._ended)

    def _length(self) -> int:
        return len(self.main_datapipe)

    def _passed(self, item: Any) -> Any:
        return item

    def items(self, number: int) -> Iterator:
        """The items for one of the pipes."""
        if self._source is None:
            self._source = iter(self.main_datapipe)
        waiting, source = self._waiting, self._source
        while True:
            while not waiting[number]:
                try:
                    item = next(source)
                except StopIteration:
                    self._ended[number] = True
                    return
                for target in self._targets(item):
                    waiting[target].append(item)
                if 0 <= self.buffer_size < max(len(w) - (i == number) for i, w in enumerate(waiting)):
                    raise BufferError(
                        f"{type(self).__name__[1:]} buffer overflow, buffer size {self.buffer_size} is insufficient: "
                        "one pipe is read far ahead of another"
                    )
            yield self._passed(waiting[number].popleft())


class _ChildDataPipe(IterDataPipe):
    """One of the pipes that share the items of another."""

    def __init__(self, main_datapipe: _SharedIterDataPipe, instance_id: int) -> None:
        self.main_datapipe, self.instance_id = main_datapipe, instance_id
        self._valid_iterator_id = -1

    def __iter__(self) -> Iterator:
        return self.main_datapipe.items(self.instance_id)

    def __len__(self) -> int:
        return self.main_datapipe._length()

    def _begin(self) -> int:
        main = self.main_datapipe
        if self._valid_iterator_id == main._valid_iterator_id:
            if not main._exhausted():
                warnings.warn(
                    "Some child DataPipes are not exhausted when __iter__ is called. We are resetting the buffer and "
                    "each child DataPipe will read from the start again.",
                    stacklevel=1,
                )
            main._valid_iterator_id += 1
            main.reset()
        self._valid_iterator_id, self._number_of_samples_yielded = main._valid_iterator_id, 0
        return self._valid_iterator_id

    def _demand_valid(self, number: int) -> None:
        if self.main_datapipe._valid_iterator_id != number:
            raise RuntimeError(
                "This iterator has been invalidated, because a new iterator has been created from one of the "
                f"ChildDataPipes of {told(self.main_datapipe)}."
            )


class _ForkerIterDataPipe(_SharedIterDataPipe):
    """All items for each pipe."""

    _name = "fork"

    def __init__(self, datapipe: Any, num_instances: int, buffer_size: int, copy: str | None) -> None:
        if copy not in (None, "shallow", "deep"):
            raise ValueError(f"Unknown copy method `{copy}` requested, choose one of None, `shallow` or `deep`.")
        self.copy = copy
        super().__init__(datapipe, num_instances, buffer_size)

    def _targets(self, item: Any) -> range:
        return range(self.num_instances)

    def _passed(self, item: Any) -> Any:
        return item if self.copy is None else copies.copy(item) if self.copy == "shallow" else copies.deepcopy(item)


class _DemultiplexerIterDataPipe(_SharedIterDataPipe):
    """Each item for one of the pipes."""

    _name = "demux"

    def __init__(
        self, datapipe: Any, num_instances: int, classifier_fn: Callable, drop_none: bool, buffer_size: int
    ) -> None:
        self.classifier_fn, self.drop_none = classifier_fn, drop_none
        super().__init__(datapipe, num_instances, buffer_size)

    def _targets(self, item: Any) -> tuple:
        number = self.classifier_fn(item)
        if number is None and self.drop_none:
            return ()
        if number is None or not 0 <= number < self.num_instances:
            raise ValueError(
                f"Output of the classification fn should be between 0 and {self.num_instances - 1}. "
                f"{number} is returned."
            )
        return (number,)

    def _exhausted(self) -> bool:
        return any(self._ended) and not any(self._waiting)

    def _length(self) -> int:
        raise TypeError("demux: how many items a pipe gets is not known before they are read")


def _demand_several(num_instances: int) -> None:
    if num_instances < 1:
        raise ValueError(f"Expected `num_instances` larger than 0, but {num_instances} is found")


@functional_datapipe("fork")
class ForkerIterDataPipe(IterDataPipe):
    """``num_instances`` pipes with all the items; the pipe itself if that is 1.

    Args:
        buffer_size: how far one may be read ahead of another (BufferError beyond it); -1: any.
        copy: whether each gets the item itself (None), ``"shallow"`` or ``"deep"`` copies.
    """

    def __new__(cls, datapipe: IterDataPipe, num_instances: int, buffer_size: int = 1000, copy: Any = None) -> Any:
        _demand_several(num_instances)
        if num_instances == 1:
            return datapipe
        shared = _ForkerIterDataPipe(datapipe, num_instances, buffer_size, copy)
        return [_ChildDataPipe(shared, i) for i in range(num_instances)]


@functional_datapipe("demux")
class DemultiplexerIterDataPipe(IterDataPipe):
    """``num_instances`` pipes, each with the items for which ``classifier_fn`` gives its number.

    ValueError for other numbers, and for None unless ``drop_none``; BufferError where too many items wait.
    """

    def __new__(
        cls,
        datapipe: IterDataPipe,
        num_instances: int,
        classifier_fn: Callable[[Any], int | None],
        drop_none: bool = False,
        buffer_size: int = 1000,
    ) -> Any:
        _demand_several(num_instances)
        _check_unpickable_fn(classifier_fn)
        shared = _DemultiplexerIterDataPipe(datapipe, num_instances, classifier_fn, drop_none, buffer_size)
        return [_ChildDataPipe(shared, i) for i in range(num_instances)]
