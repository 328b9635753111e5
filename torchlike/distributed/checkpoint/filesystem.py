"""Checkpoints in a folder: ``.metadata``, and files ``__RANK_NUMBER.distcp`` with what each rank wrote.

The layout is PyTorch's. A checkpoint is whole or absent: new files never have the names of those that count, and the
renaming of ``.metadata``, which names its files, is the moment at which another checkpoint counts.
"""

import contextlib
import dataclasses
import io
import os
import pathlib
import pickle
import uuid
from collections.abc import Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

from torchlike import serialization
from torchlike._base.frames import warn
from torchlike._base.home import THEIRS
from torchlike._base.state import no_grad
from torchlike._core.tensor.tensor import Tensor
from torchlike.distributed.checkpoint import metadata as described
from torchlike.distributed.checkpoint._chunks import box
from torchlike.distributed.checkpoint.metadata import Metadata, MetadataIndex, StorageMeta
from torchlike.distributed.checkpoint.planner import (
    LoadItemType,
    LoadPlan,
    LoadPlanner,
    ReadItem,
    SavePlan,
    SavePlanner,
    WriteItem,
    WriteItemType,
)
from torchlike.distributed.checkpoint.storage import StorageReader, StorageWriter, WriteResult
from torchlike.futures import Future
from torchlike.interop.checkpoints import writing
from torchlike.interop.checkpoints.safe import SafeUnpickler

__all__ = ["FileSystemReader", "FileSystemWriter", "SerializationFormat"]

METADATA, SUFFIX = ".metadata", ".distcp"


class SerializationFormat(Enum):
    """How tensors are written; only TORCH_SAVE is supported."""

    TORCH_SAVE = "torch_save"
    SAFETENSORS = "safetensors"


@dataclasses.dataclass
class _StorageInfo:
    """A range of bytes of a file beside ``.metadata``."""

    relative_path: str
    offset: int
    length: int
    transform_descriptors: Any = None


# -- the pickle of .metadata -------------------------------------------------------------------------------------------
_PLACE = f"{THEIRS}.distributed.checkpoint"
_KNOWN: dict[str, Any] = {
    **{f"{_PLACE}.metadata.{name}": getattr(described, name) for name in (*described.__all__, "_MEM_FORMAT_ENCODING")},
    f"{_PLACE}.filesystem._StorageInfo": _StorageInfo,
    "pathlib.PosixPath": pathlib.PurePosixPath,
    "pathlib.WindowsPath": pathlib.PureWindowsPath,
}


class _Unpickler(SafeUnpickler):
    """Knows what describes a checkpoint, and what :func:`torch.load` knows."""

    def find_class(self, module: str, name: str) -> Any:
        return _KNOWN.get(f"{module}.{name}") or super().find_class(module, name)


def _pickled(metadata: Metadata) -> bytes:
    return writing.pickled(metadata, pickle, 4, writing.Storages(False, True, lambda storage: "cpu"))


def _unpickled(data: bytes) -> Metadata:
    """The description in a pickle, which runs no code. UnpicklingError for anything else."""
    found = _Unpickler(io.BytesIO(data)).load()
    if not isinstance(found, Metadata):
        raise pickle.UnpicklingError(f"the metadata of a checkpoint was expected, not {type(found).__name__}")
    return found


# -- writing -----------------------------------------------------------------------------------------------------------
class _Shared:
    """A folder that is read or written."""

    def __init__(self, path: str | os.PathLike) -> None:
        self.path = Path(path)

    def reset(self, checkpoint_id: str | os.PathLike | None = None) -> None:
        """Another folder, if one is given."""
        if checkpoint_id is not None:
            self.path = Path(checkpoint_id)

    @property
    def checkpoint_id(self) -> str | os.PathLike:
        """The folder."""
        return self.path

    def prepare_local_plan(self, plan: Any) -> Any:
        """The plan of this rank."""
        return plan

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike) -> bool:
        """Whether checkpoints can be kept there: anything but the URL of another service."""
        return "://" not in str(checkpoint_id)


