"""Checkpoints of ``torch.save``: read by an unpickler that knows tensors and plain containers, and nothing else.

A pickle is a program. The names in it are looked up in the table below and nowhere else, and what the table
gives are fresh wrappers, so that no instruction can reach, or change, anything of Python's.
"""

import collections
import contextlib
import io
import math
import pickle
import sys
import zipfile
from collections.abc import Callable
from typing import Any, BinaryIO, NamedTuple

import numpy as np

import torchlike._base.dtypes as dtypes
from torchlike._base.device import device as Device
from torchlike._core.tensor.size import Size
from torchlike._core.tensor.tensor import Tensor, alias
from torchlike.nn.parameter import Parameter

__all__ = ["add_safe_globals", "clear_safe_globals", "get_safe_globals", "safe_globals"]

_STORAGES = {
    "DoubleStorage": dtypes.float64,
    "FloatStorage": dtypes.float32,
    "HalfStorage": dtypes.float16,
    "BFloat16Storage": dtypes.bfloat16,
    "LongStorage": dtypes.int64,
    "IntStorage": dtypes.int32,
    "ShortStorage": dtypes.int16,
    "CharStorage": dtypes.int8,
    "ByteStorage": dtypes.uint8,
    "BoolStorage": dtypes.bool,
    "ComplexFloatStorage": dtypes.complex64,
    "ComplexDoubleStorage": dtypes.complex128,
    "UntypedStorage": dtypes.uint8,
}
_OLD_PICKLE = b"\x80"
_allowed: list[Any] = []


# -- names that the user allows ----------------------------------------------------------------------------
def add_safe_globals(safe_globals: list[Any]) -> None:
    """Allow classes and functions of one's own in files of ``torch.save``: loading then calls them.

    Args:
        safe_globals: classes and functions, or pairs of one and the full name it has in the file.
    """
    for entry in safe_globals:
        if entry not in _allowed:
            _allowed.append(entry)


def get_safe_globals() -> list[Any]:
    """What :func:`add_safe_globals` has allowed."""
    return list(_allowed)


def clear_safe_globals() -> None:
    """Forget what :func:`add_safe_globals` has allowed."""
    _allowed.clear()


class safe_globals(contextlib.AbstractContextManager):
    """As :func:`add_safe_globals`, within a ``with`` only."""

    def __init__(self, safe_globals: list[Any]) -> None:
        self.names = safe_globals

    def __enter__(self) -> None:
        self.before = get_safe_globals()
        add_safe_globals(self.names)

    def __exit__(self, *exc: Any) -> None:
        _allowed[:] = self.before


def _allowed_names() -> dict[str, Any]:
    names = {}
    for entry in _allowed:
        thing, name = entry if isinstance(entry, tuple) else (entry, f"{entry.__module__}.{entry.__qualname__}")
        names[name] = thing
        if name.startswith("torchlike."):
            names["torch." + name.removeprefix("torchlike.")] = thing
    return names


# -- reading -------------------------------------------------------------------------------------------
def not_an_archive(file: BinaryIO) -> Exception:
    """The error for a file that is no zip archive."""
    file.seek(0)
    start = file.read(2)
    if not start:
        return EOFError("load(): the file is empty")
    if start[:1] == _OLD_PICKLE:
        return NotImplementedError(
            "load() does not read plain pickles, nor the format of torch.save before PyTorch 1.6: load the file "
            "with torch, and save it again"
        )
    return pickle.UnpicklingError("load(): the file is not one that torchlike.save or torch.save wrote")


def read(archive: zipfile.ZipFile, make: Callable[[np.ndarray, str], Tensor]) -> Any:
    """The object in an archive that ``torch.save`` wrote.

    Args:
        make: the tensor of a host array and the name of the device it was saved on.
    """
    pickles = [name for name in archive.namelist() if name.endswith("/data.pkl")]
    if not pickles:
        raise pickle.UnpicklingError("load(): a zip archive that neither torchlike.save nor torch.save wrote")
    root = pickles[0].removesuffix("data.pkl")
    if root + "constants.pkl" in archive.namelist():
        raise NotImplementedError("load() does not read TorchScript archives: save the module's state_dict() instead")
    unpickler = _Unpickler(io.BytesIO(archive.read(pickles[0])), encoding="utf-8")
    unpickler.entries = _Entries(archive, root, make)
    return unpickler.load()


