"""``tensor.untyped_storage()`` and ``tensor.storage()``: the memory that aliases share, seen as bytes or elements."""

from __future__ import annotations

import copy
import functools
import sys
import warnings
import weakref
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import torchlike._base.device as devices
import torchlike._core.tensor.file_memory as file_memory
import torchlike._core.tensor.process_memory as process_memory
from torchlike._base.dtypes import (
    bfloat16,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    get_default_dtype,
    int8,
    int16,
    int32,
    int64,
    uint8,
)
from torchlike._base.dtypes import bool as bool_
from torchlike._base.layout import Layout, memory_order, numel
from torchlike._base.volatile import volatile
from torchlike._core.tensor import storage_arguments as given
from torchlike._core.tensor.host_memory import demand_accelerator
from torchlike._core.tensor.mutation import enter, placed, store
from torchlike._core.tensor.shared_memory import address, demand_resizable
from torchlike._core.tensor.storage import CAPTURES, Freed, Storage, holding
from torchlike._core.tensor.tensor import Tensor
from torchlike._executor import immediate
from torchlike._executor.pending import flat_numpy
from torchlike._executor.sparse import SparseValue

if TYPE_CHECKING:
    from torchlike._base.dtypes import dtype
    from torchlike._core.typed import DeviceLike


class UntypedStorage(given.StorageBase):
    """The bytes that a tensor and its aliases share: one object for all of them.

    >>> import torchlike as torch
    >>> x = torch.zeros(2, 3)
    >>> x.untyped_storage() is x[1].untyped_storage(), x.untyped_storage().nbytes()
    (True, 24)
    """

    __slots__ = ("_storage", "__weakref__")

    def __init__(self, size: int | Sequence[int] = 0, *, device: DeviceLike = None) -> None:
        """``size`` bytes of zeros, or the bytes of a sequence of ints. RuntimeError for other sequences."""
        asked = devices.as_device(device or "cpu")
        if asked.type == "meta":
            self._storage = _nothing(size if isinstance(size, int) else len(size))
        else:
            host = np.zeros(size, np.uint8) if isinstance(size, int) else _of_ints(size)
            self._storage = holding(immediate.jax.device_put(host, devices.jax_device(asked)))
        self._storage.handle = weakref.ref(self)

    @staticmethod
    def from_file(filename: Any, shared: bool = False, nbytes: int = 0) -> UntypedStorage:
        """The first ``nbytes`` bytes of a file; ``shared``: changes of either are the other's.

        Raises:
            RuntimeError: the file cannot be read, or is shorter. A shared one is made, and made longer, instead.
        """
        made = UntypedStorage(0) if shared else _of_bytes(file_memory.read(filename, nbytes))
        if shared and (storage := file_memory.mapped(filename, nbytes)) is not None:
            made._storage = storage
            storage.handle = weakref.ref(made)
        FILES.add(made._storage)
        if shared:
            _NAMES[made._storage] = str(filename)
        return made

    @property
    def filename(self) -> str | None:
        """The path of the file whose memory it shares, or None."""
        return _NAMES.get(self._storage)

    @staticmethod
    def from_buffer(
        buffer: Any, byte_order: str | None = None, count: int = -1, offset: int = 0, *, dtype: dtype | None = None
    ) -> UntypedStorage:
        """A copy of the bytes of ``count`` elements of a buffer, from the byte ``offset``.

        Args:
            byte_order: "little", "big" or "native"; needed unless an element is one byte.
        """
        size = 1 if dtype is None else dtype.itemsize
        if byte_order is None and size > 1:
            raise RuntimeError("function missing required argument 'byte_order' (pos 2)")
        if byte_order not in (None, "little", "big", "native"):
            raise ValueError(f"invalid byte_order '{byte_order}' (expected 'big', 'little', or 'native')")
        length = len(memoryview(buffer).cast("B")) - offset
        host = np.frombuffer(buffer, np.uint8, length // size * size if count < 0 else count * size, offset)
        if byte_order not in (None, "native", sys.byteorder):
            host = host.reshape(-1, size)[:, ::-1].reshape(-1)
        return _of_bytes(host.copy())

    def _put(self, host: np.ndarray) -> UntypedStorage:
        """Replace all bytes; those on meta are nothing."""
        cell = self._storage
        if self.is_meta:
            return self
        shape = cell.form.shape
        array = np.ascontiguousarray(host).view(cell.form.dtype)
        if cell.strides is None:
            array = array.reshape(shape)
        else:
            order = memory_order(Layout(shape, cell.strides, 0))[::-1]
            array = array.reshape([shape[d] for d in order]).transpose(np.argsort(order))
        store(cell, immediate.jax.device_put(array, cell.form.sharding))
        return self

    def __setitem__(self, index: Any, value: int) -> None:
        if self.is_meta:
            return
        host = self._bytes().copy()
        host[index] = value
        self._put(host)

    def fill_(self, value: int) -> UntypedStorage:
        """Set every byte."""
        return self._put(np.full(self.nbytes(), value, np.uint8))

    def copy_(self, source: UntypedStorage, non_blocking: bool | None = None) -> UntypedStorage:
        """Take over the bytes of another storage of the same size. RuntimeError for another size."""
        if source.nbytes() != self.nbytes():
            raise RuntimeError(
                f"size does not match, self was {self.nbytes()} bytes but src was {source.nbytes()} bytes"
            )
        if self.is_meta:
            return self
        source.demand_values()
        return self._put(source._bytes())

    def byteswap(self, dtype: dtype) -> None:
        """Turn the bytes of every element of a type around."""
        self._put(self._bytes().reshape(-1, dtype.itemsize)[:, ::-1].reshape(-1))

    def new(self) -> UntypedStorage:
        """An empty one."""
        return UntypedStorage(0)

    def to(self, *, device: DeviceLike, non_blocking: bool = False) -> UntypedStorage:
        """A copy on a device, or this if it is there."""
        target = devices.as_device(device)
        if target.type == self.device.type and target.index in (None, self.device.index):
            return self
        self.demand_values()
        if target.type == "meta":
            return UntypedStorage(self.nbytes(), device=target)
        made = UntypedStorage(0, device=target)
        where = devices.jax_device(target)
        store(made._storage, immediate.jax.device_put(self._bytes(), where))
        return made

    def cuda(self, device: DeviceLike = None, non_blocking: bool = False) -> UntypedStorage:
        """A copy on a GPU."""
        return self.to(device="cuda" if device is None else device)

    def type(self) -> str:
        return "torch.storage.UntypedStorage"

    def get_device(self) -> int:
        return -1 if self.device.type == "cpu" else self.device.index or 0

    def share_memory_(self) -> UntypedStorage:
        """This, its bytes in memory that other processes map when they are sent it, or are forked."""
        if self.is_meta:
            raise RuntimeError("share_memory_(): only available on CPU; a storage on meta has no memory")
        if not process_memory.share(self._storage):
            SHARED.add(self._storage)
        return self

    def pin_memory(self, device: DeviceLike = "cuda") -> UntypedStorage:
        """This where there is an accelerator: jax stages its own copies. RuntimeError without one."""
        demand_accelerator()
        return self

    def data_ptr(self) -> int:
        """The address of the first byte, as :meth:`Tensor.data_ptr`; 0 when the storage is empty or on meta."""
        return address(self._storage) if self.nbytes() and self.device.type != "meta" else 0

    _cdata = property(lambda self: self._storage.address)

    def __sizeof__(self) -> int:
        return super().__sizeof__() + self.nbytes()

    def nbytes(self) -> int:
        """How many bytes there are."""
        value = self._storage.form
        return 0 if isinstance(value, Freed) else numel(value.shape) * value.dtype.itemsize

    size = __len__ = nbytes

    def element_size(self) -> int:
        return 1

    @property
    def device(self) -> devices.device:
        value = self._storage.form
        return devices.META if type(value) is immediate.Abstract else devices.of_array(value)

    is_cuda = property(lambda self: self.device.type == "cuda")
    is_meta = property(lambda self: type(self._storage.form) is immediate.Abstract)

    def demand_values(self) -> None:
        """NotImplementedError for a storage on meta, which has none."""
        if self.is_meta:
            raise NotImplementedError("Cannot copy out of meta tensor; no data!")

    @volatile
    def resizable(self) -> bool:
        return not self._storage.shared or self._storage.host.alone()

    def is_pinned(self, device: str = "cuda") -> bool:
        return False

    def is_shared(self) -> bool:
        return process_memory.file_of(cell := self._storage) is not None or cell in SHARED or cell in FILES

    def resize_(self, size: int) -> UntypedStorage:
        """Give up the memory (``size`` 0), or take as much as the tensors over it need again, filled with zeros.

        Raises:
            NotImplementedError: for any other size; the memory is that of one array.
        """
        storage = self._storage
        demand_resizable(storage)
        value = storage.form
        needed = numel(value.shape) * value.dtype.itemsize
        if size == self.nbytes():
            return self
        if self.is_meta:
            raise NotImplementedError(f"untyped_storage().resize_({size}): a storage on meta keeps its size")
        if size not in (0, needed):
            raise NotImplementedError(
                f"untyped_storage().resize_({size}): torchlike can free a storage (0) or give it back its {needed} "
                "bytes, not make it another size; use tensor.resize_()"
            )
        if size:
            store(storage, immediate.jax.device_put(np.zeros(value.shape, value.dtype), value.sharding))
        else:
            store(storage, Freed(value))
        return self

    def _bytes(self) -> np.ndarray:
        """The bytes on the host, in the order in which they lie."""
        storage = self._storage
        if self.is_meta:
            raise NotImplementedError("Not available for 'meta' device type: there are no bytes")
        enter(storage)
        value = flat_numpy(storage.value)
        if storage.strides is not None:
            value = value.transpose(memory_order(Layout(value.shape, storage.strides, 0))[::-1])
        return np.frombuffer(value.tobytes(), np.uint8)

    def tolist(self) -> list[int]:
        """The bytes as a list of ints."""
        return self._bytes().tolist()

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            if index.step not in (None, 1):
                raise RuntimeError(f"Trying to slice with a step of {index.step}, but only a step of 1 is supported")
            return _Part.of(self, slice(*index.indices(len(self._bytes()))))
        if not self.is_meta and not -self.nbytes() <= index < self.nbytes():
            raise IndexError(f"index {index} out of range for storage of size {self.nbytes()}")
        return int(self._bytes()[index])

    def __iter__(self) -> Iterator[int]:
        return iter(self.tolist())

    def clone(self) -> UntypedStorage:
        """A copy, with memory of its own."""
        return UntypedStorage(self.nbytes(), device="meta") if self.is_meta else _of_bytes(self._bytes())

    def cpu(self) -> UntypedStorage:
        """A copy on the CPU, or this if it is there."""
        self.demand_values()
        return self if self.device.type == "cpu" else _of_bytes(self._bytes())

    def untyped(self) -> UntypedStorage:
        return self

    def whole(self) -> UntypedStorage:
        """This, or memory of its own with the bytes that it is a part of, if nobody could see that it is."""
        return self

    def __copy__(self) -> UntypedStorage:
        return self.clone()

    def __deepcopy__(self, memo: dict[Any, Any]) -> UntypedStorage:
        """A copy, shared with the copies of the tensors of this storage."""
        made = copied_cell(self._storage, memo)
        ref = getattr(made, "handle", None)
        handle = None if ref is None else ref()
        return _handle(made) if handle is None else handle

    def __repr__(self) -> str:
        numbers = "..." if self.is_meta else "\n".join(f" {b}" for b in self.tolist())
        return f"{numbers}\n[torch.storage.UntypedStorage(device={self.device}) of size {self.nbytes()}]"


SHARED: weakref.WeakSet[Storage] = weakref.WeakSet()
"""Storages that share_memory_() was called for in vain: they are empty, or not on the CPU."""

FILES: weakref.WeakSet[Storage] = weakref.WeakSet()
"""Storages read from files. Tensors over parts of them are copies: PyTorch's see what is written to the same bytes."""

_NAMES: weakref.WeakKeyDictionary[Storage, str] = weakref.WeakKeyDictionary()
"""The paths of the files whose memory storages share."""


def _of_ints(items: Sequence[int]) -> np.ndarray:
    for item in items:
        if not isinstance(item, int):
            raise RuntimeError(
                f"torch.UntypedStorage(): tried to construct a storage from a sequence ({type(items).__name__}), but "
                f"one of the items was of type {type(item).__name__} instead of int"
            )
    return np.array(list(items), np.int64).astype(np.uint8)


def _nothing(nbytes: int) -> Storage:
    return holding(immediate.Abstract((nbytes,), np.dtype(np.uint8)))


def _of_bytes(array: np.ndarray) -> UntypedStorage:
    new = UntypedStorage(0)
    store(new._storage, immediate.uploaded(array, devices.of_host()))
    return new


class _Part(UntypedStorage):
    """Some bytes of a storage, which are read and written there."""

    __slots__ = ("_at", "_whole")

    @classmethod
    def of(cls, whole: UntypedStorage, at: slice) -> _Part:
        made = cls(max(at.stop - at.start, 0))
        made._whole, made._at = whole, at
        return made

    def _bytes(self) -> np.ndarray:
        return self._whole._bytes()[self._at]

    def _put(self, host: np.ndarray) -> UntypedStorage:
        every = self._whole._bytes().copy()
        every[self._at] = host
        self._whole._put(every)
        return self

    def data_ptr(self) -> int:
        return self._whole.data_ptr() + self._at.start

    def whole(self) -> UntypedStorage:
        """Memory of its own with these bytes of a file. NotImplementedError where somebody could see that it is."""
        whole = self._whole
        while isinstance(whole, _Part):
            whole = whole._whole
        if whole._storage not in FILES:
            raise NotImplementedError("a tensor over a slice of a storage: slice the tensor over the whole storage")
        return _of_bytes(self._bytes())

    def resize_(self, size: int) -> UntypedStorage:
        raise RuntimeError("Trying to resize storage that is not resizable: it is a slice of another one")


class TypedStorage:
    """The elements of a storage, as one dtype."""

    __slots__ = ("_untyped_storage", "dtype")
    filename = None

    def __init__(
        self,
        *args: int | Sequence[Any],
        wrap_storage: UntypedStorage | None = None,
        dtype: dtype | None = None,
        device: DeviceLike = None,
    ) -> None:
        """A size (zeros) or a sequence of numbers, or ``wrap_storage`` seen as ``dtype``."""
        given.demand_arguments("TypedStorage.__init__", (UntypedStorage, TypedStorage, Tensor), args, wrap_storage)
        kind = get_default_dtype() if dtype is None else dtype
        self.dtype = kind
        if wrap_storage is not None:
            given.demand_wrapping(dtype, device)
            self._untyped_storage = wrap_storage
            return
        data = args[0] if args else 0
        if given.known_device(device) is not None and devices.as_device(device).type == "meta":
            count = data if isinstance(data, int) else len(data)
            self._untyped_storage = UntypedStorage(count * kind.itemsize, device="meta")
            return
        self._untyped_storage = _of_bytes(np.ascontiguousarray(given.host_elements(data, kind)).view(np.uint8))
        if device is not None:
            self._untyped_storage = self._untyped_storage.to(device=device)

    def _put(self, host: np.ndarray) -> TypedStorage:
        self._untyped_storage._put(np.ascontiguousarray(host).view(np.uint8))
        return self

    def __setitem__(self, index: Any, value: Any) -> None:
        if self._untyped_storage.is_meta:
            return
        host = self._elements().copy()
        host[index] = given.elements(value, self.dtype)
        self._put(host)

    def fill_(self, value: Any) -> TypedStorage:
        """Set every element."""
        if isinstance(value, TypedStorage):
            raise RuntimeError("cannot set item with TypedStorage: give one number, or use copy_()")
        return self._put(np.full(self.size(), given.elements(value, self.dtype)))

    def copy_(self, source: TypedStorage, non_blocking: bool | None = None) -> TypedStorage:
        """Take over the elements of another storage, as this dtype."""
        if self._untyped_storage.is_meta:
            return self
        source._untyped_storage.demand_values()
        return self._put(source._elements().astype(given.element_type(self.dtype)))

    def type(self) -> str:
        """The name of the class of old."""
        made = LEGACY.get(self.dtype)
        return "torch.storage.TypedStorage" if made is None else f"torch.{made.__name__}"

    def pickle_storage_type(self) -> str:
        """The name of the class of old, without its module."""
        return self.type().rpartition(".")[2]

    def resize_(self, size: int) -> None:
        """As :meth:`UntypedStorage.resize_`, in elements."""
        self._untyped_storage.resize_(size * self.dtype.itemsize)

    def share_memory_(self) -> TypedStorage:
        """As :meth:`UntypedStorage.share_memory_`."""
        self._untyped_storage.share_memory_()
        return self

    def pin_memory(self, device: DeviceLike = "cuda") -> TypedStorage:
        """As :meth:`UntypedStorage.pin_memory`."""
        self._untyped_storage.pin_memory(device)
        return self

    def is_shared(self) -> bool:
        return self._untyped_storage.is_shared()

    def is_pinned(self, device: str = "cuda") -> bool:
        return False

    def cpu(self) -> TypedStorage:
        """A copy on the CPU, or the same memory if it is there."""
        return TypedStorage(wrap_storage=self._untyped_storage.cpu(), dtype=self.dtype)

    def cuda(self, device: DeviceLike = None, non_blocking: bool = False) -> TypedStorage:
        """A copy on a GPU."""
        return TypedStorage(wrap_storage=self._untyped_storage.cuda(device), dtype=self.dtype)

    def get_device(self) -> int:
        return self._untyped_storage.get_device()

    def _as(self, kind: dtype) -> TypedStorage:
        if self._untyped_storage.is_meta:
            return TypedStorage(self.size(), dtype=kind, device="meta")
        return TypedStorage(self.tolist(), dtype=kind)

    def untyped(self) -> UntypedStorage:
        return self._untyped_storage

    def data_ptr(self) -> int:
        return self._untyped_storage.data_ptr()

    def __sizeof__(self) -> int:
        return super().__sizeof__() + self.nbytes()

    def nbytes(self) -> int:
        return self._untyped_storage.nbytes()

    def element_size(self) -> int:
        return self.dtype.itemsize

    def size(self) -> int:
        """How many elements there are."""
        return self.nbytes() // self.dtype.itemsize

    __len__ = size

    device = property(lambda self: self._untyped_storage.device)
    is_cuda = property(lambda self: self._untyped_storage.is_cuda)
    _cdata = property(lambda self: self._untyped_storage._cdata)

    def _elements(self) -> np.ndarray:
        return self._untyped_storage._bytes().view(given.element_type(self.dtype))

    def tolist(self) -> list[Any]:
        """The elements as a list of numbers."""
        return self._elements().tolist()

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice) and not self._untyped_storage.is_meta:
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        return self._elements()[index].item()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def clone(self) -> TypedStorage:
        """A copy, with memory of its own."""
        return TypedStorage(wrap_storage=self._untyped_storage.clone(), dtype=self.dtype)

    def __copy__(self) -> TypedStorage:
        return self.clone()

    def __deepcopy__(self, memo: dict[int, Any]) -> TypedStorage:
        return TypedStorage(wrap_storage=copy.deepcopy(self._untyped_storage, memo), dtype=self.dtype)

    def __repr__(self) -> str:
        lines = "..." if self._untyped_storage.is_meta else "\n".join(f" {x}" for x in self.tolist())
        return f"{lines}\n[torch.storage.TypedStorage(dtype={self.dtype}, device={self.device}) of size {self.size()}]"


