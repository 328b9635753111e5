"""What a checkpoint says of itself: which tensors, in which pieces, in which files."""

import os
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from torchlike._base.dtypes import dtype as Dtype
from torchlike._base.dtypes import get_default_dtype
from torchlike._core.tensor.size import Size
from torchlike._core.tensor.tensor import (
    MemoryFormat,
    Tensor,
    channels_last,
    contiguous_format,
    preserve_format,
    strided,
)

__all__ = [
    "BytesStorageMetadata", "ChunkStorageMetadata", "Metadata", "MetadataIndex", "StorageMeta", "TensorProperties",
    "TensorStorageMetadata",
]  # fmt: skip

STATE_DICT_TYPE = dict[str, Any]


@dataclass
class ChunkStorageMetadata:
    """Where a piece of a tensor lies in it, and how large it is."""

    offsets: Size
    sizes: Size


class _MEM_FORMAT_ENCODING(Enum):  # noqa: N801
    """The numbers that files have for memory formats."""

    TORCH_CONTIGUOUS_FORMAT = 0
    TORCH_CHANNELS_LAST = 1
    TORCH_PRESERVE_FORMAT = 2


_FORMATS: dict[_MEM_FORMAT_ENCODING, MemoryFormat] = {
    _MEM_FORMAT_ENCODING.TORCH_CONTIGUOUS_FORMAT: contiguous_format,
    _MEM_FORMAT_ENCODING.TORCH_CHANNELS_LAST: channels_last,
    _MEM_FORMAT_ENCODING.TORCH_PRESERVE_FORMAT: preserve_format,
}


@dataclass
class TensorProperties:
    """What a tensor is besides its numbers."""

    dtype: Dtype = field(default_factory=get_default_dtype)
    layout: Any = strided
    requires_grad: bool = False
    memory_format: MemoryFormat = contiguous_format
    pin_memory: bool = False

    def __getstate__(self) -> tuple:
        number = next(n for n, found in _FORMATS.items() if found == self.memory_format)
        return self.dtype, self.layout, self.requires_grad, number, self.pin_memory

    def __setstate__(self, state: tuple) -> None:
        self.dtype, self.layout, self.requires_grad, number, self.pin_memory = state
        self.memory_format = _FORMATS[number]

    @staticmethod
    def create_from_tensor(tensor: Tensor) -> "TensorProperties":
        """Those of a tensor."""
        return TensorProperties(tensor.dtype, tensor.layout, tensor.requires_grad)


@dataclass
class TensorStorageMetadata:
    """A tensor of a checkpoint, and its pieces."""

    properties: TensorProperties
    size: Size
    chunks: list[ChunkStorageMetadata]


@dataclass
class BytesStorageMetadata:
    """An object of a checkpoint that is no tensor; it is pickled."""


@dataclass
class StorageMeta:
    """Which checkpoint this is."""

    checkpoint_id: str | os.PathLike | None = None
    save_id: str | None = None
    load_id: str | None = None
    modules: list[str] = field(default_factory=list)


@dataclass
class Metadata:
    """All of a checkpoint: what each name holds, the path of keys that it stood at, and where its bytes are."""

    state_dict_metadata: dict[str, TensorStorageMetadata | BytesStorageMetadata]
    planner_data: Any = None
    storage_data: Any = None
    storage_meta: StorageMeta | None = None
    version: str | None = None


@dataclass(frozen=True)
class MetadataIndex:
    """The name of an object, and for a piece of a tensor its place; ``index`` is a hint to the number of the piece.

    >>> from torchlike.distributed.checkpoint.metadata import MetadataIndex
    >>> MetadataIndex("weight", [0, 2], 1) == MetadataIndex("weight", (0, 2))
    True
    """

    fqn: str
    offset: Size | None = None
    index: int | None = field(hash=False, compare=False, default=None)

    def __init__(self, fqn: str, offset: Any = None, index: int | None = None) -> None:
        object.__setattr__(self, "fqn", fqn)
        object.__setattr__(self, "index", index)
        if offset is not None:
            object.__setattr__(self, "offset", Size(offset))
