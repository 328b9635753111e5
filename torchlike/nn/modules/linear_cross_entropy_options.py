"""How PyTorch computes a linear map and a cross entropy in chunks."""

import re
from dataclasses import dataclass

from torchlike._base.dtypes import bfloat16, float16, float32, float64
from torchlike._base.dtypes import dtype as Dtype

__all__ = ["LinearCrossEntropyOptions"]

_METHOD = re.compile("auto|aspect_ratio(:0*[1-9][0-9]*)?")
_POLICIES = ("accurate", "balanced", "compact", "auto")


@dataclass
class LinearCrossEntropyOptions:
    """Options of ``linear_cross_entropy``. They are checked, and left to XLA, which chooses by itself.

    Raises:
        ValueError: a value that PyTorch does not know.
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: Dtype | None = None

    def __post_init__(self) -> None:
        if self.chunking_method is not None and not _METHOD.fullmatch(self.chunking_method):
            raise ValueError(f"invalid chunking_method: {self.chunking_method!r}")
        if self.acc_policy not in _POLICIES:
            raise ValueError(f"invalid acc_policy: {self.acc_policy!r}")
        size = self.batch_chunk_size
        if size is not None and (not isinstance(size, int) or size <= 0):
            raise ValueError(f"batch_chunk_size must be positive int or None, got {size}")
        if self.acc_dtype not in (None, float16, bfloat16, float32, float64):
            raise ValueError(
                "acc_dtype must be one of {None, torch.float16, torch.bfloat16, torch.float32, torch.float64}, got "
                f"{self.acc_dtype}. Pass acc_dtype=None to let the op pick automatically."
            )
