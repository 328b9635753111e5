"""Weighted sums of elements along one dimension, the same for all else: interpolation and pooling.

A table says, for every position of the result, which elements it is made of and with which weights.
The adjoint of such a sum is one too, so no gradient needs a scatter.
"""

from functools import lru_cache

import jax.numpy as jnp
import numpy as np

from torchlike._ops._linear import linear


class Table:
    """``index`` and ``weight`` [terms, size of the result]; ``used`` is False where a term is absent."""

    def __init__(self, index, weight, used, size):
        self.index, self.weight, self.used = index, weight, used
        self.size = size  # of the dimension that is read

    @classmethod
    def of(cls, terms, size):
        """The table of a list, for each position of the result, of (element, weight) pairs."""
        depth = max(1, max(map(len, terms), default=0))
        index = np.zeros((depth, len(terms)), np.int32)
        weight = np.zeros((depth, len(terms)))
        used = np.zeros((depth, len(terms)), bool)
        for column, pairs in enumerate(terms):
            for row, (element, share) in enumerate(pairs):
                index[row, column], weight[row, column], used[row, column] = element, share, True
        return cls(index, weight, used, size)

    def transposed(self):
        """The table of the adjoint."""
        back = [{} for _ in range(self.size)]
        for row, column in zip(*np.nonzero(self.used), strict=True):
            at = back[self.index[row, column]]
            at[column] = at.get(column, 0.0) + self.weight[row, column]
        return Table.of([list(pairs.items()) for pairs in back], self.index.shape[1])


def _gather(x, table, axis):
    shape = [1] * x.ndim
    shape[axis] = -1
    out = None
    for index, weight, used in zip(table.index, table.weight, table.used, strict=True):
        term = x.at[(slice(None),) * axis + (index,)].get(mode="promise_in_bounds")
        if not (weight == 1).all():
            term = term * weight.reshape(shape).astype(x.dtype)
        if not used.all():  # not a product with zero: the element may be infinite
            term = jnp.where(used.reshape(shape), term, jnp.zeros((), x.dtype))
        out = term if out is None else out + term
    return out


def resample(x, table, axis):
    """The weighted sums that ``table`` describes, along ``axis``."""
    back = table.transposed()
    return linear(lambda x: _gather(x, table, axis), lambda grad: _gather(grad, back, axis), x)


@lru_cache(256)
def mean_table(size, out):
    """Means over ``out`` intervals that cover ``size`` elements, overlapping where they must."""
    terms = []
    for i in range(out):
        start, end = i * size // out, -(-(i + 1) * size // out)
        terms.append([(j, 1 / (end - start)) for j in range(start, end)])
    return Table.of(terms, size)


@lru_cache(256)
def nearest_table(size, out, scale, exact):
    """One element each: ``floor(i * step)``, or with ``exact`` the one at the centre."""
    step = np.float32(1 / scale) if scale else np.float32(size) / np.float32(out)
    at = (np.arange(out, dtype=np.float32) + np.float32(0.5 if exact else 0)) * step
    return Table.of([[(min(int(i), size - 1), 1.0)] for i in at], size)


def _step(size, out, scale, align_corners):
    if align_corners:
        return (size - 1) / (out - 1) if out > 1 else 0.0
    return 1 / scale if scale else size / out


@lru_cache(256)
def linear_table(size, out, scale, align_corners, single):
    """Linear interpolation; ``single`` computes positions in float32 as PyTorch does for such inputs."""
    kind = np.float32 if single else np.float64
    step, count = kind(_step(size, out, scale, align_corners)), np.arange(out, dtype=kind)
    at = count * step if align_corners else np.maximum((count + kind(0.5)) * step - kind(0.5), kind(0))
    low = np.minimum(at.astype(np.int64), size - 1)
    share = np.clip(at - low.astype(kind), 0, 1)
    pairs = zip(low.tolist(), share.tolist(), strict=True)
    return Table.of([[(i, 1 - s), (min(i + 1, size - 1), s)] for i, s in pairs], size)


def _cubic(x, a):
    """Keys' cubic convolution kernel (Keys 1981) with parameter ``a``."""
    x = np.abs(x)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x < 1, near, np.where(x < 2, far, 0.0))


@lru_cache(256)
def cubic_table(size, out, scale, align_corners, single):
    """Cubic convolution over four elements, the outermost repeated beyond the ends."""
    kind = np.float32 if single else np.float64
    step, count = kind(_step(size, out, scale, align_corners)), np.arange(out, dtype=kind)
    at = count * step if align_corners else (count + kind(0.5)) * step - kind(0.5)
    low = np.floor(at)
    terms = []
    for i, t in zip(low.astype(int).tolist(), (at - low).tolist(), strict=True):
        weights = _cubic(np.array([t + 1, t, 1 - t, 2 - t]), -0.75)
        terms.append([(min(max(i + k - 1, 0), size - 1), float(w)) for k, w in enumerate(weights)])
    return Table.of(terms, size)


def _triangle(x):
    return np.maximum(1 - np.abs(x), 0)


def _lanczos(x):
    return np.where(np.abs(x) < 3, np.sinc(x) * np.sinc(x / 3), 0.0)


_FILTERS = {"bilinear": (1, _triangle), "bicubic": (2, lambda x: _cubic(x, -0.5)), "lanczos": (3, _lanczos)}


@lru_cache(256)
def antialias_table(mode, size, out, scale, align_corners):
    """A filter stretched to the distance of the samples when there are fewer of them; weights sum to 1."""
    reach, weigh = _FILTERS[mode]
    step = _step(size, out, scale, align_corners)
    stretch = max(step, 1.0)
    terms = []
    for i in range(out):
        center = step * (i + 0.5)
        start = max(int(center - reach * stretch + 0.5), 0)
        end = min(int(center + reach * stretch + 0.5), size)
        weights = weigh((np.arange(start, end) - center + 0.5) / stretch)
        total = weights.sum()
        terms.append([(j, float(w / total)) for j, w in zip(range(start, end), weights, strict=True)])
    return Table.of(terms, size)


def whole_weights(table):
    """(a table with the weights as 16-bit fractions of ``2 ** bits``, bits): how PyTorch interpolates bytes."""
    terms = [{} for _ in range(table.index.shape[1])]
    for row, column in zip(*np.nonzero(table.used), strict=True):
        at = terms[column]
        at[table.index[row, column]] = at.get(table.index[row, column], 0.0) + table.weight[row, column]
    most = max(max(pairs.values()) for pairs in terms)
    bits = 0
    while bits < 22 and 0.5 + most * (1 << (bits + 1)) < 1 << 15:
        bits += 1
    whole = [[(i, np.trunc(w * (1 << bits) + np.copysign(0.5, w))) for i, w in pairs.items()] for pairs in terms]
    return Table.of(whole, table.size), bits


def resample_bytes(x, table, axis):
    """As :func:`resample`, of integers from 0 to 255, which the result is rounded to."""
    whole, bits = whole_weights(table)
    total = _gather(x, whole, axis) + (1 << (bits - 1))
    return jnp.clip(total >> bits, 0, 255)
