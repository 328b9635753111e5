"""A line search for the strong Wolfe conditions (Nocedal & Wright, algorithms 3.5 and 3.6)."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

_DECREASE, _CURVATURE = 1e-4, 0.9


class _Point(NamedTuple):
    """The loss at ``t`` along the direction, its gradient, and the slope."""

    t: float
    loss: float
    grad: Any
    slope: float


def _cubic(a: _Point, b: _Point, bounds: tuple[float, float] | None = None) -> float:
    """The minimum of the cubic through two points with their slopes, kept within bounds (equation 3.59)."""
    low, high = bounds if bounds is not None else (min(a.t, b.t), max(a.t, b.t))
    d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t)
    square = d1 * d1 - a.slope * b.slope
    if not square >= 0:
        return (low + high) / 2
    d2 = math.sqrt(square)
    if a.t > b.t:
        a, b = b, a
    found = b.t - (b.t - a.t) * ((b.slope + d2 - d1) / (b.slope - a.slope + 2 * d2))
    return min(max(found, low), high)


def strong_wolfe(
    along: Callable[[float], tuple[float, Any, float]],
    t: float,
    loss: float,
    grad: Any,
    slope: float,
    width: float,
    tolerance: float = 1e-9,
    most: int = 25,
) -> tuple[float, Any, float, int]:
    """(loss, gradient, t, evaluations) of a step that decreases the loss and flattens the slope enough.

    Args:
        along: gives (loss, gradient, slope) at a step length. t: the first one tried.
        loss, grad, slope: those at 0. width: the largest element of the direction.
        tolerance: smallest change of an element that counts. most: the limit of evaluations.
    """
    start = _Point(0, loss, grad, slope)
    bracket, evals, done = _bracket(along, t, start, most, width, tolerance)
    low, high = (0, 1) if bracket[0].loss <= bracket[-1].loss else (1, 0)
    stalled = False
    while not done and evals < most and abs(bracket[1].t - bracket[0].t) * width >= tolerance:
        t = _cubic(bracket[0], bracket[1])
        t, stalled = _kept_inside(t, bracket, stalled)
        new = _Point(t, *along(t))
        evals += 1
        if new.loss > loss + _DECREASE * t * slope or new.loss >= bracket[low].loss:
            bracket[high] = new
            low, high = (0, 1) if bracket[0].loss <= bracket[1].loss else (1, 0)
            continue
        if abs(new.slope) <= -_CURVATURE * slope:
            done = True
        elif new.slope * (bracket[high].t - bracket[low].t) >= 0:
            bracket[high] = bracket[low]
        bracket[low] = new
    best = bracket[low] if len(bracket) > 1 else bracket[0]
    return best.loss, best.grad, best.t, evals


def _bracket(along, t, start, most, width, tolerance):
    """Points that enclose a good step, or that step alone."""
    new = _Point(t, *along(t))
    evals, previous = 1, start
    for i in range(most):
        if new.loss > start.loss + _DECREASE * new.t * start.slope or (i > 1 and new.loss >= previous.loss):
            return [previous, new], evals, False
        if abs(new.slope) <= -_CURVATURE * start.slope:
            return [new], evals, True
        if new.slope >= 0:
            return [previous, new], evals, False
        bounds = new.t + 0.01 * (new.t - previous.t), new.t * 10
        t = _cubic(previous, new, bounds)
        previous, new = new, _Point(t, *along(t))
        evals += 1
    return [start, new], evals, False


def _kept_inside(t, bracket, stalled):
    """``t`` moved off the ends of the bracket if it came close to one twice, or beyond it."""
    low, high = sorted((bracket[0].t, bracket[1].t))
    edge = 0.1 * (high - low)
    if min(high - t, t - low) >= edge:
        return t, False
    if stalled or t >= high or t <= low:
        return (high - edge if abs(t - high) < abs(t - low) else low + edge), False
    return t, True
