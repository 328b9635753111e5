"""Some of the items."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from torchlike.utils.data.datapipes.datapipe import IterDataPipe, functional_datapipe
from torchlike.utils.data.datapipes.iter.callable import called
from torchlike.utils.data.datapipes.utils.common import _check_unpickable_fn, validate_input_col


@functional_datapipe("filter")
class FilterIterDataPipe(IterDataPipe):
    """The items for which ``filter_fn``, of them or of their columns ``input_col``, is True.

    Raises:
        ValueError: it gives something else than a bool.
    """

    def __init__(self, datapipe: IterDataPipe, filter_fn: Callable, input_col: Any = None) -> None:
        _check_unpickable_fn(filter_fn)
        validate_input_col(filter_fn, input_col)
        self.datapipe, self.filter_fn, self.input_col = datapipe, filter_fn, input_col

    def __iter__(self) -> Iterator:
        for item in self.datapipe:
            kept = called(self.filter_fn, item, self.input_col)
            if not isinstance(kept, bool):
                raise ValueError(f"Boolean output is required for `filter_fn` of FilterIterDataPipe, got {type(kept)}")
            if kept:
                yield item
