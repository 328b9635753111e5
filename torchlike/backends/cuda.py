"""Switches of CUDA's libraries. XLA chooses its own kernels; those that say how exact products are, are followed."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator
from typing import Any

import torchlike.cuda as gpus
from torchlike._base.frames import warn
from torchlike._ops.matmul import get_float32_matmul_precision, set_float32_matmul_precision
from torchlike.interop.alias import missing_names

__getattr__ = missing_names(__name__)


class _Matmul:
    """``torch.backends.cuda.matmul``."""

    allow_fp16_reduced_precision_reduction = True
    allow_fp16_reduced_precision_reduction_split_k = True
    allow_bf16_reduced_precision_reduction = True
    allow_bf16_reduced_precision_reduction_split_k = True
    allow_fp16_accumulation = False

    @property
    def allow_tf32(self) -> bool:
        """Whether products of float32 may be rounded: ``torch.get_float32_matmul_precision() != "highest"``.

        >>> import torchlike as torch
        >>> torch.backends.cuda.matmul.allow_tf32 = True
        >>> torch.get_float32_matmul_precision()
        'high'
        >>> torch.backends.cuda.matmul.allow_tf32 = False
        """
        return get_float32_matmul_precision() != "highest"

    @allow_tf32.setter
    def allow_tf32(self, value: bool) -> None:
        set_float32_matmul_precision("high" if value else "highest")

    @property
    def fp32_precision(self) -> str:
        """ "ieee" or "tf32", as :attr:`allow_tf32`."""
        return "tf32" if self.allow_tf32 else "ieee"

    @fp32_precision.setter
    def fp32_precision(self, value: str) -> None:
        if value not in ("ieee", "tf32", "none"):
            raise RuntimeError(f"Invalid precision {value!r}; expected 'ieee', 'tf32' or 'none'")
        self.allow_tf32 = value == "tf32"

    def __setattr__(self, name: str, value: Any) -> None:
        if not hasattr(type(self), name):
            raise AttributeError("Unknown attribute " + name)
        super().__setattr__(name, value)


matmul = _Matmul()


class _PlanCache:
    """Plans of cuFFT: XLA keeps its own."""

    size = 0
    max_size = 0

    def clear(self) -> None:
        """Nothing to do."""

    def __getitem__(self, device: Any) -> _PlanCache:
        return self


cufft_plan_cache = _PlanCache()


class SDPBackend(enum.Enum):
    """The kernels of attention that PyTorch chooses from."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4

    def __int__(self) -> int:
        return self.value

    __index__ = __int__


_sdp = {"flash": True, "mem_efficient": True, "math": True, "cudnn": True}
_reduction = [False]


def flash_sdp_enabled() -> bool:
    """What :func:`enable_flash_sdp` was told."""
    return _sdp["flash"]


def enable_flash_sdp(enabled: bool) -> None:
    """Kept; XLA chooses how attention is computed."""
    _sdp["flash"] = bool(enabled)


def mem_efficient_sdp_enabled() -> bool:
    """What :func:`enable_mem_efficient_sdp` was told."""
    return _sdp["mem_efficient"]


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Kept; XLA chooses how attention is computed."""
    _sdp["mem_efficient"] = bool(enabled)


def math_sdp_enabled() -> bool:
    """What :func:`enable_math_sdp` was told."""
    return _sdp["math"]


def enable_math_sdp(enabled: bool) -> None:
    """Kept; XLA chooses how attention is computed."""
    _sdp["math"] = bool(enabled)


def cudnn_sdp_enabled() -> bool:
    """What :func:`enable_cudnn_sdp` was told."""
    return _sdp["cudnn"]


def enable_cudnn_sdp(enabled: bool) -> None:
    """Kept; XLA chooses how attention is computed."""
    _sdp["cudnn"] = bool(enabled)


def allow_fp16_bf16_reduction_math_sdp(enabled: bool) -> None:
    """Kept."""
    _reduction[0] = bool(enabled)


def fp16_bf16_reduction_math_sdp_allowed() -> bool:
    """What :func:`allow_fp16_bf16_reduction_math_sdp` was told."""
    return _reduction[0]


def sdp_kernel(
    enable_flash: bool = True, enable_math: bool = True, enable_mem_efficient: bool = True, enable_cudnn: bool = True
) -> contextlib.AbstractContextManager[dict]:
    """A context with these switches; XLA chooses how attention is computed in any case. Warns: it is the former one."""
    warn(
        "`torch.backends.cuda.sdp_kernel()` is deprecated. In the future, this context manager will be removed. Please "
        "see `torch.nn.attention.sdpa_kernel()`.",
        FutureWarning,
    )
    return _switched(flash=enable_flash, math=enable_math, mem_efficient=enable_mem_efficient, cudnn=enable_cudnn)


@contextlib.contextmanager
def _switched(**switches: bool) -> Iterator[dict]:
    before = dict(_sdp)
    _sdp.update(switches)
    try:
        yield {}
    finally:
        _sdp.update(before)


def is_flash_attention_available() -> bool:
    """Whether PyTorch's flash attention is there: no."""
    return False


def can_use_flash_attention(params: Any, debug: bool = False) -> bool:
    """Whether PyTorch's flash attention can be used: no."""
    return False


can_use_efficient_attention = can_use_cudnn_attention = can_use_flash_attention


def is_built() -> bool:
    """Whether jax has a GPU in this process."""
    return gpus.is_available()


_libraries = {"blas": "default", "linalg": "default"}


def preferred_linalg_library(backend: str | None = None) -> str:
    """What it was last told; XLA chooses."""
    _libraries["linalg"] = _libraries["linalg"] if backend is None else backend
    return _libraries["linalg"]


def preferred_blas_library(backend: str | None = None) -> str:
    """What it was last told; XLA chooses."""
    _libraries["blas"] = _libraries["blas"] if backend is None else backend
    return _libraries["blas"]


__all__ = sorted(name for name in globals() if not name.startswith("_") and name[0].islower() and name != "annotations")