LEGACY: dict[dtype, Any] = {}
"""The classes of old by element type; storage.py fills it."""

for _name, _kind in (
    ("double", float64), ("float", float32), ("half", float16), ("bfloat16", bfloat16), ("long", int64),
    ("int", int32), ("short", int16), ("char", int8), ("byte", uint8), ("bool", bool_),
    ("complex_float", complex64), ("complex_double", complex128),
):  # fmt: skip
    setattr(TypedStorage, _name, functools.partialmethod(TypedStorage._as, _kind))


def copied_cell(cell: Storage, memo: dict[Any, Any]) -> Storage:
    """The copy of a dense tensor's storage, one for all that a ``deepcopy`` meets of it."""
    key = "storage", id(cell)
    if key not in memo:
        memo[key] = holding(cell.value)
        memo[key].strides = cell.strides
    return memo[key]


def _handle(cell: Storage) -> UntypedStorage:
    handle = object.__new__(UntypedStorage)
    handle._storage = cell
    cell.handle = weakref.ref(handle)
    return handle


def untyped_storage(t: Tensor) -> UntypedStorage:
    """The :class:`UntypedStorage` that the tensor and its aliases share."""
    if isinstance(t._storage.form, SparseValue):
        if t.is_quantized:
            return untyped_storage(t._storage.form.codes)
        raise NotImplementedError(
            "Cannot access storage of SparseTensorImpl: a sparse tensor has none; its parts, as _values(), have"
        )
    if CAPTURES:
        placed(t)
    ref = getattr(t._storage, "handle", None)
    handle = None if ref is None else ref()
    return _handle(t._storage) if handle is None else handle


def typed_storage(t: Tensor) -> TypedStorage:
    """The :class:`TypedStorage` of the tensor's dtype."""
    return TypedStorage(wrap_storage=untyped_storage(t), dtype=t.dtype)


def deprecated(stacklevel: int = 2) -> None:
    """Warn that typed storages are deprecated."""
    warnings.warn(
        "TypedStorage is deprecated. It will be removed in the future and UntypedStorage will be the only storage "
        "class. This should only matter to you if you are using storages directly.  To access UntypedStorage directly, "
        "use tensor.untyped_storage() instead of tensor.storage()",
        UserWarning,
        stacklevel=stacklevel + 1,
    )


def storage(t: Tensor) -> TypedStorage:
    """As ``untyped_storage``, in elements; deprecated as in PyTorch."""
    deprecated(stacklevel=3)
    return typed_storage(t)
