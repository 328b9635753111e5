"""Changes of tensors and storages, and what version counters count of them: nothing else changes what there is.

While a thread captures a function, what its changes concern belongs to its capture: each mutator tells the capture
first (``enter``, ``change``), which lets this thread alone see the new state, or keeps what is to be put back.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from jax.core import Tracer

from torchlike._base.state import state
from torchlike._base.threads import alone
from torchlike._base.tracing import current_trace, inside
from torchlike._core.tensor import overwriting, views
from torchlike._core.tensor.storage import CAPTURES, UNTRACKED, Version
from torchlike._executor import shifted
from torchlike._executor.pending import Array, Pending, traces_program
from torchlike._executor.spread import USED, as_before

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torchlike._core.tensor.storage import Storage
    from torchlike._core.tensor.tensor import Tensor
    from torchlike._core.tensor.views import View
    from torchlike._core.typed import Edge


class Changes:
    """``mark`` is another object after each change of geometry, history or extras of a tensor that was there before.

    Who has looked at such fields need not look again while the mark is the one that was there before the first look.
    A mutator sets it last, with no call in between: neither a signal nor another thread comes between the two.
    """

    __slots__ = ("mark",)


CHANGED = Changes()
CHANGED.mark = []
ANY: Any = object()  # stands for each value that a storage may hold


def enter(cell: Any) -> None:
    """Tell the capture of this thread, if there is one, that a storage or version counter is read or will change."""
    capture = state.capture
    if capture is not None:
        capture.enter(cell)


def _wrote(storage: Storage) -> None:
    """As :func:`enter`, before a write; the trace of this thread is told too."""
    enter(storage)
    if state.trace is not None:
        state.trace.wrote(storage)


def read_by(t: Tensor) -> None:
    """Tell the capture of this thread, if there is one, that something else than an operator is given ``t``."""
    capture = state.capture
    if capture is not None:
        capture.read_by(t)


def placed(t: Tensor) -> None:
    """Tell the capture of this thread, if there is one, that the memory around ``t`` is asked for."""
    capture = state.capture
    if capture is not None:
        capture.placed(t)


def marks_asked(t: Tensor) -> None:
    """Tell the capture of this thread, if there is one, that ``is_conj`` or ``is_neg`` of ``t`` is asked for."""
    capture = state.capture
    if capture is not None:
        capture.marks_asked(t)


def change(t: Tensor) -> None:
    """Tell the capture of this thread, if there is one, that fields of ``t`` will change."""
    capture = state.capture
    if capture is not None:
        capture.change(t)


# -- values ------------------------------------------------------------------------------------------


def demand_own(storage: Storage, new: Any) -> None:
    """Refuse that a function which jax traces changes a storage from outside: one that was there before the trace."""
    if new.__class__ is Pending:
        trace = current_trace() if traces_program() else None
    else:
        trace = new._trace if isinstance(new, Tracer) else None
    if trace is None or state.capture is not None or _born_in(storage, trace):
        return
    old = storage.value
    if (
        old.__class__ is Array
        or old.__class__ is Pending
        or (
            isinstance(old, Tracer) and not inside(old._trace, trace)  # else the value was lent for the trace
        )
    ):
        _refuse_outside(old)


def demand_own_shape(t: Tensor) -> None:
    """Refuse that a function of which jax makes a program changes the shape of ``t``, which is from outside."""
    storage = t._storage
    form = storage.form
    if (form.__class__ is Array or form.__class__ is Pending) and state.capture is None and not storage.stands:
        if traces_program() and not _born_in(storage, current_trace()):
            _refuse_outside(form)


def _born_in(storage: Storage, trace: Any) -> bool:
    born = getattr(storage, "born", None)
    return born is not None and inside(born(), trace)


def _refuse_outside(old: Any) -> None:
    raise RuntimeError(
        f"a function that jax traces (jit, grad, vmap, scan) would change a tensor of shape {list(old.shape)}, or "
        "its .grad, that it did not make; pass the tensor in and return its new value, or use "
        "torchlike.interop.to_jax(module), which returns the new values of its buffers (register_buffer)"
    )


def expected_of(t: Tensor) -> Any:
    """What the storage of ``t`` holds, for :func:`write`; ANY where others write to its memory, or nobody else does.

    A weak reference to that, where a part of much changes: who holds the value itself keeps it from being overwritten.
    """
    storage = t._storage
    if storage.shared or alone():
        return ANY
    if CAPTURES:
        enter(storage)
    if t._view is not None and t._view.steps and overwriting.large(storage):
        return weakref.ref(storage.value)
    return storage.value


def wholes(tensors: Iterable[Tensor]) -> list[Storage | None]:
    """The storage that each tensor shows all of; None for one that shows a part, or whose memory is another's too."""
    held = [(t._storage, t._view) for t in tensors]
    return [None if s.shared or s.copied or (v and v.steps) else s for s, v in held]


def store(storage: Storage, value: Any, expected: Any = ANY) -> bool:
    """Let the storage hold ``value``; no version counts it. ``expected`` is as for :func:`write`."""
    if value.__class__ is not Array:
        demand_own(storage, value)
    if CAPTURES:
        _wrote(storage)
    value = as_before(storage.form, value) if USED else value
    if expected is not ANY and storage.value is not expected and not storage.shared:
        return False
    storage.value = value  # no thread comes between, as nothing is called
    storage.epoch += 1
    return True


