"""The numbers of small tensors, which numpy looks at, and chooses from, in less time than a kernel is called."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from torchlike._base.state import UNUSUAL, state
from torchlike._base.tracing import trace_state_clean
from torchlike._core.tensor.arguments import KIND
from torchlike._core.tensor.host_memory import on_host
from torchlike._core.tensor.mutation import bump, store
from torchlike._core.tensor.overwriting import large
from torchlike._core.tensor.shared_memory import fits
from torchlike._core.tensor.storage import CAPTURES, UNTRACKED, Storage
from torchlike._core.tensor.tensor import Tensor, fresh, value_of
from torchlike._core.tensor.views import moves
from torchlike._executor.immediate import put_beside
from torchlike._executor.pending import NUMPYS, Array, as_numpy

if TYPE_CHECKING:
    from torchlike._core.tensor.views import View
    from torchlike._core.typed import Number

FEW = 1 << 12  # elements
_PLACES = frozenset({np.dtype(np.int64), np.dtype(np.bool_)})
_EXACT = 1 << 24  # integers up to here are floats of 32 bits


def at_hand(t: Tensor, few: int = FEW) -> np.ndarray | None:
    """The numbers of ``t``, read-only; None where they are many or elsewhere, or somebody follows the calls.

    Those of a view that nobody has read are looked at in its base's memory.
    """
    if UNUSUAL or CAPTURES or KIND.get(t.__class__) != 1:
        return None
    view, storage = t._view, t._storage
    if math.prod(storage.form.shape if view is None else view.shape) > few:
        return None
    part = view is not None and view.steps and not storage.shared and (t._cache is None or t._cache[0] != storage.epoch)
    part = part and max(len(storage.form.shape), len(view.shape)) <= NUMPYS
    value = storage.value if part else value_of(t)
    if value.__class__ is not Array or not on_host(value) or not trace_state_clean() or len(value.shape) > NUMPYS:
        return None
    found = _part(as_numpy(value), t) if part else None
    return as_numpy(value_of(t) if part else value) if found is None else found


def _part(memory: np.ndarray, t: Tensor) -> np.ndarray | None:
    """What a view shows of its base's memory; None where it computes something, or the memory is in another order."""
    view: Any = t._view
    if t._storage.strides is not None or view.dtype is not None or not moves(view.steps):
        return None
    size = memory.itemsize
    shape, strides, offset = view.layout
    if 0 in shape or not memory.flags.c_contiguous:
        return None
    try:
        return np.ndarray(shape, memory.dtype, memory, offset * size, [s * size for s in strides])
    except (TypeError, ValueError):  # strides that reach beyond the memory
        return None


def _places(t: Tensor, mask: Tensor) -> np.ndarray | None:
    """The mask of some first dimensions of ``t``, whose numbers are at hand too; None if it is none, or nodes count."""
    if mask._storage.form.dtype != np.bool_ or t.__class__ is not Tensor or (t._rg and state.grad):
        return None
    found = at_hand(mask)
    return found if found is not None and found.ndim and t.shape[: found.ndim] == found.shape else None


def at_mask(t: Tensor, mask: Tensor) -> Tensor | None:
    """``t[mask]``, which would need a kernel for each number of elements; None where it is to be one."""
    places, view = _places(t, mask), t._view
    numbers = None if places is None or not (view is None or t.ndim == places.ndim or _ordered(view)) else at_hand(t)
    return None if numbers is None else fresh(put_beside(numbers[places], t._storage.form))


def at_places(t: Tensor, indices: list[Any]) -> Tensor | None:
    """``t`` at index tensors (see ``_resolve``) where reading these, or it, would take kernels; else None."""
    view = t._view
    if t.__class__ is not Tensor or (t._rg and state.grad) or (view is not None and not view.steps):
        return None
    if all([x is None or x is ... or (x.dtype.np == np.int64 and x._view is None) for x in indices]) and view is None:
        return None  # one kernel takes as long
    where: list[Any] = []
    for x in indices:
        if x is not ...:
            found = slice(None) if x is None else at_hand(x)
            if found is None or (x is not None and found.dtype not in _PLACES):
                return None
            where.append(found)
    numbers = at_hand(t)
    try:
        chosen = None if numbers is None else numbers[tuple(where)]
    except IndexError:  # PyTorch has its own words for it
        return None
    if chosen is None or chosen.size > FEW or not (chosen.ndim < 2 or view is None or _ordered(view)):
        return None
    return fresh(put_beside(chosen, t._storage.form))


def _ordered(view: View) -> bool:
    """Whether what is taken out of a view lies in its own order, too."""
    return view.in_order() if view.ordered is None else view.ordered


def _fitting(given: Any, dtype: np.dtype) -> Any:
    """A number, or the numbers of a tensor, that numpy assigns as a kernel would; else None."""
    if given.__class__ is Tensor:
        found = None if given._rg and state.grad else at_hand(given)
        return found if found is not None and found.dtype == dtype and found.ndim == 1 else None
    if given.__class__ is int and dtype.kind == "f" and -_EXACT < given < _EXACT:
        given = float(given)
    return given if dtype.kind in "fiu" and fits(given, (), dtype) else None


def fill_at_mask(t: Tensor, mask: Tensor, number: Number | Tensor | Any) -> bool:
    """``t[mask] = number``, or a tensor's numbers; False, with nothing done, where a kernel is to do it."""
    storage = t._storage
    if t._view is not None or storage.__class__ is not Storage or t._vc is UNTRACKED or large(storage):
        return False
    places = _places(t, mask)
    if places is None or at_hand(t) is None:
        return False
    old = storage.value
    new = _fitting(number, old.dtype)
    if new is None:
        return False
    changed = np.array(as_numpy(old))
    try:
        changed[places] = new
    except (ValueError, IndexError):  # another number of elements, of which PyTorch has its own words
        return False
    if not store(storage, put_beside(changed, old), old):  # another thread has changed it meanwhile
        return False
    bump(t)
    return True


def columns_of(places: np.ndarray, shape: tuple[int, ...]) -> list[np.ndarray]:
    """The places in a flattened array, a column for each of its dimensions, of which numpy's arrays may have fewer."""
    columns = []
    for n in reversed(shape):
        columns.append(places % n)
        places = places // n
    return columns[::-1]
