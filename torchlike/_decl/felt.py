"""Which inputs of a function its results are differentiable in: not those that it only compares or counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import jax

from torchlike._decl import rules

if TYPE_CHECKING:
    from torchlike._decl.typed import Avals, Indices

_NONE: frozenset[int] = frozenset()
_BODIES = ("jaxpr", "call_jaxpr")  # of calls that only give a part of a function a name


def felt(function: Callable[..., Any], avals: Avals, grads: Iterable[int] = ()) -> Indices:
    """Indices of the inputs that reach a result other than as truth values and integers made of them.

    ``x * (x > 0)`` is felt through its first ``x``; the sign of ``x`` is a number, and felt, though of derivative 0.
    ``grads``: inputs that count as felt where something has no elements: jax makes zeros of gradients of nothing.
    """
    present = [i for i, a in enumerate(avals) if a is not None]

    def run(*values: Any) -> Any:
        filled = [None] * len(avals)
        for i, v in zip(present, values, strict=True):
            filled[i] = v
        return function(*filled)

    jaxpr = jax.make_jaxpr(run)(*[avals[i] for i in present]).jaxpr
    found = _through(jaxpr, [frozenset([i]) for i in present])
    nothing = any([0 in v.aval.shape for v in (*jaxpr.invars, *jaxpr.outvars)])
    return tuple(sorted(frozenset(grads if nothing else ()).union(*found)))


def _through(jaxpr: Any, given: Sequence[frozenset[int]]) -> list[frozenset[int]]:
    """For each result of ``jaxpr`` what it is made of, where its inputs are made of ``given``."""
    known: dict[Any, frozenset[int]] = {v: _NONE for v in jaxpr.constvars}
    known.update(zip(jaxpr.invars, given, strict=True))

    def of(var: Any) -> frozenset[int]:
        return _NONE if hasattr(var, "val") or not rules.differentiable(var.aval.dtype) else known[var]

    for eqn in jaxpr.eqns:
        sources = [of(v) for v in eqn.invars]
        outs = _body(eqn, sources) or [_NONE.union(*sources)] * len(eqn.outvars)
        known.update(zip(eqn.outvars, outs, strict=True))
    return [of(v) for v in jaxpr.outvars]


def _body(eqn: Any, sources: Sequence[frozenset[int]]) -> list[frozenset[int]] | None:
    """The same of a call of a function within; None for any other operation."""
    for name in _BODIES:
        inner = eqn.params.get(name)
        inner = getattr(inner, "jaxpr", inner)
        if inner is not None and len(inner.invars) == len(sources) and len(inner.outvars) == len(eqn.outvars):
            return _through(inner, sources) if eqn.primitive.name not in ("scan", "while", "cond") else None
    return None
