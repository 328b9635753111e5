"""numpy arrays that stand for tensors which a kernel changes.

PyTorch's ``x.numpy()`` shares the memory of x; a jax array never changes, so ours is a copy. While a kernel runs
that is declared to change x, what it writes into such a copy is carried over to x at its end.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from torchlike._core.conversion import convert
from torchlike._core.conversion.convert import from_numpy
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
            (write_silently if counted else write)(t, value_of(from_numpy(array)))
