"""The planners that are used when a program brings none: what each rank writes and reads."""

import dataclasses
import io
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from torchlike import serialization
from torchlike._core.conversion.factories import empty
from torchlike._core.tensor.size import Size
from torchlike._core.tensor.tensor import Tensor
from torchlike.distributed.checkpoint._chunks import Targets, box, is_described, overlaps, pieces_of
from torchlike.distributed.checkpoint._nested import flatten_state_dict, set_element
from torchlike.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)
from torchlike.distributed.checkpoint.planner import (
    LoadItemType,
    LoadPlan,
    LoadPlanner,
    ReadItem,
    SavePlan,
    SavePlanner,
    TensorWriteData,
    WriteItem,
    WriteItemType,
)

__all__ = [
    "DefaultLoadPlanner", "DefaultSavePlanner", "create_default_global_load_plan", "create_default_global_save_plan",
    "create_default_local_load_plan", "create_default_local_save_plan",
]  # fmt: skip

VERSION = "1.0.0"


class DefaultSavePlanner(SavePlanner):
    """Writes every tensor and object once: what several ranks have is written by the one that writes least.

    Args:
        flatten_state_dict: whether what is in dicts of the state dict is named, and read, by itself.
        dedup_save_to_lowest_rank: let the lowest of the ranks that have it write.
        flatten_sharded_tensors, dedup_replicated_tensors, enable_plan_caching: without effect.
    """

    def __init__(
        self, flatten_state_dict: bool = True, flatten_sharded_tensors: bool = True,
        dedup_replicated_tensors: bool | None = None, dedup_save_to_lowest_rank: bool = False,
        enable_plan_caching: bool = False,
    ) -> None:  # fmt: skip
        self.flatten_state_dict, self.lowest = flatten_state_dict, dedup_save_to_lowest_rank
        self.state_dict: dict[str, Any] = {}
        self.mappings: dict[str, Any] = {}
        self.is_coordinator = False
        self._pieces: dict[MetadataIndex, Tensor] = {}

    def set_up_planner(
        self, state_dict: dict[str, Any], storage_meta: StorageMeta | None = None, is_coordinator: bool = False
    ) -> None:
        self.state_dict, self.mappings = state_dict, {}
        if self.flatten_state_dict:
            self.state_dict, self.mappings = flatten_state_dict(state_dict)
        self.is_coordinator = is_coordinator

    def create_local_plan(self) -> SavePlan:
        self._pieces.clear()
        items = [item for name, value in self.state_dict.items() for item in self._items(name, value)]
        return SavePlan(items, planner_data=self.mappings or None)

    def _items(self, name: str, value: Any) -> list[WriteItem]:
        if hasattr(value, "__create_write_items__"):
            return value.__create_write_items__(name, value)
        if is_described(value):
            return self._described(name, value)
        if not isinstance(value, Tensor):
            return [WriteItem(MetadataIndex(name), WriteItemType.BYTE_IO)]
        found = []
        pieces = [piece for piece in pieces_of(value) if piece.first]
        for number, piece in enumerate(pieces):
            index = MetadataIndex(name, piece.offsets, number)
            self._pieces[index] = piece.tensor
            kind = WriteItemType.TENSOR if piece.tensor.shape == value.shape else WriteItemType.SHARD
            found.append(_item(index, kind, piece.chunk(), value))
        return found

    def _described(self, name: str, value: Any) -> list[WriteItem]:
        found = []
        for number, chunk in enumerate(value.__create_chunk_list__()):
            index = MetadataIndex(name, chunk.offsets, number)
            found.append(_item(index, WriteItemType.SHARD, chunk, value))
        return found

    def create_global_plan(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
        plans, metadata = create_default_global_save_plan(_without_copies(all_plans, self.lowest))
        for name, found in metadata.state_dict_metadata.items():
            if isinstance(found, TensorStorageMetadata):
                _demand_whole(name, found)
        paths: dict[str, Any] = {}
        for plan in all_plans:
            paths.update(plan.planner_data or {})
        metadata.planner_data = paths or None
        return plans, metadata

    def finish_plan(self, new_plan: SavePlan) -> SavePlan:
        return new_plan

    def lookup_object(self, index: MetadataIndex) -> Any:
        """What an item of the plan stands for."""
        value = self.state_dict[index.fqn]
        if index in self._pieces:
            return self._pieces[index]
        if hasattr(value, "__get_tensor_shard__"):
            return value.__get_tensor_shard__(index)
        return value

    def transform_object(self, write_item: WriteItem, object: Any) -> Any:
        """What is written for it: its pickle, if it is no tensor."""
        if write_item.type is not WriteItemType.BYTE_IO:
            return object
        file = io.BytesIO()
        serialization.save(object, file)
        return file

    def resolve_data(self, write_item: WriteItem) -> Tensor | io.BytesIO:
        return self.transform_object(write_item, self.lookup_object(write_item.index))


def create_default_local_save_plan(state_dict: dict[str, Any], is_coordinator: bool) -> SavePlan:
    """What a rank has of a flat state dict."""
    planner = DefaultSavePlanner(flatten_state_dict=False)
    planner.set_up_planner(state_dict, None, is_coordinator)
    return planner.create_local_plan()


def create_default_global_save_plan(
    all_plans: list[SavePlan], rewrite_index_hints: bool = True
) -> tuple[list[SavePlan], Metadata]:
    """The plans of all ranks, and the description of what they write. Pieces are found by their offsets alone."""
    names: dict[str, Any] = {}
    for plan in all_plans:
        for item in plan.items:
            _describe(names, item)
    return all_plans, Metadata(names, version=VERSION)


def create_default_local_load_plan(state_dict: dict[str, Any], metadata: Metadata, strict: bool = True) -> LoadPlan:
    """What a rank needs for a flat state dict. RuntimeError for a name that the checkpoint has not, if ``strict``."""
    planner = DefaultLoadPlanner(flatten_state_dict=False, allow_partial_load=not strict)
    planner.set_up_planner(state_dict, metadata)
    return planner.create_local_plan()


def create_default_global_load_plan(all_plans: list[LoadPlan]) -> list[LoadPlan]:
    """The plans of all ranks, as they are."""
    return all_plans


def _item(index: MetadataIndex, kind: WriteItemType, chunk: ChunkStorageMetadata, whole: Any) -> WriteItem:
    properties = TensorProperties.create_from_tensor(whole)
    return WriteItem(index, kind, tensor_data=TensorWriteData(chunk, properties, Size(whole.shape)))


def _without_copies(plans: Sequence[SavePlan], lowest: bool) -> list[SavePlan]:
    """The plans, with each item on one rank alone."""
    holders: dict[MetadataIndex, list[int]] = defaultdict(list)
    sizes: dict[MetadataIndex, int] = {}
    for rank, plan in enumerate(plans):
        for item in plan.items:
            holders[item.index].append(rank)
            sizes[item.index] = item.tensor_storage_size() or 0
    load = [sum(sizes[i.index] for i in plan.items if len(holders[i.index]) == 1) for plan in plans]
    chosen: dict[MetadataIndex, int] = {}
    for index in sorted((i for i, ranks in holders.items() if len(ranks) > 1), key=lambda i: -sizes[i]):
        only_first = lowest or sizes[index] == 0
        rank = holders[index][0] if only_first else min(holders[index], key=lambda r: load[r])
        chosen[index] = rank
        load[rank] += sizes[index]
    return [
        dataclasses.replace(plan, items=[item for item in plan.items if chosen.get(item.index, rank) == rank])
        for rank, plan in enumerate(plans)
    ]


def _describe(names: dict[str, Any], item: WriteItem) -> None:
    """Note an item in the description of a checkpoint."""
    name, data = item.index.fqn, item.tensor_data
    if data is None:
        names[name] = BytesStorageMetadata()
        return
    found = names.setdefault(name, TensorStorageMetadata(data.properties, data.size, []))
    if not isinstance(found, TensorStorageMetadata) or found.size != data.size:
        raise ValueError(f"{name} is not the same on all ranks: {tuple(data.size)} and {found}")
    found.chunks.append(data.chunk)


def _demand_whole(name: str, found: TensorStorageMetadata) -> None:
    """ValueError where the pieces of a tensor do not make all of it."""
    have, want = sum(chunk.sizes.numel() for chunk in found.chunks), found.size.numel()
    if have != want:
        raise ValueError(
            f"Failed to validate global plan: the pieces of {name} have {have} elements, the tensor {want}"
        )


class DefaultLoadPlanner(LoadPlanner):
    """Reads what the state dict has names for, into its tensors; other objects are put in their places.

    Args:
        flatten_state_dict: as it was for saving. allow_partial_load: leave what the checkpoint has not as it is.
        flatten_sharded_tensors: without effect.
    """

    def __init__(
        self, flatten_state_dict: bool = True, flatten_sharded_tensors: bool = True, allow_partial_load: bool = False
    ) -> None:
        self.flatten_state_dict, self.allow_partial_load = flatten_state_dict, allow_partial_load
        self.original_state_dict: Any = {}
        self.state_dict: dict[str, Any] = {}
        self.mappings: dict[str, Any] = {}
        self.metadata: Metadata | None = None
        self.is_coordinator = False
        self._targets: dict[str, Targets] = {}

    def set_up_planner(
        self, state_dict: dict[str, Any], metadata: Metadata | None = None, is_coordinator: bool = False
    ) -> None:
        self.original_state_dict, self.state_dict, self.mappings = state_dict, state_dict, {}
        if self.flatten_state_dict:
            self.state_dict, self.mappings = flatten_state_dict(state_dict)
        self.metadata, self.is_coordinator = metadata, is_coordinator

    def create_local_plan(self) -> LoadPlan:
        assert self.metadata is not None
        known, items = self.metadata.state_dict_metadata, []
        self._targets.clear()
        for name, value in self.state_dict.items():
            if name in known:
                items += self._items(name, value, known[name])
            elif not self.allow_partial_load:
                raise RuntimeError(f"Missing key in checkpoint state_dict: {name}.")
        return LoadPlan(items)

    def _items(self, name: str, value: Any, saved: Any) -> list[ReadItem]:
        if isinstance(saved, BytesStorageMetadata):
            nothing = Size((0,))
            index = MetadataIndex(name)
            return [ReadItem(LoadItemType.BYTE_IO, index, nothing, index, nothing, nothing)]
        if not isinstance(value, Tensor) and not is_described(value):
            raise ValueError(
                f"Invalid checkpoint metadata for {name}, expected BytesStorageMetadata but found {type(saved)}"
            )
        if tuple(value.shape) != tuple(saved.size):
            raise ValueError(f"Size mismatch between saved {saved.size} and current: {value.shape} for {name}")
        if is_described(value):
            return [item for chunk in value.__create_chunk_list__() for item in _reads(name, chunk, saved)]
        targets = self._targets[name] = Targets(value)
        items = [item for piece in targets.pieces for item in _reads(name, piece.chunk(), saved)]
        targets.expect(len(items))
        return items

    def create_global_plan(self, global_plan: list[LoadPlan]) -> list[LoadPlan]:
        return global_plan

    def finish_plan(self, new_plan: LoadPlan) -> LoadPlan:
        return new_plan

    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        name, found = read_item.dest_index.fqn, serialization.load(value, weights_only=False)
        self.state_dict[name] = found
        if self.flatten_state_dict:
            set_element(self.original_state_dict, self.mappings[name], found)

    def lookup_tensor(self, index: MetadataIndex) -> Tensor:
        """The piece of a tensor of the state dict."""
        value = self.state_dict[index.fqn]
        if is_described(value):
            return value.__get_tensor_shard__(index)
        return next(p.tensor for p in self._targets[index.fqn].pieces if tuple(p.offsets) == tuple(index.offset or ()))

    def transform_tensor(self, read_item: ReadItem, tensor: Tensor) -> Tensor:
        """The box of a piece."""
        return box(tensor, read_item.dest_offsets, read_item.lengths)

    def resolve_tensor(self, read_item: ReadItem) -> Tensor:
        return self.transform_tensor(read_item, self.lookup_tensor(read_item.dest_index))

    def commit_tensor(self, read_item: ReadItem, tensor: Tensor) -> None:
        targets = self._targets.get(read_item.dest_index.fqn)
        if targets is not None:
            targets.arrived()


class _EmptyStateDictLoadPlanner(DefaultLoadPlanner):
    """Fills an empty dict with all of a checkpoint, or with the names that begin with one of ``keys``."""

    def __init__(self, keys: set[str] | None = None, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.keys = keys

    def set_up_planner(
        self, state_dict: dict[str, Any], metadata: Metadata | None = None, is_coordinator: bool = False
    ) -> None:
        if state_dict:
            raise AssertionError("Expected empty state_dict")
        assert metadata is not None
        for name, saved in metadata.state_dict_metadata.items():
            path = (metadata.planner_data or {}).get(name, (name,))
            if self._is_meant(name, path):
                set_element(state_dict, path, _room(saved))
        super().set_up_planner(state_dict, metadata, is_coordinator)

    def _is_meant(self, name: str, path: Sequence[Any]) -> bool:
        if self.keys is None or name in self.keys:
            return True
        return any(".".join(map(str, path[:n])) in self.keys for n in range(1, len(path)))


def _room(saved: Any) -> Any:
    if isinstance(saved, BytesStorageMetadata):
        return "<bytes_io>"
    return empty(tuple(saved.size), dtype=saved.properties.dtype)


def _reads(name: str, chunk: ChunkStorageMetadata, saved: TensorStorageMetadata) -> list[ReadItem]:
    """The boxes that make a piece. ValueError where the checkpoint has not all of it."""
    items, have = [], 0
    for number, there, here, lengths in overlaps(chunk, saved.chunks):
        have += Size(lengths).numel()
        stored = MetadataIndex(name, saved.chunks[number].offsets, number)
        items.append(
            ReadItem(
                LoadItemType.TENSOR, MetadataIndex(name, chunk.offsets), Size(here), stored, Size(there), Size(lengths)
            )
        )
    if have != chunk.sizes.numel():
        raise ValueError(f"the checkpoint has {have} of {chunk.sizes.numel()} elements of a piece of {name}")
    return items


def create_read_items_for_chunk_list(
    fqn: str, checkpoint_md: TensorStorageMetadata, local_chunks: list[ChunkStorageMetadata]
) -> list[ReadItem]:
    """The boxes of a checkpoint that make pieces of a tensor."""
    return [item for chunk in local_chunks for item in _reads(fqn, chunk, checkpoint_md)]
