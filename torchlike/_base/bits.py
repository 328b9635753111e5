"""Whether there are 64-bit numbers: PyTorch has them, and jax where asked; ``JAX_ENABLE_X64=0`` is respected."""

import os
import warnings
from typing import Any

import numpy as np

X64 = os.environ.get("JAX_ENABLE_X64", "1").lower() not in ("0", "false", "n", "no", "f", "off")

NARROW = {"int64": "int32", "uint64": "uint32", "float64": "float32", "complex128": "complex64"}
"""The type that stands for one of 64 bits in 32-bit mode."""


def narrowed(array: np.ndarray) -> np.ndarray:
    """A numpy array as the 32-bit type that stands for its own; OverflowError where an integer does not fit."""
    name = NARROW.get(array.dtype.name)
    if name is None:
        return array
    kind: Any = np.dtype(name)
    if kind.kind in "iu" and array.size:
        low, high, info = array.min(), array.max(), np.iinfo(kind)
        if low < info.min or high > info.max:
            raise OverflowError(
                f"{array.dtype} numbers from {low} to {high} do not fit into {name}, which stands for "
                f"{array.dtype} while jax runs with 32 bits (JAX_ENABLE_X64=0)"
            )
    with np.errstate(over="ignore"):
        return array.astype(kind)


def widest(dtype: Any) -> np.dtype:
    """The numpy type that a kernel computes in where it asks for ``dtype``: that of 32 bits in 32-bit mode."""
    dtype = np.dtype(dtype)
    return dtype if X64 else np.dtype(NARROW.get(dtype.name, dtype))


def demand_x64(enabled: Any) -> None:
    """RuntimeError where 64 bits were switched off after the import of torchlike: int64 would become int32 unseen."""
    if X64 and not enabled:
        raise RuntimeError(
            "torchlike computes with 64 bits, which jax has switched off here (torchlike.x64(False), jax.enable_x64 or "
            "the option jax_enable_x64): call it outside, or set JAX_ENABLE_X64=0 before Python starts for 32-bit mode"
        )


def silence_jax() -> None:
    """In 32-bit mode kernels ask for 64 bits as ever and get 32; jax would warn of each, in torchlike's name."""
    warnings.filterwarnings("ignore", r"Explicitly requested dtype .* is not available", module=r"(jax|torchlike)\.")
