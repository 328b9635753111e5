"""How both gradients of a function of one number come about, step by step, as text and as a figure."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import jax.numpy as jnp
import numpy as np

from torchlike.conventions._calls import problem
from torchlike.conventions._descent import pyplot
from torchlike.conventions._export import Table
from torchlike.conventions._report import Report, report
from torchlike.conventions._table import number, report_title

_PYTORCH, _JAX = "C3", "C0"
_ANGLE = 0.6  # of the direction that the figure follows


@dataclass(frozen=True, repr=False, eq=False)
class Derivation(Table):
    """The steps from a function's value to both gradients; see :func:`derivation`.

    Attributes:
        report: the numbers.
        steps: (heading, formula, the formula with its numbers) of each step.
    """

    report: Report
    steps: tuple[tuple[str, str, str], ...]
    function: Callable | None = None  # f as a function of one jax array

    def columns(self) -> tuple[str, ...]:
        return "step", "formula", "here"

    def rows(self) -> list[tuple[str, ...]]:
        return [*self.steps]

    def latex_rows(self) -> list[tuple[str, ...]]:
        """A row for each formula of a step, the heading before the first."""
        found = []
        for heading, *cells in self.steps:
            lines = zip_longest(*(cell.split("; ") for cell in cells), fillvalue="")
            found += [(heading if i == 0 else "", *line) for i, line in enumerate(lines)]
        return found

    def title(self) -> str:
        return report_title(self.report)

    def __repr__(self) -> str:
        return f"<Derivation of {self.report.name}: {len(self.steps)} steps; print() shows them>"

    def __str__(self) -> str:
        lines = [self.title()]
        for i, (heading, formula, here) in enumerate(self.steps, 1):
            lines += ["", f"{i}. {heading}", *(f"   {line}" for line in [*formula.split("; "), *here.split("; ")])]
        return "\n".join(lines)

    def plot(self, axes: Sequence[Any] | None = None) -> Any:
        """Draw the plane of z with both gradients, and what a step in it does to f, with matplotlib.

        Left: steps t of size 1 around z; the gradients of PyTorch and JAX as arrows. Right: what they do to f, df(t),
        an ellipse (a segment where f or z is real); one step is followed: df(t) = W t + CW conj(t).
        Of a real function of a real number, left: its graph, with a line of the slope that each library gives; right:
        those slopes among the quotients of differences around the point.

        Args:
            axes: two matplotlib axes to draw on; new ones by default.

        Returns:
            The figure.

        Raises:
            ImportError: matplotlib is not installed. ValueError: ``axes`` does not hold two.
        """
        if axes is None:
            _, axes = pyplot().subplots(1, 2, figsize=(10, 5), layout="constrained")
        if len(axes) != 2:
            raise ValueError(f"plot: expected two axes, got {len(axes)}")
        if self.report.w is None and self.function is not None and not np.iscomplexobj(self.report.value):
            _draw_graph(self.report, self.function, *axes)
        else:
            _draw_inputs(self.report, axes[0])
            _draw_outputs(self.report, axes[1])
        axes[0].figure.suptitle(textwrap.shorten(self.title(), 110))
        return axes[0].figure


def derivation(
    f: Callable, *point: Any, argnum: int = 0, cotangent: Any = None, jax_function: Callable | None = None
) -> Derivation:
    """The way from ``f`` to its gradient in PyTorch's and in JAX's convention, step by step with numbers.

    Through the real picture (z = x + iy and f as two real functions), the Wirtinger derivatives W and CW, and the
    first-order expansion, to the two definitions of a gradient and how they are converted.

    Args:
        f, point, argnum, cotangent, jax_function: as in :func:`report`; z and f(z) are one number each.

    Raises:
        ValueError: z or f(z) has more than one element.

    >>> from torchlike import conventions
    >>> steps = conventions.derivation(lambda z: z * z.conj() + z, 1 + 2j)
    >>> print(steps.steps[2][0], steps.steps[2][2], sep=": ")
    Wirtinger derivatives: W = 2-2j; CW = 1+2j
    """
    r = report(f, *point, argnum=argnum, cotangent=cotangent, jax_function=jax_function, order=1)
    if not isinstance(r, Report) or np.size(r.point) != 1 or np.size(r.value) != 1:
        raise ValueError("derivation: expected one number in the place of z, and one as the result")
    steps = tuple(_complex_steps(r) if r.w is not None else _real_steps(r))
    return Derivation(r, steps, problem(f, point, argnum, jax_function)[0].of_arrays)


def _one(x: Any) -> complex:
    return complex(np.asarray(x).ravel()[0])


def _text(x: Any) -> str:
    return number(np.complex128(_one(x)))


def _complex_steps(r: Report) -> list[tuple[str, str, str]]:
    z, f, v = _one(r.point), _one(r.value), _one(r.cotangent)
    dx, dy, w, cw = (_one(x) for x in (*r.forward, r.w, r.cw))
    t = 1e-3 * np.exp(1j * _ANGLE)
    steps = [
        ("The function, as two real functions of two real numbers", "z = x + iy; f(z) = a(x, y) + i b(x, y)",
         f"x = {number(z.real)}, y = {number(z.imag)}; a = {number(f.real)}, b = {number(f.imag)}"),
        ("The real picture: derivatives along 1 and along i", "df/dx = da/dx + i db/dx; df/dy = da/dy + i db/dy",
         f"df/dx = {_text(dx)}, df/dy = {_text(dy)}; J = [[da/dx, da/dy], [db/dx, db/dy]] = "
         f"[[{number(dx.real)}, {number(dy.real)}], [{number(dx.imag)}, {number(dy.imag)}]]"),
        ("Wirtinger derivatives", "W = df/dz = (df/dx - i df/dy) / 2; CW = df/dz* = (df/dx + i df/dy) / 2",
         f"W = {_text(w)}; CW = {_text(cw)}"),
        ("The first-order expansion", "f(z + t) = f(z) + W t + CW conj(t) + o(t)",
         f"t = {_text(t)}: W t + CW conj(t) = {_text(w * t + cw * np.conj(t))}; " + (
             "f is differentiable here" if r.differentiable else
             "f is not differentiable here: W and CW are a choice")),
        ("Holomorphic functions", "CW = 0: f(z + t) = f(z) + W t, as for a real derivative",
         "holds" if r.holomorphic else "not here"),
        ("The cotangent v weighs the result", "L = Re(conj(v) f) in PyTorch; L = Re(v f) in JAX", f"v = {_text(v)}"),
        ("PyTorch: the gradient is the direction in which L rises fastest",
         "L(z + t) = L(z) + Re(conj(g) t) for every t; g = conj(v) CW + v conj(W)",
         f"g = {_text(np.conj(v) * cw + v * np.conj(w))}; in reals: J^T [Re v, Im v] = {_pair(dx, dy, v)}"),
        ("JAX: the gradient is the linear form itself", "L(z + t) = L(z) + Re(g t) for every t; g = v W + conj(v CW)",
         f"g = {_text(v * w + np.conj(v * cw))}; in reals: J^T [Re v, -Im v] = "
         f"{_pair(dx, dy, np.conj(v))} = [Re g, -Im g]"),
    ]  # fmt: skip
    return [*steps, _verdict(r, "PyTorch(v) = conj(JAX(conj(v)))")]


def _pair(dx: complex, dy: complex, v: complex) -> str:
    return f"[{number(_dot(v, dx))}, {number(_dot(v, dy))}]"


def _dot(v: complex, d: complex) -> float:
    """Re(conj(v) d), without the product of a zero and an infinite slope."""
    return sum(a * b for a, b in ((v.real, d.real), (v.imag, d.imag)) if a)


def _real_steps(r: Report) -> list[tuple[str, str, str]]:
    x, f, v, dx = (_one(a) for a in (r.point, r.value, r.cotangent, r.forward[0]))
    steps = [
        ("The function", "f(x)", f"x = {_text(x)}, f = {_text(f)}"),
        ("The derivative, by forward mode", "f(x + t) = f(x) + f'(x) t + o(t)", f"f'(x) = {_text(dx)}; " + (
            "f is differentiable here" if r.differentiable else "f is not differentiable here: f'(x) is a choice")),
        ("The cotangent v weighs the result", "L = Re(conj(v) f) in PyTorch; L = Re(v f) in JAX", f"v = {_text(v)}"),
        ("PyTorch", "g = Re(conj(v) f'(x))", f"g = {number(_dot(v, dx))}"),
        ("JAX", "g = Re(v f'(x))", f"g = {number(_dot(v.conjugate(), dx))}"),
    ]  # fmt: skip
    return [*steps, _verdict(r, "PyTorch(v) = JAX(conj(v))")]


def _verdict(r: Report, formula: str) -> tuple[str, str, str]:
    says = f"backward gives {_text(r.pytorch)}; jax.vjp of {r.jax_function} gives {_text(r.jax)}"
    return "What the libraries say, and the conversion", formula, says + ("; they differ: a kink" if r.kink else "")


def _draw_graph(r: Report, function: Callable, left: Any, right: Any) -> None:
    """A real function around its point, and the slopes that the libraries give it there."""
    x, f, v = (_one(a).real for a in (r.point, r.value, r.cotangent))
    away = np.linspace(-1, 1, 81)
    ends = jnp.asarray(x + away, np.asarray(r.point).dtype).reshape((81, *np.shape(r.point)))
    values = np.array([_one(function(at)).real for at in ends])
    left.plot(x + away, values, color="0.7", label="f")
    with np.errstate(all="ignore"):
        quotients = np.where(away == 0, np.nan, (values - f) / np.where(away == 0, 1, away))
    right.plot(x + away, quotients, ".", color="0.7", markersize=4, label="(f(x + t) - f(x)) / t at x + t")
    for gradient, color, name, style in ((r.pytorch, _PYTORCH, "PyTorch", "-"), (r.jax, _JAX, "JAX", "--")):
        slope = _one(gradient).real / v if v else np.nan
        label = f"{name}: {_text(slope)}"
        if np.isfinite(slope):
            left.plot(x + 0.6 * away, f + 0.6 * slope * away, style, color=color, lw=2, label=label)
            right.plot(x, slope, "o" if name == "PyTorch" else "x", color=color, markersize=9, label=label)
        else:
            right.plot([], [], "o" if name == "PyTorch" else "x", color=color, label=label)
    left.plot(x, f, "ko", markersize=5, label=f"x = {_text(x)}, f(x) = {_text(f)}")
    for ax, title, y in ((left, "The function, and its slopes at x", "f"), (right, "The slopes", "slope")):
        ax.set_title(title, fontsize=11)
        ax.set(xlabel="x", ylabel=y)
        ax.axhline(0, color="0.9", zorder=0)
        ax.axvline(x, color="0.9", zorder=0)
        ax.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2, frameon=False)


def _draw_inputs(r: Report, ax: Any) -> None:
    z = _one(r.point)
    turn = np.exp(1j * np.linspace(0, 2 * np.pi, 200)) if r.w is not None else np.array([-1, 1])
    arrows = {
        f"PyTorch: {_text(r.pytorch)}": (_one(r.pytorch), _PYTORCH),
        f"JAX: {_text(r.jax)}": (_one(r.jax), _JAX),
    }
    size = max([1.0, *(abs(g) for g, _ in arrows.values() if np.isfinite(g))])
    circle = z + 0.5 * size * turn
    ax.plot(circle.real, circle.imag, color="0.7", label="steps t of one size")
    if r.w is not None:
        step = z + 0.5 * size * np.exp(1j * _ANGLE)
        ax.plot([z.real, step.real], [z.imag, step.imag], color="0.3", label="one step t")
    for width, (label, (g, color)) in zip((0.016, 0.008), arrows.items(), strict=True):
        if np.isfinite(g):
            _arrow(ax, z, g, color, label, width)
    ax.plot(z.real, z.imag, "ko", markersize=6, label=f"z = {_text(z)}")
    _finish(ax, "The plane of z: the gradients", "Re z", "Im z", z, 1.15 * size)


def _draw_outputs(r: Report, ax: Any) -> None:
    f = _one(r.value)
    w, cw = (_one(r.w), _one(r.cw)) if r.w is not None else (_one(r.forward[0]), 0j)
    turn = np.exp(1j * np.linspace(0, 2 * np.pi, 200)) if r.w is not None else np.array([-1, 1])
    with np.errstate(invalid="ignore"):  # an infinite slope
        image = w * turn + cw * np.conj(turn)
    image = image[np.isfinite(image)]
    ax.plot((f + image).real, (f + image).imag, color="0.7", label="df(t) for |t| = 1")
    size = float(np.max(np.abs(image), initial=1e-3))
    if r.w is not None and len(image):
        t = np.exp(1j * _ANGLE)
        _arrow(ax, f, w * t, "C2", f"W t, W = {_text(w)}")
        _arrow(ax, f + w * t, cw * np.conj(t), "C1", f"CW conj(t), CW = {_text(cw)}")
        end = f + w * t + cw * np.conj(t)
        ax.plot(end.real, end.imag, "s", color="0.3", label="df(t) = W t + CW conj(t)")
    ax.plot(f.real, f.imag, "ko", markersize=6, label=f"f(z) = {_text(f)}")
    _finish(ax, "The plane of f: what a step does", "Re f", "Im f", f, 1.15 * size)


def _arrow(ax: Any, start: complex, step: complex, color: str, label: str, width: float = 0.01) -> None:
    ax.quiver(
        start.real, start.imag, step.real, step.imag, angles="xy", scale_units="xy", scale=1, color=color, label=label,
        width=width, zorder=3,
    )  # fmt: skip


def _finish(ax: Any, title: str, x: str, y: str, center: complex, radius: float) -> None:
    ax.set_title(title, fontsize=11)
    ax.set(xlabel=x, ylabel=y, aspect="equal")
    ax.set(xlim=(center.real - radius, center.real + radius), ylim=(center.imag - radius, center.imag + radius))
    ax.axhline(0, color="0.9", zorder=0)
    ax.axvline(0, color="0.9", zorder=0)
    ax.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2, frameon=False)
