"""One function at one point, differentiated as PyTorch and as JAX do.

With z = x + iy, the Wirtinger derivatives of f are W = (df/dx - i df/dy) / 2 and
CW = (df/dx + i df/dy) / 2 (W. Wirtinger, 1927); f(z + t) = f(z) + W t + CW conj(t) + o(t).
For a cotangent v PyTorch's gradient is the adjoint for Re(conj(a) b), conj(v) CW + v conj(W), and
JAX's is the transpose for Re(a b), v W + conj(v CW).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from torchlike._base.state import enable_grad
from torchlike._core.conversion.convert import from_jax_array
from torchlike._core.tensor.tensor import Tensor
from torchlike._decl import rules
from torchlike.autograd import grad
from torchlike.conventions import _table
from torchlike.conventions._calls import Problem, array_of, problem
from torchlike.conventions._export import Table
from torchlike.func import jvp

Number = Any  # numpy scalars for tensors without dimensions, numpy arrays otherwise


@dataclass(frozen=True, eq=False, repr=False)
class Report(Table):
    """What both libraries say of the derivative of ``f`` at ``point``; see :func:`report`.

    Every value is numpy's: a scalar where the shape is ``()``. ``print(report)`` shows a table; ``to_markdown``,
    ``to_latex``, ``to_csv`` and ``to_pandas`` give it to others.

    Attributes:
        point, value: z (shape S) and f(z) (shape R; all results in one row where there are several).
        cotangent: v, of the shape and dtype of f(z).
        forward: (df/dx, df/dy), PyTorch's forward-mode derivatives along 1 and 1j of each element of z, as
            ``torch.func.jvp`` gives them, of shape R + S; df/dy is None where z is real.
        w, cw: the Wirtinger derivatives df/dz and df/dz*, of shape R + S; None where z is real.
        pytorch: the gradient that ``backward(v)`` accumulates, of shape S.
        jax: the gradient that ``jax.vjp(jax_function, z)[1](v)`` gives, of shape S.
        jax_function: the name of the function that JAX differentiated: a namesake of ``f`` such as
            ``jax.nn.relu``, the one that was given, or ``torchlike's kernel``, ``f`` run on jax's tracers.
        jax_value: what that function gives.
        second: the second derivatives of both libraries, (PyTorch's, JAX's): the gradient of the real part of the sum
            of the first; None where it was not asked for, or the library has none.
        differentiable: whether differences f(z + t) - f(z) approach W t + CW conj(t), or df/dx t, as t shrinks
            (tried in a few directions, so a derivative that fails in others goes unseen).
        holomorphic: whether f is differentiable here and the Cauchy-Riemann equations, CW = 0, hold; None
            where z is real.
        residual: the largest ``|CW|``, None where z is real.
        kink: whether ``pytorch`` is not the conjugate of JAX's gradient at ``conj(v)``: the libraries chose
            different values, as they may where f has no derivative.
    """

    name: str
    point: Number
    value: Number
    cotangent: Number
    forward: tuple[Number, Number | None]
    w: Number | None
    cw: Number | None
    pytorch: Number
    jax: Number
    jax_function: str
    jax_value: Number
    second: tuple[Number | None, Number | None]
    differentiable: bool
    holomorphic: bool | None
    residual: float | None
    kink: bool

    @property
    def kind(self) -> str:
        """What is mapped to what, with the shapes: ``C -> R``, ``C[2] -> C[2, 2]``."""
        return f"{_table.space(self.point)} -> {_table.space(self.value)}"

    def columns(self) -> tuple[str, ...]:
        return "quantity", "formula", "value"

    def rows(self) -> list[tuple[str, str, str]]:
        """(quantity, formula, numbers) of each line of the table."""
        return _table.report_rows(self)

    def title(self) -> str:
        return _table.report_title(self)

    def __repr__(self) -> str:
        pytorch, jax = _table.numbers(self.pytorch), _table.numbers(self.jax)
        return f"<Report {self.name}: {self.kind}, PyTorch {pytorch}, JAX {jax} ({self.jax_function})>"


class Reports(Table, Sequence[Report]):
    """A :class:`Report` for each array that was differentiated with respect to."""

    def __init__(self, found: Sequence[Report]):
        self._found = tuple(found)

    def __getitem__(self, index):
        return Reports(self._found[index]) if isinstance(index, slice) else self._found[index]

    def __len__(self) -> int:
        return len(self._found)

    def columns(self) -> tuple[str, ...]:
        return "argument", *self._found[0].columns()

    def rows(self) -> list[tuple[str, ...]]:
        """The rows of every report, after the argument's place."""
        return [(r.name.partition(", d/d")[2], *row) for r in self for row in r.rows()]

    def title(self) -> str:
        return f"{self._found[0].name.partition(', d/d')[0]}: {len(self)} arrays"

    def __repr__(self) -> str:
        return f"<Reports {self.title()}>"


