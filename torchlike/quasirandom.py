"""Sobol' sequences: points that fill a cube more evenly than random ones."""

from __future__ import annotations

from typing import Any

import numpy as np

import torchlike._base.dtypes as dtypes
from torchlike._core.conversion.convert import copied_array
from torchlike._core.tensor.arguments import as_int
from torchlike._core.tensor.tensor import Tensor
from torchlike._functions.generator import Generator
from torchlike._functions.random import randint

__all__ = ["SobolEngine"]

_FLOATS = (dtypes.float32, dtypes.float64)


class SobolEngine:
    """The points of a Sobol' sequence in the unit cube of ``dimension`` dimensions, PyTorch's one by one.

    Args:
        dimension: of 1 to 21,201; ValueError beyond. The numbers that give the sequence its directions are those of
            scipy, which jax needs anyway.
        scramble: whether bits are shuffled and shifted at random (Owen's scrambling, linear), as PyTorch does.
        seed: of that; None for the next draws of the default generator.

    >>> import torchlike as torch
    >>> torch.quasirandom.SobolEngine(2).draw(3)
    tensor([[0.0000, 0.0000],
            [0.5000, 0.5000],
            [0.7500, 0.2500]])
    """

    MAXBIT = 30
    MAXDIM = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if dimension > self.MAXDIM or dimension < 1:
            raise ValueError(f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}]")
        self.dimension = as_int("SobolEngine", "dimension", dimension)
        self.scramble, self.seed = scramble, seed
        directions = _directions(self.dimension, self.MAXBIT)
        shift = np.zeros(self.dimension, np.int64)
        if scramble:
            directions, shift = self._scrambled(directions)
        self.sobolstate, self.shift = copied_array(directions), copied_array(shift)
        self.quasi = self.shift.clone()
        self._first_point = (self.quasi.to(dtypes.get_default_dtype()) / 2**self.MAXBIT).reshape(1, -1)
        self.num_generated = 0

    def _scrambled(self, directions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The directions times random lower triangular matrices of bits, and random bits of each dimension."""
        generator = None if self.seed is None else Generator().manual_seed(self.seed)
        d, bits = self.dimension, self.MAXBIT
        shift = randint(2, (d, bits), generator=generator).numpy() @ (1 << np.arange(bits, dtype=np.int64))
        matrices = randint(2, (d, bits, bits), generator=generator).numpy()
        return _mixed(directions, matrices), shift

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """The next ``n`` points, [n, dimension], of ``dtype``, the default one if None; ``out``: where to put them.

        Raises:
            RuntimeError: negative ``n``. NotImplementedError: a ``dtype`` beside float32 and float64.

        >>> import torchlike as torch
        >>> torch.quasirandom.SobolEngine(1).draw(2, dtype=torch.float64).dtype
        torch.float64
        """
        n = as_int("_sobol_engine_draw", "n", n)
        dtype = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
        if dtype not in _FLOATS and (n != 1 or self.num_generated):
            raise NotImplementedError(
                f"\"_sobol_engine_draw\" not implemented for '{dtype.scalar_name}': points are float32 or float64"
            )
        if n < (self.num_generated == 0):
            raise RuntimeError(
                f"Trying to create tensor with negative dimension {n - 1}: draw() takes a positive number of points"
            )
        first = self.num_generated == 0
        points = self._following(n)
        found = copied_array(points.astype(np.float32 if dtype is not dtypes.float64 else np.float64) / 2**self.MAXBIT)
        found = found.to(dtype)
        if first:
            found[:1] = self._first_point  # which was rounded to the default dtype
        if out is None:
            return found
        return out.resize_as_(found).copy_(found)

    def _following(self, n: int) -> np.ndarray:
        """The next ``n`` points as integers; the engine goes on to where they end."""
        directions, last = self.sobolstate.numpy(), self.quasi.numpy()
        first = self.num_generated == 0
        points = _following(directions, last, n - first, self.num_generated - (not first))
        self.quasi.copy_(copied_array(points[-1].copy()))
        self.num_generated += n
        return points if first else points[1:]

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """The next ``2**m`` points. ValueError unless the number of all points drawn is a power of two then."""
        n = 2**m
        total = self.num_generated + n
        if not total & (total - 1) == 0:
            raise ValueError(
                "The balance properties of Sobol' points require n to be a power of 2. "
                f"{self.num_generated} points have been previously generated, then: n={self.num_generated}+2**{m}="
                f"{total}. If you still want to do this, please use 'SobolEngine.draw()' instead."
            )
        return self.draw(n=n, out=out, dtype=dtype)

    def reset(self) -> SobolEngine:
        """Go back to the first point; returns the engine."""
        self.quasi.copy_(self.shift)
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Leave out the next ``n`` points; returns the engine."""
        if n > 0:
            self._following(as_int("_sobol_engine_ff_", "n", n))
        return self

    def __repr__(self) -> str:
        parts = [f"dimension={self.dimension}"]
        parts += ["scramble=True"] if self.scramble else []
        parts += [] if self.seed is None else [f"seed={self.seed}"]
        return f"{type(self).__name__}({', '.join(parts)})"


def _directions(dimension: int, bits: int) -> np.ndarray:
    """The numbers of which points are made, int64 [dimension, bits]: Joe's and Kuo's, as scipy keeps them."""
    from scipy.stats import qmc  # takes a second, and only engines need it

    found = getattr(qmc.Sobol(dimension, scramble=False, bits=bits), "_sv", None)
    if found is None:
        raise NotImplementedError(
            "SobolEngine: this version of scipy keeps the directions of Sobol' sequences elsewhere"
        )
    return found.astype(np.int64)


def _mixed(directions: np.ndarray, matrices: np.ndarray) -> np.ndarray:
    """The directions times lower triangular matrices of bits, whose diagonals are taken as 1."""
    bits = directions.shape[1]
    lower = np.tril(matrices, -1) + np.eye(bits, dtype=np.int64)
    weights = 1 << np.arange(bits - 1, -1, -1, dtype=np.int64)  # a number's bits, the highest first
    apart = (directions[:, :, None] & weights != 0).astype(np.int64)
    return (apart @ lower.transpose(0, 2, 1) % 2) @ weights


def _following(directions: np.ndarray, last: np.ndarray, n: int, start: int) -> np.ndarray:
    """The point ``last`` and the ``n`` after it, as integers; ``start`` numbers the first step."""
    changes = directions.T[_lowest_zero(np.arange(start, start + n, dtype=np.int64))]
    return np.bitwise_xor.accumulate(np.concatenate([last[None], changes]), axis=0)


def _lowest_zero(n: np.ndarray) -> np.ndarray:
    """The position of the lowest bit of each number that is 0."""
    return np.bitwise_count((~n & (n + 1)) - 1)
