"""Tables of numbers and formulas, as text and as HTML."""

from __future__ import annotations

import html as markup
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from torchlike.conventions._report import Report

Row = tuple[str, ...]
SHOWN = 8  # arrays of more elements are summed up


def text(title: str, head: Row, rows: Sequence[Row]) -> str:
    """The title, a header, a rule and the rows, in columns."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    lines = [head, tuple("-" * w for w in widths), *rows]
    return "\n".join([title, *("  ".join(c.ljust(w) for c, w in zip(r, widths, strict=True)).rstrip() for r in lines)])


def html(title: str, head: Row, rows: Sequence[Row]) -> str:
    """The same as an HTML table with a caption."""

    def line(cells: Row, tag: str) -> str:
        style = ' style="text-align: left"'
        return "<tr>" + "".join(f"<{tag}{style}>{markup.escape(c)}</{tag}>" for c in cells) + "</tr>"

    body = "".join(line(row, "td") for row in rows)
    return (
        f"<table><caption>{markup.escape(title)}</caption><thead>{line(head, 'th')}</thead>"
        f"<tbody>{body}</tbody></table>"
    )


def number(x: Any, digits: int = 5) -> str:
    """A real or complex number, without a part that is zero."""
    if not np.iscomplexobj(x):
        return f"{float(x) + 0.0:.{digits}g}"
    re, im = (0.0 if abs(part) < 1e-14 * abs(x) < np.inf else float(part) + 0.0 for part in (np.real(x), np.imag(x)))
    if im == 0:
        return f"{re:.{digits}g}"
    return f"{im:.{digits}g}j" if re == 0 else f"{re:.{digits}g}{im:+.{digits}g}j"


def numbers(x: Any) -> str:
    """A number, or an array as nested lists; a large array by its shape and norm."""
    x = np.asarray(x)
    if x.ndim == 0:
        return number(x)
    if x.size > SHOWN:
        return f"shape {list(x.shape)}, norm {number(np.linalg.norm(x))}"
    return "[" + ", ".join(numbers(row) for row in x) + "]"


def space(x: Any) -> str:
    """``C`` or ``R``, with the shape of an array."""
    return ("C" if np.iscomplexobj(x) else "R") + (str(list(np.shape(x))) if np.ndim(x) else "")


def report_title(r: Report) -> str:
    """What was differentiated, and where."""
    letter = "z" if np.iscomplexobj(r.point) else "x"
    point = f"{letter} = {numbers(r.point)} ({np.asarray(r.point).dtype})"
    return f"{r.name}: {r.kind} at {point}, cotangent v = {numbers(r.cotangent)}"


def report_rows(r: Report) -> list[tuple[str, str, str]]:
    """The lines of a report's table."""
    complex_in, complex_out = np.iscomplexobj(r.point), np.iscomplexobj(r.value)
    z = "z" if complex_in else "x"
    rows = [
        (f"f({z})", "", numbers(r.value)),
        ("df/dx", "forward mode along 1", numbers(r.forward[0])),
    ]
    if complex_in:
        rows += [
            ("df/dy", "forward mode along 1j", numbers(r.forward[1])),
            ("W = df/dz", "(df/dx - 1j df/dy) / 2", numbers(r.w)),
            ("CW = df/dz*", "(df/dx + 1j df/dy) / 2", numbers(r.cw)),
        ]
    pytorch, jax = (_summed(f, r) for f in _FORMULAS[complex_in, complex_out])
    rows += [
        ("PyTorch gradient", pytorch, numbers(r.pytorch)),
        (f"JAX gradient ({r.jax_function})", jax, numbers(r.jax)),
    ]
    if not np.allclose(r.jax_value, r.value, rtol=1e-4, equal_nan=True):
        rows.append((f"{r.jax_function}({z})", "differs from f", numbers(r.jax_value)))
    second = (
        "gradient of " + ("Re(gradient)" if complex_in else "the gradient") + (", summed" if np.ndim(r.point) else "")
    )
    rows += [(f"{n} second derivative", second, numbers(x)) for n, x in zip(("PyTorch", "JAX"), r.second, strict=True)
             if x is not None]  # fmt: skip
    expansion = "W t + CW conj(t)" if complex_in else "df/dx t"
    rows.append(("Differentiable", f"f({z}+t) - f({z}) ~ {expansion}", "holds" if r.differentiable else "fails"))
    if complex_in:
        size = f"{'max ' if np.ndim(r.point) + np.ndim(r.value) else ''}|CW| = {number(r.residual)}"
        fails = f"fails: {size if r.differentiable else 'not differentiable'}"
        rows.append(("Cauchy-Riemann", "CW = 0", "holds" if r.holomorphic else fails))
    rows.append(
        (
            "Conversion",
            _CONVERSIONS[complex_in, complex_out],
            "holds" if not r.kink else _RULES if r.differentiable else _KINK,
        )
    )
    return rows


_FORMULAS = {  # (complex argument, complex result): PyTorch's gradient, JAX's
    (True, True): ("conj(v) CW + v conj(W)", "v W + conj(v CW)"),
    (True, False): ("2 v CW", "2 v W"),
    (False, True): ("Re(conj(v) df/dx)", "Re(v df/dx)"),
    (False, False): ("v df/dx", "v df/dx"),
}
_CONVERSIONS = {
    (True, True): "PyTorch = conj(JAX at conj(v))",
    (True, False): "PyTorch = conj(JAX)",
    (False, True): "PyTorch = JAX at conj(v)",
    (False, False): "PyTorch = JAX",
}
_KINK = "fails: a kink, where each library chose a value"
_RULES = "fails: one of the functions has a rule of its own"


def _summed(formula: str, r: Report) -> str:
    return f"sum({formula})" if np.ndim(r.value) else formula
