"""Compiled kernels between numbers and the integers that stand for them, rounded as PyTorch's are."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from torchlike._core.dispatch.kernels import kernel

_kernel = kernel("quantized", "QuantizedBackward")


def _wide() -> Any:
    return jax.dtypes.canonicalize_dtype(np.float64)


def _whole(steps: Any, like: Any) -> Any:
    """Floats rounded half to even, as integers of the dtype of ``like``; NaN is the greatest of small ones."""
    info = jnp.iinfo(like.dtype)
    steps = jnp.round(steps)
    steps = jnp.where(jnp.isnan(steps), info.min if like.dtype == np.int32 else info.max, steps)
    return jnp.clip(steps.astype(_wide()), info.min, info.max).astype(like.dtype)


@_kernel
def codes_at_once(x: Any, scale: Any, zero_point: Any, like: Any) -> Any:
    """The integers of ``x / scale + zero_point``, the product with the inverse and the sum rounded once."""
    wide, inverse = _wide(), (np.float32(1) / scale.astype(np.float32))
    return _whole((x.astype(wide) * inverse.astype(wide) + zero_point.astype(wide)).astype(np.float32), like)


@_kernel
def codes(x: Any, scale: Any, zero_point: Any, like: Any) -> Any:
    """The integers of ``x / scale + zero_point``, the product with the inverse and the sum rounded both."""
    wide, inverse = _wide(), (np.float32(1) / scale.astype(np.float32))
    steps = (x.astype(wide) * inverse.astype(wide)).astype(np.float32)
    return _whole((steps.astype(wide) + zero_point.astype(wide)).astype(np.float32), like)


@_kernel
def codes_after(x: Any, scale: Any, zero_point: Any, like: Any) -> Any:
    """The integers of ``x / scale``, rounded before the zero point is added."""
    wide, info, inverse = _wide(), jnp.iinfo(like.dtype), (np.float32(1) / scale.astype(np.float32))
    steps = jnp.round((x.astype(wide) * inverse.astype(wide)).astype(np.float32))
    return jnp.clip(steps.astype(wide) + zero_point.astype(wide), info.min, info.max).astype(like.dtype)


@_kernel
def numbers_at_once(codes: Any, scale: Any, zero_point: Any) -> Any:
    """``codes * scale - zero_point * scale``, the first product and the difference rounded once."""
    wide, scale = _wide(), scale.astype(np.float32)
    shift = (zero_point.astype(wide) * scale.astype(wide)).astype(np.float32)
    return (codes.astype(wide) * scale.astype(wide) - shift.astype(wide)).astype(np.float32)


@_kernel
def numbers(codes: Any, scale: Any, zero_point: Any) -> Any:
    """The float32 numbers that integers stand for."""
    if jnp.issubdtype(zero_point.dtype, jnp.floating):
        steps = codes.astype(np.float32) - zero_point
    else:
        steps = (codes.astype(np.int32) - zero_point.astype(np.int32)).astype(np.float32)
    return steps * scale.astype(np.float32)


@_kernel
def requantized(sums: Any, bias: Any, step: Any, scale: Any, zero_point: Any, low: Any, like: Any) -> Any:
    """The integers of ``sums * step + bias`` for a scale and a zero point, of at least ``low``.

    ``sums``: of products of integers, exact. ``step``: what 1 of them stands for.
    """
    wide, step = _wide(), step.astype(np.float32)
    shifted = sums.astype(np.float32) + (bias.astype(np.float32) / step)
    steps = jnp.round((shifted.astype(wide) * (step / scale.astype(np.float32)).astype(wide)).astype(np.float32))
    info = jnp.iinfo(like.dtype)
    steps = steps.astype(wide) + zero_point.astype(wide)
    return jnp.clip(jnp.maximum(steps, low.astype(wide)), info.min, info.max).astype(like.dtype)


@_kernel
def scaled_sums(sums: Any, bias: Any, step: Any) -> Any:
    """``sums * step + bias`` in float32, the product and the sum rounded once."""
    wide = _wide()
    return (sums.astype(wide) * step.astype(np.float32).astype(wide) + bias.astype(wide)).astype(np.float32)