class _Storage(NamedTuple):
    """A storage in the archive: its entry, element type and device."""

    key: str
    dtype: Any
    location: str


class _Entries:
    """Makes tensors of the storages in an archive."""

    def __init__(self, archive: zipfile.ZipFile, root: str, make: Callable[[np.ndarray, str], Tensor]):
        self.archive, self.root, self.make = archive, root, make
        order = archive.read(root + "byteorder") if root + "byteorder" in archive.namelist() else b"little"
        self.foreign = order.decode() != sys.byteorder
        self.bases: dict[tuple, Tensor] = {}

    def array(self, storage: _Storage, dtype: Any) -> np.ndarray:
        array = np.frombuffer(self.archive.read(f"{self.root}data/{storage.key}"), dtype.np)
        return array.byteswap() if self.foreign else array

    def tensor(self, storage: Any, dtype: Any, offset: int, size: tuple, stride: tuple, marks: Any) -> Tensor:
        """A tensor over a part of a storage; those over the whole of one share theirs."""
        if not isinstance(storage, _Storage):
            raise pickle.UnpicklingError(f"a tensor needs a storage, not {type(storage).__name__}")
        array = self.array(storage, dtype)
        _check_bounds(len(array), offset, size, stride)
        whole = offset == 0 and math.prod(size) == len(array) and tuple(stride) == _contiguous(size)
        if whole and not marks:
            key = (storage.key, dtype, *size)
            if key not in self.bases:
                self.bases[key] = self.make(array.reshape(size), storage.location)
            return alias(self.bases[key])
        steps = [n * array.itemsize for n in stride]
        view = (
            np.lib.stride_tricks.as_strided(array[offset:], size, steps)
            if math.prod(size)
            else np.empty(size, dtype.np)
        )
        if marks and marks.get("conj"):
            view = np.conj(view)
        if marks and marks.get("neg"):
            view = -view
        return self.make(view.copy(), storage.location)


def _contiguous(size: tuple) -> tuple:
    return tuple(math.prod(size[i + 1 :]) for i in range(len(size)))


def _check_bounds(length: int, offset: Any, size: Any, stride: Any) -> None:
    """A tensor must lie in its storage: nothing is read beyond."""
    numbers = (offset, *size, *stride)
    if len(size) != len(stride) or not all(isinstance(n, int) and n >= 0 for n in numbers):
        raise pickle.UnpicklingError(
            f"a tensor of size {size}, stride {stride} and offset {offset}: the file is damaged"
        )
    last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    if math.prod(size) and last >= length:
        raise pickle.UnpicklingError(
            f"a tensor of size {size} reaches element {last} of a storage of {length}: the file is damaged"
        )


class _Permitted:
    """What a name in a pickle gives: it can be called, and nothing else."""

    __slots__ = ("_call",)

    def __init__(self, call: Callable):
        object.__setattr__(self, "_call", call)

    def __call__(self, *args: Any) -> Any:
        return self._call(*args)

    def __setattr__(self, name: str, value: Any) -> None:
        raise pickle.UnpicklingError("the file tries to change what it may only call")


