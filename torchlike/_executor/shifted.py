"""Programs in which a part of an array is replaced by what is computed of another part of it.

Note [Shifted updates]
~~~~~~~~~~~~~~~~~~~~~~
``x[1:] = x[:-1] * 2`` replaces a slice of an array by numbers read a little before it. XLA writes into the memory of
``x`` and knows that it must not read there what it has written; but on the CPU it forgets that where the array has
another shape by then (``x[:, None]``, ``x.view(3, 4)``), and each element becomes a product of the new one before it.
So in a program the new numbers pass a branch that is always taken, which XLA does not see through: they are complete
before the first is written. What a product of matrices or a loop computes is so anyway, and has none.

What a kernel marks as :func:`opaque.stored` passes such a branch too: XLA drops barriers on the CPU before it decides
what is computed anew for each element that uses it.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import jax
from jax.core import Tracer

from torchlike._base.jaxprs import ClosedJaxpr, Literal, jaxpr_as_fun, run_equation
from torchlike._base.opaque import complete

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


_SCATTERED = frozenset(("scatter-add", "scatter-mul", "scatter-min", "scatter-max"))
# By what is replaced: which input has the new numbers.
_UPDATES = {"dynamic_update_slice": 1, "scatter": 2, **dict.fromkeys(_SCATTERED, 2)}
_SAME = frozenset(
    (*_UPDATES, "reshape", "squeeze", "expand_dims", "broadcast_in_dim", "transpose", "copy", "copy_p",
     "bitcast_convert_type", "convert_element_type")
)  # fmt: skip
_COMPLETE = frozenset(("dot_general", "conv_general_dilated", "while", "scan", "cond", "sort", "fft", "custom_call"))
_CALLS = frozenset(("jit", "pjit", "closed_call"))
_FAR = 1000  # values that are looked at before numbers count as computed of an array
_NONE: frozenset[Any] = frozenset()


def apart(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` of arrays, for jax to trace; see Note [Shifted updates]."""

    @functools.wraps(function)
    def run(*values: Any) -> Any:
        if jax.default_backend() != "cpu":
            return function(*values)
        closed, shape = jax.make_jaxpr(function, return_shape=True)(*values)
        out = jaxpr_as_fun(_apart(closed))(*jax.tree.leaves(values))
        return jax.tree.unflatten(jax.tree.structure(shape), out)

    return run


def _apart(closed: ClosedJaxpr) -> ClosedJaxpr:
    if not _concerns(closed.jaxpr):
        return closed
    flat = jax.make_jaxpr(lambda *values: _run(closed, values, ()))(*closed.in_avals)
    guarded = shifted(flat.jaxpr)
    return jax.make_jaxpr(lambda *values: _run(flat, values, guarded))(*closed.in_avals) if guarded else flat


def _concerns(jaxpr: Any) -> bool:
    return any(
        e.primitive.name in _UPDATES
        or _is_stored(e)
        or any(_concerns(inner.jaxpr) for p in e.params.values() for inner in _bodies(p))
        for e in jaxpr.eqns
    )


def _is_stored(e: Any) -> bool:
    """Whether it is :func:`opaque.stored`: a call of a barrier alone. A user's function may have that name, too."""
    body = e.params["jaxpr"].jaxpr if e.primitive.name in _CALLS and "jaxpr" in e.params else None
    if body is None or [inner.primitive.name for inner in body.eqns] != ["optimization_barrier"]:
        return False
    (barrier,) = body.eqns
    return len(body.invars) == 1 and barrier.invars == body.invars and barrier.outvars == body.outvars


def _bodies(parameter: Any) -> list[ClosedJaxpr]:
    given = parameter if isinstance(parameter, tuple | list) else (parameter,)
    return [x for x in given if isinstance(x, ClosedJaxpr)]


