"""Pipes that call a function with each item."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from torchlike.utils.data._utils.collate import default_collate
from torchlike.utils.data.datapipes.datapipe import IterDataPipe, functional_datapipe, length
from torchlike.utils.data.datapipes.utils.common import _check_unpickable_fn, validate_input_col


def called(fn: Callable, item: Any, columns: Any) -> Any:
    """``fn`` of an item, or of one or several columns of it."""
    if columns is None:
        return fn(item)
    return fn(*[item[c] for c in columns]) if isinstance(columns, list | tuple) else fn(item[columns])


@functional_datapipe("map")
class MapperIterDataPipe(IterDataPipe):
    """``fn`` of each item.

    Args:
        input_col: indices or keys of items: ``fn`` gets what stands there, and its result takes that place (the first
            of several, and the others go).
        output_col: where the result goes instead; -1 adds it at the end.

    Raises:
        ValueError: ``output_col`` without ``input_col``, or of several columns.
    """

    def __init__(self, datapipe: IterDataPipe, fn: Callable, input_col: Any = None, output_col: Any = None) -> None:
        _check_unpickable_fn(fn)
        if input_col is None and output_col is not None:
            raise ValueError("`output_col` must be None when `input_col` is None.")
        if isinstance(output_col, list | tuple):
            if len(output_col) != 1:
                raise ValueError("`output_col` must be a single-element list or tuple")
            output_col = output_col[0]
        validate_input_col(fn, input_col)
        self.datapipe, self.fn, self.input_col, self.output_col = datapipe, fn, input_col, output_col

    def _apply_fn(self, data: Any) -> Any:
        columns, result = self.input_col, called(self.fn, data, self.input_col)
        if columns is None:
            return result
        whole = list(data) if isinstance(data, tuple) else data
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
        return tuple(whole) if isinstance(data, tuple) else whole

    def __iter__(self) -> Iterator:
        for item in self.datapipe:
            yield self._apply_fn(item)

    def __len__(self) -> int:
        return length(self, self.datapipe)[0]


@functional_datapipe("collate")
class CollatorIterDataPipe(MapperIterDataPipe):
    """``collate_fn`` of each batch."""

    def __init__(self, datapipe: IterDataPipe, conversion: Callable = default_collate, collate_fn: Any = None) -> None:
        super().__init__(datapipe, conversion if collate_fn is None else collate_fn)
