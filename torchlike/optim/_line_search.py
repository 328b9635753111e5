"""A line search for the strong Wolfe conditions (Nocedal & Wright, algorithms 3.5 and 3.6)."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple


class Conditions(NamedTuple):
    """How much of the slope a step must gain, and how much it may leave."""

    decrease: float = 1e-4
    curvature: float = 0.9


_USUAL = Conditions()


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
    wolfe: Conditions = _USUAL,
) -> tuple[float, Any, float, int]:
    """(loss, gradient, t, evaluations) of a step that decreases the loss and flattens the slope enough.

    Args:
        along: gives (loss, gradient, slope) at a step length. t: the first one tried.
        loss, grad, slope: those at 0. width: the largest element of the direction.
        tolerance: smallest change of an element that counts. most: the limit of evaluations.
        wolfe: what a good step fulfils.
    """
    start = _Point(0, loss, grad, slope)
    bracket, evals, done = _bracket(along, t, start, most, wolfe)
    low, high = (0, 1) if bracket[0].loss <= bracket[-1].loss else (1, 0)
    stalled = False
    while not done and evals <= most and abs(bracket[1].t - bracket[0].t) * width >= tolerance:
        t = _cubic(bracket[0], bracket[1])
        t, stalled = _kept_inside(t, bracket, stalled)
        new = _Point(t, *along(t))
        evals += 1
        if new.loss > loss + wolfe.decrease * t * slope or new.loss >= bracket[low].loss:
            bracket[high] = new
            low, high = (0, 1) if bracket[0].loss <= bracket[1].loss else (1, 0)
            continue
        if abs(new.slope) <= -wolfe.curvature * slope:
            done = True
        elif new.slope * (bracket[high].t - bracket[low].t) >= 0:
            bracket[high] = bracket[low]
        bracket[low] = new
    best = bracket[low] if len(bracket) > 1 else bracket[0]
    return best.loss, best.grad, best.t, evals


def _bracket(along, t, start, most, wolfe):
    """Points that enclose a good step, or that step alone."""
    new = _Point(t, *along(t))
    evals, previous = 1, start
    for i in range(most):
        if new.loss > start.loss + wolfe.decrease * new.t * start.slope or (i > 1 and new.loss >= previous.loss):
            return [previous, new], evals, False
        if abs(new.slope) <= -wolfe.curvature * start.slope:
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


# -- as programs call them -----------------------------------------------------------------------------
def _cubic_interpolate(
    x1: Any, f1: Any, g1: Any, x2: Any, f2: Any, g2: Any, bounds: tuple[Any, Any] | None = None
) -> float:
    """The minimum of the cubic through two points, given their losses and slopes, kept within the bounds.

    >>> from torchlike.optim.lbfgs import _cubic_interpolate
    >>> round(_cubic_interpolate(0.0, 1.0, -2.0, 1.0, 0.5, 2.0), 3)
    0.667
    """
    first, second = (_Point(float(x), float(f), None, float(g)) for x, f, g in ((x1, f1, g1), (x2, f2, g2)))
    return _cubic(first, second, None if bounds is None else (float(bounds[0]), float(bounds[1])))


def _strong_wolfe(
    obj_func: Callable[[Any, Any, Any], tuple[Any, Any]], x: Any, t: Any, d: Any, f: Any, g: Any, gtd: Any,
    c1: float = 1e-4, c2: float = 0.9, tolerance_change: float = 1e-9, max_ls: int = 25,
) -> tuple[float, Any, float, int]:  # fmt: skip
    """(loss, gradient, step, evaluations) of a step from ``x`` along ``d`` for the strong Wolfe conditions.

    Args:
        obj_func: gives (loss, gradient) at ``x + t * d``, called as ``obj_func(x, t, d)``. t: the first step tried.
        f, g, gtd: the loss, the gradient and the slope at ``x``. c1, c2: what a good step gains, and may leave.
        tolerance_change: smallest change of an element that counts. max_ls: the limit of evaluations.
    """

    def along(step: float) -> tuple[float, Any, float]:
        loss, grad = obj_func(x, step, d)
        return float(loss), grad.clone(), float(grad.dot(d))

    width, wolfe = float(d.abs().max()), Conditions(c1, c2)
    return strong_wolfe(along, float(t), float(f), g, float(gtd), width, tolerance_change, max_ls, wolfe)