class _Unpickler(pickle.Unpickler):
    """An unpickler of the names in its table."""

    entries: _Entries

    def persistent_load(self, pid: Any) -> _Storage:
        if not (isinstance(pid, tuple) and len(pid) == 5 and pid[0] == "storage"):
            raise pickle.UnpicklingError(f"unknown reference {pid!r}: the file is damaged")
        _, kind, key, location, _ = pid
        if not isinstance(kind, dtypes.dtype):
            raise pickle.UnpicklingError("a storage without an element type: the file is damaged")
        return _Storage(str(key), kind, str(location))

    def find_class(self, module: str, name: str) -> Any:
        full = f"{'builtins' if module == '__builtin__' else module}.{name}"
        if module in ("torch", "torch.storage") and name in _STORAGES:
            return _STORAGES[name]
        if module == "torch" and isinstance(dtypes.ALIASES.get(name), dtypes.dtype):
            return dtypes.ALIASES[name]
        if full in _METHODS:
            return _Permitted(getattr(self, _METHODS[full]))
        if full in _CALLS:
            return _Permitted(_CALLS[full])
        allowed = _allowed_names()
        if full in allowed:
            return allowed[full]
        raise pickle.UnpicklingError(
            f"Unsupported global: {full} is not one that load() knows. It reads tensors and plain containers: save a "
            f"state_dict(). If you trust the file, torch.serialization.add_safe_globals([...]) allows classes by name."
        )

    # -- what torch's pickles call ---------------------------------------------------------------------
    def tensor(self, storage, offset, size, stride, requires_grad, hooks, marks=None) -> Tensor:
        dtype = getattr(storage, "dtype", None)
        return self.entries.tensor(storage, dtype, offset, size, stride, marks).requires_grad_(bool(requires_grad))

    def typed(self, storage, offset, size, stride, requires_grad, hooks, dtype, marks=None) -> Tensor:
        return self.entries.tensor(storage, dtype, offset, size, stride, marks).requires_grad_(bool(requires_grad))

    def meta(self, dtype, size, stride, requires_grad) -> Tensor:
        values = np.broadcast_to(np.zeros((), dtype.np), size)
        return self.entries.make(values, "meta").requires_grad_(bool(requires_grad))

    def parameter(self, data, requires_grad, hooks, state=None) -> Tensor:
        return _with_state(Parameter(data, bool(requires_grad)), state)

    def subclass(self, make, cls, args, state) -> Tensor:
        t = make(*args)
        return _with_state(t.as_subclass(cls) if isinstance(cls, type) else t, state)


def _with_state(t: Tensor, state: Any) -> Tensor:
    if isinstance(state, dict):
        t.__dict__.update(state)
    return t


def _bytearray(*data: Any) -> bytearray:
    if len(data) == 2:
        return bytearray(_encoded(*data))
    if not all(isinstance(part, bytes) for part in data):  # a number would ask for that much memory
        raise pickle.UnpicklingError("the file makes a bytearray of what is no bytes")
    return bytearray(*data)


def _encoded(text: str, encoding: str) -> bytes:
    return text.encode("latin1" if encoding in ("latin1", "latin-1") else "utf-8")


def _class_of_tensors(*args: Any) -> Any:
    raise pickle.UnpicklingError("the file tries to make a tensor without a storage")


_METHODS = {
    "torch._utils._rebuild_tensor_v2": "tensor",
    "torch._utils._rebuild_tensor_v3": "typed",
    "torch._utils._rebuild_meta_tensor_no_storage": "meta",
    "torch._utils._rebuild_parameter": "parameter",
    "torch._utils._rebuild_parameter_with_state": "parameter",
    "torch._tensor._rebuild_from_type_v2": "subclass",
}
_CALLS: dict[str, Callable] = {
    "collections.OrderedDict": collections.OrderedDict,
    "collections.Counter": collections.Counter,
    "builtins.set": set,
    "builtins.frozenset": frozenset,
    "builtins.complex": complex,
    "builtins.slice": slice,
    "builtins.range": range,
    "builtins.xrange": range,
    "builtins.bytearray": _bytearray,
    "_codecs.encode": _encoded,
    "torch.Size": Size,
    "torch.device": Device,
    "torch.Tensor": _class_of_tensors,
    "torch._tensor.Tensor": _class_of_tensors,
    "torch.nn.parameter.Parameter": _class_of_tensors,
    "torch.nn.parameter.Buffer": _class_of_tensors,
}
