"""One function at one point, differentiated as PyTorch and as JAX do.

With z = x + iy, the Wirtinger derivatives of f are W = (df/dx - i df/dy) / 2 and
CW = (df/dx + i df/dy) / 2 (W. Wirtinger, 1927); f(z + t) = f(z) + W t + CW conj(t) + o(t).
For a cotangent v PyTorch's gradient is the adjoint for Re(conj(a) b), conj(v) CW + v conj(W), and
JAX's is the transpose for Re(a b), v W + conj(v CW).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from torchlike._base.state import enable_grad, no_grad
from torchlike._core.conversion.convert import from_jax_array
from torchlike._core.tensor.tensor import Tensor
from torchlike._decl import rules
from torchlike.autograd import grad
from torchlike.conventions import _table

Number = Any  # numpy scalars for tensors without dimensions, numpy arrays otherwise


@dataclass(frozen=True, eq=False)
class Report:
    """What both libraries say of the derivative of ``f`` at ``point``; see :func:`report`.

    Every value is numpy's: a scalar where the shape is ``()``. ``print(report)`` shows a table.

    Attributes:
        point, value: z (shape S) and f(z) (shape R).
        cotangent: v, of the shape and dtype of f(z).
        forward: (df/dx, df/dy), forward-mode derivatives along 1 and 1j of each element of z, of shape
            R + S; df/dy is None where z is real.
        w, cw: the Wirtinger derivatives df/dz and df/dz*, of shape R + S; None where z is real.
        pytorch: the gradient that ``backward(v)`` accumulates, of shape S.
        jax: the gradient that ``jax.vjp(f, z)[1](v)`` gives, of shape S.
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
    differentiable: bool
    holomorphic: bool | None
    residual: float | None
    kink: bool

    @property
    def kind(self) -> str:
        """What is mapped to what, with the shapes: ``C -> R``, ``C[2] -> C[2, 2]``."""
        return f"{_table.space(self.point)} -> {_table.space(self.value)}"

    def rows(self) -> list[tuple[str, str, str]]:
        """(quantity, formula, numbers) of each line of the table."""
        return _table.report_rows(self)

    def __repr__(self) -> str:
        return _table.text(_table.report_title(self), ("quantity", "formula", "value"), self.rows())

    def _repr_html_(self) -> str:
        return _table.html(_table.report_title(self), ("quantity", "formula", "value"), self.rows())


def report(f: Callable, *point: Any, argnum: int = 0, cotangent: Any = None) -> Report:
    """Differentiate ``f`` at a point by forward mode, by torchlike's ``backward`` and by ``jax.vjp``.

    Args:
        f: a function of torchlike tensors that returns one tensor, real or complex, of any shape. It is also
            run on jax's tracers, so it must not read numbers (``item()``, ``if z > 0``).
        point: the arguments of ``f``: numbers (taken in double precision), numpy or jax arrays, tensors.
        argnum: the argument to differentiate with respect to; the others are constants.
        cotangent: v, of the shape of ``f(*point)``; ones by default. Real where ``f`` is real.

    Raises:
        TypeError: an argument or the result of ``f`` is of another type, or an integer.
        ValueError: ``argnum`` or the shape or dtype of the cotangent does not fit.

    >>> import torchlike as torch
    >>> from torchlike import conventions
    >>> r = conventions.report(torch.square, 1 + 2j)
    >>> r.holomorphic, complex(r.w), complex(r.pytorch), complex(r.jax)
    (True, (2+4j), (2-4j), (2+4j))
    >>> r
    square: C -> C at z = 1+2j, cotangent v = 1
    quantity          formula                           value
    ----------------  --------------------------------  -----
    f(z)                                                -3+4j
    df/dx             forward mode along 1              2+4j
    df/dy             forward mode along 1j             -4+2j
    W = df/dz         (df/dx - 1j df/dy) / 2            2+4j
    CW = df/dz*       (df/dx + 1j df/dy) / 2            0
    PyTorch gradient  conj(v) CW + v conj(W)            2-4j
    JAX gradient      v W + conj(v CW)                  2+4j
    Differentiable    f(z+t) - f(z) ~ W t + CW conj(t)  holds
    Cauchy-Riemann    CW = 0                            holds
    Conversion        PyTorch = conj(JAX at conj(v))    holds
    """
    arguments = [_argument(p, i) for i, p in enumerate(point)]
    argnum = _checked_argnum(argnum, arguments)
    z = arguments[argnum]

    def along(x: jax.Array) -> jax.Array:
        filled = [*arguments[:argnum], x, *arguments[argnum + 1 :]]
        with no_grad():
            return _result(f(*map(from_jax_array, filled))).jax()

    value = along(z)
    v = _cotangent(cotangent, value)
    dx, dy = _forward(along, z)
    w, cw = (None, None) if dy is None else ((dx - 1j * dy) / 2, (dx + 1j * dy) / 2)
    pull = jax.vjp(along, z)[1]
    ours, implied = _backward(f, arguments, argnum, v), rules.conj(pull(rules.conj(v))[0])
    smooth = _approached(along, z, value, dx, dy)
    bound = 1e3 * float(jnp.finfo(z.dtype).eps) * max(_largest(dx), 0.0 if dy is None else _largest(dy))
    residual = None if cw is None else _largest(cw)
    holomorphic = None if residual is None else smooth and residual <= bound
    return Report(
        name=_name(f), point=_plain(z), value=_plain(value), cotangent=_plain(v), forward=(_plain(dx), _plain(dy)),
        w=_plain(w), cw=_plain(cw), pytorch=_plain(ours), jax=_plain(pull(v)[0]),
        differentiable=smooth, holomorphic=holomorphic, residual=residual,
        kink=not np.allclose(ours, implied, rtol=1e-4, atol=bound if np.isfinite(bound) else 0.0, equal_nan=True),
    )  # fmt: skip


