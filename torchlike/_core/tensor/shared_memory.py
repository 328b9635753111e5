"""Storages whose bytes numpy sees too: what either side writes, the other one reads.

Note [Shared memory]
A jax array never changes, so the bytes that numpy may write to lie beside it. While somebody else refers to such memory
its storage is of the class ``Shared``, whose ``value`` is a property: a read compares the memory with the array read
last, and makes a new array where they differ; whatever is stored is copied into the memory at once. When nobody else
refers to the memory any more, the next read turns the storage into a plain one: who lets go of an array pays for it no
longer, and who never had one pays nothing, since ``value`` is a slot of plain storages.

``form`` is what tells shape, dtype and place of the value without asking what numpy has written meanwhile.

A view of large memory is read from the memory by itself. ``x[i].numpy()`` of a large ``x`` makes but that stretch of
the storage memory that numpy sees (``HostMemory.spans``).
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax.core import Tracer
from jax.sharding import SingleDeviceSharding

import torchlike._base.device as devices
from torchlike._base.bits import NARROW, X64
from torchlike._base.layout import Layout, contiguous_strides, is_dense, is_disjoint, memory_order, numel
from torchlike._base.state import state
from torchlike._core.tensor import views
from torchlike._core.tensor.host_memory import LOCK, HostMemory, on_host, root_of
from torchlike._core.tensor.storage import SHARING, Outgrown, Storage
from torchlike._executor.immediate import put_beside
from torchlike._executor.pending import Array, Pending, settled, trace_state_clean
from torchlike._executor.recorded import Recorder
from torchlike._ops.view import conj, is_conj, is_neg, neg_view

if TYPE_CHECKING:
    from torchlike._core.tensor.tensor import Tensor

_SMALL = 1 << 16  # bytes of memory that are compared as a whole rather than looked at in parts


class Unread:
    """In the place of an array that nobody has asked for yet: its numbers are those of the memory."""

    __slots__ = ("shape", "dtype", "sharding", "_committed")
    weak_type = False

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype, sharding: Any, committed: bool) -> None:
        self.shape, self.dtype, self.sharding, self._committed = shape, dtype, sharding, committed

    @property
    def aval(self) -> Any:
        return jax.core.ShapedArray(self.shape, self.dtype)

    ndim = property(lambda self: len(self.shape))
    size = property(lambda self: numel(self.shape))
    nbytes = property(lambda self: numel(self.shape) * self.dtype.itemsize)

    def devices(self) -> Any:
        """The device on which the array will be."""
        return self.sharding.device_set


_NUMBERS = frozenset({Array, Unread})  # of what the memory has the numbers
_slot: Any = Storage.__dict__["value"]
_get, _set = _slot.__get__, _slot.__set__
set_form = _set


def _refuse_in_capture() -> None:
    if state.capture is not None:
        state.capture.refuse("writes to memory that numpy sees")


class Shared(Storage):
    """A storage whose memory somebody else may write to; see Note [Shared memory]."""

    __slots__ = ()
    shared = True
    form = _slot

    @property
    def value(self) -> Any:  # type: ignore[override]
        """The array of what lies in the memory now; whatever else is stored, as it is."""
        form = _get(self)
        return self._read() if form.__class__ in _NUMBERS else form

    @value.setter
    def value(self, new: Any) -> None:
        if new.__class__ is Pending and (new.array is not None or isinstance(new.recorder, Recorder)):
            new = settled(new)  # a token, which stands for what somebody computes, is no value yet
        with LOCK.held:
            old = _get(self)
            _set(self, new)
            memory = self.host
            if not self.shared or new.__class__ is not Array:
                if isinstance(new, Tracer) and self.shared and not memory.alone():
                    _refuse_in_capture()
                return
            if state.capture is not None and not memory.alone():
                _refuse_in_capture()
            kept = new.shape == old.shape and new.dtype == old.dtype and memory.writable and on_host(new)
            if not kept or memory.alone():
                part(self)
            else:
                memory.put(new, self.strides)

    def _read(self) -> Any:
        with LOCK.held:
            form = _get(self)
            if not self.shared or form.__class__ not in _NUMBERS:
                return form
            memory, strides = self.host, self.strides
            last = memory.alone()
            if form.__class__ is Unread or memory.differs(form, strides):
                form = memory.value(form, strides)
                _set(self, form)
                self.epoch += 1
            if last:
                part(self)
                memory.epoch = self.epoch
            return form

    def whole(self) -> HostMemory:
        """The memory, all of it filled, for who asks for its address."""
        memory, form = self.host, _get(self)
        if form.__class__ is Array:
            memory.extend(0, len(memory.bytes), form, self.strides)
        memory.pinned = True
        return memory

    def kept(self, t: Tensor) -> tuple[Any, Any] | None:
        """What a view reads now: from the memory itself where the view is a small part of it."""
        with LOCK.held:
            if self.shared and self.host.alone():
                self._read()
            if not self.shared:
                return None
            memory, form, epoch = self.host, _get(self), self.epoch
            here: bool | None = None
            if len(memory.bytes) > _SMALL and form.__class__ in _NUMBERS and _as_stored(t):
                layout, dtype = _layout(t, form)
                first, end = _extent(layout, dtype)
                here = memory.covers(first, end) if (end - first) * 2 < len(memory.bytes) else None
                if here:
                    return epoch, put_beside(memory.array_of(layout, dtype), form)
            if here is None:
                self._read()
            cache = t._cache
            if cache is not None and cache[0] == self.epoch + 0.5:
                return cache
            return None if here is None or t._view is None else self.keep(t, epoch, views.read(form, t._view))

    def written(self, t: Tensor, new: Any) -> bool:
        """Write a value, or a number, through the view ``t`` into the memory alone, if it takes that."""
        if new.__class__ is Pending:
            new = settled(new)
        with LOCK.held:
            form = _get(self)
            if not self.shared or form.__class__ not in _NUMBERS or not _as_stored(t) or not self.host.writable:
                return False
            if state.capture is not None and not self.host.alone():
                _refuse_in_capture()
            memory, (layout, dtype) = self.host, _layout(t, form)
            if not (is_disjoint(layout) and fits(new, layout.shape, dtype) and memory.covers(*_extent(layout, dtype))):
                return False
            memory.array_of(layout, dtype)[...] = new
            if memory.spans is None:
                _set(self, Unread(form.shape, form.dtype, form.sharding, form._committed))
            self.epoch += 1
            return True

    def rows(self, t: Tensor, index: tuple[Any, ...]) -> Any:
        """What numpy's index selects of ``t``, as an array; None where all of the memory is to be looked at for it."""
        with LOCK.held:
            if self.shared and self.host.alone():
                self._read()
            form = _get(self)
            if not self.shared or form.__class__ not in _NUMBERS or not _as_stored(t):
                return None
            memory, (layout, dtype) = self.host, _layout(t, form)
            if len(memory.bytes) <= _SMALL or not memory.covers(*_extent(layout, dtype)):
                return None
            try:
                return put_beside(memory.array_of(layout, dtype)[index], form)
            except IndexError:  # PyTorch has its own words for it
                return None

    def keep(self, t: Tensor, epoch: int, value: Any) -> tuple[Any, Any]:
        """As of a plain storage, but found by :meth:`kept` alone, which looks at the memory first."""
        if not self.shared:
            return Storage.keep(self, t, epoch, value)
        return Storage.keep(self, t, epoch + 0.5, value)  # type: ignore[arg-type]


