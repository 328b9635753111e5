"""Samples that PyTorch's CPU generator makes one after the other, each of as many numbers as it takes.

Poisson: products of uniform numbers, and Hörmann's transformed rejection (1993) from a rate of 10 on. Gamma: Marsaglia
and Tsang (2000). That these are PyTorch's, and which numbers they take, was found by comparing.
"""

import math
from collections.abc import Callable

import numpy as np

from torchlike._base.mersenne import Mersenne, as_doubles

_LEAST = 256  # words that are made at a time
MOST = 1 << 16  # samples that are made one by one: more of them would take longer than a program of their own
_THIRD = float(np.float32(1 / 3))  # PyTorch's has the precision of a float


class _Ahead:
    """Uniform numbers of an engine, made many at a time; :meth:`close` leaves it behind the last one that was taken."""

    def __init__(self, e: Mersenne, block: int) -> None:
        self.engine, self.block, self.normal = e, block, e.normal
        self.taken = self.known = 0
        self.made = iter(())  # type: ignore[var-annotated]

    def uniform(self) -> float:
        """A number of [0, 1)."""
        self.taken += 1
        for x in self.made:
            return x
        end = self.known + self.block
        words, at = self.engine.ahead(max(_LEAST, 2 * end), 2 * end)
        self.made = iter(as_doubles(words[at + 2 * self.known : at + 2 * end]).tolist())
        self.known = end
        return next(self.made)

    def standard_normal(self) -> float:
        """A normal number; they are made in pairs."""
        if (kept := self.normal) is not None:
            self.normal = None
            return kept
        angle, length = 2 * math.pi * self.uniform(), math.sqrt(-2 * math.log1p(-self.uniform()))
        self.normal = length * math.sin(angle)
        return length * math.cos(angle)

    def close(self) -> None:
        """Go to where the numbers that were taken end."""
        if self.taken:
            self.engine.skip(2 * self.taken)
        self.engine.normal = self.normal


def _each(sample: Callable[[_Ahead, float], float], e: Mersenne, given: np.ndarray, lowest: float) -> np.ndarray | None:
    if given.size > MOST or given.dtype.kind not in "fV" or not (given >= lowest).all() or not np.isfinite(given).all():
        return None
    ahead = _Ahead(e, 2 * given.size + 2)
    found = [sample(ahead, x) for x in given.astype(np.float64).reshape(-1).tolist()]
    ahead.close()
    return np.array(found, np.float64).reshape(given.shape)


def poisson(e: Mersenne, rates: np.ndarray) -> np.ndarray | None:
    """A sample for each rate; None where it is not PyTorch's stream that is to make them, or a rate is invalid."""
    return _each(_poisson, e, rates, 0.0)


def gamma(e: Mersenne, concentrations: np.ndarray) -> np.ndarray | None:
    """A sample of rate 1 for each concentration; None as in :func:`poisson`."""
    tiny = np.finfo(concentrations.dtype).tiny if concentrations.dtype.kind == "f" else 2.0**-126
    found = _each(_gamma, e, concentrations, 0.0)
    return None if found is None else np.asarray(np.maximum(found, float(tiny)))  # of one number a float


def _poisson(e: _Ahead, rate: float) -> float:
    if rate >= 10:
        return _large_poisson(e, rate)
    if rate == 0:
        return 0.0
    least, product, count = math.exp(-rate), 1.0, 0
    while True:
        product *= e.uniform()
        if product <= least:
            return float(count)
        count += 1


def _large_poisson(e: _Ahead, rate: float) -> float:
    b = 0.931 + 2.53 * math.sqrt(rate)
    a = -0.059 + 0.02483 * b
    inverse_alpha, v_r = 1.1239 + 1.1328 / (b - 3.4), 0.9277 - 3.6224 / (b - 2)
    while True:
        u, v = e.uniform() - 0.5, e.uniform()
        us = 0.5 - abs(u)
        k = math.floor((2 * a / us + b) * u + rate + 0.43)
        if us >= 0.07 and v <= v_r:
            return float(k)
        if k < 0 or (us < 0.013 and v > us):
            continue
        height = math.log(v) + math.log(inverse_alpha) - math.log(a / (us * us) + b)
        if height <= k * math.log(rate) - rate - math.lgamma(k + 1):
            return float(k)


