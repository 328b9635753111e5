"""Files of ``torch.save``, read: the archive of today, and the sequence of pickles before PyTorch 1.6."""

import io
import pickle
import pickletools
import sys
import zipfile
from collections.abc import Callable
from typing import IO, Any

import numpy as np

import torchlike._base.dtypes as dtypes
from torchlike._base.bits import NARROW, X64, narrowed
from torchlike._base.device import device as Device
from torchlike._core.conversion.loaded import LoadedStorage
from torchlike._core.tensor.storage_arguments import element_type
from torchlike._core.tensor.untyped_storage import TypedStorage, UntypedStorage
from torchlike._utils import _rebuild_sparse_tensor
from torchlike.interop.checkpoints.names import our_module
from torchlike.interop.checkpoints.records import filled
from torchlike.interop.checkpoints.safe import Permitted, SafeUnpickler, constant_named
from torchlike.interop.checkpoints.writing import MAGIC, PROTOCOL

_SPARSE = our_module(_rebuild_sparse_tensor.__module__), _rebuild_sparse_tensor.__name__
PLACE = Callable[[UntypedStorage, str], UntypedStorage]


class Storages:
    """Makes the storages that a pickle refers to.

    Args:
        read: the bytes of a storage, from its key and its length.
        swap: whether the file has the other order of bytes.
        place: the storage to use for one that was saved at a location.
    """

    def __init__(self, read: Callable[[str, int], bytes], swap: bool, place: PLACE):
        self.read, self.swap, self.place = read, swap, place
        self.made: dict[str, UntypedStorage] = {}
        self.loaded: dict[str, LoadedStorage] = {}
        self.dtypes: dict[str, Any] = {}
        self.sizes: dict[str, int] = {}
        self.sparse: list[tuple[Any, ...]] | None = None

    def referred(self, pid: Any) -> Any:
        """What a reference in a pickle stands for."""
        if isinstance(pid, tuple):  # texts of Python 2 are bytes where a caller asked for encoding="bytes"
            pid = tuple(part.decode() if isinstance(part, bytes) else part for part in pid)
        kind = pid[0] if isinstance(pid, tuple) and pid else None
        if kind == "module":  # in old files, a class with its source
            return pid[1]
        if kind != "storage" or len(pid) not in (5, 6):
            raise pickle.UnpicklingError(f"unknown reference {pid!r}: the file is damaged")
        _, dtype, key, location, count, *view = pid
        dtype = dtypes.uint8 if dtype is UntypedStorage else dtype
        if not isinstance(dtype, dtypes.dtype) or not isinstance(count, int):
            raise pickle.UnpicklingError("a storage without an element type: the file is damaged")
        key = str(key)
        if key not in self.made:
            self._make(key, dtype, str(location), count * dtype.itemsize)
        bytes_of = self.made[key]
        if any(view):  # as PyTorch 0.3 saved a view of a storage: its key, first element and length
            _, first, length = view[0]
            if not (isinstance(first, int) and isinstance(length, int) and 0 <= first <= first + length <= count):
                raise pickle.UnpicklingError("a view of a storage beyond its end: the file is damaged")
            bytes_of = bytes_of[first * dtype.itemsize : (first + length) * dtype.itemsize]
        return TypedStorage(wrap_storage=bytes_of, dtype=dtypes.ALIASES[dtype.name])

    def rebuild_sparse(self, *args: Any) -> Any:
        """A sparse tensor whose parts have their bytes only later."""
        self.sparse.append(args)  # type: ignore[union-attr]
        return _rebuild_sparse_tensor(*args, check=False)

    def _make(self, key: str, dtype: Any, location: str, nbytes: int) -> None:
        host = self.here(np.frombuffer(self.read(key, nbytes), np.uint8), dtype)
        # It is sent to its place before it is put anywhere: a device that is not there need not be.
        new = LoadedStorage(host, Device("cpu"))
        placed = self.place(new, location)
        self.made[key], self.dtypes[key], self.sizes[key] = placed, dtype, nbytes
        if isinstance(placed, LoadedStorage):
            self.loaded[key] = placed

    def here(self, host: np.ndarray, dtype: Any) -> np.ndarray:
        """Bytes of the file in the order of this machine, and as wide as numbers are here."""
        if self.swap and dtype.itemsize > 1:
            part = dtype._real if dtype.is_complex else dtype
            host = host.view(element_type(part)).byteswap()
        if X64 or dtype.name not in NARROW:
            return host
        return narrowed(host.view(dtype.np)).view(np.uint8)


