"""Files as ``torch.save`` writes them: a pickle in which tensors refer to storages, and the bytes of those.

A zip archive holds ``data.pkl``, ``byteorder``, ``version`` and an entry ``data/0``, ``data/1``... for each storage,
whose bytes begin at a multiple of 64. The format before PyTorch 1.6 is a sequence of pickles and storages.
"""

import io
import pickle
import struct
import sys
import zipfile
from collections.abc import Callable
from types import FunctionType
from typing import Any

import torchlike._base.dtypes as dtypes
from torchlike._base.dtypes import dtype as Dtype
from torchlike._core.tensor.untyped_storage import TypedStorage, UntypedStorage
from torchlike.interop.checkpoints.names import STORAGE_NAMES, their_name
from torchlike.interop.checkpoints.records import for_writing, write_record

MAGIC = 0x1950A86A20F9469CFC6C
PROTOCOL = 1001
SIZES = {"short": 2, "int": 4, "long": 4}


class StorageType:
    """Stands for PyTorch's class of storages of one element type."""

    def __init__(self, name: str) -> None:
        self.name = name


class Storages:
    """The storages that a pickle refers to, each with the key it has there.

    Args:
        legacy: for the format before PyTorch 1.6. named: for a pickler that writes PyTorch's names.
        tag: the name of a storage's place.
    """

    def __init__(self, legacy: bool, named: bool, tag: Callable[[Any], str]) -> None:
        self.legacy, self.named, self.tag = legacy, named, tag
        self.keys: dict[int, str] = {}
        self.kept: list[tuple[UntypedStorage, Dtype]] = []
        self.types: dict[str, StorageType] = {}

    def reference(self, x: Any) -> tuple | None:
        """What a pickle says in the place of a storage."""
        if not isinstance(x, TypedStorage | UntypedStorage):
            return None
        untyped = x.untyped()
        dtype = x.dtype if isinstance(x, TypedStorage) else dtypes.uint8
        name = STORAGE_NAMES.get(dtype, "UntypedStorage") if isinstance(x, TypedStorage) else "UntypedStorage"
        key = self._key(untyped, dtype)
        count = untyped.nbytes() // (1 if name == "UntypedStorage" else dtype.itemsize)
        plain = dtypes.uint8 if name == "UntypedStorage" else dtype
        kind = self.types.setdefault(name, StorageType(name)) if self.named else plain
        end = (None,) if self.legacy else ()
        return ("storage", kind, key, self.tag(untyped), count, *end)

    def _key(self, untyped: UntypedStorage, dtype: Dtype) -> str:
        cell = untyped._storage
        if id(cell) not in self.keys:
            self.keys[id(cell)] = str(len(self.kept))
            self.kept.append((untyped, dtype))
        key = self.keys[id(cell)]
        if untyped.nbytes() and self.kept[int(key)][1] is not dtype:
            raise RuntimeError("Cannot save multiple tensors or storages that view the same data as different types")
        return key


class _Named(pickle._Pickler):  # type: ignore[name-defined]
    """A pickler that calls things as PyTorch does: so each library reads what the other wrote."""

    storages: Storages

    def persistent_id(self, obj: Any) -> Any:
        return self.storages.reference(obj)

    def reducer_override(self, obj: Any) -> Any:
        if type(obj) is StorageType or type(obj) is Dtype:
            return obj.name
        if isinstance(obj, tuple) and type(obj).__module__ == "torch.return_types":
            return type(obj), (tuple(obj), {})
        return NotImplemented

    def save_global(self, obj: Any, name: str | None = None) -> None:
        if type(obj) is StorageType:
            found: tuple[str, str] | None = ("torch.storage" if name == "UntypedStorage" else "torch", obj.name)
        else:
            found = their_name(obj, name)
        if found is None or not all(part.isascii() for part in found) or "." in found[1]:
            self._save_as_named(obj, name)
            return
        self.write(pickle.GLOBAL + f"{found[0]}\n{found[1]}\n".encode())
        self.memoize(obj)

    def _save_as_named(self, obj: Any, name: str | None) -> None:
        try:
            super().save_global(obj, name)
        except pickle.PicklingError:
            pickle.dumps(obj)  # whose errors are of the types that programs know
            raise

    dispatch = {**pickle._Pickler.dispatch, FunctionType: save_global}  # type: ignore[attr-defined,dict-item]


def pickled(obj: Any, module: Any, protocol: int, storages: Storages) -> bytes:
    """The pickle of an object, which refers to storages.

    By the pickler of Python's own module, names are PyTorch's; by that of another, this library's.
    """
    file = io.BytesIO()
    if module is pickle:
        pickler: Any = _Named(file, protocol)
        pickler.storages = storages
    else:
        cls = type("Pickler", (module.Pickler,), {"persistent_id": lambda self, x: storages.reference(x)})
        pickler = cls(file, protocol=protocol)
    pickler.dump(obj)
    return file.getvalue()


def write_archive(file: Any, root: str, data: bytes, storages: Storages, read: Callable[..., Any]) -> None:
    """Write the pickle and the storages as a zip archive; ``read`` gives the bytes of a storage."""
    with zipfile.ZipFile(for_writing(file), "w", zipfile.ZIP_STORED) as archive:
        write_record(archive, f"{root}/data.pkl", data)
        write_record(archive, f"{root}/byteorder", sys.byteorder.encode())
        for key, (storage, _) in enumerate(storages.kept):
            write_record(archive, f"{root}/data/{key}", read(storage))
        write_record(archive, f"{root}/version", b"3\n")


def write_sequence(
    file: Any, data: bytes, module: Any, protocol: int, storages: Storages, read: Callable[..., Any]
) -> None:
    """Write the pickle and the storages in the format before PyTorch 1.6."""
    little = {"protocol_version": PROTOCOL, "little_endian": sys.byteorder == "little", "type_sizes": SIZES}
    for part in (MAGIC, PROTOCOL, little):
        module.dump(part, file, protocol=protocol)
    file.write(data)
    order = sorted(range(len(storages.kept)), key=str)
    module.dump([str(key) for key in order], file, protocol=protocol)
    file.flush()
    for key in order:
        storage, dtype = storages.kept[key]
        file.write(struct.pack("<q", storage.nbytes() // dtype.itemsize))
        file.write(read(storage))
    if hasattr(file, "flush"):  # PyTorch writes past the file's buffer
        file.flush()