def _gamma(e: _Ahead, concentration: float) -> float:
    scale = 1.0
    if concentration < 1:
        if concentration == 0:
            return 0.0
        scale *= math.pow(1 - e.uniform(), 1 / concentration)
        concentration += 1
    d = concentration - _THIRD
    c = 1 / math.sqrt(9 * d)
    while True:
        y = 0.0
        while y <= 0:
            x = e.standard_normal()
            y = 1 + c * x
        v, u, square = y * y * y, 1 - e.uniform(), x * x
        if u < 1 - 0.0331 * square * square or math.log(u) < 0.5 * square + d * (1 - v + math.log(v)):
            return scale * d * v


# ----- binomial: geometric steps, and Hörmann's BTRS (1993) from an expectation of 10 on -----

# The error of Stirling's formula for the factorials of 0 to 9.
_STIRLING = (
    0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.02079067210376509, 0.0166446911898211,
    0.0138761288230707, 0.0118967099458917, 0.0104112652619720, 0.00925546218271273, 0.00833056343336287,
)  # fmt: skip


def binomial(e: Mersenne, counts: np.ndarray, probabilities: np.ndarray) -> np.ndarray | None:
    """A sample for each count and probability; None as in :func:`poisson`."""
    if (counts.shape, counts.dtype) != (probabilities.shape, probabilities.dtype):
        try:
            counts, probabilities = np.broadcast_arrays(counts, probabilities)
        except ValueError:
            return None
    if counts.dtype != probabilities.dtype or not ((probabilities >= 0) & (probabilities <= 1)).all():
        return None
    p = iter(probabilities.astype(np.float64).reshape(-1).tolist())
    return _each(lambda e, n: _binomial(e, n, next(p)), e, counts, 0.0)


def _binomial(e: _Ahead, n: float, p: float) -> float:
    if n == 0 or p == 0:
        return 0.0
    if p == 1:
        return n
    rare = min(p, 1 - p)
    found = _large_binomial(e, n, rare) if n * rare >= 10 else _small_binomial(e, n, rare)
    return found if p <= 0.5 else n - found


def _small_binomial(e: _Ahead, n: float, p: float) -> float:
    trials, count = 0.0, 0
    while True:
        trials += math.ceil(math.log(e.uniform()) / math.log1p(-p))
        if trials > n:
            return float(count)
        count += 1


def _stirling(k: float) -> float:
    if k < len(_STIRLING):
        return _STIRLING[int(k)]
    square = (k + 1) ** 2
    return (1 / 12 - (1 / 360 - 1 / 1260 / square) / square) / (k + 1)


def _large_binomial(e: _Ahead, n: float, p: float) -> float:
    deviation = math.sqrt(n * p * (1 - p))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    v_r, odds, alpha, mode = 0.92 - 4.2 / b, p / (1 - p), (2.83 + 5.1 / b) * deviation, math.floor((n + 1) * p)
    while True:
        u, v = e.uniform() - 0.5, e.uniform()
        us = 0.5 - abs(u)
        k = math.floor((2 * a / us + b) * u + n * p + 0.5)
        if us >= 0.07 and v <= v_r:
            return float(k)
        if k < 0 or k > n:
            continue
        bound = (mode + 0.5) * math.log((mode + 1) / (odds * (n - mode + 1)))
        bound += (n + 1) * math.log((n - mode + 1) / (n - k + 1))
        bound += (k + 0.5) * math.log(odds * (n - k + 1) / (k + 1))
        bound += _stirling(mode) + _stirling(n - mode) - _stirling(k) - _stirling(n - k)
        if math.log(v * alpha / (a / (us * us) + b)) <= bound:
            return float(k)