SHARING[Storage] = Shared


def part(storage: Storage) -> None:
    """Let a storage be a plain one: nobody else refers to its memory, or what is stored is no longer its numbers."""
    memory = storage.host
    storage.__class__ = next(plain for plain, shared in SHARING.items() if shared is storage.__class__)
    storage.host = None
    if memory.lasts:
        memory.epoch = -1
        storage.host = memory


def _as_stored(t: Tensor) -> bool:
    """Whether ``t`` reads what lies in the memory: neither the conjugate nor the negative of it."""
    view = t._view
    lazy = view is not None and any([s[0] is conj or s[0] is neg_view for s in view.steps])
    return not lazy or not (is_conj(t) or is_neg(t))


def fits(new: Any, shape: tuple[int, ...], dtype: np.dtype) -> bool:
    """Whether numpy writes ``new`` into an array of these as a kernel would."""
    if new.__class__ is Array:
        return new.dtype == dtype and new.shape == shape and on_host(new)
    if new.__class__ is float:
        return dtype in (np.float32, np.float64) and new - new == 0 and (not new or 1e-30 < abs(new) < 1e30)
    return new.__class__ is int and dtype.kind in "iu" and np.iinfo(dtype).min <= new <= np.iinfo(dtype).max


def _layout(t: Tensor, form: Any) -> tuple[Layout, np.dtype]:
    view = t._view
    if view is None:
        return Layout(form.shape, contiguous_strides(form.shape), 0), form.dtype
    return view.layout, form.dtype if view.dtype is None else view.dtype


