"""The numbers that PyTorch's CPU generator gives: each distribution from the words of MT19937, by numpy.

How words become samples was found by comparing with PyTorch: which of them a sample takes, in which precision it is
computed, and in which order a tensor is filled. Products and sums are rounded once where PyTorch's compiler does so.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from torchlike._base.mersenne import Mersenne, chunks
from torchlike._functions.box_muller import fill_normal
from torchlike._functions.normal_pool import LARGEST, few_normals

_EXACT = 256  # up to here logarithms and the like are the C library's, as PyTorch's are; numpy's may differ in a bit
_LONG = 1 << 28  # a range of integers from which on each takes two words
_SPLIT = 134217729.0  # 2**27 + 1: cuts a float64 into halves whose products are exact


def fma(a: np.ndarray, b: float, c: float) -> np.ndarray:
    """``a * b + c`` in float64, rounded once."""
    if b == 1 and c == 0:
        return a
    if a.size <= 16:
        return np.array([found if math.isfinite(found) else total for found, total in
                         [_fused(x, b, c) for x in a.tolist()]], np.float64)  # fmt: skip
    with np.errstate(all="ignore"):
        found, total = _fused(a, b, c)
        return np.where(np.isfinite(found), found, total)


def _fused(a: Any, b: float, c: float) -> tuple[Any, Any]:
    """(``a * b + c`` rounded once, not finite where an intermediate result is not; the same rounded twice)."""
    product = a * b
    left = a * _SPLIT - (a * _SPLIT - a)
    right = b * _SPLIT - (b * _SPLIT - b)
    rest, tail = a - left, b - right
    error = ((left * right - product) + left * tail + rest * right) + rest * tail
    total = product + c
    shift = total - product
    return total + (error + ((product - (total - shift)) + (c - shift))), total


def _of(exact: Callable, fast: Callable, x: np.ndarray) -> np.ndarray:
    if x.size > _EXACT:
        with np.errstate(all="ignore"):
            return fast(x)
    return np.array([exact(v) for v in x.tolist()], np.float64)


def _log(x: float) -> float:
    return math.log(x) if x else -math.inf


def _as(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    if x.dtype == dtype:
        return x
    with np.errstate(all="ignore"):
        if dtype.itemsize < 4 and x.dtype == np.float64:
            x = x.astype(np.float32)  # PyTorch rounds twice
        return x.astype(dtype)


# ----- uniform -----


def uniform(e: Mersenne, n: int, dtype: np.dtype, low: float = 0.0, high: float = 1.0) -> np.ndarray:
    """Samples of [low, high)."""
    if dtype == np.float64:
        out = e.doubles(n)
        for part in chunks(out):
            part[:] = fma(part, high - low, low)
        return out
    span, bottom = np.float64(np.float32(high) - np.float32(low)), np.float64(np.float32(low))
    if n <= _EXACT:
        u = (e.long(n) & np.uint64(0xFFFFFF)) * 2.0**-24
        return _below(_as((u * span + bottom if (low, high) != (0.0, 1.0) else u).astype(np.float32), dtype), low, high)
    if dtype == np.float32 and (low, high) == (0.0, 1.0):
        return e.floats(n)
    out = np.empty(n, dtype)
    for part in chunks(out):
        u = e.floats(part.size)
        if (low, high) != (0.0, 1.0):
            u = (u * span + bottom).astype(np.float32)
        part[:] = u
        _below(part, low, high)
    return out


def _below(u: np.ndarray, low: float, high: float) -> np.ndarray:
    """``u`` with the lower end in place of what rounding took to the upper one."""
    if u.dtype.itemsize < 4 or low:
        over = u >= u.dtype.type(high)
        if over.any():
            u[over] = u.dtype.type(low)
    return u


def bernoulli(e: Mersenne, n: int, p: float) -> np.ndarray:
    """Whether each of ``n`` trials with probability ``p`` succeeds."""
    out = np.empty(n, bool)
    for part in chunks(out):
        np.less(e.doubles(part.size), p, out=part)
    return out


# ----- normal -----


def normal(
    e: Mersenne, n: int, dtype: np.dtype, mean: float = 0.0, std: float = 1.0, contiguous: bool = True
) -> np.ndarray:
    """Normal samples. 16 and more in contiguous memory are made in groups of 16, others one pair after the other."""
    if not contiguous or n < 16:
        return _as(fma(_serial(e, n), std, mean), dtype)
    if dtype == np.float64:
        return _doubles(e, n, mean, std)
    whole = n // 16 * 16
    if n <= LARGEST:
        return _as(few_normals(e, n, dtype == np.float32, mean, std), dtype)
    out = np.empty(n, np.float32)
    fill_normal(e.words, out[:whole], mean, std)
    if whole < n:  # the last 16 are made anew
        if dtype == np.float32:
            e.words(n - whole)
        fill_normal(e.words, out[-16:], mean, std)
    return _as(out, dtype)


def _serial(e: Mersenne, n: int) -> np.ndarray:
    """Standard normal float64 samples in pairs; the second one of the last pair is kept for the next call."""
    kept = [] if e.normal is None or not n else [e.normal]
    more = n - len(kept)
    if more <= 0:
        e.normal = None if n else e.normal
        return np.array(kept[:n], np.float64)
    u = e.doubles(2 * ((more + 1) // 2))
    if more <= 16:
        return _few(e, kept, u.tolist(), more)
    radius = np.sqrt(-2 * _of(math.log1p, np.log1p, -u[1::2]))
    angle = (2 * math.pi) * u[0::2]
    pairs = np.empty_like(u)
    pairs[0::2] = radius * _of(math.cos, np.cos, angle)
    pairs[1::2] = radius * _of(math.sin, np.sin, angle)
    e.normal = float(pairs[-1]) if more % 2 else None
    return np.concatenate([kept, pairs[:more]])


def _few(e: Mersenne, kept: list, u: list, more: int) -> np.ndarray:
    """The same in plain Python, which is faster for a few."""
    pairs = []
    for turn, length in zip(u[0::2], u[1::2], strict=True):
        radius, angle = math.sqrt(-2 * math.log1p(-length)), (2 * math.pi) * turn
        pairs += [radius * math.cos(angle), radius * math.sin(angle)]
    e.normal = pairs[-1] if more % 2 else None
    return np.array(kept + pairs[:more], np.float64)


def _doubles(e: Mersenne, n: int, mean: float, std: float) -> np.ndarray:
    whole = n // 16 * 16
    out = e.doubles(n)
    for part in chunks(out[:whole]):
        part[:] = _groups(part, mean, std)
    if whole < n:
        out[-16:] = _groups(e.doubles(16), mean, std)
    return out


def _groups(u: np.ndarray, mean: float, std: float) -> np.ndarray:
    u = u.reshape(-1, 2, 8)
    radius = np.sqrt(-2 * _of(math.log, np.log, (1 - u[:, 0]).reshape(-1)))
    angle = ((2 * math.pi) * u[:, 1]).reshape(-1)
    pairs = np.stack([f.reshape(-1, 8) for f in
                      (radius * _of(math.cos, np.cos, angle), radius * _of(math.sin, np.sin, angle))], 1)  # fmt: skip
    return fma(pairs.reshape(-1), std, mean)


def log_normal(e: Mersenne, n: int, dtype: np.dtype, mean: float, std: float) -> np.ndarray:
    """Exponentials of normal samples."""
    return _as(_of(_exp, np.exp, fma(_serial(e, n), std, mean)), dtype)


def _exp(x: float) -> float:
    return math.exp(x) if x < 709.7 else float(np.exp(x))


# ----- other continuous and discrete ones -----


def exponential(e: Mersenne, n: int, dtype: np.dtype, rate: float = 1.0) -> np.ndarray:
    """Exponential samples."""
    return _as((-1 / rate) * _of(math.log1p, np.log1p, -e.doubles(n)), dtype)


def cauchy(e: Mersenne, n: int, dtype: np.dtype, median: float, sigma: float) -> np.ndarray:
    """Cauchy samples."""
    return _as(fma(_of(math.tan, np.tan, math.pi * (e.doubles(n) - 0.5)), sigma, median), dtype)


def geometric(e: Mersenne, n: int, p: float) -> np.ndarray:
    """Numbers of trials up to the first success, float64."""
    with np.errstate(all="ignore"):
        return np.ceil(_of(_log, np.log, e.doubles(n)) / math.log1p(-p))


# ----- integers -----


def integers(e: Mersenne, n: int, low: int, span: int) -> np.ndarray:
    """Integers of [low, low + span) as int64 (those beyond, modulo 2**64)."""
    if span >= 2**64:
        return e.pairs(n).view(np.int64)
    if span >= _LONG:
        return _shifted(_modulo(e.pairs(n), np.uint64(span)), low)
    out = np.empty(n, np.int64)
    for part in chunks(out):
        part[:] = _modulo(e.words(part.size), np.uint32(span))
        if low:
            part += low
    return out


def any_integers(e: Mersenne, n: int, span: int, long: bool) -> np.ndarray:
    """Integers of [0, span), all that a dtype holds; ``long``: from two words each."""
    return _shifted(_modulo(e.pairs(n), np.uint64(span)) if long else _modulo(e.words(n), np.uint32(span)), 0)


def _modulo(words: np.ndarray, span: Any) -> np.ndarray:
    """``words % span``, in place: numpy's quotients are computed many at once, its remainders one by one."""
    multiples = words // span
    multiples *= span
    words -= multiples
    return words


