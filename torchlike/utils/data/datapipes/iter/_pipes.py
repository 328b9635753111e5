"""Pipes that are read from the first item to the last."""

from __future__ import annotations

import builtins
import copy
import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from torchlike.utils.data.datapipes.datapipe import DataChunk, IterDataPipe, functional_datapipe


class IterableWrapper(IterDataPipe):
    """The items of an iterable, of a copy of it made for each pass unless ``deepcopy`` is False."""

    def __init__(self, iterable: Iterable, deepcopy: bool = True) -> None:
        self.iterable, self.deepcopy = iterable, deepcopy

    def __iter__(self) -> Iterator:
        source = self.iterable
        if self.deepcopy:
            try:
                source = copy.deepcopy(source)
            except TypeError:  # a generator, an open file
                source = self.iterable
        yield from source

    def __len__(self) -> int:
        return len(self.iterable)  # type: ignore[arg-type]


def _demand_arguments(fn: Callable, columns: Any) -> None:
    """ValueError where ``fn`` cannot be called with as many arguments as there are columns."""
    try:
        parameters = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):  # of C
        return
    count = len(columns) if isinstance(columns, list | tuple) else 1
    places = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = sum(p.default is p.empty for p in places)
    any_more = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    name = getattr(fn, "__name__", repr(fn))
    if columns is not None and needed > count:
        raise ValueError(f"The function {name} takes {needed} positional parameters, but {count} are required.")
    if columns is not None and len(places) < count and not any_more:
        raise ValueError(f"The function {name} takes {len(places)} parameters, but {count} are required.")


def _called(fn: Callable, item: Any, columns: Any) -> Any:
    """``fn`` of an item, or of one or several columns of it."""
    if columns is None:
        return fn(item)
    return fn(*[item[c] for c in columns]) if isinstance(columns, list | tuple) else fn(item[columns])


@functional_datapipe("map")
class Mapper(IterDataPipe):
    """``fn`` of each item.

    Args:
        input_col: indices or keys of items: ``fn`` gets what stands there, and its result takes that place (the first
            of several, and the others go).
        output_col: where the result goes instead; -1 adds it at the end.

    Raises:
        ValueError: ``output_col`` without ``input_col``, or of several columns.
    """

    def __init__(self, datapipe: IterDataPipe, fn: Callable, input_col: Any = None, output_col: Any = None) -> None:
        if input_col is None and output_col is not None:
            raise ValueError("`output_col` must be None when `input_col` is None.")
        if isinstance(output_col, list | tuple):
            if len(output_col) != 1:
                raise ValueError("`output_col` must be a single-element list or tuple")
            output_col = output_col[0]
        _demand_arguments(fn, input_col)
        self.datapipe, self.fn, self.input_col, self.output_col = datapipe, fn, input_col, output_col

    def _apply(self, item: Any) -> Any:
        columns, result = self.input_col, _called(self.fn, item, self.input_col)
        if columns is None:
            return result
        whole = list(item) if isinstance(item, tuple) else item
        if self.output_col is not None:
            if self.output_col == -1:
                whole.append(result)
            else:
                whole[self.output_col] = result
        elif isinstance(columns, list | tuple):
            whole[columns[0]] = result
            for column in sorted(columns[1:], reverse=True):
                del whole[column]
        else:
            whole[columns] = result
        return tuple(whole) if isinstance(item, tuple) else whole

    def __iter__(self) -> Iterator:
        return builtins.map(self._apply, self.datapipe)

    def __len__(self) -> int:
        return len(self.datapipe)  # type: ignore[arg-type]


@functional_datapipe("filter")
class Filter(IterDataPipe):
    """The items for which ``filter_fn``, of them or of their columns ``input_col``, is True.

    Raises:
        ValueError: it gives something else than a bool.
    """

    def __init__(self, datapipe: IterDataPipe, filter_fn: Callable, input_col: Any = None) -> None:
        _demand_arguments(filter_fn, input_col)
        self.datapipe, self.filter_fn, self.input_col = datapipe, filter_fn, input_col

    def __iter__(self) -> Iterator:
        for item in self.datapipe:
            kept = _called(self.filter_fn, item, self.input_col)
            if not isinstance(kept, bool):
                raise ValueError(f"Boolean output is required for `filter_fn` of FilterIterDataPipe, got {type(kept)}")
            if kept:
                yield item


@functional_datapipe("batch")
class Batcher(IterDataPipe):
    """Lists of ``batch_size`` items; the last may be shorter, unless ``drop_last``."""

    def __init__(
        self, datapipe: IterDataPipe, batch_size: int, drop_last: bool = False, wrapper_class: type = DataChunk
    ) -> None:
        if batch_size <= 0:
            raise AssertionError("Batch size is required to be larger than 0!")
        self.datapipe, self.batch_size, self.drop_last, self.wrapper_class = (
            datapipe,
            batch_size,
            drop_last,
            wrapper_class,
        )

    def __iter__(self) -> Iterator:
        batch: list[Any] = []
        for item in self.datapipe:
            batch.append(item)
            if len(batch) == self.batch_size:
                yield self.wrapper_class(batch)
                batch = []
        if batch and not self.drop_last:
            yield self.wrapper_class(batch)


@functional_datapipe("concat")
class Concater(IterDataPipe):
    """The items of one pipe after those of another."""

    def __init__(self, *datapipes: IterDataPipe) -> None:
        self.datapipes = datapipes

    def __iter__(self) -> Iterator:
        for pipe in self.datapipes:
            yield from pipe


@functional_datapipe("zip")
class Zipper(IterDataPipe):
    """Tuples of the items of several pipes, up to the end of the shortest."""

    def __init__(self, *datapipes: IterDataPipe) -> None:
        self.datapipes = datapipes

    def __iter__(self) -> Iterator:
        return builtins.zip(*self.datapipes, strict=False)
