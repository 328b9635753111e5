"""Numerical Jacobians of many elements: a call of the function for many perturbations, where it allows that.

Under a vmap level of its own, the storage of the very input that is checked stands for all perturbed values, so that
the function sees the tensors it was given, also those that it closes over. What it does with values on the host, with
memory of others or with random numbers raises there; what calls differ in is seen by a few that are made alone. A
verdict of "wrong" is never given by such a Jacobian (:meth:`Numerical.holds`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from torchlike._base.state import state
from torchlike._core.autograd import anomaly
from torchlike._core.conversion.convert import host
from torchlike._core.tensor import mutation
from torchlike._core.tensor.arguments import KIND
from torchlike._core.tensor.storage import CAPTURES
from torchlike._core.tensor.tensor import Tensor, wrap
from torchlike._decl.derive import Derived
from torchlike._executor import immediate
from torchlike._executor.pending import Array
from torchlike._transforms.levels.vmap import VmapLevel, lift, stacked

if TYPE_CHECKING:
    from torchlike.autograd._gradcheck_jacobian import Function

FEWEST = 128  # elements: below, kernels for many rows cost more to compile than the calls one by one
_ALONE = 3  # calls that are made alone too
_MOST = 1 << 18  # elements of the input or of an output for all rows of a call: what the caches of a processor hold
_WIDEST = 1 << 16  # elements of one row
_ROUNDINGS = 1 << 12  # of the largest value, by which values of many rows may differ from those of one


class Numerical:
    """The Jacobians of a function by each of its ``points``, made at once where that can be."""

    def __init__(self, function: Function, points: Sequence[Tensor], outputs: Sequence[Tensor], which: Sequence[int]):
        self.function, self.points, self.outputs, self.which = function, points, outputs, which
        self.at_once: set[int] = set()
        self.found = [self._made(j) for j in range(len(points))]

    def __getitem__(self, j: int) -> list[np.ndarray]:
        return self.found[j]

    def _made(self, j: int) -> list[np.ndarray]:
        found = jacobians(self.function, self.points[j], self.outputs, self.which)
        if found is None:
            return self._alone(j)
        self.at_once.add(j)
        return found

    def _alone(self, j: int) -> list[np.ndarray]:
        return self.function.jacobians(self.points[j], self.outputs, self.which)

    def holds(self, j: int, test: Callable[[list[np.ndarray]], bool]) -> bool:
        """Whether the Jacobians by point ``j`` pass a test; what fails is made anew, a call for each perturbation."""
        if test(self.found[j]) or j not in self.at_once:
            return test(self.found[j])
        self.at_once.remove(j)
        self.found[j] = self._alone(j)
        return test(self.found[j])


def jacobians(
    function: Function, x: Tensor, outputs: Sequence[Tensor], which: Sequence[int]
) -> list[np.ndarray] | None:
    """As ``function.jacobians``; None where the function cannot be called for many perturbations at once."""
    like = [outputs[i] for i in which]
    widest = max([x.numel(), *[out.numel() for out in like]])
    if x.numel() < FEWEST or not _is_plain(x, like) or widest > _WIDEST:
        return None
    units = (1, 1j) if x.is_complex() else (1,)
    samples = np.linspace(0, x.numel() - 1, _ALONE).astype(int)
    alone = [[function.change(x, int(at), unit, outputs, which) for unit in units] for at in samples]
    try:
        parts = [_differences(function, x, unit, like, which, widest) for unit in units]
    except Exception:  # whatever it is: calls one by one say what the function does
        return None
    if parts and any(part is None for part in parts):
        return None
    found = [np.stack([part[n] for part in parts], 1) for n in range(len(which))]  # type: ignore[index]
    same = all(
        _same(found[n][at], np.array([change[n] for change in changes]), like[n], function.eps)
        for at, changes in zip(samples, alone, strict=True)
        for n in range(len(which))
    )
    return found if same else None


def _is_plain(x: Tensor, outputs: Sequence[Tensor]) -> bool:
    """Whether values may stand in the storage of ``x``, in double precision, watched by nobody."""
    if state.active or state.levels or CAPTURES or anomaly.current.enabled or state.recorder is not None:
        return False
    tensors = (x, *outputs)
    if any(t.__class__ not in KIND or t.dtype.itemsize < (16 if t.is_complex() else 8) for t in tensors):
        return False
    return x._view is None and x._storage.value.__class__ is Array


def _same(many: np.ndarray, alone: np.ndarray, out: Tensor, eps: float) -> bool:
    """Whether differences of many calls at once are those of calls made alone, but for rounding."""
    largest = np.abs(host(out.detach())).max(initial=1e-300)
    rounding = _ROUNDINGS * np.finfo(float).eps * largest / (2 * eps)
    return bool((np.abs(many - alone) <= rounding + 1e-6 * np.abs(alone)).all())


def _differences(
    function: Function, x: Tensor, unit: complex, like: Sequence[Tensor], which: Sequence[int], widest: int
) -> list[np.ndarray] | None:
    """For each output the central differences by all elements, [element of ``x``, element of the output]."""
    n, values = x.numel(), host(x.detach()).ravel()
    step = function.eps * unit
    less, more = (values - step).astype(values.dtype), (values + step).astype(values.dtype)
    size = min(n, max(1, _MOST // (2 * widest)))
    found = [np.empty((n, out.numel()), np.promote_types(out.dtype.np, np.float64)) for out in like]
    for start in range(0, n, size):
        here = np.arange(start, start + size) % n  # each call of as many rows: the kernels of the first serve all
        at, moved = np.concatenate([here, here]), np.concatenate([less[here], more[here]])
        got = _called(function, x, at, moved, like, which)
        if got is None:
            return None
        end = min(size, n - start)
        for whole, rows in zip(found, got, strict=True):
            with np.errstate(invalid="ignore", over="ignore"):
                whole[start : start + end] = (rows[size : size + end] - rows[:end]) / (2 * function.eps)
    return found


def _called(
    function: Function, x: Tensor, at: np.ndarray, moved: np.ndarray, like: Sequence[Tensor], which: Sequence[int]
) -> list[np.ndarray] | None:
    """The outputs, [row, element], where in each row the element ``at`` of ``x`` has been ``moved``."""
    rows = wrap(immediate.run(_ROWS, (), (x._storage.value, at, moved)))
    with VmapLevel(len(at), "error", functional=False) as level, _standing(x, lift(rows, 0, level)) as stands:
        there = function()
        whole = [stacked(level, there[i]) for i in which]
        if not stands():
            return None
    if any(t.shape[1:] != out.shape or t.dtype is not out.dtype for t, out in zip(whole, like, strict=True)):
        return None
    return [host(t.detach()).reshape(len(at), -1) for t in whole]


def _rows(values: Any, at: Any, moved: Any) -> Any:
    flat = values.ravel()
    rows = jnp.where(at[:, None] == jnp.arange(flat.size), moved[:, None], flat)
    return rows.reshape(len(at), *values.shape)


_ROWS = Derived("copy_", "", _rows, ("gradcheck", "rows"))


@contextmanager
def _standing(x: Tensor, mapped: Tensor) -> Iterator[Callable[[], bool]]:
    """A while in which ``x`` holds what ``mapped`` does; gives whether it still does."""
    data, value, new = x.data, x._storage.value, mapped._storage.value
    mutation.write(data, new)
    try:
        yield lambda: data._storage.value is new
    finally:
        mutation.write(data, value)
