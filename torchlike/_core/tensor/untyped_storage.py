"""``tensor.untyped_storage()`` and ``tensor.storage()``: the memory that aliases share, seen as bytes or elements."""

from __future__ import annotations

import copy
import warnings
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

import torchlike._base.device as devices
from torchlike._base.layout import Layout, memory_order, numel
from torchlike._core.tensor.mutation import store
from torchlike._core.tensor.storage import Freed, Storage
from torchlike._core.tensor.tensor import wrap
from torchlike._core.tensor.views import View
from torchlike._executor import immediate
from torchlike._executor.sparse import SparseValue

if TYPE_CHECKING:
    from torchlike._base.dtypes import dtype
    from torchlike._core.tensor.tensor import Tensor
    from torchlike._core.typed import DeviceLike


class UntypedStorage:
    """The bytes that a tensor and its aliases share: one object for all of them.

    >>> import torchlike as torch
    >>> x = torch.zeros(2, 3)
    >>> x.untyped_storage() is x[1].untyped_storage(), x.untyped_storage().nbytes()
    (True, 24)
    """

    __slots__ = ("_storage", "__weakref__")

    def __init__(self, size: int = 0, *, device: DeviceLike = None) -> None:
        target = devices.jax_device(devices.as_device(device or "cpu"))
        value = immediate.jax.device_put(np.zeros(size, np.uint8), target)
        self._storage = Storage(value)
        self._storage.shown = weakref.ref(self)

    def data_ptr(self) -> int:
        """A virtual address, as :meth:`Tensor.data_ptr`; 0 when the storage is empty or on meta."""
        return self._storage.address if self.nbytes() and self.device.type != "meta" else 0

    _cdata = property(lambda self: self._storage.address)

    def nbytes(self) -> int:
        """How many bytes there are."""
        value = self._storage.value
        return 0 if isinstance(value, Freed) else numel(value.shape) * value.dtype.itemsize

    size = __len__ = nbytes

    def element_size(self) -> int:
        return 1

    @property
    def device(self) -> devices.device:
        value = self._storage.value
        return devices.META if type(value) is immediate.Abstract else devices.of_array(value)

    is_cuda = property(lambda self: self.device.type == "cuda")

    def resizable(self) -> bool:
        return True

    def is_pinned(self, device: str = "cuda") -> bool:
        return False

    def is_shared(self) -> bool:
        return False

    def resize_(self, size: int) -> UntypedStorage:
        """Give up the memory (``size`` 0), or take as much as the tensors over it need again, filled with zeros.

        Raises:
            NotImplementedError: for any other size; the memory is that of one array.
        """
        storage = self._storage
        value = storage.value
        needed = numel(value.shape) * value.dtype.itemsize
        if size == self.nbytes():
            return self
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
        value = np.asarray(storage.value)
        if storage.strides is not None:
            value = value.transpose(memory_order(Layout(value.shape, storage.strides, 0))[::-1])
        return np.frombuffer(value.tobytes(), np.uint8)

    def tolist(self) -> list[int]:
        """The bytes as a list of ints."""
        return self._bytes().tolist()

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return _of_bytes(self._bytes()[index])
        return int(self._bytes()[index])

    def __iter__(self) -> Iterator[int]:
        return iter(self.tolist())

    def clone(self) -> UntypedStorage:
        """A copy, with memory of its own."""
        return _of_bytes(self._bytes())

    def cpu(self) -> UntypedStorage:
        """A copy on the CPU, or this if it is there."""
        return self if self.device.type == "cpu" else _of_bytes(self._bytes())

    def untyped(self) -> UntypedStorage:
        return self

    def __copy__(self) -> UntypedStorage:
        return self.clone()

    def __deepcopy__(self, memo: dict[int, Any]) -> UntypedStorage:
        if id(self) not in memo:
            memo[id(self)] = self.clone()
        return memo[id(self)]

    def __repr__(self) -> str:
        numbers = "\n".join(f" {b}" for b in self.tolist())
        return f"{numbers}\n[torch.storage.UntypedStorage(device={self.device}) of size {self.nbytes()}]"


def _of_bytes(array: np.ndarray) -> UntypedStorage:
    new = UntypedStorage(0)
    store(new._storage, immediate.uploaded(array))
    return new


class TypedStorage:
    """The elements of a storage, as one dtype."""

    __slots__ = ("_untyped_storage", "dtype")

    def __init__(self, *, wrap_storage: UntypedStorage, dtype: dtype) -> None:
        self._untyped_storage, self.dtype = wrap_storage, dtype

    def untyped(self) -> UntypedStorage:
        return self._untyped_storage

    def data_ptr(self) -> int:
        return self._untyped_storage.data_ptr()

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
        return self._untyped_storage._bytes().view(self.dtype.np)

    def tolist(self) -> list[Any]:
        """The elements as a list of numbers."""
        return self._elements().tolist()

    def __getitem__(self, index: Any) -> Any:
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
        numbers = "\n".join(f" {x}" for x in self.tolist())
        kind = f"torch.storage.TypedStorage(dtype={self.dtype}, device={self.device})"
        return f"{numbers}\n[{kind} of size {self.size()}]"


def untyped_storage(t: Tensor) -> UntypedStorage:
    """The :class:`UntypedStorage` that the tensor and its aliases share."""
    if isinstance(t._storage.value, SparseValue):
        raise NotImplementedError(
            "Cannot access storage of SparseTensorImpl: a sparse tensor has none; its parts, as _values(), have"
        )
    ref = getattr(t._storage, "shown", None)
    shown = None if ref is None else ref()
    if shown is None:
        shown = object.__new__(UntypedStorage)
        shown._storage = t._storage
        t._storage.shown = weakref.ref(shown)
    return shown


def typed_storage(t: Tensor) -> TypedStorage:
    """The :class:`TypedStorage` of the tensor's dtype."""
    return TypedStorage(wrap_storage=untyped_storage(t), dtype=t.dtype)


def storage(t: Tensor) -> TypedStorage:
    """As ``untyped_storage``, in elements; deprecated as in PyTorch."""
    warnings.warn(
        "TypedStorage is deprecated. It will be removed in the future and UntypedStorage will be the only storage "
        "class. This should only matter to you if you are using storages directly.  To access UntypedStorage directly, "
        "use tensor.untyped_storage() instead of tensor.storage()",
        UserWarning,
        stacklevel=2,
    )
    return typed_storage(t)


def of_storage(source: UntypedStorage | TypedStorage, dtype: dtype) -> Tensor:
    """A tensor of one dimension over all elements of a storage."""
    cell = source.untyped()._storage
    t = wrap(cell.value)
    t._storage = t._vc = cell
    if cell.strides is not None:
        t._view = View((), (), Layout(cell.value.shape, cell.strides, 0))
    t = t.as_strided((numel(cell.value.shape),), (1,), 0)
    return t if t.dtype is dtype else t.view(dtype)
