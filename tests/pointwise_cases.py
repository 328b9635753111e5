"""Inputs and short forms that the tests of pointwise functions share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from oracle import check

NAN, INF = np.nan, np.inf
EDGES = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -1.5, 1e-3, 3.7, -20.25, NAN, INF, -INF])
UNIT = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 0.125, 0.99, -0.75, 1.5, -2.0, NAN])
POSITIVE = np.array([0.0, 1.0, 2.0, 0.5, 0.25, 7.5, 30.0, -1.0, NAN, INF])
COMPLEX = np.array([0j, 1 + 0j, -1 + 0j, 0.5 + 2j, -1.5 - 0.25j, 3j, -2.5j, 0.3 - 0.7j])
INTS = np.array([0, 1, -1, 2, -3, 7])
BOOLS = np.array([True, False, True])
HALF = np.array([0.0, -0.0, 0.5, -0.75, 1.0, 2.5, -3.25, 0.1]).astype(np.float16)
BRAIN = HALF.astype(ml_dtypes.bfloat16)
EMPTY = np.zeros((0, 3))
SCALAR = np.array(0.375)
MATRIX = np.linspace(-2.0, 2.0, 12).reshape(3, 4)


def forward(f: Callable, *arrays: Any, **options: Any) -> None:
    """Compare values, dtypes and strides only."""
    check(f, *arrays, grad=False, gradgrad=False, jit=False, **options)


def twice(x: np.ndarray) -> np.ndarray:
    """The pairs of all elements with all elements, as two arrays."""
    a, b = np.meshgrid(x, x)
    return a.ravel(), b.ravel()
