"""Gather and scatter of jax as aten's ``index`` and ``index_put``: an index for each dimension of the operand."""

from typing import Any

import numpy as np

from torchlike._aten.jaxpr import cast, reshaped, whole
from torchlike._aten.lower import redispatch
from torchlike._aten.packets import ops
from torchlike._aten.rules import rule
from torchlike._base.dtypes import FROM_NP

_aten = ops.aten
_INT = np.dtype(np.int64)


class _Windows:
    """Where the windows of a gather or scatter lie.

    ``shape``: that of what is read or written, of which the dimensions ``batch`` count the windows and the others lie
    in them. ``outside``: the operand's dimensions that a window does not have. ``mapped``: those that the indices are
    for. ``paired``: {operand's dimension: the dimension of the indices that it goes along with}.
    """

    def __init__(self, operand: Any, indices: Any, shape: tuple, inner: tuple, outside: tuple, mapped: tuple,
                 paired: dict, sizes: tuple) -> None:  # fmt: skip
        self.operand, self.indices, self.shape, self.inner, self.mapped = operand, indices, shape, inner, mapped
        self.outside, self.paired, self.sizes = outside, paired, sizes
        self.batch = [d for d in range(len(shape)) if d not in inner]

    def start(self, d: int) -> Any:
        """The first place in a dimension, as the indices have it, of the rank of the result."""
        start = redispatch(_aten.select.int, self.indices, -1, self.mapped.index(d))
        return reshaped(whole(cast(start, _INT)), [n if i in self.batch else 1 for i, n in enumerate(self.shape)])

    def last(self, d: int) -> int:
        """The last place where a window may start."""
        return self.operand.shape[d] - self.sizes[d]

    def places(self) -> list:
        """The index of each dimension of the operand."""
        windows = [d for d in range(self.operand.ndim) if d not in self.outside]
        found = []
        for d in range(self.operand.ndim):
            place = self.along(self.inner[windows.index(d)]) if d in windows else None
            if d in self.paired:
                place = self.along(self.batch[self.paired[d]])
            if d in self.mapped:
                start = redispatch(_aten.clamp.default, self.start(d), 0, max(self.last(d), 0))
                place = start if place is None else redispatch(_aten.add.Tensor, start, place)
            found.append(place)
        return found

    def along(self, dim: int) -> Any:
        """The numbers of the places along a dimension of the result."""
        n = self.shape[dim]
        count = redispatch(_aten.arange.default, n, dtype=FROM_NP[_INT], pin_memory=False)
        return redispatch(_aten.view.default, count, [n if i == dim else 1 for i in range(len(self.shape))])

    def inside(self) -> Any:
        """Where the windows lie in the operand; None if that is not asked."""
        found = None
        for d in self.mapped:
            start = self.start(d)
            low, high = redispatch(_aten.ge.Scalar, start, 0), redispatch(_aten.le.Scalar, start, self.last(d))
            here = redispatch(_aten.logical_and.default, low, high)
            found = here if found is None else redispatch(_aten.logical_and.default, found, here)
        return found


def _paired(numbers: Any, name: str) -> dict:
    return dict(zip(numbers.operand_batching_dims, getattr(numbers, name), strict=True))


def _drops(eqn: Any) -> bool:
    return "FILL" in str(eqn.params["mode"])


def _nonempty(eqn: Any) -> bool:
    return all(0 not in v.aval.shape for v in (*eqn.invars, *eqn.outvars))


def _number(x: Any, like: Any) -> Any:
    return redispatch(_aten.scalar_tensor.default, x, dtype=like.dtype)


@rule("gather", check=lambda eqn: _nonempty(eqn) and np.dtype(eqn.outvars[0].aval.dtype).kind in "fc")
def _gather(eqn: Any, x: Any, indices: Any) -> Any:
    numbers, x, indices = eqn.params["dimension_numbers"], whole(x), whole(indices)
    outside = (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
    windows = _Windows(
        x, indices, eqn.outvars[0].aval.shape, numbers.offset_dims, outside, numbers.start_index_map,
        _paired(numbers, "start_indices_batching_dims"), eqn.params["slice_sizes"],
    )  # fmt: skip
    got = redispatch(_aten.index.Tensor, x, windows.places())
    inside = windows.inside() if _drops(eqn) else None
    fill = eqn.params.get("fill_value")
    return (
        got
        if inside is None
        else redispatch(_aten.where.self, inside, got, _number(np.nan if fill is None else fill, x))
    )


@rule("scatter-add", check=_nonempty)
def _scatter_add(eqn: Any, x: Any, indices: Any, updates: Any) -> Any:
    x, indices, updates = whole(x), whole(indices), whole(updates)
    windows = _written(eqn, x, indices, updates)
    inside = None if "CLIP" in str(eqn.params["mode"]) else windows.inside()  # XLA writes nothing elsewhere
    if inside is not None:
        updates = redispatch(_aten.where.self, inside, updates, _number(0, updates))
    return redispatch(_aten.index_put.default, x, windows.places(), updates, True)


@rule("scatter", check=lambda eqn: _nonempty(eqn) and not _drops(eqn))
def _scatter(eqn: Any, x: Any, indices: Any, updates: Any) -> Any:
    x, indices, updates = whole(x), whole(indices), whole(updates)
    return redispatch(_aten.index_put.default, x, _written(eqn, x, indices, updates).places(), updates, False)


def _written(eqn: Any, x: Any, indices: Any, updates: Any) -> _Windows:
    numbers, shape = eqn.params["dimension_numbers"], tuple(updates.shape)
    outside = (*numbers.inserted_window_dims, *numbers.operand_batching_dims)
    inner = iter(numbers.update_window_dims)
    sizes = tuple([1 if d in outside else shape[next(inner)] for d in range(x.ndim)])
    return _Windows(
        x, indices, shape, numbers.update_window_dims, outside, numbers.scatter_dims_to_operand_dims,
        _paired(numbers, "scatter_indices_batching_dims"), sizes,
    )  # fmt: skip
