"""``torch.storage``: the memory of tensors, as bytes or as elements, and the storage classes of old."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torchlike._base.dtypes as dtypes
from torchlike._core.tensor.storage_arguments import StorageBase as StorageBase
from torchlike._core.tensor.storage_arguments import demand_unnamed
from torchlike._core.tensor.tensor import Tensor
from torchlike._core.tensor.untyped_storage import LEGACY, TypedStorage, UntypedStorage
from torchlike._utils import STORAGES, _load_from_bytes

_StorageBase = StorageBase
__all__ = [
    "Storage",
    "StorageBase",
    "TypedStorage",
    "UntypedStorage",
    "_load_from_bytes",
    "is_storage",
    *STORAGES,
]


def is_storage(obj: Any, /) -> bool:
    """Whether ``obj`` is a storage.

    >>> import torchlike as torch
    >>> torch.is_storage(torch.ones(2).untyped_storage()), torch.is_storage(torch.ones(2))
    (True, False)
    """
    return isinstance(obj, TypedStorage | UntypedStorage)


class _LegacyMeta(type):
    """``isinstance(s, torch.FloatStorage)`` asks for the element type of a storage on the CPU."""

    dtype: dtypes.dtype

    def __instancecheck__(cls, x: Any) -> bool:
        own = isinstance(x, TypedStorage) and x.device.type == "cpu"
        return own and (x.dtype in LEGACY if cls is _LegacyStorage else x.dtype is cls.dtype)

    def __call__(cls, *args: Any, wrap_storage: UntypedStorage | None = None, **named: Any) -> TypedStorage:
        if cls is _LegacyStorage:
            raise RuntimeError("Only child classes of _LegacyStorage can be instantiated: torch.FloatStorage is one")
        demand_unnamed(f"torch.{cls.__name__}", named)
        return TypedStorage(*args, wrap_storage=wrap_storage, dtype=cls.dtype)


class _LegacyStorage(TypedStorage, metaclass=_LegacyMeta):
    """What the classes of old derive from."""


def _from_buffer(cls: Any, *args: Any, **kwargs: Any) -> TypedStorage:
    """A storage with the bytes of a buffer, as :meth:`UntypedStorage.from_buffer`."""
    made = UntypedStorage.from_buffer(*args, dtype=cls.dtype, **kwargs)
    return TypedStorage(wrap_storage=made, dtype=cls.dtype)


def _from_file(cls: Any, filename: Any, shared: bool, size: int) -> TypedStorage:
    """A storage with the first ``size`` elements of a file, as :meth:`UntypedStorage.from_file`."""
    made = UntypedStorage.from_file(filename, shared, size * cls.dtype.itemsize)
    return TypedStorage(wrap_storage=made, dtype=cls.dtype)


def _legacy(name: str, kind: dtypes.dtype) -> Any:
    body = {
        "dtype": kind,
        "from_buffer": classmethod(_from_buffer),
        "_from_buffer": classmethod(_from_buffer),
        "from_file": classmethod(_from_file),
    }
    body["__module__"] = "torch"
    body["__doc__"] = f"Makes a :class:`TypedStorage` of {kind} on the CPU."
    return _LegacyMeta(name, (_LegacyStorage,), body)


_storage_classes: set[type] = {UntypedStorage, TypedStorage}

for _name, _kind in STORAGES.items():
    globals()[_name] = LEGACY[_kind] = _legacy(_name, _kind)
    _storage_classes.add(LEGACY[_kind])


def _dtype_to_storage_type_map() -> dict[dtypes.dtype, str]:
    """The names of the classes of old by element type."""
    return {kind: made.__name__ for kind, made in LEGACY.items()}


def _storage_type_to_dtype_map() -> dict[str, dtypes.dtype]:
    """The element types of the classes of old by name."""
    return {made.__name__: kind for kind, made in LEGACY.items()}


if TYPE_CHECKING:
    Storage = LEGACY[dtypes.float32]


def __getattr__(name: str) -> Any:
    if name == "Storage":  # of the default dtype
        return LEGACY[dtypes.get_default_dtype()]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)


def storage_type(self: Tensor) -> Any:
    """The class of old that :meth:`Tensor.storage` is an instance of."""
    return LEGACY.get(self.dtype, TypedStorage)
