"""What XLA does not see through, where ``lax.optimization_barrier`` does not do: on the CPU XLA drops that early."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def word(value: Any) -> Any:
    """32 bits of the first element of an array that is not empty."""
    first = lax.slice(value, (0,) * value.ndim, (1,) * value.ndim).reshape(())
    return lax.bitcast_convert_type(jnp.real(first).astype(np.float32), np.uint32)


def certain(word: Any) -> Any:
    """True, as no word has more than 32 leading zeros; depends on the word, though."""
    return lax.clz(word) <= np.uint32(32)


def complete(value: Any, after: Any) -> Any:
    """``value``, all of it computed, and stored, before it is used; ``after`` is an array that is there by then."""
    if 0 in value.shape or 0 in after.shape:
        return value
    return lax.cond(certain(word(after)), lambda x: x, lambda x: lax.full_like(x, 0), value)


@jax.jit
def stored(value: Any) -> Any:
    """``value``, which XLA is not to compute anew wherever it is used; in programs on the CPU a branch sees to that."""
    return lax.optimization_barrier(value)
