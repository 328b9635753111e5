"""What the two gradients of a complex loss do to gradient descent."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from torchlike._base.state import enable_grad, no_grad
from torchlike._core.conversion.convert import from_jax_array
from torchlike._core.tensor.tensor import Tensor
from torchlike.autograd import grad

_TITLES = {"pytorch": "PyTorch: z ← z − η z.grad", "jax": "JAX: z ← z − η jax.grad(loss)(z)"}


@dataclass(frozen=True, eq=False)
class DescentFields:
    """A real loss of one complex number on a grid, its two gradients, and descent along each.

    Attributes:
        z: the grid, complex, of shape ``(n, n)``; the imaginary part grows with the first dimension.
        loss: the loss at each point of the grid.
        pytorch, jax: the gradient of each library there; one is the conjugate of the other, except at kinks.
        paths: ``{"pytorch": P, "jax": J}``, complex arrays of shape (starts, steps + 1): the points that
            ``z - step * gradient`` visits (NaN once the loss is no longer finite).
        start_losses: the loss at each start; end_losses: ``{"pytorch": ..., "jax": ...}`` at the end of each path.
        step: the step size.
    """

    z: np.ndarray
    loss: np.ndarray
    pytorch: np.ndarray
    jax: np.ndarray
    paths: dict[str, np.ndarray]
    start_losses: np.ndarray
    end_losses: dict[str, np.ndarray]
    step: float

    def plot(self, axes: Sequence[Any] | None = None) -> Any:
        """Draw both fields side by side with matplotlib, and return the figure.

        Shades show the loss (dark is high), arrows the direction of ``-gradient`` and lines the paths from their starts
        (circles) to their ends (squares).

        Args:
            axes: two matplotlib axes to draw on; new ones by default.

        Raises:
            ImportError: matplotlib is not installed.
            ValueError: ``axes`` does not hold two.
        """
        if axes is None:
            _, axes = pyplot().subplots(1, 2, figsize=(10, 4.8), sharex=True, sharey=True, layout="constrained")
        if len(axes) != 2:
            raise ValueError(f"plot: expected two axes, got {len(axes)}")
        for name, ax in zip(_TITLES, axes, strict=True):
            self._draw(ax, name)
        return axes[0].figure

    def _draw(self, ax: Any, name: str) -> None:
        x, y = self.z.real, self.z.imag
        levels = np.quantile(self.loss[np.isfinite(self.loss)], np.linspace(0, 1, 13))
        if len(levels := np.unique(levels)) > 1:
            shades = [(1 - 0.5 * t, 1 - 0.3 * t, 1 - 0.1 * t) for t in np.linspace(0, 1, len(levels) - 1)]
            ax.contourf(x, y, self.loss, levels=levels, colors=shades)
        skip = (slice(None, None, max(1, len(x) // 16)),) * 2
        field = -getattr(self, name)[skip]
        field = field / np.where(np.abs(field) > 0, np.abs(field), 1)
        ax.quiver(x[skip], y[skip], field.real, field.imag, color="0.35", width=0.0035, pivot="mid")
        for path in self.paths[name]:
            end = path[np.isfinite(path)][-1]
            ax.plot(path.real, path.imag, color="C1", linewidth=2)
            ax.plot(path.real[0], path.imag[0], "o", color="C1", markeredgecolor="black", markersize=7)
            ax.plot(end.real, end.imag, "s", color="C3", markeredgecolor="black", markersize=7, zorder=3)
        fell = int(np.sum(self.end_losses[name] < self.start_losses))
        ax.set_title(f"{_TITLES[name]}\nthe loss fell on {fell} of {len(self.start_losses)} paths", fontsize=11)
        ax.set(xlabel="Re z", ylabel="Im z", xlim=(x.min(), x.max()), ylim=(y.min(), y.max()), aspect="equal")


def descent_fields(
    loss: Callable, *, center: complex = 0j, radius: float = 2.0, n: int = 40,
    starts: Sequence[complex] | None = None, step: float = 0.05, steps: int = 60,
) -> DescentFields:  # fmt: skip
    """Both gradients of a real loss of one complex number around ``center``, and descent along each.

    PyTorch's gradient points where the loss rises fastest. JAX's is its conjugate: subtracted as it is, it
    moves the imaginary part the wrong way.

    Args:
        loss: a function of a complex tensor of shape ``()`` that returns a real one of shape ``()``, written with
            torchlike's functions; it also runs under ``jax.vmap``.
        center, radius: the square of points; n: its points along each side.
        starts: where descent starts; five points in the square by default.
        step, steps: the step size and the number of steps of descent.

    Raises:
        ValueError: n, radius, step or steps is not positive, or there is no start.
        TypeError: the loss does not return one real tensor of shape ``()``.

    >>> from torchlike import conventions
    >>> fields = conventions.descent_fields(lambda z: (z - 1j).abs() ** 2, n=8)
    >>> bool((fields.end_losses["pytorch"] < 1e-3).all()), bool((fields.end_losses["jax"] > 1).all())
    (True, True)
    """
    starts = _default_starts(center, radius) if starts is None else starts
    if min(n, radius, step, steps, len(starts)) <= 0:
        raise ValueError(
            f"descent_fields: expected positive n, radius, step and steps and at least one start, got n={n}, "
            f"radius={radius}, step={step}, steps={steps}, {len(starts)} starts"
        )
    line = np.linspace(-radius, radius, n)
    z = center + line[None, :] + 1j * line[:, None]
    gradients = {"pytorch": lambda points: _pytorch(loss, points), "jax": _jax(loss)}
    first = np.array(starts, np.complex128)
    _check(loss, first[0])
    values = _values(loss)
    paths = {name: _descend(g, values, first, step, steps) for name, g in gradients.items()}
    return DescentFields(
        z=z, loss=values(z), pytorch=gradients["pytorch"](z), jax=gradients["jax"](z), paths=paths,
        start_losses=values(first), end_losses={k: values(p[:, -1]) for k, p in paths.items()}, step=step,
    )  # fmt: skip


def _default_starts(center: complex, radius: float) -> list[complex]:
    return [complex(center + 0.8 * radius * np.exp(1j * angle)) for angle in np.arange(0.3, 6.2, 2 * np.pi / 5)]


def _check(loss: Callable, point: complex) -> None:
    with no_grad():
        out = loss(from_jax_array(jnp.asarray(point)))
    if not isinstance(out, Tensor):
        raise TypeError(f"descent_fields: the loss returned {type(out).__name__}; expected a torchlike tensor")
    if out.dtype.is_complex or out.ndim:
        raise TypeError(
            f"descent_fields: the loss returned {out.dtype} of shape {tuple(out.shape)}; expected a real number, "
            "as .abs(), .real or .sum() gives"
        )


def _traced(loss: Callable) -> Callable:
    """The loss as a function of jax arrays."""

    def run(z: jax.Array) -> jax.Array:
        return loss(from_jax_array(z)).jax()

    return run


def _values(loss: Callable) -> Callable:
    return _over_all(_traced(loss))


def _jax(loss: Callable) -> Callable:
    return _over_all(jax.grad(_traced(loss)))


def _over_all(f: Callable) -> Callable:
    many = jax.jit(jax.vmap(f))
    return lambda points: np.asarray(many(jnp.asarray(points).ravel())).reshape(points.shape)


def _pytorch(loss: Callable, points: np.ndarray) -> np.ndarray:
    """The gradient at each point, by one backward each."""

    def at(point: complex) -> complex:
        z = from_jax_array(jnp.asarray(point)).requires_grad_()
        with enable_grad():
            return grad(loss(z), z)[0].item()

    return np.array([at(p) for p in points.ravel()]).reshape(points.shape)


def _descend(gradient: Callable, values: Callable, first: np.ndarray, step: float, steps: int) -> np.ndarray:
    path = [first]
    for _ in range(steps):
        z = path[-1] - step * gradient(path[-1])
        path.append(np.where(np.isfinite(values(z)), z, np.nan))
    return np.stack(path, 1)


def pyplot() -> Any:
    try:
        return importlib.import_module("matplotlib.pyplot")
    except ImportError as error:
        raise ImportError("plot: matplotlib is not installed; `pip install matplotlib`") from error
