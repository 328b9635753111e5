"""Checkpoints as files of safetensors, which the packages around Hugging Face's read: tensors alone, no code."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from torchlike._base.frames import warn
from torchlike._base.state import no_grad
from torchlike._core.tensor.size import Size
from torchlike._core.tensor.tensor import Tensor, value_of, wrap
from torchlike._executor.immediate import uploaded
from torchlike._executor.pending import as_numpy
from torchlike.distributed.checkpoint import _safetensors
from torchlike.distributed.checkpoint._chunks import box
from torchlike.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from torchlike.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)
from torchlike.distributed.checkpoint.planner import LoadPlan, LoadPlanner, SavePlan, SavePlanner, WriteItemType
from torchlike.distributed.checkpoint.storage import WriteResult
from torchlike.futures import Future
from torchlike.interop.refusing import refusing

__all__ = ["HuggingFaceStorageReader", "HuggingFaceStorageWriter"]
__getattr__ = refusing(__name__, "torchlike has no such part; save with enable_consolidation=True for whole tensors")

SUFFIX, SHARDED_DIR_NAME, CUSTOM_METADATA_KEY = ".safetensors", "sharded", "DCP_SHARDING_INFO"
SAVED_OFFSETS_KEY, _INDEX = "saved_offsets", "model.safetensors.index.json"


@dataclasses.dataclass
class _Place:
    """A piece of a tensor: its file, and its entry there."""

    relative_path: str
    entry: _safetensors.Entry


@dataclasses.dataclass(frozen=True)
class _Share:
    """What rank 0 tells each rank: which file each name goes to, of how many, and the number of the rank."""

    index: dict[str, int]
    files: int
    rank: int


class HuggingFaceStorageWriter(FileSystemWriter):
    """Writes tensors as ``model-00001-of-0000N.safetensors``, with an index that tells which file has which.

    Args:
        path: the folder. fqn_to_index_mapping: the number of the file for each name, from 1; one file by default.
        save_distributed: each rank writes its parts, into files ``shard-RANK-model-...``; otherwise one rank has all.
        enable_consolidation: with ``save_distributed``, parts go to the folder ``sharded``, and rank 0 puts whole
            tensors together from them. thread_count, thread_count_consolidation: without effect.

    ValueError where several ranks have something to write and ``save_distributed`` is False. What is no tensor is left
    out, with a warning.

    >>> import torchlike as torch, tempfile, os
    >>> import torchlike.distributed.checkpoint as dcp
    >>> x = {"weight": torch.zeros(2)}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     writer = dcp.HuggingFaceStorageWriter(folder)
    ...     _ = dcp.save({"weight": torch.ones(2)}, storage_writer=writer, no_dist=True)
    ...     dcp.load(x, storage_reader=dcp.HuggingFaceStorageReader(folder), no_dist=True)
    ...     sorted(os.listdir(folder)), x
    (['model-00001-of-00001.safetensors', 'model.safetensors.index.json'], {'weight': tensor([1., 1.])})
    """

    def __init__(
        self, path: str | os.PathLike, fqn_to_index_mapping: dict[str, int] | None = None, thread_count: int = 1,
        save_distributed: bool = False, enable_consolidation: bool = False, thread_count_consolidation: int = 1,
    ) -> None:  # fmt: skip
        super().__init__(path)
        self.fqn_to_index_mapping, self.save_distributed = fqn_to_index_mapping, save_distributed
        self.consolidates = enable_consolidation and save_distributed

    def _folder(self) -> Path:
        return self.path / SHARDED_DIR_NAME if self.consolidates else self.path

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        self._folder().mkdir(parents=True, exist_ok=True)
        left = sorted(item.index.fqn for item in plan.items if item.type is WriteItemType.BYTE_IO)
        if left:
            warn(f"HuggingFaceStorageWriter: safetensors hold tensors alone, left out: {', '.join(left)}", UserWarning)
        kept = [item for item in plan.items if item.type is not WriteItemType.BYTE_IO]
        return dataclasses.replace(plan, items=kept)

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        if not self.save_distributed and sum(bool(plan.items) for plan in plans) > 1:
            raise ValueError(
                "HuggingFaceStorageWriter: several ranks have something to write; pass save_distributed=True, or save "
                "a whole state dict, which rank 0 has, with no_dist=True"
            )
        index = self.fqn_to_index_mapping or {}
        files = max(index.values(), default=1)
        return [dataclasses.replace(p, storage_data=_Share(index, files, rank)) for rank, p in enumerate(plans, 1)]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future:
        share: _Share = plan.storage_data
        groups: dict[int, list[Any]] = {}
        for item in plan.items:
            number = share.index.get(item.index.fqn, 1) if share.index else 1
            groups.setdefault(number, []).append(item)
        done: list[WriteResult] = []
        for number, items in sorted(groups.items()):
            name = _name(number, share.files)
            name = f"shard-{share.rank:05d}-{name}" if self.save_distributed else name
            numbers, places = {}, {}
            for item in items:
                t: Any = planner.resolve_data(item)
                if item.index.fqn in numbers:
                    raise NotImplementedError(
                        f"HuggingFaceStorageWriter: a rank has several parts of {item.index.fqn!r}, as processes with "
                        "several devices have; save the whole tensor"
                    )
                numbers[item.index.fqn] = t.dtype, as_numpy(value_of(t.detach().cpu()))
                places[item.index.fqn] = {SAVED_OFFSETS_KEY: list(item.index.offset or (0,) * t.dim())}
                done.append(WriteResult(item.index, numbers[item.index.fqn][1].nbytes, name))
            texts = {CUSTOM_METADATA_KEY: json.dumps(places), "DCP_VERSION": "1.0", "format": "pt"}
            self._put(self._folder() / name, numbers, texts)
        future: Future = Future()
        future.set_result(done)
        return future

    def _put(self, path: Path, tensors: Any, texts: dict[str, str] | None) -> None:
        beside = path.with_name(path.name + ".tmp")
        with beside.open("wb") as file:
            _safetensors.written(file, tensors, texts)
            self._synced(file)
        beside.replace(path)

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        if not self.save_distributed:
            self._put_index([(r.index.fqn, r.storage_data, r.size_in_bytes) for each in results for r in each])
        elif self.consolidates:
            self._consolidate(metadata, {r.storage_data for each in results for r in each})

    def _put_index(self, rows: list[tuple[str, str, int]]) -> None:
        told = {"metadata": {"total_size": sum(row[2] for row in rows)}, "weight_map": {n: f for n, f, _ in rows}}
        beside = self.path / f"{_INDEX}.tmp"
        with beside.open("w") as file:
            json.dump(told, file, indent=2)
            self._synced(file)
        beside.replace(self.path / _INDEX)

    def _consolidate(self, metadata: Metadata, files: set[str]) -> None:
        """Put whole tensors together, the files one after the other."""
        index, pieces = self.fqn_to_index_mapping or {}, _pieces([self._folder() / name for name in sorted(files)])
        rows, count = [], max(index.values(), default=1)
        for number in sorted({index.get(fqn, 1) for fqn in pieces}):
            tensors, name = {}, _name(number, count)
            for fqn in sorted(f for f in pieces if index.get(f, 1) == number):
                about: Any = metadata.state_dict_metadata[fqn]
                whole = np.empty(tuple(about.size), _safetensors.numpy_dtype(pieces[fqn][0][1].entry.code))
                for offsets, place in pieces[fqn]:
                    at = tuple(slice(o, o + n) for o, n in zip(offsets, place.entry.shape, strict=True))
                    whole[at] = _safetensors.read(Path(place.relative_path), place.entry)
                tensors[fqn] = about.properties.dtype, whole
                rows.append((fqn, name, whole.nbytes))
            self._put(self.path / name, tensors, None)
        self._put_index(rows)


def _name(number: int, files: int) -> str:
    return f"model-{number:05d}-of-{files:05d}{SUFFIX}"


def _pieces(files: Sequence[Path]) -> dict[str, list[tuple[tuple[int, ...], _Place]]]:
    """(offsets, place) of the pieces of each tensor."""
    found: dict[str, list[tuple[tuple[int, ...], _Place]]] = {}
    for path in files:
        texts, entries = _safetensors.header(path)
        places = json.loads(texts.get(CUSTOM_METADATA_KEY, "{}"))
        for name, entry in entries.items():
            offsets = places.get(name, {}).get(SAVED_OFFSETS_KEY, [0] * len(entry.shape))
            found.setdefault(name, []).append((tuple(offsets), _Place(str(path), entry)))
    return found


class HuggingFaceStorageReader(FileSystemReader):
    """Reads the files of safetensors of a folder, whole tensors or the parts of several ranks.

    Args:
        path: the folder. thread_count: without effect.
    """

    def __init__(self, path: str | os.PathLike, thread_count: int = 1) -> None:
        super().__init__(path)
        self._places: dict[MetadataIndex, _Place] = {}

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        about: dict[str, Any] = {}
        where: dict[MetadataIndex, _Place] = {}
        for name, pieces in _pieces(sorted(self.path.glob(f"*{SUFFIX}"))).items():
            ends = [[o + n for o, n in zip(at, p.entry.shape, strict=True)] for at, p in pieces]
            size = tuple(map(max, zip(*ends, strict=True)))
            covered = sum(math.prod(p.entry.shape) for _, p in pieces)
            if covered < math.prod(size):
                raise ValueError(f"{self.path}: parts of {name!r} are missing, {covered} numbers of {math.prod(size)}")
            chunks = [ChunkStorageMetadata(Size(at), Size(p.entry.shape)) for at, p in pieces]
            dtype = _safetensors.CODES[pieces[0][1].entry.code]
            about[name] = TensorStorageMetadata(TensorProperties(dtype), Size(size), chunks)
            where |= {MetadataIndex(name, at): place for at, place in pieces}
        return Metadata(about, storage_data=where, storage_meta=StorageMeta())

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Note where everything is."""
        self._places = metadata.storage_data

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future:
        read: dict[MetadataIndex, Tensor] = {}
        with no_grad():
            for item in sorted(plan.items, key=lambda item: (item.storage_index.fqn, item.storage_index.offset or ())):
                index = item.storage_index
                if index not in read:
                    read.clear()  # one piece at a time
                    place = self._places[index]
                    read[index] = wrap(uploaded(_safetensors.read(Path(place.relative_path), place.entry)))
                target = planner.resolve_tensor(item).detach()
                target.copy_(box(read[index], item.storage_offsets, item.lengths))
                planner.commit_tensor(item, target)
        future: Future = Future()
        future.set_result(None)
        return future