def report(
    f: Callable, *point: Any, argnum: int | Sequence[int] = 0, cotangent: Any = None,
    jax_function: Callable | None = None, order: int = 2,
) -> Any:  # fmt: skip
    """Differentiate ``f`` at a point by forward mode, by torchlike's ``backward`` and by ``jax.vjp``.

    JAX differentiates its own function: ``jax_function``, or the namesake of ``f`` in ``jax.numpy``, ``jax.nn``,
    ``jax.scipy.special``, ``jax.numpy.linalg`` or ``jax.lax`` if it gives the same value, or ``f`` itself where it is a
    function of JAX. Where there is none, it differentiates torchlike's kernel, and the table says so.

    Args:
        f: a function of torchlike tensors that returns tensors, real or complex, of any shape, in any tree of tuples,
            lists and dicts; or a function of JAX, such as one with a ``custom_jvp``. Without a JAX function it
            is also run on jax's tracers, so it must not read numbers (``item()``, ``if z > 0``).
        point: the arguments of ``f``: numbers (taken in double precision, beside arrays in theirs), numpy or jax
            arrays, tensors, trees of them.
        argnum: the argument to differentiate with respect to, or several; the others are constants.
        cotangent: v, of the shape of ``f(*point)`` (of all results in one row where there are several); ones by
            default. Real where ``f`` is real.
        jax_function: the function of JAX to compare with, called with the same arguments as arrays.
        order: 2 for second derivatives too, 1 without.

    Returns:
        A :class:`Report`; :class:`Reports` for several arguments or a tree of them, with one for each array.

    Raises:
        TypeError: an argument or the result of ``f`` is of another type, or an integer.
        ValueError: ``argnum``, or the shape or dtype of the cotangent or of what ``jax_function`` gives, does not fit.

    >>> import torchlike as torch
    >>> from torchlike import conventions
    >>> r = conventions.report(torch.relu, 0.0)
    >>> r
    <Report relu: R -> R, PyTorch 0, JAX 0 (jax.nn.relu)>
    >>> print(conventions.report(torch.square, 1 + 2j))
    square: C -> C at z = 1+2j (complex128), cotangent v = 1
    quantity                         formula                           value
    -------------------------------  --------------------------------  -----
    f(z)                                                               -3+4j
    df/dx                            forward mode along 1              2+4j
    df/dy                            forward mode along 1j             -4+2j
    W = df/dz                        (df/dx - 1j df/dy) / 2            2+4j
    CW = df/dz*                      (df/dx + 1j df/dy) / 2            0
    PyTorch gradient                 conj(v) CW + v conj(W)            2-4j
    JAX gradient (jax.numpy.square)  v W + conj(v CW)                  2+4j
    PyTorch second derivative        gradient of Re(gradient)          2
    JAX second derivative            gradient of Re(gradient)          2
    Differentiable                   f(z+t) - f(z) ~ W t + CW conj(t)  holds
    Cauchy-Riemann                   CW = 0                            holds
    Conversion                       PyTorch = conj(JAX at conj(v))    holds
    """
    if order not in (1, 2):
        raise ValueError(f"report: order is {order!r}; expected 1, or 2 for second derivatives too")
    problems = problem(f, point, argnum, jax_function)
    found = [_of(p, cotangent, order) for p in problems]
    return found[0] if len(found) == 1 and not problems[0].place else Reports(found)


def _of(p: Problem, cotangent: Any, order: int) -> Report:
    z, value = p.z, p.value
    v = _cotangent(cotangent, value)
    dx, dy = _forward(p, z)
    w, cw = (None, None) if dy is None else ((dx - 1j * dy) / 2, (dx + 1j * dy) / 2)
    jax_value, pull = jax.vjp(p.of_jax, z)
    ours, implied = _backward(p, v), rules.conj(pull(rules.conj(v))[0])
    smooth = _approached(p.of_arrays, z, value, dx, dy)
    eps = float(jnp.finfo(z.dtype).eps)
    eps = 1e3 * eps if eps < 1e-4 else 8 * eps  # a thousand roundings of 16 bits are as large as what is compared
    bound = eps * max(_largest(dx), 0.0 if dy is None else _largest(dy))
    residual = None if cw is None else _largest(cw)
    holomorphic = None if residual is None else smooth and residual <= bound
    second = (_second_pytorch(p, v), _second_jax(p, v)) if order == 2 else (None, None)
    return Report(
        name=p.name, point=_plain(z), value=_plain(value), cotangent=_plain(v), forward=(_plain(dx), _plain(dy)),
        w=_plain(w), cw=_plain(cw), pytorch=_plain(ours), jax=_plain(pull(v)[0]), jax_function=p.jax_name,
        jax_value=_plain(jax_value), second=(_plain(second[0]), _plain(second[1])),
        differentiable=smooth, holomorphic=holomorphic, residual=residual,
        kink=not np.allclose(ours, implied, max(1e-4, eps), bound if np.isfinite(bound) else 0.0, equal_nan=True),
    )  # fmt: skip