def _extent(layout: Layout, dtype: np.dtype) -> tuple[int, int]:
    """The first byte of a geometry in its storage, and the one after the last."""
    if 0 in layout.shape:
        return 0, 0
    last = sum([(n - 1) * s for n, s in zip(layout.shape, layout.strides, strict=True)])
    return layout.offset * dtype.itemsize, (layout.offset + last + 1) * dtype.itemsize


# -- memory of a storage that numpy is to see --------------------------------------------------------


def array_over(t: Tensor) -> np.ndarray | None:
    """An array over the memory of ``t``; None where memory cannot be shared: a copy is all there is then."""
    storage = t._storage
    if not _plain_here() or storage.stands or storage.copied or not _as_stored(t):
        return None
    while not storage.shared:
        form = storage.form
        value = settled(form)
        if not on_host(value) or not value.nbytes or has_gaps(t):
            return None
        with LOCK.held:
            if storage.shared or _opened(storage, form, value):
                break
    with LOCK.held:
        memory, form = storage.host, _get(storage)
        if form.__class__ not in _NUMBERS:
            return None
        layout, dtype = _layout(t, form)
        if memory.spans is not None:
            first, end = _extent(layout, dtype)
            part = storage.strides is None and (end - first) * 2 < len(memory.bytes)
            memory.extend(*((first, end) if part else (0, len(memory.bytes))), form, storage.strides)
        return memory.array_of(layout, dtype)


def address(storage: Storage) -> int:
    """The address of the storage's bytes, which stays as it is and is good as long as the storage lives.

    What lies there is the value at the time of this call, and what is written there before the next read of a tensor
    over it is the value then. On other devices, while jax traces and for values spread over devices it is a number that
    aliases share and nobody can read.
    """
    if storage.stands:  # for a tensor outside of a transform; it has no memory, and says so
        return storage.address
    while not storage.shared:
        form = storage.form
        value = settled(form)
        if not on_host(value):
            return storage.address
        with LOCK.held:
            if storage.shared:
                break
            memory = getattr(storage, "host", None)
            if memory is None or len(memory.bytes) != value.nbytes:
                memory = storage.host = HostMemory.new(value.nbytes)
            memory.pinned = True
            if not _plain_here() or storage.copied:
                return _filled(memory, storage, value)
            if _opened(storage, form, value):
                break
    with LOCK.held:
        return storage.whole().address


def _filled(memory: HostMemory, storage: Storage, value: Any) -> int:
    """The address of memory that is filled with the value and is for reading alone."""
    if memory.epoch != storage.epoch:
        memory.put(value, storage.strides)
        memory.epoch = storage.epoch
    return memory.address


def has_gaps(t: Tensor) -> bool:
    """Whether strides reach beyond the elements that are kept, as those of a least-squares solution do."""
    form = t._storage.form
    return _extent(*_layout(t, form))[1] > numel(form.shape) * form.dtype.itemsize


def _plain_here() -> bool:
    """Whether nothing stands between tensors and their numbers in this thread."""
    return state.capture is None and not state.levels and trace_state_clean()


