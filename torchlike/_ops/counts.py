"""Histograms of points, and a hash of all bits."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from torchlike._decl.op import op, reduction
from torchlike._ops._axes import axes_of
from torchlike._ops._elementwise import no_derivative, scalar_name

_UNDEFINED = {"self": no_derivative("histogram")}


def _limits(self, low, high, given):
    """The ends of a range, those of the data where none is given, wider where they are one point."""
    if given:
        low, high = jnp.asarray(low, self.dtype), jnp.asarray(high, self.dtype)
    elif self.size:
        low, high = jnp.min(self), jnp.max(self)
    else:
        low, high = jnp.zeros((), self.dtype), jnp.ones((), self.dtype)
    point = low == high
    return jnp.where(point, low - 0.5, low).astype(self.dtype), jnp.where(point, high + 0.5, high).astype(self.dtype)


def _not_finite(self, low, high, given, bins, at):
    low, high = _limits(self, low, high, given)
    return ~(jnp.isfinite(low) & jnp.isfinite(high)), lambda: RuntimeError(
        f"torch.histogramdd: dimension {at}'s range [{_spelt(low)}, {_spelt(high)}] is not finite"
    )


def _spelt(number):
    return f"{float(number):g}"


@op("_histogram_edges(Tensor self, Scalar low, Scalar high, bool given, int bins, int at) -> Tensor",
    vjp=_UNDEFINED, variants="", check=_not_finite, policy="self")  # fmt: skip
def histogram_edges(self, low, high, given, bins, at):
    """The ends of ``bins`` equal parts of a range, that of the data unless one is given."""
    low, high = _limits(self, low, high, given)
    step, i = (high - low) / bins, jnp.arange(bins + 1, dtype=self.dtype)
    return jnp.where(i < (bins + 1) // 2, low + step * i, high - step * (bins - i))


def _bin(edges, x):
    """(bin of each number, whether it lies in one); the last bin holds its upper end."""
    place = jnp.minimum(jnp.searchsorted(edges, x, side="right") - 1, edges.shape[0] - 2)
    return jnp.maximum(place, 0), (x >= edges[0]) & (x <= edges[-1])


@op("_histogram_count(Tensor self, Tensor[] edges, Tensor? weight, bool density) -> Tensor",
    vjp=_UNDEFINED, variants="", policy="self")  # fmt: skip
def histogram_count(self, edges, weight, density):
    """The points [N, D] (or their weights [N]) in each cell of a grid; divided by sum and volume: ``density``."""
    flat, inside = jnp.zeros(self.shape[0], jnp.int64), jnp.ones(self.shape[0], bool)
    for d, ends in enumerate(edges):
        place, there = _bin(ends, self[:, d])
        flat, inside = flat * (ends.shape[0] - 1) + place, inside & there
    shape = tuple(e.shape[0] - 1 for e in edges)
    amount = inside.astype(self.dtype) if weight is None else jnp.where(inside, weight, 0)
    out = jnp.zeros(int(np.prod(shape)), self.dtype).at[flat].add(amount).reshape(shape)
    if density:
        out = out / jnp.sum(out)
        for d, ends in enumerate(edges):
            out = out / jnp.diff(ends).reshape([-1 if i == d else 1 for i in range(len(shape))])
    return out


def _words(x):
    """The elements as 64 bits: floating ones as doubles, integers with their sign."""
    if jnp.iscomplexobj(x):
        raise NotImplementedError(f"\"xor_sum_cpu\" not implemented for '{scalar_name(x)}': give view_as_real(input)")
    if jnp.issubdtype(x.dtype, np.floating):
        return lax.bitcast_convert_type(x.astype(jnp.float64), jnp.uint64)
    return x.astype(jnp.int64).astype(jnp.uint64)


@reduction("hash_tensor(Tensor self, int[1] dim=[], *, bool keepdim=False, int mode=0) -> Tensor", vjp={})
def hash_tensor(self, dim, keepdim, mode):
    """The exclusive or of the bits of all elements, over ``dim`` (all), as uint64; floating ones count as doubles.

    RuntimeError for another ``mode`` than 0, and for no elements without a ``dim``.

    >>> import torchlike as torch
    >>> torch.hash_tensor(torch.tensor([1, 2, 4]))
    tensor(7, dtype=torch.uint64)
    """
    if mode != 0:
        raise RuntimeError(f"Unknown hash_tensor mode: {mode}")
    if not self.size and not dim:
        raise RuntimeError(
            "hash_tensor: Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim "
            "with the 'dim' argument."
        )
    axes = axes_of(dim or None, self.ndim)
    for axis in axes:
        if not self.shape[axis]:
            raise IndexError(f"hash_tensor: Expected reduction dim {axis} to have non-zero size.")
    words = _words(self)
    out = jax.lax.reduce(words, np.uint64(0), lax.bitwise_xor, axes)
    return jnp.expand_dims(out, axes) if keepdim else out


__all__ = ["hash_tensor", "histogram_count", "histogram_edges"]
