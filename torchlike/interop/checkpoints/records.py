"""The archives that files of ``torch.save`` are, record by record: ``torch._C.PyTorchFileReader`` and its writer."""

import contextlib
import ctypes
import hashlib
import os
import struct
import sys
import zipfile
from collections.abc import Iterator
from typing import Any

import numpy as np

import torchlike._base.device as devices
import torchlike._base.dtypes as dtypes
from torchlike._core.conversion.loaded import LoadedStorage, over_storage
from torchlike._core.tensor.tensor import Tensor
from torchlike._core.tensor.untyped_storage import TypedStorage, UntypedStorage

ALIGNMENT = 64
_ID = ".data/serialization_id"


class _Streamed:
    """A file to write to of which nothing is asked but ``write`` and ``flush``."""

    def __init__(self, file: Any) -> None:
        self.write = file.write
        self.flush = getattr(file, "flush", lambda: None)


class Seeking:
    """A file to read that has ``read``, ``seek`` and ``tell`` and need have nothing else; ``readinto`` is preferred."""

    def __init__(self, file: Any) -> None:
        self.seek, self.tell, self.file = file.seek, file.tell, file

    def seekable(self) -> bool:
        return True

    def read(self, n: int = -1) -> Any:
        return self.file.read() if n is None or n < 0 else filled(self.file, n)


def filled(file: Any, n: int) -> Any:
    """The next ``n`` bytes, by the file's ``readinto`` if it has one; fewer where it ends."""
    if not hasattr(file, "readinto") or n > sys.maxsize:
        return file.read(n)
    memory = memoryview(bytearray(n))
    end = 0
    while end < n and (got := file.readinto(memory[end:])):
        end += got
    return bytes(memory[:end]) if end < n else memory.obj


def for_reading(file: Any) -> Any:
    """The file as zipfile reads it."""
    return file if hasattr(file, "seekable") else Seeking(file)


def for_writing(file: Any) -> Any:
    """The file as zipfile writes it."""
    return file if isinstance(file, str | os.PathLike) or hasattr(file, "seekable") else _Streamed(file)


def write_record(archive: zipfile.ZipFile, name: str, data: Any) -> None:
    """An entry whose bytes begin at a multiple of 64."""
    info = zipfile.ZipInfo(name)
    large = len(data) > zipfile.ZIP64_LIMIT
    start = archive.fp.tell() + 30 + len(name.encode()) + (20 if large else 0)  # type: ignore[union-attr]
    fill = -(start + 4) % ALIGNMENT
    info.extra = struct.pack("<HH", 0x4246, fill) + b"Z" * fill
    with archive.open(info, "w", force_zip64=large) as entry:
        entry.write(data)


class PyTorchFileWriter:
    """Writes an archive record by record; ``write_end_of_file`` ends it.

    Args:
        name: a path, or a file object open for writing bytes.
        compute_crc32: accepted; checksums are written in any case.
        storage_alignment: accepted as 64, the multiple that the bytes of records begin at.

    Raises:
        RuntimeError: the folder of the path does not exist; later, a record of a name that is there already, or any
            after the end.

    >>> import io
    >>> import torchlike as torch
    >>> writer = torch._C.PyTorchFileWriter(file := io.BytesIO())
    >>> writer.write_record("note", b"hello", 5)
    >>> writer.write_end_of_file()
    >>> torch._C.PyTorchFileReader(file).get_record("note")
    b'hello'
    """

    def __init__(self, name: Any, compute_crc32: bool = True, storage_alignment: int = ALIGNMENT) -> None:
        if storage_alignment != ALIGNMENT:
            raise NotImplementedError(f"PyTorchFileWriter: storage_alignment is {ALIGNMENT}, not {storage_alignment}")
        self._name = "archive"
        if isinstance(name, str | os.PathLike):
            demand_folder(name)
            self._name = stem(name)
        self._archive = zipfile.ZipFile(for_writing(name), "w", zipfile.ZIP_STORED)
        self._records: list[str] = []
        self._version, self._id, self._ended = 3, "", False

    def archive_name(self) -> str:
        """The folder of the records: the name of the file without its last suffix, or "archive"."""
        return self._name

    def set_min_version(self, version: int) -> None:
        """At least this version is written."""
        self._version = max(self._version, version)

    def get_all_written_records(self) -> set[str]:
        """The names of what is written."""
        return set(self._records)

    def serialization_id(self) -> str:
        """40 digits that the names and the bytes give; empty before the end."""
        return self._id

    def write_record(self, name: str, data: Any, size: int) -> None:
        """Write the first ``size`` bytes of bytes, a text, a storage or what lies at an address."""
        if self._ended:
            raise RuntimeError(f"PyTorchFileWriter: record {name} comes after write_end_of_file()")
        if name in self._records:
            raise RuntimeError(f"Tried to serialize file twice: {name}")
        if isinstance(data, TypedStorage | UntypedStorage):
            data = data.untyped()._bytes().data
        elif isinstance(data, int):
            data = ctypes.string_at(data, size)
        data = data.encode() if isinstance(data, str) else data
        if not 0 <= size <= len(data):
            raise RuntimeError(f"PyTorchFileWriter: record {name} of {len(data)} bytes cannot have size {size}")
        write_record(self._archive, f"{self._name}/{name}", data[:size])
        self._records.append(name)

    def write_record_metadata(self, name: str, size: int) -> None:
        """Leave room for a record, zeros."""
        self.write_record(name, bytes(size), size)

    def write_end_of_file(self) -> None:
        """Write the version, the order of bytes, an id and the list of all records."""
        if self._ended:
            raise RuntimeError("PyTorchFileWriter: write_end_of_file() was called before")
        sums = repr([(info.filename, info.CRC) for info in self._archive.infolist()]).encode()
        self._id = str(int.from_bytes(hashlib.sha256(sums).digest(), "big"))[:40].zfill(40)
        for name, text in (("version", f"{self._version}\n"), ("byteorder", sys.byteorder), (_ID, self._id)):
            if name not in self._records:
                self.write_record(name, text, len(text))
        self._ended = True
        self._archive.close()


