"""Names for annotations, as ``torch.types`` has them."""

import os
from collections.abc import Sequence
from typing import IO, Any, TypeAlias

from torchlike._base.device import device
from torchlike._base.dtypes import dtype
from torchlike._core.size import Size
from torchlike._core.tensor import Strided, Tensor

Number: TypeAlias = int | float | bool
Device: TypeAlias = device | str | int | None
FileLike: TypeAlias = str | os.PathLike[str] | IO[bytes]

_TensorOrTensors: TypeAlias = Tensor | Sequence[Tensor]
_dtype: TypeAlias = dtype
_device: TypeAlias = device
_layout: TypeAlias = Strided
_size: TypeAlias = Size | list[int] | tuple[int, ...]
_int, _float, _bool, _complex = int, float, bool, complex
Storage: TypeAlias = Any

__all__ = ["Device", "FileLike", "Number", "Storage"]
