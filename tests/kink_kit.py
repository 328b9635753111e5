"""Points where functions have no derivative, and the check that ours is PyTorch's there, in every way to ask."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from oracle import _differentiable, _random_like, check, close, flatten, is_new, to_ours

import torchlike

NAN, INF = np.nan, np.inf


def cases(parameters: str, text: str) -> dict[str, Callable]:
    """``{line: function(t, *parameters)}`` of the expressions on the lines of ``text``; F is t.nn.functional."""
    scope = {"inf": INF, "nan": NAN}
    lines = [line.strip() for line in text.strip().splitlines()]
    return {c: eval(f"lambda t, {parameters}: {c.replace('F.', 't.nn.functional.')}", scope) for c in lines if c}


def repeated(points: list) -> np.ndarray:
    """The points, often enough that PyTorch computes them all in its vectorized loops, not in the rest of one."""
    return np.tile(np.array(points), 16)


def pairs(points: list) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of the points, as two arrays."""
    first, second = np.meshgrid(np.array(points), np.array(points))
    return first.ravel(), second.ravel()


def single(array: Any) -> Any:
    """The array in single precision."""
    kinds = {"f": np.float32, "c": np.complex64}
    return array.astype(kinds.get(array.dtype.kind, array.dtype)) if isinstance(array, np.ndarray) else array


def kink(f: Callable, *arrays: np.ndarray, second: bool = True, low: bool = False, tol: float = 1.0) -> None:
    """Value, gradient and second gradient are PyTorch's; under ``jax.jit`` and (``low``) in single precision too.

    Second gradients, and the run under jit, are those of the first case of an operator: see :func:`oracle.is_new`.
    """
    check(f, *arrays, gradgrad=second, jit=False, stride=False, tol=tol)
    if is_new(f, arrays, ("traced", *[(a.ndim, a.size == 0) for a in arrays])):
        _check_traced(f, arrays, tol)
    if low:
        check(f, *map(single, arrays), gradgrad=False, jit=False, stride=False, tol=tol)


def _check_traced(f: Callable, arrays: tuple[np.ndarray, ...], tol: float) -> None:
    """Values and gradients traced by ``jax.jit`` are those of eager execution."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        values = [jax.numpy.array(a) for a in arrays]
        eager, traced = _values_and_gradients(f, *values), jax.jit(lambda *v: _values_and_gradients(f, *v))(*values)
    for i, (a, b) in enumerate(zip(traced, eager, strict=True)):
        close(np.asarray(a), np.asarray(b), f"result {i} under jax.jit", 10 * tol)


def _values_and_gradients(f: Callable, *values: jax.Array) -> list[jax.Array]:
    inputs = [torchlike.from_jax_array(v) for v in values]
    leaves = [x.requires_grad_() for x in inputs if x.is_floating_point() or x.is_complex()]
    outs = [o for o in flatten(f(torchlike, *inputs)) if isinstance(o, torchlike.Tensor)]
    roots = [outs[i] for i in _differentiable(outs)]
    if not roots:
        return [o.jax() for o in outs]
    rng = np.random.RandomState(0)
    grads = [to_ours(_random_like(rng, np.zeros(tuple(o.shape), o.dtype.np))) for o in roots]
    found = torchlike.autograd.grad(roots, leaves, grads, allow_unused=True)
    return [o.detach().jax() for o in outs] + [g.jax() for g in found if g is not None]


__all__ = ["INF", "NAN", "cases", "kink", "pairs", "repeated", "single"]
