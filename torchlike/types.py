"""Names for annotations, as ``torch.types`` has them."""

import os
from collections.abc import Sequence
from typing import IO, TypeAlias

from torchlike._base.device import device
from torchlike._base.dtypes import dtype
from torchlike._core.autograd.backward import GradientEdge
from torchlike._core.tensor.size import Size
from torchlike._core.tensor.tensor import MemoryLayout, Tensor
from torchlike._core.tensor.untyped_storage import TypedStorage, UntypedStorage

Number: TypeAlias = int | float | bool
Device: TypeAlias = device | str | int | None
FileLike: TypeAlias = str | os.PathLike[str] | IO[bytes]

# Sizes and numbers are Python's own here: there is no symbolic kind of them.
IntLikeType: TypeAlias = int
FloatLikeType: TypeAlias = float
BoolLikeType: TypeAlias = bool
py_sym_types: tuple[type, ...] = ()

_TensorOrTensors: TypeAlias = Tensor | Sequence[Tensor]
_TensorOrOptionalTensors: TypeAlias = Tensor | Sequence[Tensor | None]
_TensorOrTensorsOrGradEdge: TypeAlias = Tensor | Sequence[Tensor] | GradientEdge | Sequence[GradientEdge]
_Number: tuple[type, ...] = (int, float, bool)
_dtype: TypeAlias = dtype
_device: TypeAlias = device
_layout: TypeAlias = MemoryLayout
_size: TypeAlias = Size | list[int] | tuple[int, ...]
_symsize: TypeAlias = Size | Sequence[int]
_int, _float, _bool, _complex, _str, _bytes = int, float, bool, complex, str, bytes
Storage: TypeAlias = TypedStorage | UntypedStorage

__all__ = ["Device", "FileLike", "Number", "Storage"]