class PyTorchFileReader:
    """Reads an archive record by record.

    Args:
        name: a path, or a file object open for reading bytes, which can seek.

    Raises:
        RuntimeError: there is no such file, or it is no archive; later, a record that is not there.
    """

    def __init__(self, name: Any) -> None:
        try:
            self._archive = zipfile.ZipFile(name if isinstance(name, str | os.PathLike) else for_reading(name))
        except FileNotFoundError as error:
            raise RuntimeError(f"open file failed because of errno {error.errno}: {error}") from None
        except zipfile.BadZipFile as error:
            raise RuntimeError(f"PytorchStreamReader failed reading zip archive: not a ZIP archive ({error})") from None
        names = self._archive.namelist()
        self._root = names[0].partition("/")[0] + "/" if names else ""

    def get_all_records(self) -> list[str]:
        """The names of all records."""
        return [name.removeprefix(self._root) for name in self._archive.namelist()]

    def has_record(self, name: str) -> bool:
        """Whether there is a record of that name."""
        return self._root + name in self._archive.NameToInfo

    def get_record(self, name: str) -> bytes:
        """The bytes of a record."""
        return self._archive.read(self._info(name))

    def get_record_size(self, name: str) -> int:
        """How many bytes a record has."""
        return self._info(name).file_size

    def get_record_header_offset(self, name: str) -> int:
        """Where the entry of a record begins in the file."""
        return self._info(name).header_offset

    def get_record_offset(self, name: str) -> int:
        """Where the bytes of a record begin in the file."""
        start, file = self._info(name).header_offset, self._archive.fp
        file.seek(start + 26)  # type: ignore[union-attr]
        return start + 30 + sum(struct.unpack("<HH", file.read(4)))  # type: ignore[union-attr]

    def get_storage_from_record(self, name: str, numel: int, dtype: dtypes.dtype) -> Tensor:
        """An empty tensor of that dtype over the storage of ``numel`` elements that a record holds."""
        data = self.get_record(name)
        if numel * dtype.itemsize > len(data):
            raise RuntimeError(f"record {name} has {len(data)} bytes, too few for {numel} elements of {dtype}")
        host = np.frombuffer(data[: numel * dtype.itemsize], np.uint8)
        return over_storage(LoadedStorage(host, devices.device("cpu")), dtype, 0, (0,), (1,))

    def serialization_id(self) -> str:
        """The id that was written, empty if none was."""
        return self.get_record(_ID).decode() if self.has_record(_ID) else ""

    def _info(self, name: str) -> zipfile.ZipInfo:
        try:
            return self._archive.getinfo(self._root + name)
        except KeyError:
            raise RuntimeError(f"PytorchStreamReader failed locating file {name}: file not found") from None


def demand_folder(path: Any) -> None:
    """RuntimeError if the folder that a file is to be in is not there."""
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise RuntimeError(f"Parent directory {folder} does not exist.")


def stem(f: Any) -> str:
    """The folder of the entries: the name of the file, without its last suffix."""
    return os.path.splitext(os.path.basename(os.fspath(f)))[0] or "archive"


@contextlib.contextmanager
def open_writer(name_or_buffer: Any) -> Iterator[PyTorchFileWriter]:
    """A writer, whose end is written after the ``with``."""
    writer = PyTorchFileWriter(name_or_buffer)
    yield writer
    writer.write_end_of_file()


@contextlib.contextmanager
def open_reader(name_or_buffer: Any) -> Iterator[PyTorchFileReader]:
    """A reader, closed after the ``with``."""
    reader = PyTorchFileReader(name_or_buffer)
    try:
        yield reader
    finally:
        reader._archive.close()
