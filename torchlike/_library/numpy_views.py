"""numpy arrays that stand for tensors which a kernel changes.

While a kernel runs that is declared to change x, ``x.numpy()`` is a copy, and what the kernel writes into it is carried
over to x at its end: as one change, which is counted once.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from torchlike._core.conversion import convert
from torchlike._core.conversion.convert import copied_array
from torchlike._core.tensor.mutation import write, write_silently
from torchlike._core.tensor.tensor import Tensor, value_of


@contextmanager
def as_numpy(targets: list[Tensor], counted: bool = True) -> Iterator[None]:
    """Carry over to ``targets`` what is written into their arrays; ``counted``: someone else counts the change."""
    given: list[tuple[Tensor, np.ndarray, np.ndarray]] = []
    storages = {id(t._storage) for t in targets}

    def note(t: Tensor, array: np.ndarray) -> None:
        if id(t._storage) in storages:
            given.append((t, array, array.copy()))

    before, convert.LENDING.note = convert.LENDING.note, note
    try:
        yield
    finally:
        convert.LENDING.note = before
    for t, array, original in given:
        if array.tobytes() != original.tobytes():
            (write_silently if counted else write)(t, value_of(copied_array(array)))
