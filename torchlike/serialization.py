"""save and load, in PyTorch's file format: each library reads what the other wrote.

How the files look is said in ``interop/checkpoints/writing.py``.
"""

import contextlib
import enum
import io
import mmap as _mmap
import os
import pickle
import shutil
import sys
import tempfile
import threading
import zipfile
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Any, BinaryIO, TypeAlias

import torchlike._utils as _utils
from torchlike._base.device import device as Device
from torchlike._base.device import jax_device
from torchlike._base.home import OURS
from torchlike._core.conversion.loaded import sent
from torchlike._core.tensor.tensor import _get_layout
from torchlike._core.tensor.untyped_storage import TypedStorage, UntypedStorage
from torchlike.interop.checkpoints import reading, writing
from torchlike.interop.checkpoints.records import demand_folder, for_reading, stem
from torchlike.interop.checkpoints.records import open_reader as _open_zipfile_reader  # noqa: F401  (PyTorch's name)
from torchlike.interop.checkpoints.records import open_writer as _open_zipfile_writer  # noqa: F401
from torchlike.interop.checkpoints.safe import (
    add_safe_globals,
    clear_safe_globals,
    get_safe_globals,
    safe_globals,
    unsafe_globals,
)

__all__ = [
    "FILE_LIKE", "LoadEndianness", "MAP_LOCATION", "SourceChangeWarning", "_get_layout", "add_safe_globals",
    "check_module_version_greater_or_equal", "clear_safe_globals", "default_restore_location", "get_crc32_options",
    "get_default_load_endianness", "get_default_mmap_options", "get_safe_globals", "get_unsafe_globals_in_checkpoint",
    "load", "location_tag", "mkdtemp", "register_package", "safe_globals", "save", "set_crc32_options",
    "set_default_load_endianness", "set_default_mmap_options", "skip_data", "validate_cuda_device",
]  # fmt: skip

FILE_LIKE: TypeAlias = str | os.PathLike[str] | BinaryIO
MAP_LOCATION: TypeAlias = Callable[[UntypedStorage, str], UntypedStorage] | Device | str | dict[str, str] | None

DEFAULT_PROTOCOL = 2
_FORCE, _FORCE_NOT = "TORCH_FORCE_WEIGHTS_ONLY_LOAD", "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"


class SourceChangeWarning(Warning):
    """That the source of a class differs from the one it was saved with."""


class LoadEndianness(enum.Enum):
    """The order of bytes of files that do not name one."""

    NATIVE = 1
    LITTLE = 2
    BIG = 3


class _Settings(threading.local):
    skip = False
    endianness: LoadEndianness | None = None
    crc32 = True
    mmap = _mmap.MAP_PRIVATE


_settings = _Settings()


