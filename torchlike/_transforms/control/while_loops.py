"""Loops whose number of steps is known only when they run, with a reverse derivative of every order.

XLA cannot keep the states of an unknown number of steps, so the backward of such a loop computes them
again: it keeps ``_PARTS`` states at even intervals, and within an interval, which it walks backwards, again
``_PARTS``; the few steps between two of those are computed from the last kept state for each step.
(The idea is that of checkpointing by recursive bisection: A. Griewank, "Achieving logarithmic growth of
temporal and spatial complexity in reverse automatic differentiation", 1992.)
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

_PARTS = 32
_DEPTH = 2  # of the loop itself; 1 for the loops of its backward, which would take long to compile


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1, 2))
def repeat_while(
    test: Callable[..., Any],
    step: Callable[..., Any],
    check: Callable[..., Any],
    carry: Any,
    constants: Any,
    flags: Any,
) -> Any:
    """(last state, flags): ``carry = step(carry, constants)`` while ``test(carry, constants)``.

    ``check(carry, constants)`` gives the flags of value checks in one step, which are or-ed to ``flags``.
    """
    return _steps(test, step, check, carry, constants, flags)[:2]


def copied(residuals: Any) -> Any:
    """Residuals that are no arguments themselves; XLA drops the copies.

    jax 0.10 mixes up residuals that are arguments where a function with its own derivative is in a scan that is
    differentiated twice: it counts gradients twice, silently, or gives some computations the values of others.
    """
    return jax.tree.map(jnp.copy, residuals)


def _steps(
    test: Callable[..., Any],
    step: Callable[..., Any],
    check: Callable[..., Any],
    carry: Any,
    constants: Any,
    flags: Any,
) -> Any:
    """The last state, the flags and the number of steps."""

    def body(s: Any) -> tuple[Any, ...]:
        c, seen, n = s
        if flags:
            seen = [a | b for a, b in zip(seen, check(c, constants), strict=True)]
        return step(c, constants), seen, n + 1

    return lax.while_loop(lambda s: test(s[0], constants), body, (carry, flags, jnp.int64(0)))


def _while_forward(
    test: Callable[..., Any],
    step: Callable[..., Any],
    check: Callable[..., Any],
    carry: Any,
    constants: Any,
    flags: Any,
) -> tuple[Any, Any]:
    last, seen, count = _steps(test, step, check, carry, constants, flags)
    return (last, seen), copied((count, carry, constants))


def _while_backward(
    test: Callable[..., Any], step: Callable[..., Any], check: Callable[..., Any], kept: Any, cotangents: Any
) -> tuple[Any, ...]:
    _, of_carry, of_constants = _backward(step, kept, cotangents[0], _DEPTH)
    return of_carry, of_constants, None


repeat_while.defvjp(_while_forward, _while_backward)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def counted_loop(step: Callable[..., Any], count: Any, carry: Any, constants: Any) -> Any:
    """``carry = step(carry, constants)``, ``count`` times; ``count`` may be an array."""
    return lax.fori_loop(0, count, lambda i, c: step(c, constants), carry)


def _forward(step: Callable[..., Any], count: Any, carry: Any, constants: Any) -> tuple[Any, Any]:
    return counted_loop(step, count, carry, constants), copied((count, carry, constants))


def _backward(step: Callable[..., Any], kept: Any, cotangents: Any, depth: int = 1) -> tuple[Any, ...]:
    count, carry, constants = kept
    whole = _join(cotangents), _zeros(constants)
    found = _pull(step, count, carry, constants, whole, depth)
    return None, _spread(carry, found[0]), _spread(constants, found[1])


counted_loop.defvjp(_forward, _backward)


# Cotangents travel as tuples for the leaves that have them: integers have none.


def _inexact(tree: Any) -> list[Any]:
    return [x for x in jax.tree.leaves(tree) if jnp.issubdtype(x.dtype, jnp.inexact)]


def _join(tree: Any) -> tuple[Any, ...]:
    return tuple(x for x in jax.tree.leaves(tree) if jnp.issubdtype(x.dtype, jnp.inexact))


def _zeros(tree: Any) -> tuple[Any, ...]:
    return tuple(map(jnp.zeros_like, _inexact(tree)))


def _spread(tree: Any, found: Any) -> Any:
    """Cotangents in the structure of ``tree``, None for integers."""
    rest = iter(found)
    leaves, structure = jax.tree.flatten(tree)
    filled = [next(rest) if jnp.issubdtype(x.dtype, jnp.inexact) else None for x in leaves]
    return jax.tree.unflatten(structure, filled)


def _filled(tree: Any, inexact: Any) -> Any:
    """``tree`` with its inexact leaves replaced."""
    rest = iter(inexact)
    leaves, structure = jax.tree.flatten(tree)
    return jax.tree.unflatten(structure, [next(rest) if jnp.issubdtype(x.dtype, jnp.inexact) else x for x in leaves])


def _pull_step(step: Callable[..., Any], carry: Any, constants: Any, whole: Any) -> tuple[Any, Any]:
    """The cotangents before one step from those after it; those of the constants add up."""
    after, of_constants = whole

    def f(c: Any, k: Any) -> tuple[Any, ...]:
        return _join(step(_filled(carry, c), _filled(constants, k)))

    _, pull = jax.vjp(f, tuple(_inexact(carry)), tuple(_inexact(constants)))
    before, more = pull(after)
    return before, tuple(a + b for a, b in zip(of_constants, more, strict=True))


def _pull(step: Callable[..., Any], count: Any, carry: Any, constants: Any, whole: Any, depth: int) -> Any:
    """The cotangents before ``count`` steps from ``carry``."""
    if not depth:
        return _pull_few(step, count, carry, constants, whole)
    length = (count + _PARTS - 1) // _PARTS

    def size(part: Any) -> Any:
        return jnp.clip(count - part * length, 0, length)

    def forward(c: Any, part: Any) -> tuple[Any, Any]:
        return counted_loop(step, size(part), c, constants), c

    _, starts = lax.scan(forward, carry, jnp.arange(_PARTS))

    def backward(w: Any, given: Any) -> tuple[Any, None]:
        part, start = given
        return _pull(step, size(part), start, constants, w, depth - 1), None

    return lax.scan(backward, whole, (jnp.arange(_PARTS), starts), reverse=True)[0]


def _pull_few(step: Callable[..., Any], count: Any, carry: Any, constants: Any, whole: Any) -> Any:
    """As ``_pull``, every state computed from the first."""

    def backward(s: Any, kept: Any) -> tuple[Any, Any]:
        left, w = s
        first, held = kept
        now = counted_loop(step, left - 1, first, held)
        return left - 1, _pull_step(step, now, held, w)

    return counted_loop(backward, count, (count, whole), (carry, constants))[1]