def _unpickler(file: Any, storages: Storages, module: Any, arguments: dict[str, Any]) -> Any:
    """An unpickler over a file: the safe one if no module is given."""
    base = SafeUnpickler if module is None else module.Unpickler

    def find_class(self: Any, package: str, name: str) -> Any:
        if module is None:
            return base.find_class(self, package, name)
        constant = constant_named(package, name)
        if constant is not None and package != "torch.storage":
            return constant
        if (package, name) == ("torch._C", "_VariableFunctionsClass"):  # of which torch's functions are attributes
            return sys.modules[__name__.partition(".")[0]]
        if package == "torch._utils" and name.startswith("torch."):  # as torch calls its memory formats
            package, name = "torch", name.removeprefix("torch.")
        return base.find_class(self, our_module(package), name)

    def found(self: Any, package: str, name: str) -> Any:
        made = find_class(self, package, name)
        if storages.sparse is not None and our_module(package) == _SPARSE[0] and name == _SPARSE[1]:
            return Permitted(storages.rebuild_sparse)
        return made

    body = {"find_class": found, "persistent_load": lambda self, pid: storages.referred(pid)}
    return type("Unpickler", (base,), body)(file, **arguments)


# -- the archive ---------------------------------------------------------------------------------------
def pickle_of(archive: zipfile.ZipFile) -> tuple[str, bytes]:
    """The folder of an archive's entries, and the pickle there."""
    names = archive.namelist()
    pickles = [name for name in names if name.endswith("/data.pkl")]
    if not pickles:
        raise pickle.UnpicklingError("load(): a zip archive that torch.save did not write")
    root = pickles[0].removesuffix("data.pkl")
    if root + "constants.pkl" in names:
        raise NotImplementedError("load() does not read TorchScript archives: save the module's state_dict() instead")
    return root, archive.read(pickles[0])


def read_archive(
    archive: zipfile.ZipFile, place: PLACE, default_order: str, module: Any, arguments: dict[str, Any], skip: bool
) -> Any:
    """The object in an archive; by the unpickler of ``module``, or the safe one if that is None."""
    root, data = pickle_of(archive)
    names = archive.namelist()
    order = archive.read(root + "byteorder").decode() if root + "byteorder" in names else default_order

    def read(key: str, nbytes: int) -> bytes:
        return bytes(nbytes) if skip else archive.read(f"{root}data/{key}")

    storages = Storages(read, order != sys.byteorder, place)
    return _unpickler(io.BytesIO(data), storages, module, arguments).load()


# -- the sequence of pickles -----------------------------------------------------------------------------
def read_sequence(file: IO[Any], place: PLACE, module: Any, arguments: dict[str, Any]) -> Any:
    """The object in a file of the format before PyTorch 1.6."""
    if _head(file) != MAGIC:
        refusal = RuntimeError if module is not None else pickle.UnpicklingError
        raise refusal("Invalid magic number; corrupt file? load() reads files of torch.save, not plain pickles")
    if (protocol := _head(file)) != PROTOCOL:
        raise RuntimeError(f"Invalid protocol version: {protocol}")
    swap = _head(file).get("little_endian", True) != (sys.byteorder == "little")
    storages = Storages(lambda key, nbytes: bytes(nbytes), swap, place)
    storages.sparse = []
    result = _unpickler(_One(file), storages, module, arguments).load()
    for key in _head(file):
        _refill(file, storages, str(key))
    for parts in storages.sparse:
        _rebuild_sparse_tensor(*parts)  # which checks them
    return result


class _One:
    """A file whose pickle ends where it ends: unpicklers read ahead."""

    def __init__(self, file: IO[Any]) -> None:
        self.file = file

    def read(self, n: int = -1) -> bytes:
        return self.file.read(n)

    def readline(self) -> bytes:
        return self.file.readline()


def _head(file: IO[Any]) -> Any:
    """One of the small pickles of a file; it may hold numbers, text and containers of these."""
    try:
        return _Plain(_One(file)).load()
    except (EOFError, ValueError, IndexError, KeyError) as error:
        if isinstance(error, EOFError) and file.tell() == 0:
            raise
        raise pickle.UnpicklingError(f"load(): the file is not one that torch.save wrote ({error})") from None


class _Plain(pickle.Unpickler):
    """An unpickler of no names at all."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"Weights only load failed. Unsupported global: GLOBAL {module}.{name}")


def _refill(file: IO[Any], storages: Storages, key: str) -> None:
    count = int.from_bytes(file.read(8), sys.byteorder if not storages.swap else "big", signed=True)
    dtype = storages.dtypes.get(key)
    if dtype is None:
        raise pickle.UnpicklingError(f"load(): the file has a storage {key} that nothing refers to")
    if (nbytes := count * dtype.itemsize) != storages.sizes[key]:
        raise pickle.UnpicklingError(f"load(): storage {key} has {nbytes} bytes: the file is damaged")
    data = filled(file, nbytes)
    if len(data) != nbytes:
        raise pickle.UnpicklingError(f"load(): storage {key} has {len(data)} bytes: the file is damaged")
    host = storages.here(np.frombuffer(data, np.uint8), dtype)
    if key in storages.loaded:
        storages.loaded[key].refill(host)


def sequence_pickle(file: IO[Any]) -> bytes:
    """The pickle of the object in a file of the old format."""
    for _ in range(3):
        _head(file)
    start = file.tell()
    for _ in pickletools.genops(_One(file)):  # type: ignore[arg-type]
        pass
    end = file.tell()
    file.seek(start)
    return file.read(end - start)
