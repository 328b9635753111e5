"""Changes of tensors and storages, and what version counters count of them: nothing else changes what there is.

While a thread captures a function, what its changes concern belongs to its capture: each mutator tells the capture
first (``enter``, ``change``), which lets this thread alone see the new state, or keeps what is to be put back.
"""

from torchlike._base.state import state
from torchlike._core.tensor import views
from torchlike._core.tensor.storage import CAPTURES, UNTRACKED, Version


def enter(cell):
    """Tell the capture of this thread, if there is one, that a storage or version counter is read or will change."""
    capture = state.capture
    if capture is not None:
        capture.enter(cell)


def read_by(t):
    """Tell the capture of this thread, if there is one, that something else than an operator is given ``t``."""
    capture = state.capture
    if capture is not None:
        capture.read_by(t)


def change(t):
    """Tell the capture of this thread, if there is one, that fields of ``t`` will change."""
    capture = state.capture
    if capture is not None:
        capture.change(t)


# -- values ------------------------------------------------------------------------------------------


def store(storage, value):
    """Let the storage hold ``value``; no version counts it."""
    if CAPTURES:
        enter(storage)
    storage.value = value
    storage.epoch += 1


def write(t, value):
    """Replace what ``t`` reads by ``value`` (same shape and dtype); every alias sees it."""
    storage, view = t._storage, t._view
    if CAPTURES:
        enter(storage)
    if view is None or not view.steps:
        storage.value = value
        storage.epoch += 1
    else:
        storage.value = views.write(storage.value, view, value)
        storage.epoch += 1
        storage.keep(t, storage.epoch, value)
    bump(t)


def write_silently(t, value):
    """As :func:`write`, which no version counts."""
    version = t._vc.version
    write(t, value)
    restore_version(t, version)


# -- versions ----------------------------------------------------------------------------------------


def bump(t):
    """Count one change of ``t`` in place; inference tensors do not count."""
    counter = t._vc
    if counter is not UNTRACKED:
        if CAPTURES:
            enter(counter)
        counter.version += 1


def restore_version(t, version):
    """Let the version of ``t`` be ``version``; inference tensors have none."""
    counter = t._vc
    if counter is not UNTRACKED:
        if CAPTURES:
            enter(counter)
        counter.version = version


# -- geometry and identity ---------------------------------------------------------------------------


def reshape(t, view):
    """Let ``t`` show its storage through ``view``."""
    if CAPTURES:
        change(t)
    _unlike_recorded(t)
    t._view, t._cache = view, None


def become(t, storage, view):
    """Let ``t`` show ``storage`` through ``view``; its version counter stays."""
    if CAPTURES:
        change(t)
    _unlike_recorded(t)
    t._storage, t._view, t._cache = storage, view, None


def _unlike_recorded(t):
    """Tell the node of ``t`` that gradients may arrive with another shape or dtype than its output had."""
    if t._edge is not None and t._edge[0] is not None:
        t._edge[0]._extra("refits", bool)


def count_with(t, counter):
    """Let ``t`` count its versions in ``counter``, None for one of its own that begins at 0."""
    if CAPTURES:
        change(t)
    t._vc = Version() if counter is None else counter


# -- history and gradients ---------------------------------------------------------------------------


def set_history(t, edge, requires_grad):
    """Give ``t`` another history."""
    if CAPTURES:
        change(t)
    t._edge, t._rg = edge, requires_grad


def current(diff, t, version=None):
    """The history of ``t``, tied to its base by ``diff``, is that of this version from now on, its own by default.

    -1 is the version of no change: the history is made anew when it is next asked for.
    """
    if CAPTURES:
        change(t)
    diff.version = t._vc.version if version is None else version


def grad_of(t):
    """What ``t.grad`` is."""
    if CAPTURES:
        capture = state.capture
        if capture is not None:
            return capture.grad_of(t)
    return t._grad


def set_grad(t, grad):
    """Let ``t.grad`` be ``grad``."""
    if CAPTURES:
        capture = state.capture
        if capture is not None:
            capture.set_grad(t, grad)
            return
    t._grad = grad


def extras_of(t):
    """The dict of the rarely used fields of ``t``, which the caller will change."""
    if CAPTURES:
        change(t)
    if t._ex is None:
        t._ex = {}
    return t._ex