def shifted(jaxpr: Any) -> set[int]:
    """Which equations replace a part of an array by what is computed, element by element, of the array itself."""
    origins: dict[Any, Any] = {}  # what a variable shows, in another shape or with other parts
    reads: dict[Any, frozenset[Any]] = {}  # the origins of replaced arrays that it is computed of, element by element
    for e in jaxpr.eqns:
        first = e.invars[0] if e.invars else None
        if e.primitive.name in _SAME and not isinstance(first, Literal):
            origins[e.outvars[0]] = origins.get(first, first)
    replaced = [e.invars[0] for e in jaxpr.eqns if e.primitive.name in _UPDATES and not _many(e)]
    for v in {origins.get(v, v) for v in replaced if not isinstance(v, Literal)}:
        reads[v] = frozenset((v,))
    found = set()
    for i, e in enumerate(jaxpr.eqns):
        inputs = [reads.get(v, _NONE) for v in e.invars if not isinstance(v, Literal)]
        name = e.primitive.name
        if name in _UPDATES and not _many(e):
            array, new = e.invars[0], e.invars[_UPDATES[name]]
            if not any(isinstance(v, Literal) for v in (array, new)):
                if origins.get(array, array) in reads.get(new, _NONE):
                    found.add(i)
        before = _NONE.union(*inputs) if name not in _COMPLETE and any(inputs) else _NONE
        for v in e.outvars:
            reads[v] = reads.get(v, _NONE) | before
    return found


def _many(e: Any) -> bool:
    """Whether numbers are added (or the like) at several places, which XLA makes no slice of."""
    places = e.invars[1].aval.shape
    return e.primitive.name in _SCATTERED and any(n != 1 for n in places[:-1])


def _run(closed: ClosedJaxpr, values: Any, guarded: Iterable[int]) -> list[Any]:
    """The jaxpr run equation by equation, with the functions that it calls within it."""
    jaxpr = closed.jaxpr
    known: dict[Any, Any] = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*closed.consts, *values), strict=True))
    for i, e in enumerate(jaxpr.eqns):
        inputs = [v.val if isinstance(v, Literal) else known[v] for v in e.invars]
        if i in guarded:
            at = _UPDATES[e.primitive.name]
            inputs[at] = complete(inputs[at], inputs[0])
        if _is_stored(e):
            found = [complete(inputs[0], inputs[0])]
        elif e.primitive.name in _CALLS and _concerns(e.params["jaxpr"].jaxpr):
            found = _run(e.params["jaxpr"], inputs, ())
        else:
            found = run_equation(e, inputs, {name: _within(p) for name, p in e.params.items()})
        known.update(zip(e.outvars, found, strict=True))
    return [v.val if isinstance(v, Literal) else known[v] for v in jaxpr.outvars]


def _within(parameter: Any) -> Any:
    """A parameter of an equation, with the bodies of loops and branches in it run as programs are."""
    if isinstance(parameter, ClosedJaxpr):
        return _apart(parameter)
    return tuple([_within(x) for x in parameter]) if isinstance(parameter, tuple) and _bodies(parameter) else parameter


def apart_from(array: Any, new: Any) -> Any:
    """``new``, which is to replace a part of ``array`` in a function that a user gave jax to trace."""
    if jax.default_backend() != "cpu":
        return new
    old, last = _traced(array), _traced(new)
    return new if old is None or last is None or not _is_of(last, old) else complete(new, old)


def _traced(value: Any) -> Any:
    """What stands for ``value`` in the program that jax makes, below derivatives and maps; None outside of one."""
    while isinstance(value, Tracer) and not hasattr(value, "parent"):
        value = getattr(value, "primal", getattr(value, "val", None))
    return value if isinstance(value, Tracer) else None


def _is_of(new: Any, array: Any) -> bool:
    """Whether ``new`` may be computed, element by element, of the array or of what it shows."""
    origins, equation = {id(array)}, array.parent
    while equation is not None and (equation.primitive.name in _SAME or equation.primitive.name in _CALLS):
        array = equation.in_tracers[0] if equation.in_tracers else None
        equation = getattr(array, "parent", None)
        origins.add(id(array))
    found, rest = set(), [new]
    while rest and len(found) < _FAR:
        value = rest.pop()
        if id(value) in origins:
            return True
        equation = getattr(value, "parent", None)
        if id(value) not in found and equation is not None and equation.primitive.name not in _COMPLETE:
            rest += equation.in_tracers
        found.add(id(value))
    return bool(rest)