def _cotangent(given: Any, value: jax.Array) -> jax.Array:
    if given is None:
        return jnp.ones_like(value)
    v = array_of(given, "the cotangent")
    if v.shape != value.shape:
        raise ValueError(f"report: the cotangent has shape {v.shape}; expected that of the result, {value.shape}")
    if jnp.iscomplexobj(v) and not jnp.iscomplexobj(value):
        raise ValueError(f"report: the cotangent is {v.dtype}, but the result is real ({value.dtype})")
    return v.astype(value.dtype)


def _forward(p: Problem, z: jax.Array) -> tuple[jax.Array, jax.Array | None]:
    """PyTorch's derivatives along 1 and 1j of each element, in the last dimensions."""
    basis = np.eye(z.size, dtype=z.dtype).reshape(z.size, *z.shape)

    def along(direction: np.ndarray) -> jax.Array:
        tangent = from_jax_array(jnp.asarray(direction))
        return jvp(p.of_tensor, (from_jax_array(z),), (tangent,))[1].detach().jax()

    def along_all(directions: np.ndarray) -> jax.Array:
        dots = jnp.stack([along(d) for d in directions], -1)
        return dots.reshape((*dots.shape[:-1], *z.shape))

    return along_all(basis), along_all(1j * basis) if jnp.iscomplexobj(z) else None


def _approached(along: Callable, z: jax.Array, value: jax.Array, dx: jax.Array, dy: jax.Array | None) -> bool:
    """Whether the error of the first-order expansion falls faster than the step, in opposite directions."""
    rng = np.random.RandomState(0)
    scale = max(1.0, _largest(z)) * float(jnp.finfo(z.dtype).eps) ** (1 / 3)
    for direction in (*(k * _direction(rng, z) for k in (1, -1)), _direction(rng, z)):
        slope = jnp.tensordot(dx, direction.real, z.ndim)
        if dy is not None:
            slope = slope + jnp.tensordot(dy, direction.imag, z.ndim)
        wide, narrow = (_largest((along(z + h * direction) - value) / h - slope) for h in (scale, scale / 16))
        if not narrow <= max(0.5 * wide, 1e-2 * (_largest(slope) + _largest(value))):
            return False
    return True


def _direction(rng: np.random.RandomState, z: jax.Array) -> jax.Array:
    step = rng.uniform(0.5, 1, z.shape) * rng.choice([-1, 1], z.shape)
    if jnp.iscomplexobj(z):
        step = step * np.exp(1j * rng.uniform(0, 2 * np.pi, z.shape))
    return jnp.asarray(step, z.dtype)


def _gradient(p: Problem, v: jax.Array, create_graph: bool = False) -> tuple[Tensor, Tensor | None]:
    """(z, its gradient); None where the result does not depend on it."""
    z = from_jax_array(p.z).requires_grad_()
    with enable_grad():
        out = p.of_tensor(z)
        if not out.requires_grad:
            return z, None
        return z, grad(out, z, from_jax_array(v), allow_unused=True, create_graph=create_graph)[0]


def _backward(p: Problem, v: jax.Array) -> jax.Array:
    """What ``backward(v)`` gives; zeros where the result does not depend on the argument."""
    found = _gradient(p, v)[1]
    return jnp.zeros_like(p.z) if found is None else found.jax()


def _second_pytorch(p: Problem, v: jax.Array) -> jax.Array | None:
    """The gradient of the real part of the sum of the gradient; None where PyTorch has no second derivative."""
    z, first = _gradient(p, v, create_graph=True)
    if first is None or not first.requires_grad:
        return jnp.zeros_like(p.z)
    try:
        with enable_grad():
            found = grad((first.real if first.is_complex() else first).sum(), z, allow_unused=True)[0]
    except (RuntimeError, NotImplementedError):  # a node whose backward says that there is none
        return None
    return jnp.zeros_like(p.z) if found is None else found.jax()


def _second_jax(p: Problem, v: jax.Array) -> jax.Array | None:
    def first(x: jax.Array) -> jax.Array:
        return jnp.sum(jnp.real(jax.vjp(p.of_jax, x)[1](v)[0]))

    try:
        return jax.grad(first)(p.z)
    except (TypeError, ValueError, NotImplementedError):  # a custom_vjp without a derivative, say
        return None


def _largest(x: jax.Array) -> float:
    return float(jnp.max(jnp.abs(x), initial=0.0))


def _plain(x: jax.Array | None) -> Number:
    return None if x is None else np.asarray(x)[()]
