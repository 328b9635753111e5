"""The items of what is no pipe."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable, Iterator

from torchlike.utils.data.datapipes.datapipe import IterDataPipe, length


class IterableWrapperIterDataPipe(IterDataPipe):
    """The items of an iterable, of a copy of it made for each pass unless ``deepcopy`` is False.

    A UserWarning tells of what cannot be copied, and is read itself.
    """

    def __init__(self, iterable: Iterable, deepcopy: bool = True) -> None:
        self.iterable, self.deepcopy = iterable, deepcopy

    def __iter__(self) -> Iterator:
        source = self.iterable
        if self.deepcopy:
            try:
                source = copy.deepcopy(source)
            except TypeError:
                warnings.warn(
                    "The input iterable can not be deepcopied, please be aware of in-place modification would affect "
                    "source data.",
                    stacklevel=2,
                )
        yield from source

    def __len__(self) -> int:
        return length(self, self.iterable)[0]