def _shifted(raw: np.ndarray, low: int) -> np.ndarray:
    found = raw.astype(np.int64) if raw.dtype == np.uint32 else raw.view(np.int64)
    return found + np.int64(low) if low else found


def permutation(e: Mersenne, n: int) -> np.ndarray:
    """A permutation of 0..n-1: each place in turn is exchanged with itself or a later one."""
    if n < 2:
        return np.arange(n)
    rest = np.arange(n, 1, -1, dtype=np.uint32)
    partner = (e.words(n - 1) % rest).astype(np.int32) + np.arange(n - 1, dtype=np.int32)
    if n > _SWAPS:
        return _exchanged(partner, n)
    order = list(range(n))
    for i, k in enumerate(partner.tolist()):
        order[i], order[k] = order[k], order[i]
    return np.array(order)


_SWAPS = 20_000  # up to here a loop takes less than importing scipy


def _exchanged(partner: np.ndarray, n: int) -> np.ndarray:
    """0..n-1 after exchanging place i with ``partner[i]`` for each i: LAPACK's exchanges of rows."""
    import scipy.linalg.lapack  # jax needs it; importing it takes a tenth of a second

    column = np.arange(n, dtype=np.float64).reshape(n, 1, order="F")
    return scipy.linalg.lapack.dlaswp(column, partner, overwrite_a=True)[:, 0].astype(np.int64)


def weighted(e: Mersenne, weights: np.ndarray, n: int) -> np.ndarray:
    """``n`` indices for each row of weights, drawn with replacement: a uniform sample in the cumulative sum."""
    rows = weights.reshape(-1, weights.shape[-1])
    found = np.empty((len(rows), n), np.int64)
    for row, out in zip(rows, found, strict=True):
        ends = np.cumsum(row, dtype=row.dtype)
        ends = ends / ends[-1]
        out[:] = np.minimum(np.searchsorted(ends, e.doubles(n), side="left"), len(row) - 1)
    return found.reshape((*weights.shape[:-1], n))