class FileSystemWriter(_Shared, StorageWriter):
    """Writes a checkpoint into a folder, which is made. An old one there counts until the new one is complete.

    Args:
        path: the folder. single_file_per_rank: one file for each rank, not for each item.
        sync_files: wait until the disk has the files. overwrite: whether a checkpoint may be there already.
        thread_count, per_thread_copy_ahead, cache_staged_state_dict: without effect.

    NotImplementedError for other formats and extensions.

    >>> import torchlike as torch, tempfile
    >>> import torchlike.distributed.checkpoint as dcp
    >>> x = {"weight": torch.zeros(2)}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = dcp.save({"weight": torch.ones(2)}, storage_writer=dcp.FileSystemWriter(folder), no_dist=True)
    ...     dcp.load(x, storage_reader=dcp.FileSystemReader(folder), no_dist=True)
    >>> x
    {'weight': tensor([1., 1.])}
    """

    def __init__(
        self, path: str | os.PathLike, single_file_per_rank: bool = True, sync_files: bool = True,
        thread_count: int = 1, per_thread_copy_ahead: int = 10_000_000, cache_staged_state_dict: bool = False,
        overwrite: bool = True, _extensions: Sequence[Any] | None = None,
        serialization_format: SerializationFormat = SerializationFormat.TORCH_SAVE,
    ) -> None:  # fmt: skip
        super().__init__(path)
        if _extensions or serialization_format is not SerializationFormat.TORCH_SAVE:
            raise NotImplementedError("FileSystemWriter: only SerializationFormat.TORCH_SAVE without extensions")
        self.single_file_per_rank, self.sync_files, self.overwrite = single_file_per_rank, sync_files, overwrite
        self.save_id = str(uuid.uuid4())

    def reset(self, checkpoint_id: str | os.PathLike | None = None) -> None:
        super().reset(checkpoint_id)
        self.save_id = str(uuid.uuid4())

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Nothing is opened before the plans are made."""

    def storage_meta(self) -> StorageMeta | None:
        return StorageMeta(self.checkpoint_id, self.save_id)

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        self.path.mkdir(parents=True, exist_ok=True)
        if not (self.path / METADATA).exists():
            return plan
        if not self.overwrite:
            raise RuntimeError("Checkpoint already exists and self.overwrite=False.")
        warn(
            f"Detected an existing checkpoint in {self.path}, overwriting since self.overwrite=True: it counts until "
            "the new one is complete.",
            UserWarning,
        )
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        return [dataclasses.replace(plan, storage_data=f"__{rank}_") for rank, plan in enumerate(plans)]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future:
        items = sorted(plan.items, key=lambda item: item.type is not WriteItemType.BYTE_IO)
        groups = [items] if self.single_file_per_rank else [[item] for item in items]
        names = self._free_names(plan.storage_data)
        done = [result for group in groups if group for result in self._write(next(names), group, planner)]
        future: Future = Future()
        future.set_result(done)
        return future

    def _free_names(self, prefix: str) -> Iterator[str]:
        """Names of files that the checkpoint which counts now, if there is one, does not have."""
        taken: set[str] = set()
        with contextlib.suppress(OSError, pickle.UnpicklingError, AttributeError):
            taken = _files_of(_unpickled((self.path / METADATA).read_bytes()))
        number = 0
        while True:
            name = f"{prefix}{number}{SUFFIX}"
            number += 1
            if name not in taken:
                yield name

    def _write(self, name: str, items: Sequence[WriteItem], planner: SavePlanner) -> list[WriteResult]:
        done = []
        with (self.path / name).open("wb") as file:
            for item in items:
                begin, data = file.tell(), planner.resolve_data(item)
                file.write((_archived(data) if isinstance(data, Tensor) else data).getbuffer())
                length = file.tell() - begin
                done.append(WriteResult(item.index, length, _StorageInfo(name, begin, length)))
            self._synced(file)
        return done

    def _synced(self, file: Any) -> None:
        if self.sync_files:
            file.flush()
            os.fsync(file.fileno())

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        metadata.storage_data = {result.index: result.storage_data for each in results for result in each}
        metadata.storage_meta = self.storage_meta()
        beside = self.path / f"{METADATA}.tmp"
        with beside.open("wb") as file:
            file.write(_pickled(metadata))
            self._synced(file)
        beside.replace(self.path / METADATA)
        kept = _files_of(metadata)
        for old in self.path.glob(f"__*{SUFFIX}"):
            if old.name not in kept:
                old.unlink(missing_ok=True)


def _files_of(metadata: Metadata) -> set[str]:
    return {info.relative_path for info in (metadata.storage_data or {}).values()}


def _archived(t: Tensor) -> io.BytesIO:
    """A tensor on the CPU as ``torch.save`` writes it, with its own numbers alone."""
    plain, file = t.detach().cpu(), io.BytesIO()
    whole = plain.is_sparse or plain.untyped_storage().nbytes() == plain.numel() * plain.element_size()
    serialization.save(plain if whole else plain.clone(), file)
    return file


# -- reading -----------------------------------------------------------------------------------------------------------
class FileSystemReader(_Shared, StorageReader):
    """Reads a checkpoint from a folder: one that this library or PyTorch has written.

    ``.metadata`` is read without running code that it may hold. Objects other than tensors are unpickled as
    ``torch.load(weights_only=False)`` does: read only checkpoints that you trust.
    """

    def __init__(self, path: str | os.PathLike, _extension_registry: Any = None) -> None:
        super().__init__(path)
        if _extension_registry is not None:
            raise NotImplementedError("FileSystemReader(_extension_registry=) is not supported: leave it out")
        self._where: dict[MetadataIndex, _StorageInfo] = {}

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        return _unpickled((self.path / METADATA).read_bytes())

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Note where everything is."""
        self._where = metadata.storage_data or {}

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future:
        wanted: dict[str, dict[MetadataIndex, list[ReadItem]]] = {}
        for item in plan.items:
            info = self._where[item.storage_index]
            wanted.setdefault(info.relative_path, {}).setdefault(item.storage_index, []).append(item)
        for name, parts in wanted.items():
            with (self.path / name).open("rb") as file:
                for index, items in parts.items():
                    self._read(file, self._where[index], items, planner)
        future: Future = Future()
        future.set_result(None)
        return future

    def _read(self, file: Any, info: _StorageInfo, items: Sequence[ReadItem], planner: LoadPlanner) -> None:
        if info.transform_descriptors:
            raise NotImplementedError(f"{info.relative_path}: transformed by {info.transform_descriptors}")
        file.seek(info.offset)
        data = io.BytesIO(file.read(info.length))
        if items[0].type is LoadItemType.BYTE_IO:
            for item in items:
                data.seek(0)
                planner.load_bytes(item, data)
            return
        saved = serialization.load(data, map_location="cpu", weights_only=True)
        with no_grad():
            for item in items:
                target = planner.resolve_tensor(item).detach()
                target.copy_(box(saved, item.storage_offsets, item.lengths))
                planner.commit_tensor(item, target)