def _argument(value: Any, position: int) -> jax.Array:
    """An argument as an array; Python numbers come in double precision."""
    if isinstance(value, Tensor):
        return value.detach().jax()
    if isinstance(value, jax.Array | np.ndarray | np.generic | float | complex | int):
        return jnp.asarray(value)
    raise TypeError(
        f"report: argument {position} is of type {type(value).__name__}; expected a number, a numpy or jax array, "
        "or a tensor"
    )


def _checked_argnum(argnum: int, arguments: list[jax.Array]) -> int:
    if not -len(arguments) <= argnum < len(arguments):
        raise ValueError(f"report: argnum is {argnum}, but the point has {len(arguments)} argument(s)")
    argnum %= len(arguments)
    z = arguments[argnum]
    if not jnp.issubdtype(z.dtype, jnp.inexact):
        raise TypeError(
            f"report: argument {argnum} has dtype {z.dtype}; expected a floating point or complex one, "
            "as float(x) or complex(x) gives"
        )
    if not z.size:
        raise ValueError(f"report: argument {argnum} has shape {z.shape}; expected at least one element")
    return argnum


def _result(out: Any) -> Tensor:
    if not isinstance(out, Tensor):
        raise TypeError(
            f"report: the function returned {type(out).__name__}; expected one torchlike tensor (write it with "
            "torchlike's functions: they run under JAX as well)"
        )
    if not (out.dtype.is_floating_point or out.dtype.is_complex):
        raise TypeError(f"report: the function returned dtype {out.dtype}, which has no derivative")
    return out


def _cotangent(given: Any, value: jax.Array) -> jax.Array:
    if given is None:
        return jnp.ones_like(value)
    v = _argument(given, 0)
    if v.shape != value.shape:
        raise ValueError(f"report: the cotangent has shape {v.shape}; expected that of the result, {value.shape}")
    if jnp.iscomplexobj(v) and not jnp.iscomplexobj(value):
        raise ValueError(f"report: the cotangent is {v.dtype}, but the result is real ({value.dtype})")
    return v.astype(value.dtype)


def _forward(along: Callable, z: jax.Array) -> tuple[jax.Array, jax.Array | None]:
    """Derivatives along 1 and 1j of each element, in the last dimensions."""
    push = jax.linearize(along, z)[1]
    basis = jnp.eye(z.size, dtype=z.dtype).reshape(z.size, *z.shape)

    def along_all(directions: jax.Array) -> jax.Array:
        dots = jax.vmap(push, out_axes=-1)(directions)
        return dots.reshape(*dots.shape[:-1], *z.shape)

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


def _backward(f: Callable, arguments: list[jax.Array], argnum: int, v: jax.Array) -> jax.Array:
    """What ``backward(v)`` gives; zeros where the result does not depend on the argument."""
    tensors = [from_jax_array(a) for a in arguments]
    z = tensors[argnum].requires_grad_()
    with enable_grad():
        out = f(*tensors)
    found = grad(out, z, from_jax_array(v), allow_unused=True)[0] if out.requires_grad else None
    return jnp.zeros_like(arguments[argnum]) if found is None else found.jax()


def _largest(x: jax.Array) -> float:
    return float(jnp.max(jnp.abs(x), initial=0.0))


def _plain(x: jax.Array | None) -> Number:
    return None if x is None else np.asarray(x)[()]


def _name(f: Callable) -> str:
    f = getattr(f, "func", f)  # functools.partial
    name = getattr(f, "__name__", type(f).__name__)
    return "f" if name == "<lambda>" else name