# -- saving --------------------------------------------------------------------------------------------
def save(
    obj: Any,
    f: FILE_LIKE,
    pickle_module: Any = pickle,
    pickle_protocol: int = DEFAULT_PROTOCOL,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:
    """Write an object to a file, as pickle does, with the numbers of its tensors beside the pickle.

    Args:
        obj: a module's ``state_dict()``, for example, or whatever Python can pickle.
        f: a path, or a file object open for writing bytes.
        pickle_module: a module with a ``Pickler``. PyTorch reads what Python's own writes; that of another module has
            the names of this library.
        pickle_protocol: for the pickle. With 2, ``load`` of PyTorch needs no more than ``weights_only=True``.

    Values are those at the time of the call. A tensor is saved with all of the storage it looks at, and tensors that
    share one do so again after loading. Gradients and history are not saved.

    Raises:
        pickle.PicklingError, AttributeError: ``obj`` holds what cannot be pickled, such as a lambda or an object
            of a class made in a function. Nothing is written then.
        RuntimeError: the folder of ``f`` does not exist, or a storage is looked at as two dtypes.

    >>> import io
    >>> import torchlike as torch
    >>> file = io.BytesIO()
    >>> torch.save({"weight": torch.ones(2), "epoch": 3}, file)
    >>> _ = file.seek(0)
    >>> torch.load(file)
    {'weight': tensor([1., 1.]), 'epoch': 3}
    """
    named = isinstance(f, str | os.PathLike)
    if not named and not hasattr(f, "write"):
        raise AttributeError("expected 'f' to be string, path, or a file-like object with a 'write' attribute")
    storages = writing.Storages(not _use_new_zipfile_serialization, pickle_module is pickle, location_tag)
    data = writing.pickled(obj, pickle_module, pickle_protocol, storages)
    if named:
        demand_folder(f)
    if not _use_new_zipfile_serialization:
        with open(f, "wb") if named else contextlib.nullcontext(f) as file:  # type: ignore[arg-type,var-annotated]
            writing.write_sequence(file, data, pickle_module, pickle_protocol, storages, _bytes_of)
    elif named:
        writing.write_archive(f, stem(f), data, storages, _bytes_of)
    elif all(hasattr(f, name) for name in ("seek", "tell", "flush")):
        writing.write_archive(f, "archive", data, storages, _bytes_of)
    else:
        buffer = io.BytesIO()
        writing.write_archive(buffer, "archive", data, storages, _bytes_of)
        f.write(buffer.getvalue())  # type: ignore[union-attr]


def _bytes_of(storage: UntypedStorage) -> bytes | memoryview:
    skipped = _settings.skip or storage.device.type == "meta"
    return bytes(storage.nbytes()) if skipped else storage._bytes().data


# -- loading -------------------------------------------------------------------------------------------
def load(
    f: FILE_LIKE,
    map_location: MAP_LOCATION = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Read what :func:`save` wrote, or what PyTorch's ``torch.save`` wrote.

    Args:
        f: a path, or a file object open for reading bytes, which can seek.
        map_location: the device to put tensors on; or a dict from saved to wanted devices; or a function of
            (storage, location) that returns a storage, or None. By default the device a tensor was saved from.
        pickle_module: a module with an ``Unpickler``; only with ``weights_only=False``, which it implies.
        weights_only: if true, the default, the file may hold tensors, plain containers, and what
            ``torch.serialization.add_safe_globals`` allows, and none of its code runs. If false, it may hold anything,
            and **can run any code**: for files that you trust.
        mmap: accepted for archives on disk; values are read at once all the same.

    Raises:
        AttributeError: ``f`` has no ``read``, ``seek`` or ``tell``.
        pickle.UnpicklingError: not such a file, or it holds a class or function that ``weights_only`` refuses.
        RuntimeError: a device is not there, and ``map_location`` is not given; ``weights_only=True`` with a
            ``pickle_module``.
    """
    module = _module_for(weights_only, pickle_module)
    arguments = {"encoding": "utf-8", **pickle_load_args}
    named = isinstance(f, str | os.PathLike)
    if mmap and not named:
        raise ValueError("f must be a file path in order to use the mmap argument")
    if named:
        with open(f, "rb") as file:  # type: ignore[arg-type]
            return _load(file, map_location, module, arguments, mmap)
    if not hasattr(f, "read"):
        raise AttributeError(
            f"'{type(f).__name__}' object has no attribute 'read': expected 'f' to be string, path, or a file-like "
            "object with a 'read' attribute"
        )
    for name in ("seek", "tell"):
        if not hasattr(f, name):
            raise AttributeError(
                f"'{type(f).__name__}' object has no attribute '{name}'. You can only torch.load from a file that is "
                "seekable. Please pre-load the data into a buffer like io.BytesIO and try to load from it instead."
            )
    return _load(f, map_location, module, arguments, mmap)  # type: ignore[arg-type]


def _module_for(weights_only: bool | None, pickle_module: Any) -> Any:
    """The module whose unpickler reads a file; None for the safe one."""
    forced, forced_not = (os.getenv(name, "0").lower() in ("1", "y", "yes", "true") for name in (_FORCE, _FORCE_NOT))
    if forced and forced_not:
        raise RuntimeError(f"Only one of `{_FORCE}` or `{_FORCE_NOT}` should be set, but both were set.")
    if forced:
        weights_only = True
    elif weights_only is None:
        weights_only = pickle_module is None and not forced_not
    if weights_only and pickle_module is not None:
        raise RuntimeError("Can not safely load weights when explicit pickle_module is specified")
    return None if weights_only else pickle if pickle_module is None else pickle_module


def _load(file: IO[Any], map_location: MAP_LOCATION, module: Any, arguments: dict[str, Any], mmap: bool | None) -> Any:
    place = _placement(map_location)
    start = file.tell()
    if not file.read(1):
        raise EOFError("load(): Ran out of input: the file is empty, or has been read to its end; seek(0) goes back")
    file.seek(start)
    with _utils.placing(place):
        return _read(file, place, module, arguments, mmap)


def _read(file: IO[Any], place: Any, module: Any, arguments: dict[str, Any], mmap: bool | None) -> Any:
    if not _is_zipfile(file):
        if mmap:
            raise RuntimeError(
                "mmap can only be used with files saved with `torch.save(..., _use_new_zipfile_serialization=True)`"
            )
        return reading.read_sequence(file, place, module, arguments)
    order = "big" if _settings.endianness is LoadEndianness.BIG else "little"
    with _archive(file) as archive:
        return reading.read_archive(archive, place, order, module, arguments, _settings.skip)


def _is_zipfile(f: Any) -> bool:
    """Whether a file holds an archive from here on; zipfile.is_zipfile looks for the end of one anywhere."""
    start = f.tell()
    head = f.read(4)
    f.seek(start)
    return head == b"PK\3\4"


def _archive(file: IO[Any]) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(for_reading(file))
    except zipfile.BadZipFile as error:
        raise RuntimeError(f"failed finding central directory: the file is damaged or cut off ({error})") from None


# -- places --------------------------------------------------------------------------------------------
def _placement(where: Any) -> Callable[[UntypedStorage, str], UntypedStorage]:
    """The storage to use for one that was saved at a location."""
    if where is None:
        return default_restore_location
    if isinstance(where, str | Device):
        return lambda storage, location: default_restore_location(storage, str(where))
    if isinstance(where, Mapping):
        return lambda storage, location: default_restore_location(storage, str(where.get(location, location)))
    if not callable(where):
        raise TypeError(f"map_location must be a device, a str, a dict or a function, not {type(where).__name__}")

    def called(storage: UntypedStorage, location: str) -> UntypedStorage:
        result = where(storage, location)
        if result is None:
            return default_restore_location(storage, location)
        if not isinstance(result, UntypedStorage | TypedStorage):
            raise TypeError(f"map_location returned a {type(result).__name__}, where a storage or None is expected")
        return result.untyped()

    return called


def _tag(storage: Any) -> str | None:
    return str(storage.device)


def _restore(storage: Any, location: str) -> Any:
    try:
        device = Device(location)
    except (RuntimeError, TypeError):
        return None
    try:
        if device.type != "meta":
            jax_device(device)
    except RuntimeError as error:
        cuda = "a CUDA device: " if device.type == "cuda" else ""
        raise RuntimeError(
            f"Attempting to deserialize object on {cuda}{location}, which is not there: {error}. Use torch.load with "
            "map_location='cpu' to map your storages to the CPU."
        ) from None
    return sent(storage.untyped(), device)


_packages: list[tuple[int, Callable[[Any], str | None], Callable[[Any, str], Any]]] = [(10, _tag, _restore)]


def normalize_storage_type(storage_type: type) -> type:
    """The class of this name that ``torch`` has.

    >>> import torchlike as torch
    >>> torch.serialization.normalize_storage_type(torch.FloatStorage) is torch.FloatStorage
    True
    """
    return getattr(sys.modules[OURS], storage_type.__name__)


def register_package(
    priority: int, tagger: Callable[[Any], str | None], deserializer: Callable[[Any, str], Any]
) -> None:
    """Add a way to name the place of storages, and to put them there.

    Args:
        priority: the lowest is asked first; that of the library itself is 10.
        tagger: of a storage, the name of its place, or None.
        deserializer: of a storage and a name, the storage at that place, or None.
    """
    _packages.append((priority, tagger, deserializer))
    _packages.sort(key=lambda entry: entry[0])


def location_tag(storage: Any) -> str:
    """The name of a storage's place, such as ``cuda:0``."""
    for _, tagger, _ in _packages:
        if (found := tagger(storage)) is not None:
            return found
    raise RuntimeError(f"don't know how to determine data location of {type(storage).__name__}")


def default_restore_location(storage: Any, location: str) -> Any:
    """The storage at the place of that name.

    Raises:
        RuntimeError: there is no such place.
    """
    for _, _, deserializer in _packages:
        if (found := deserializer(storage, location)) is not None:
            return found
    raise RuntimeError(
        f"don't know how to restore data location of torch.storage.UntypedStorage (tagged with {location}); pass "
        "map_location='cpu'"
    )


def validate_cuda_device(location: Any) -> int:
    """The number of the GPU at a location; RuntimeError if it is not there."""
    device = Device(location)
    jax_device(device)
    return device.index or 0


# -- what files hold -------------------------------------------------------------------------------------
def get_unsafe_globals_in_checkpoint(f: FILE_LIKE) -> list[str]:
    """The classes and functions that ``load(f, weights_only=True)`` would refuse, by name; nothing is loaded.

    Raises:
        ValueError: ``f`` is no archive of ``torch.save``.
    """
    with open(f, "rb") if isinstance(f, str | os.PathLike) else contextlib.nullcontext(f) as file:
        if not zipfile.is_zipfile(file):
            raise ValueError("Expected input to be a checkpoint returned by torch.save")
        with zipfile.ZipFile(file) as archive:
            return unsafe_globals(reading.pickle_of(archive)[1])


# -- settings, of each thread ----------------------------------------------------------------------------
@contextlib.contextmanager
def skip_data(materialize_fake_tensors: bool = False) -> Iterator[None]:
    """A context in which :func:`save` leaves room for the bytes of storages, zeros, and :func:`load` reads none."""
    before, _settings.skip = _settings.skip, True
    try:
        yield
    finally:
        _settings.skip = before


def get_default_load_endianness() -> LoadEndianness | None:
    """The order of bytes that :func:`load` takes files to have that do not name one; None: that of PyTorch."""
    return _settings.endianness


def set_default_load_endianness(endianness: LoadEndianness | None) -> None:
    """Set what :func:`get_default_load_endianness` gives."""
    if endianness is not None and not isinstance(endianness, LoadEndianness):
        raise TypeError("Invalid argument type in function set_default_load_endianness: expected a LoadEndianness")
    _settings.endianness = endianness


def get_crc32_options() -> bool:
    """Whether :func:`save` was asked for checksums; it writes them in any case."""
    return _settings.crc32


def set_crc32_options(compute_crc32: bool) -> None:
    """Set what :func:`get_crc32_options` gives."""
    _settings.crc32 = compute_crc32


def get_default_mmap_options() -> int:
    """How ``load(mmap=True)`` maps files."""
    return _settings.mmap


class set_default_mmap_options(contextlib.AbstractContextManager):
    """Set what :func:`get_default_mmap_options` gives, for good or within a ``with``.

    Raises:
        NotImplementedError: ``MAP_SHARED``: tensors are not the memory of files here.
    """

    def __init__(self, flags: int) -> None:
        if flags == _mmap.MAP_SHARED:
            raise NotImplementedError("MAP_SHARED: tensors of torchlike are not the memory of files; use MAP_PRIVATE")
        if flags != _mmap.MAP_PRIVATE:
            raise ValueError(
                f"Invalid argument in function set_default_mmap_options, expected mmap.MAP_PRIVATE: {flags}"
            )
        self.before, _settings.mmap = _settings.mmap, flags

    def __exit__(self, *exc: Any) -> None:
        _settings.mmap = self.before


# -- helpers ---------------------------------------------------------------------------------------------
def check_module_version_greater_or_equal(
    module: Any, req_version_tuple: tuple[int, ...], error_if_malformed: bool = True
) -> bool:
    """Whether ``module.__version__`` is at least the version of these numbers."""
    try:
        found = tuple(int(part) for part in str(module.__version__).split("+")[0].split(".")[: len(req_version_tuple)])
    except (AttributeError, ValueError) as error:
        if error_if_malformed:
            raise RuntimeError(f"'{module.__name__}' module version string is malformed: {error}") from error
        return True
    return found >= req_version_tuple


@contextlib.contextmanager
def mkdtemp() -> Iterator[str]:
    """A folder that is there within a ``with`` only."""
    path = tempfile.mkdtemp()
    try:
        yield path
    finally:
        shutil.rmtree(path)