def lend(storage: Storage, value: Any) -> None:
    """As :func:`store`, for a value that the caller will take away again before the function which jax traces ends."""
    if CAPTURES:
        _wrote(storage)
    storage.value = value
    storage.epoch += 1


def write(t: Tensor, value: Any, expected: Any = ANY) -> bool:
    """Replace what ``t`` reads by ``value`` (same shape and dtype); every alias sees it.

    ``expected``: what the storage held when ``value`` was computed from it. If it holds something else by now, which
    another thread has written, nothing happens, and False is returned.
    """
    storage, view = t._storage, t._view
    if CAPTURES:
        _wrote(storage)
    if value.__class__ is not Array:
        demand_own(storage, value)
    if view is None or not view.steps:
        whole = as_before(storage.form, value) if USED else value
        if expected is not ANY and storage.value is not expected and not storage.shared:
            return False
        storage.value = whole  # no thread comes between, as nothing is called
        storage.epoch += 1
    elif not (storage.shared and storage.written(t, value)):
        if storage.form.__class__ is not Array:
            value = complete(storage, value)
        large = overwriting.large(storage)
        replace = views.writer(view.steps)
        weak = expected if expected.__class__ is weakref.ref else None
        may = large and (expected is ANY or weak is not None)
        while not (epoch := may and overwriting.overwrite(storage, replace, (), (value, *view.ints), weak)):
            old = storage.value
            if expected is not ANY and old is not (expected if weak is None else weak()) and not storage.shared:
                return False
            whole = views.write(old, view, value)
            whole = as_before(storage.form, whole) if USED else whole
            if large:
                overwriting.overwritable(whole)
            if storage.value is old or storage.shared:
                storage.value = whole  # as above
                storage.epoch += 1
                epoch = storage.epoch
                break
        if views.distinct(view):  # elements that share a place were given several values
            storage.keep(t, epoch, value)  # of this write: another thread's may have followed
    if storage.stands and storage.inner is not None:
        storage.level.wrote(t, value)
    bump(t)
    return True


def complete(storage: Storage, new: Any) -> Any:
    """``new``, for a part of what the storage holds, in a user's program; see Note [Shifted updates]."""
    if isinstance(new, Tracer) and state.capture is None:
        return shifted.apart_from(storage.value, new)
    return new


def write_silently(t: Tensor, value: Any) -> None:
    """As :func:`write`, which no version counts."""
    version = t._vc.version
    write(t, value)
    restore_version(t, version)


# -- versions ----------------------------------------------------------------------------------------


def bump(t: Tensor) -> None:
    """Count one change of ``t`` in place; inference tensors do not count."""
    counter = t._vc
    if counter is not UNTRACKED:
        if CAPTURES:
            enter(counter)
        counter.version += 1


def restore_version(t: Tensor, version: int) -> None:
    """Let the version of ``t`` be ``version``; inference tensors have none."""
    counter = t._vc
    if counter is not UNTRACKED:
        if CAPTURES:
            enter(counter)
        counter.version = version


# -- geometry and identity ---------------------------------------------------------------------------


def reshape(t: Tensor, view: View | None) -> None:
    """Let ``t`` show its storage through ``view``."""
    if CAPTURES:
        change(t)
    _unlike_recorded(t)
    t._view, t._cache = view, None
    CHANGED.mark = []


def become(t: Tensor, storage: Storage, view: View | None) -> None:
    """Let ``t`` show ``storage`` through ``view``; its version counter stays."""
    if CAPTURES:
        change(t)
    _unlike_recorded(t)
    t._storage, t._view, t._cache = storage, view, None
    CHANGED.mark = []


def _unlike_recorded(t: Tensor) -> None:
    """Tell the node of ``t`` that gradients may arrive with another shape or dtype than its output had."""
    if t._edge is not None and t._edge[0] is not None:
        t._edge[0]._extra("refits", bool)


def count_with(t: Tensor, counter: Any) -> None:
    """Let ``t`` count its versions in ``counter``, None for one of its own that begins at 0."""
    if CAPTURES:
        change(t)
    t._vc = Version() if counter is None else counter


# -- history and gradients ---------------------------------------------------------------------------


def set_history(t: Tensor, edge: Edge, requires_grad: bool) -> None:
    """Give ``t`` another history."""
    if CAPTURES:
        change(t)
    t._edge, t._rg = edge, requires_grad
    CHANGED.mark = []


def current(diff: Any, t: Tensor, version: int | None = None) -> None:
    """The history of ``t``, tied to its base by ``diff``, is that of this version from now on, its own by default.

    -1 is the version of no change: the history is made anew when it is next asked for.
    """
    if CAPTURES:
        change(t)
    diff.version = t._vc.version if version is None else version


def grad_of(t: Tensor) -> Tensor | None:
    """What ``t.grad`` is."""
    if CAPTURES:
        capture = state.capture
        if capture is not None:
            return capture.grad_of(t)
    return t._grad


def set_grad(t: Tensor, grad: Tensor | None) -> None:
    """Let ``t.grad`` be ``grad``."""
    if CAPTURES:
        capture = state.capture
        if capture is not None:
            capture.set_grad(t, grad)
            return
    if grad is not None and grad._storage.value.__class__ is not Array:
        demand_own(t._storage, grad._storage.value)
    t._grad = grad


def extras_of(t: Tensor) -> dict[str, Any]:
    """The dict of the rarely used fields of ``t``, which the caller will change."""
    if CAPTURES:
        change(t)
    if t._ex is None:
        t._ex = {}
        CHANGED.mark = []
    return t._ex
