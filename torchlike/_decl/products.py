"""Matrix products over a mapped axis as products for each example, where one large product would move the axis."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
from jax import lax

from torchlike._base.jaxprs import ClosedJaxpr, Literal, jaxpr_as_fun, run_equation

if TYPE_CHECKING:
    from torchlike._decl.typed import Forward, Value


class _Each(NamedTuple):
    """A product for each example.

    Attributes:
        mapped, shared: the operands; contracted: the axes of both that are summed over, in this order.
        axis: that of ``mapped`` which counts the examples. last: whether ``mapped`` is the second operand.
        whole: the equation of one product for all.
    """

    mapped: Any
    shared: Any
    contracted: tuple[tuple[int, ...], tuple[int, ...]]
    axis: int
    last: bool
    whole: Any

    def small(self) -> bool:
        """Whether repeating the shared operand costs no more than moving the other."""
        mapped, shared = self.mapped.aval, self.shared.aval
        return shared.size * mapped.shape[self.axis] <= mapped.size

    def run(self, mapped: Value, shared: Value) -> Any:
        n, places = mapped.shape[self.axis], self.contracted[1]
        free = [d for d in range(shared.ndim) if d not in places]
        order = (*free, *places) if self.last else (*places, *free)  # summed over next to each other: nothing to move
        shared = lax.transpose(shared, order)
        shared = lax.broadcast_in_dim(shared, (n, *shared.shape), tuple(range(1, shared.ndim + 1)))
        places = tuple([order.index(d) + 1 for d in places])
        pairs = [(mapped, self.contracted[0], (self.axis,)), (shared, places, (0,))]
        left, right = reversed(pairs) if self.last else pairs
        numbers = ((left[1], right[1]), (left[2], right[2]))
        return lax.dot_general_p.bind(left[0], right[0], **{**self.whole.params, "dimension_numbers": numbers})


def for_each(mapped: Forward) -> Forward:
    """``mapped``, a function traced by ``jax.vmap``, with products of which one operand is mapped done in place.

    Such a product is one large product to ``jax.vmap``. Its operand is transposed before it, or its result after it,
    to have the mapped axis outermost again. As products for each example, by a small operand that is repeated, nothing
    moves.
    """

    def run(*values: Value) -> Any:
        closed, shape = jax.make_jaxpr(mapped, return_shape=True)(*values)
        given = [v for v in values if v is not None]
        found = _found(closed.jaxpr)
        out = _run(closed, found, given) if found else jaxpr_as_fun(closed)(*given)
        return jax.tree.unflatten(jax.tree.structure(shape), out)

    return run


def _found(jaxpr: Any) -> dict[Any, _Each]:
    """{result: the product for each example that gives it}."""
    used = Counter(v for e in jaxpr.eqns for v in e.invars if not isinstance(v, Literal))
    used.update(v for v in jaxpr.outvars if not isinstance(v, Literal))
    transposed: dict[Any, Any] = {}
    products: dict[Any, Any] = {}
    found: dict[Any, _Each] = {}
    for e in jaxpr.eqns:
        source, each = e.invars[0] if e.invars else None, None
        if e.primitive is lax.transpose_p:
            transposed[e.outvars[0]] = e
            if not isinstance(source, Literal) and source in products and used[source] == 1:
                each = _moved_after(products[source], e.params["permutation"])
        elif e.primitive is lax.dot_general_p and not any(e.params["dimension_numbers"][1]):
            products[e.outvars[0]] = e
            before = None if isinstance(source, Literal) else transposed.get(source)
            each = None if before is None or source in found else _moved_before(e, before)
        if each is not None and each.small():
            found[e.outvars[0]] = each
    return found


def _moved_before(product: Any, transpose: Any) -> _Each | None:
    """A product whose first operand was transposed, but for its first axis."""
    order, mapped = transpose.params["permutation"], transpose.invars[0]
    contracted = product.params["dimension_numbers"][0]
    places = tuple([order[d] for d in contracted[0]])
    rest = [d for i, d in enumerate(order) if i not in contracted[0]]
    if rest[:1] != [0] or rest != sorted(rest) or len(order) - 1 in places:
        return None
    return _Each(mapped, product.invars[1], (places, contracted[1]), 0, False, product)


def _moved_after(product: Any, order: tuple[int, ...]) -> _Each | None:
    """A product whose result is transposed, so that an axis of one operand comes first."""
    contracted = product.params["dimension_numbers"][0]
    free = [
        [(k, d) for d in range(v.aval.ndim) if d not in c]
        for k, (v, c) in enumerate(zip(product.invars, contracted, strict=True))
    ]
    labels = [*free[0], *free[1]]
    first, *wanted = [labels[i] for i in order]
    which, axis = first
    rest, other = [x for x in free[which] if x != first], free[1 - which]
    if not rest or not other or wanted not in (rest + other, other + rest):
        return None
    places = contracted[which], contracted[1 - which]
    return _Each(product.invars[which], product.invars[1 - which], places, axis, wanted != rest + other, product)


def _run(closed: ClosedJaxpr, found: dict[Any, _Each], values: list[Value]) -> list[Any]:
    """The jaxpr run equation by equation, with these products for each example."""
    jaxpr = closed.jaxpr
    known: dict[Any, Any] = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*closed.consts, *values), strict=True))

    def read(variable: Any) -> Any:
        return variable.val if isinstance(variable, Literal) else known[variable]

    replaced = {id(each.whole) for each in found.values()}
    for equation in jaxpr.eqns:
        each = found.get(equation.outvars[0]) if equation.outvars else None
        if each is not None:
            known[equation.outvars[0]] = each.run(read(each.mapped), read(each.shared))
        elif id(equation) not in replaced:
            out = run_equation(equation, [read(v) for v in equation.invars], equation.params)
            known.update(zip(equation.outvars, out, strict=True))
    return [read(v) for v in jaxpr.outvars]
