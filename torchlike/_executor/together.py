"""Programs that several processes run together: a trace may hold collectives over a named axis of processes.

How such a program is run, and waited for with an end, is installed by ``torchlike.distributed``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
from jax._src.core import NamedAxisEffect, extend_axis_env_nd

from torchlike._base.jaxprs import ClosedJaxpr, jaxpr_as_fun

if TYPE_CHECKING:
    from torchlike._base.jaxprs import Jaxpr

_BEGIN = "processes "
_runner: list[Callable[[Callable[..., Any], tuple[int, ...]], Callable[..., Any]]] = []


def run_with(runner: Callable[[Callable[..., Any], tuple[int, ...]], Callable[..., Any]]) -> None:
    """Let ``runner(function, ranks)`` make the programs of several processes."""
    _runner[:] = [runner]


def traced(ranks: tuple[int, ...], f: Callable[[str], Any]) -> Any:
    """``f(axis)``, while that names an axis of these processes."""
    axis = _BEGIN + ",".join(map(str, ranks))
    with extend_axis_env_nd([(axis, len(ranks))]):
        return f(axis)


def _axes(eqn: Any) -> set[str]:
    named = [e.name for e in eqn.effects if isinstance(e, NamedAxisEffect)]
    return {name for name in named if isinstance(name, str) and name.startswith(_BEGIN)}


def axis_of(jaxpr: Jaxpr) -> str | None:
    """The axis of processes that a program has collectives over; None if it has none."""
    found = {axis for eqn in jaxpr.eqns for axis in _axes(eqn)}
    assert len(found) <= 1, found  # who traces a second one refuses
    return found.pop() if found else None


def spread(function: Callable[..., Any], axis: str) -> Callable[..., Any]:
    """``function`` as a program that all processes of an axis run, on arrays of their own."""
    return _runner[0](function, tuple(map(int, axis.removeprefix(_BEGIN).split(","))))


def anchored(closed: ClosedJaxpr) -> Callable[..., Any]:
    """A jaxpr as a function with one more result, which needs all collectives.

    A rank that has no use for what one gives must take part all the same; XLA would leave it out.
    """
    jaxpr = closed.jaxpr
    given = [v for eqn in jaxpr.eqns if _axes(eqn) for v in eqn.outvars if v.aval.size]
    outs = [*jaxpr.outvars, *given]
    info = jaxpr.debug_info._replace(result_paths=None)
    every = jaxpr_as_fun(ClosedJaxpr(jaxpr.replace(outvars=outs, debug_info=info), closed.consts))

    def run(*values: Any) -> list[Any]:
        found = every(*values)
        anchor = sum(map(first_of, found[len(jaxpr.outvars) :]), jnp.zeros((), jnp.float32))
        return [*found[: len(jaxpr.outvars)], anchor]

    return run


def first_of(x: Any) -> Any:
    """A number that depends on an array."""
    one = x.reshape(-1)[0]
    return (one.real if jnp.iscomplexobj(one) else one).astype(jnp.float32)
