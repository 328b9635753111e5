"""Steps of numpy programs that read or write at places which values name: jax's gather and scatter.

Both become one flat list of positions. Writes go through it in the order of XLA's loop, so that of several writes to
one place the last stays, and sums are rounded in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

WRITES = 1 << 12  # elements of the largest update: numpy adds them up one by one
_PLACES = frozenset({"int32", "int64"})
_WRITES = {"scatter": None, "scatter-add": "add"}


def _positions(
    indices: np.ndarray,
    shape: Sequence[int],
    sizes: Sequence[int],
    named: Sequence[int],
    shared: Sequence[tuple[int, int]],
    window: Sequence[int],
    clip: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """(flat positions (*rows, *sizes of the window), whether each row is inside).

    Args:
        indices: (*rows, number of named dimensions). named: the dimension that each index is of.
        shared: dimensions that go along with one of the rows. window: those that are read or written in several places.
        clip: whether rows are moved inside.
    """
    rows = indices.shape[:-1]
    strides = np.cumprod([1, *shape[:0:-1]], dtype=np.int64)[::-1]
    inside, start = np.ones(rows, np.bool_), np.zeros(rows, np.int64)
    for i, d in enumerate(named):
        at, last = indices[..., i].astype(np.int64), shape[d] - sizes[d]
        kept = np.clip(at, 0, last)
        if not clip:
            inside &= at == kept
        start = start + kept * strides[d]
    for d, row in shared:
        start = start + np.arange(rows[row]).reshape(-1, *(1,) * (len(rows) - row - 1)) * strides[d]
    for d in window:
        start = start[..., None] + np.arange(sizes[d]) * strides[d]
    return start, inside


def _gather(
    x: np.ndarray, indices: np.ndarray, sizes: Sequence[int], named: Sequence[int],
    shared: Sequence[tuple[int, int]], window: Sequence[int], order: Sequence[int], fill: str,
) -> np.ndarray:  # fmt: skip
    positions, inside = _positions(indices, x.shape, sizes, named, shared, window, not fill)
    found = x.reshape(-1)[positions]
    if fill and not inside.all():
        found[~inside] = np.frombuffer(bytes.fromhex(fill), x.dtype)[0]
    return found.transpose(order)


def _scatter(
    x: np.ndarray, indices: np.ndarray, new: np.ndarray, sizes: Sequence[int], named: Sequence[int],
    shared: Sequence[tuple[int, int]], window: Sequence[int], order: Sequence[int], clip: int, does: str,
) -> np.ndarray:  # fmt: skip
    positions, inside = _positions(indices, x.shape, sizes, named, shared, window, bool(clip))
    out, new = x.flatten(), new.transpose(order)
    places, values = positions[inside].ravel(), new[inside].ravel()
    if does:
        np.add.at(out, places, values)
    else:
        out[places] = values
    return out.reshape(x.shape)


def _fill(eqn: Any) -> str:
    """The bytes, in hexadecimal, of what is read outside."""
    dtype, given = eqn.invars[0].aval.dtype, eqn.params["fill_value"]
    if given is None:
        given = {"f": np.nan, "c": np.nan, "b": True}.get(dtype.kind)
    if given is None:
        given = np.iinfo(dtype).max if dtype.kind == "u" else np.iinfo(dtype).min
    return np.asarray(given, dtype).tobytes().hex()


def rule_gather(eqn: Any) -> tuple[str, tuple[Any, ...]] | None:
    """The step of a gather; None if it is left to XLA."""
    (x, indices), out = [v.aval for v in eqn.invars], eqn.outvars[0].aval
    numbers, sizes, mode = eqn.params["dimension_numbers"], tuple(eqn.params["slice_sizes"]), eqn.params["mode"].name
    if indices.dtype.name not in _PLACES or 0 in x.shape or mode not in ("CLIP", "FILL_OR_DROP", "PROMISE_IN_BOUNDS"):
        return None
    if x.dtype.kind == "V" and mode == "FILL_OR_DROP":
        return None
    apart = (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
    window = tuple([d for d in range(x.ndim) if d not in apart])
    shared = tuple(zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True))
    rows = [d for d in range(out.ndim) if d not in numbers.offset_dims]
    order = tuple(np.argsort([*rows, *numbers.offset_dims]).tolist())
    fill = _fill(eqn) if mode == "FILL_OR_DROP" else ""
    return "gather", (sizes, tuple(numbers.start_index_map), shared, window, order, fill)


def rule_scatter(eqn: Any) -> tuple[str, tuple[Any, ...]] | None:
    """The step of a scatter; None if it is left to XLA."""
    x, indices, new = [v.aval for v in eqn.invars]
    numbers, mode, does = eqn.params["dimension_numbers"], eqn.params["mode"].name, eqn.params["update_jaxpr"]
    if indices.dtype.name not in _PLACES or 0 in x.shape or new.size > WRITES:
        return None
    body = () if does is None else [e.primitive.name for e in does.eqns]
    if eqn.params["update_consts"] or [*body] != ([] if eqn.primitive.name == "scatter" else ["add"]):
        return None
    if does is not None and not body and does.outvars[0] is not does.invars[1]:
        return None
    apart = (*numbers.inserted_window_dims, *numbers.operand_batching_dims)
    window = tuple([d for d in range(x.ndim) if d not in apart])
    sizes = [1] * x.ndim
    for d, place in zip(window, numbers.update_window_dims, strict=True):
        sizes[d] = new.shape[place]
    shared = tuple(zip(numbers.operand_batching_dims, numbers.scatter_indices_batching_dims, strict=True))
    rows = [d for d in range(new.ndim) if d not in numbers.update_window_dims]
    order, clip = (*rows, *numbers.update_window_dims), int(mode == "CLIP")
    rest = tuple(sizes), tuple(numbers.scatter_dims_to_operand_dims), shared, window, order, clip
    return "scatter", (*rest, _WRITES[eqn.primitive.name] or "")


DOES = {"gather": _gather, "scatter": _scatter}
