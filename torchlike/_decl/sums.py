"""Sums of halves in derivatives that jax derives: added up in float32, as PyTorch does and XLA does not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax import lax

from torchlike._base.jaxprs import ClosedJaxpr, Literal, run_equation

if TYPE_CHECKING:
    from torchlike._decl.typed import Value

_HALVES = frozenset(("bfloat16", "float16"))


def wide_sums(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The jaxpr with each sum over axes of halves made in float32; itself where there is none.

    The gradient of what was broadcast is such a sum. jax makes it in the dtype of the gradients, and XLA rounds at
    each step then: of 2,000 addends in bfloat16 it keeps half.
    """
    if not _has(closed.jaxpr):
        return closed
    return jax.make_jaxpr(lambda *values: _run(closed, values))(*closed.in_avals)


def _is_narrow(equation: Any) -> bool:
    return equation.primitive is lax.reduce_sum_p and equation.invars[0].aval.dtype.name in _HALVES


def _inner(parameter: Any) -> Iterator[Any]:
    for x in parameter if isinstance(parameter, tuple | list) else (parameter,):
        if isinstance(x, ClosedJaxpr):
            yield x.jaxpr


def _has(jaxpr: Any) -> bool:
    return any(
        _is_narrow(equation) or any(_has(x) for p in equation.params.values() for x in _inner(p))
        for equation in jaxpr.eqns
    )


def _widened(parameter: Any) -> Any:
    """A parameter of an equation with the jaxprs in it changed."""
    if isinstance(parameter, ClosedJaxpr):
        return wide_sums(parameter)
    if isinstance(parameter, tuple) and any(isinstance(x, ClosedJaxpr) for x in parameter):
        return tuple([_widened(x) for x in parameter])
    return parameter


def _run(closed: ClosedJaxpr, values: tuple[Value, ...]) -> list[Any]:
    """The jaxpr run equation by equation."""
    jaxpr = closed.jaxpr
    known: dict[Any, Any] = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*closed.consts, *values), strict=True))

    def read(variable: Any) -> Any:
        return variable.val if isinstance(variable, Literal) else known[variable]

    for equation in jaxpr.eqns:
        inputs = [read(v) for v in equation.invars]
        if _is_narrow(equation):
            x = lax.convert_element_type(inputs[0], np.float32)
            found = [lax.convert_element_type(equation.primitive.bind(x, **equation.params), inputs[0].dtype)]
        else:
            found = run_equation(equation, inputs, {name: _widened(p) for name, p in equation.params.items()})
        known.update(zip(equation.outvars, found, strict=True))
    return [read(v) for v in jaxpr.outvars]
