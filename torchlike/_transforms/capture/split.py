"""Cutting jaxprs: into what does not depend on some of the inputs and the rest, and down to some outputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import jax

from torchlike._base.jaxprs import ClosedJaxpr, Jaxpr, Literal
from torchlike._transforms.capture.overlay import read_p


def split(jaxpr: Jaxpr, late: Iterable[Any], n_early: int) -> tuple[Jaxpr, Jaxpr]:
    """(early, late) halves of ``jaxpr``, whose first ``n_early`` outputs do not depend on the inputs ``late``.

    The early half maps the other inputs to the first outputs and to residuals; the late half maps
    residuals and the late inputs to the other outputs. Equations are not taken apart.
    """
    unknown = {v for v, is_late in zip(jaxpr.invars, late, strict=True) if is_late}
    early_eqns, late_eqns = [], []
    for eqn in jaxpr.eqns:
        if any(not isinstance(v, Literal) and v in unknown for v in eqn.invars):
            unknown.update(eqn.outvars)
            late_eqns.append(eqn)
        else:
            early_eqns.append(eqn)
    outs = jaxpr.outvars[n_early:]
    late_eqns, needed = _pruned(late_eqns, outs)
    late_in = [v for v, is_late in zip(jaxpr.invars, late, strict=True) if is_late]
    residuals = [v for v in needed if v not in unknown]
    early_in = [v for v, is_late in zip(jaxpr.invars, late, strict=True) if not is_late]
    early_out = [*jaxpr.outvars[:n_early], *residuals]
    early_eqns, _ = _pruned(early_eqns, early_out)
    early = _with(jaxpr, early_in, early_out, early_eqns)
    return early, _with(jaxpr, [*residuals, *late_in], outs, late_eqns)


def with_outputs(jaxpr: Jaxpr, outs: Sequence[Any]) -> Jaxpr:
    """``jaxpr`` with only the outputs that have these numbers."""
    outs = [jaxpr.outvars[i] for i in outs]
    return _with(jaxpr, jaxpr.invars, outs, _pruned(jaxpr.eqns, outs)[0])


def with_reads(jaxpr: Jaxpr) -> tuple[Jaxpr, list[int]]:
    """(``jaxpr`` with the storages that it reads as inputs behind the others, the numbers of these storages)."""
    reads = [eqn for eqn in jaxpr.eqns if eqn.primitive is read_p and eqn.params["number"] >= 0]
    others = [eqn for eqn in jaxpr.eqns if eqn.primitive is not read_p]
    invars = [*jaxpr.invars, *[eqn.outvars[0] for eqn in reads]]
    new = jaxpr.replace(invars=invars, eqns=others, debug_info=_no_names(jaxpr))
    return new, [eqn.params["number"] for eqn in reads]


def calls_host(jaxpr: Jaxpr) -> bool:
    """Whether the program calls Python while it runs."""
    return any("callback" in eqn.primitive.name for eqn in _equations(jaxpr))


def constraint_of(jaxpr: Jaxpr) -> Any:
    """A layout that the program asks for inside; None without one."""
    asked = (eqn for eqn in _equations(jaxpr) if eqn.primitive.name == "sharding_constraint")
    return next((eqn.params["sharding"] for eqn in asked), None)


def _equations(jaxpr: Any) -> Iterator[Any]:
    """The equations, and those of the functions in them."""
    for eqn in jaxpr.eqns:
        yield eqn
        for p in jax.tree.leaves(tuple(eqn.params.values()), is_leaf=_is_jaxpr):
            if _is_jaxpr(p):
                yield from _equations(getattr(p, "jaxpr", p))


def _is_jaxpr(x: Any) -> bool:
    return isinstance(x, Jaxpr | ClosedJaxpr)


def used(jaxpr: Jaxpr, kinds: Sequence[Any]) -> tuple[Jaxpr, list[Any]]:
    """``jaxpr`` with those inputs only that it reads or returns, and what ``kinds`` says of these."""
    read = {v for eqn in jaxpr.eqns for v in eqn.invars if not isinstance(v, Literal)}
    read.update(v for v in jaxpr.outvars if not isinstance(v, Literal))
    left = [(v, kind) for v, kind in zip(jaxpr.invars, kinds, strict=True) if v in read or kind[0] == "seed"]
    return _with(jaxpr, [v for v, _ in left], jaxpr.outvars, jaxpr.eqns), [kind for _, kind in left]


def bind(jaxpr: Jaxpr, values: Mapping[Any, Any], order: Sequence[Any] | None = None) -> ClosedJaxpr:
    """The closed jaxpr in which some inputs, {position: array}, are constants again, and the others in this order."""
    left = [v for i, v in enumerate(jaxpr.invars) if i not in values]
    left = left if order is None else [left[i] for i in order]
    fixed = jaxpr.replace(constvars=[jaxpr.invars[i] for i in values], invars=left, debug_info=_no_names(jaxpr))
    return ClosedJaxpr(fixed, list(values.values()))


def _with(jaxpr: Jaxpr, invars: Sequence[Any], outvars: Sequence[Any], eqns: list[Any]) -> Jaxpr:
    return jaxpr.replace(constvars=(), invars=invars, outvars=outvars, eqns=eqns, debug_info=_no_names(jaxpr))


def _no_names(jaxpr: Jaxpr) -> Any:
    return jaxpr.debug_info._replace(arg_names=None, result_paths=None)


def _pruned(eqns: list[Any], outs: Iterable[Any]) -> tuple[list[Any], list[Any]]:
    """The equations that ``outs`` depend on, and the variables they need that none of them defines, in order."""
    wanted = {v for v in outs if not isinstance(v, Literal)}
    kept = []
    for eqn in reversed(eqns):
        if any(v in wanted for v in eqn.outvars) or eqn.effects:
            kept.append(eqn)
            wanted.update(v for v in eqn.invars if not isinstance(v, Literal))
    kept.reverse()
    defined = {v for eqn in kept for v in eqn.outvars}
    needed = {}
    for eqn in kept:
        for v in eqn.invars:
            if not isinstance(v, Literal) and v not in defined:
                needed[v] = None
    for v in outs:
        if not isinstance(v, Literal) and v not in defined:
            needed[v] = None
    return kept, list(needed)