def _opened(storage: Storage, form: Any, value: Any) -> bool:
    """Give a storage memory that somebody else may write to; False if another thread has written to it meanwhile.

    ``form``: what the storage holds. ``value``: the array of that.
    """
    memory = getattr(storage, "host", None)
    if memory is None or len(memory.bytes) != value.nbytes:
        memory = HostMemory.new(value.nbytes)
    memory.spans = [] if value.nbytes > _SMALL and not memory.pinned else None
    if memory.spans is None and memory.epoch != storage.epoch:
        memory.put(value, storage.strides)
    plain, storage.host = storage.__class__, memory
    storage.__class__ = SHARING[plain]
    if _get(storage) is not form:
        storage.__class__ = plain
        memory.epoch = -1
        return False
    _set(storage, value)
    storage.epoch += 1
    return True


def over(array: np.ndarray) -> tuple[Any, HostMemory, Layout] | None:
    """(what stands for the value, memory, geometry) of a tensor over an array; None where memory cannot be shared.

    Where the elements fill their stretch of memory, the value has the array's shape, else one dimension.
    """
    if not _plain_here() or not array.size:
        return None
    if not (X64 and jax.config.jax_enable_x64) and array.dtype.name in NARROW:
        return None
    array = array.view(np.ndarray)
    layout = Layout(array.shape, tuple([s // array.itemsize for s in array.strides]), 0)
    dense = is_dense(layout)
    if array.flags.c_contiguous:
        flat = array.reshape(-1)
        layout = Layout(layout.shape, contiguous_strides(layout.shape), 0)
    elif dense:
        flat = array.transpose(memory_order(layout)[::-1]).reshape(-1)
    else:
        count = _extent(layout, array.dtype)[1] // array.itemsize
        flat = _stretch(array, count)
    memory = HostMemory(flat.view(np.uint8), root_of(flat), array.flags.writeable)
    device = devices.jax_device(devices.device("cpu"))
    where = SingleDeviceSharding(device), devices.anchor(device) is not None
    return Unread(layout.shape if dense else flat.shape, array.dtype, *where), memory, layout


def _stretch(array: np.ndarray, count: int) -> np.ndarray:
    """The elements from the first of ``array`` on, those between its own too."""
    root = array.base
    if type(root) is np.ndarray and root.flags.c_contiguous and root.flags.owndata:
        at = array.__array_interface__["data"][0] - root.__array_interface__["data"][0]
        flat: np.ndarray = np.ndarray(count, array.dtype, root, at)
        flat.flags.writeable = array.flags.writeable
        return flat
    return np.lib.stride_tricks.as_strided(array, (count,), (array.itemsize,))


def adopt(storage: Storage, memory: HostMemory) -> None:
    """Let the memory be that of a new storage, which holds :class:`Unread`."""
    storage.host = memory
    storage.__class__ = SHARING[storage.__class__]


def lie_together(storage: Storage, larger: Storage) -> None:
    """Let a storage have its numbers where those of a new, larger one begin: what is written to either is in both.

    Those that lie together with it already, because it grew before, come along. Where numpy's memory cannot be had, the
    smaller one can be read no more.
    """
    values = [(s, settled(s.value)) for s in (*_together(storage), larger)]
    if not (_plain_here() and all([on_host(v) for _, v in values])):
        storage.value = Outgrown(storage.form)
        storage.epoch += 1
        return
    memory = HostMemory.new(values[-1][1].nbytes)
    memory.put(values[-1][1], larger.strides)
    memory.group = [weakref.ref(s) for s, _ in values]
    with LOCK.held:
        for s, value in values:
            s.host = memory if s is larger else memory.beginning(value.nbytes)
            s.__class__ = SHARING.get(s.__class__, s.__class__)
            _set(s, value)
            s.epoch += 1


def _together(storage: Storage) -> list[Storage]:
    """The storages that lie where this one does, itself among them."""
    if not storage.shared or not storage.host.group:
        return [storage]
    root, found = storage.host.root, [ref() for ref in storage.host.group]
    return [s for s in found if s is not None and s.shared and s.host.root is root]


def demand_resizable(storage: Storage) -> None:
    """RuntimeError where numpy sees the memory."""
    if storage.shared and not storage.host.alone(len(_together(storage))):
        raise RuntimeError("Trying to resize storage that is not resizable: a numpy array or buffer shares its memory")
    if storage.shared and not storage.host.group:
        storage.value  # noqa: B018  (a read, after which it is a plain storage)
