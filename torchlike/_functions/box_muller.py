"""Pairs of normal float32 samples from pairs of uniform ones, rounded as PyTorch's vectorised code on x86 rounds.

That takes logarithm, sine and cosine from the polynomials of the Cephes library (S. Moshier), with sums of products
rounded once. Here they stand twice: in numpy, for few samples, and in jax, for many; the results are the same bits.
"""

import collections
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from torchlike._executor.kernels import jit

BLOCK = 1 << 16  # words that the compiled code takes at a time; a small rest is numpy's
_PADDED = BLOCK // 4  # from here on a rest is filled up to a block: numpy takes longer
_AHEAD = 2  # blocks that XLA computes while the words of the next are made

_F = np.float32
_EIGHT = np.dtype("V32")  # eight of them, to be moved at once
_HALF = _F(0.5)
_ROOT_HALF = _F(0.707106781186547524)
_LOG = (7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1,
        2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1)  # fmt: skip
_LN2 = (-2.12194440e-4, 0.693359375)
_QUARTERS = 1.27323954473516  # 4 / pi
_PI_PARTS = (-0.78515625, -2.4187564849853515625e-4, -3.77489497744594108e-8)
_COS = (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
_SIN = (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)


class _Numpy:
    """The operations in numpy. A product of two float32 is exact in float64, so that its sum is rounded once."""

    where, sqrt = staticmethod(np.where), staticmethod(np.sqrt)

    @staticmethod
    def fma(a: Any, b: Any, c: Any) -> Any:
        return (np.multiply(a, b, dtype=np.float64) + c).astype(_F)

    @staticmethod
    def bits(x: Any) -> Any:
        return x.view(np.int32)

    @staticmethod
    def number(x: Any) -> Any:
        return x.view(_F)


class _Jax:
    """The operations in jax; XLA for CPUs rounds a sum with a product once."""

    where, sqrt = staticmethod(jnp.where), staticmethod(jnp.sqrt)

    @staticmethod
    def fma(a: Any, b: Any, c: Any) -> Any:
        return a * b + c

    @staticmethod
    def bits(x: Any) -> Any:
        return lax.bitcast_convert_type(x, np.int32)

    @staticmethod
    def number(x: Any) -> Any:
        return lax.bitcast_convert_type(x, _F)


def _log(x: Any, on: Any) -> Any:
    """The logarithm of x > 0."""
    bits = on.bits(x)
    exponent = ((bits >> 23) - 126).astype(_F)
    m = on.number((bits & 0x7FFFFF) | 0x3F000000)
    low = m < _ROOT_HALF
    exponent = on.where(low, exponent - _F(1), exponent)
    x = on.where(low, m + m - _F(1), m - _F(1))
    y = on.fma(x, _F(_LOG[0]), _F(_LOG[1]))
    for k in _LOG[2:]:
        y = on.fma(y, x, _F(k))
    square = x * x
    y = on.fma(y * x, square, exponent * _F(_LN2[0]))
    y = on.fma(square, -_HALF, y)
    return on.fma(exponent, _F(_LN2[1]), x + y)


def _sin_cos(x: Any, on: Any) -> tuple[Any, Any]:
    """Sine and cosine of x >= 0."""
    octant = ((x * _F(_QUARTERS)).astype(np.int32) + 1) & ~1
    turns = octant.astype(_F)
    for part in _PI_PARTS:
        x = on.fma(turns, _F(part), x)
    square = x * x
    c = on.fma(on.fma(square, _F(_COS[0]), _F(_COS[1])), square, _F(_COS[2])) * square
    c = on.fma(c, square, -(square * _HALF)) + _F(1)
    s = on.fma(on.fma(square, _F(_SIN[0]), _F(_SIN[1])), square, _F(_SIN[2])) * square
    s = on.fma(s, x, x)
    swapped = (octant & 2) != 0
    sine, cosine = on.where(swapped, c, s), on.where(swapped, s, c)
    return on.where((octant & 4) != 0, -sine, sine), on.where(((octant - 2) & 4) == 0, -cosine, cosine)


def _pairs(u: Any, angle: Any, on: Any) -> tuple[Any, Any]:
    """The first and the second samples of pairs, of mean 0 and deviation 1."""
    radius = on.sqrt(_F(-2) * _log(u, on))
    sine, cosine = _sin_cos(angle, on)
    return radius * cosine, radius * sine


def _samples(u: Any, angle: Any, mean: Any, std: Any, on: Any) -> tuple[Any, Any]:
    first, second = _pairs(u, angle, on)
    return on.fma(first, std, mean), on.fma(second, std, mean)


def _block(u: jax.Array, angle: jax.Array, mean: Any, std: Any) -> tuple[jax.Array, jax.Array]:
    return _samples(u, angle, mean, std, _Jax)


_compiled = jit(_block, ("normal_block", _block), exact=True)


def fill_normal(words: Callable[[int], np.ndarray], out: np.ndarray, mean: float, std: float) -> None:
    """Fill ``out``, a multiple of 16 float32, from ``words(n)``: the i-th and the (i + 8)-th of 16 are a pair."""
    begun: collections.deque = collections.deque()
    for k in range(0, out.size, BLOCK):
        part = out[k : k + BLOCK]
        begun.append((part, _begun(words(part.size), _F(mean), _F(std))))
        if len(begun) > _AHEAD:
            _finished(*begun.popleft())
    while begun:
        _finished(*begun.popleft())


def standard(words: np.ndarray) -> np.ndarray:
    """The samples of rows of 16 words or of a multiple of it, of mean 0 and deviation 1, by numpy."""
    uniform = ((words & np.uint64(0xFFFFFF)) * 2.0**-24).astype(_F).reshape(-1, 2, 8)
    out = np.empty_like(uniform)
    out[:, 0], out[:, 1] = _pairs(_F(1) - uniform[:, 0], _F(2 * math.pi) * uniform[:, 1], _Numpy)
    return out.reshape(words.shape)


def scaled(samples: np.ndarray, mean: float, std: float) -> np.ndarray:
    """A copy of standard samples with another mean and deviation."""
    if (mean, std) == (0.0, 1.0):
        return samples + _F(0)  # the sum has no negative zeros
    return _Numpy.fma(samples, _F(std), _F(mean))


def _begun(words: np.ndarray, mean: Any, std: Any) -> tuple[Any, Any]:
    """The first and the second samples of the pairs, which XLA may still be computing in its own thread."""
    uniform = np.multiply(words & np.uint32(0xFFFFFF), _F(2.0**-24), dtype=_F, casting="unsafe")
    if _PADDED <= words.size < BLOCK:
        uniform = np.concatenate([uniform, np.zeros(BLOCK - words.size, _F)])
    eights = uniform.view(_EIGHT).reshape(-1, 2)
    first, second = (np.ascontiguousarray(eights[:, k]).view(_F) for k in (0, 1))
    np.subtract(_F(1), first, out=first)
    np.multiply(_F(2 * math.pi), second, out=second)
    if uniform.size == BLOCK:
        return _compiled(first, second, mean, std)
    return _samples(first, second, mean, std, _Numpy)


def _finished(out: np.ndarray, pairs: tuple[Any, Any]) -> None:
    eights = out.view(_EIGHT).reshape(-1, 2)
    for k, samples in enumerate(pairs):
        eights[:, k] = np.asarray(samples).view(_EIGHT)[: len(eights)]
