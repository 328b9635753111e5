"""``scan``, ``map`` and ``associative_scan``: a function of tensors over the slices of others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax import lax

from torchlike._base.dims import wrap_dim
from torchlike._core.dispatch.dispatch import call
from torchlike._core.tensor.tensor import Tensor, wrap
from torchlike._decl import derive
from torchlike._executor import immediate
from torchlike._transforms.control.branches import Returned, demand_same, leaves_of, operator, run, split_captured
from torchlike._transforms.control.subgraph import Body, interpreted

if TYPE_CHECKING:
    from torchlike._decl.typed import Forward, Value


def _moved(t: Tensor, dim: int) -> Tensor:
    """``t`` with ``dim`` first."""
    return call(_moving(dim, 0), (t,), ()) if dim else t


def _back(t: Tensor, dim: int) -> Tensor:
    return call(_moving(0, dim), (t,), ()) if dim else t


_movers: dict = {}


def _moving(source: int, target: int) -> derive.Derived:
    found = _movers.get((source, target))
    if found is None:
        found = derive.Derived(
            "movedim", "PermuteBackward", lambda x: jnp.moveaxis(x, source, target), ("movedim", source, target)
        )
        _movers[source, target] = found
    return found


def _slice(t: Tensor) -> Tensor:
    """What stands for one slice of ``t`` along its first dimension."""
    one = wrap(immediate.Abstract(tuple(t.shape)[1:], t.dtype.np))
    one._rg = t._rg
    return one


def _demand_bool(reverse: object) -> None:
    if not isinstance(reverse, bool):
        raise RuntimeError(f"Reverse must be a bool, but got {type(reverse)}")


def _flags(bodies: Sequence[Body]) -> int:
    return sum(bool(body.errors) for body in bodies)


# -- scan --------------------------------------------------------------------------------------------


def scan(combine_fn: Callable[..., Any], init: Any, xs: Any, *, dim: int = 0, reverse: bool = False) -> Any:
    """``carry, y = combine_fn(carry, x)`` over the slices ``x`` of ``xs``: (last carry, all ``y`` stacked).

    One loop of XLA, whose backward is one too: it computes each step again from the carry before it.

    Args:
        combine_fn: gives (next carry, y): the carry as ``init``, y tensors in any structure. It must not change
            tensors that it did not make, nor return one: return a ``clone()``.
        init: tensors in dicts, lists and tuples. xs: tensors likewise, of the same size along ``dim``.
        dim: the dimension of ``xs`` that is scanned; the ``y`` are stacked along ``dim`` too.
        reverse: start with the last slice; the ``y`` keep the order of ``xs``.

    >>> import torchlike as torch
    >>> from torchlike._higher_order_ops import scan
    >>> scan(lambda total, x: (total + x, total * x), torch.tensor(0.0), torch.tensor([1.0, 2.0, 3.0]))
    (tensor(6.), tensor([0., 2., 9.]))
    """
    carry, sliced, structures = _demand_scan(combine_fn, init, xs, dim, reverse)
    if not sliced:
        return init, []
    dim = wrap_dim(dim, sliced[0].ndim)
    sliced = [_moved(x, dim) for x in sliced]
    step = _Step("scan", combine_fn, structures, len(carry))
    body = Body("scan", step, [*carry, *(_slice(x) for x in sliced)], False, len(carry))
    demand_same("init", "carry", body.outs[: step.n_carry], carry, "scan")
    outs = run(operator("ScanAutogradOpBackward", "scan", [body], (len(carry), len(sliced), reverse),
                        lambda bodies: _scanned(bodies, len(carry), len(sliced), reverse)),
               (*carry, *sliced), [body], _flags([body]))  # fmt: skip
    last = jax.tree.unflatten(structures[0], outs[: len(carry)])
    return last, jax.tree.unflatten(step.y_tree, [_back(y, min(dim, y.ndim - 1)) for y in outs[len(carry) :]])


def _demand_scan(
    combine_fn: Callable[..., Any], init: Any, xs: Any, dim: int, reverse: bool
) -> tuple[list[Any], list[Any], tuple[Any, Any]]:
    (carry, carry_tree), (sliced, tree) = leaves_of(init), leaves_of(xs)
    if not callable(combine_fn):
        raise RuntimeError(f"Combine_fn must be a callable, but got {combine_fn}")
    _demand_bool(reverse)
    if not isinstance(dim, int):
        raise TypeError(f"scan(): dim must be an int, not {type(dim).__name__}")
    if not carry:
        raise RuntimeError("scan() operator requires init leaves.")
    for x in carry:
        if not isinstance(x, Tensor):
            raise RuntimeError(f"All init leaves must be a Tensor but got {x}")
    for x in sliced:
        if not isinstance(x, Tensor):
            raise RuntimeError(f"All xs leaves must be a Tensor but got {x}")
    _demand_slices(sliced, dim, RuntimeError, "scan")
    return carry, sliced, (carry_tree, tree)


def _demand_slices(sliced: list[Any], dim: int, error: type[Exception], title: str) -> None:
    if not sliced:
        return
    first = wrap_dim(dim, max(sliced[0].ndim, 1))
    if any(x.ndim <= first or not x.shape[first] for x in sliced):
        raise error("All xs leaves must at least have 'dim' number of dimensions and scan dimension > 0")
    sizes = [x.shape[first] for x in sliced]
    if len(set(sizes)) > 1:
        raise error(f"{title}(): all xs must have the same size along dim {dim}, but got {sizes}")


class _Step(Returned):
    """The function of a scan: of the leaves of carry and slice, to those of the next carry and of y."""

    def __init__(self, title: str, function: Callable[..., Any], structures: tuple[Any, Any], n: int) -> None:
        super().__init__(title, function, jax.tree.structure(((0,), (0,))), allowed=())
        self.structures, self.n = structures, n

    def __call__(self, tensors: Sequence[Tensor]) -> list[Any]:
        carry, x = (
            jax.tree.unflatten(s, part)
            for s, part in zip(self.structures, (tensors[: self.n], tensors[self.n :]), strict=True)
        )
        out = self.run(carry, x)
        if not isinstance(out, tuple | list) or len(out) != 2:
            raise RuntimeError(
                f"{self.title}: improper combine_fn number of returns: Expect combine_fn to return a tuple "
                f"(next_carry, y) but got {type(out).__name__}{'' if isinstance(out, Tensor) else f' of {len(out)}'}"
            )
        (after, tree), (y, self.y_tree) = leaves_of(out[0]), leaves_of(out[1])
        for t in (*after, *y):
            if not isinstance(t, Tensor):
                raise RuntimeError(f"{self.title}: combine_fn must return tensors, but got {type(t).__name__}")
        if tree != self.structures[0]:
            raise RuntimeError(f"{self.title}: Expected init and carry to have same structure but got {tree}")
        self.n_carry = len(after)
        return [*after, *y]


def _scanned(bodies: Sequence[Body], n_carry: int, n_xs: int, reverse: bool) -> Forward:
    """The kernel of a scan."""

    def function(*values: Value) -> tuple[Any, ...]:
        given, captured = split_captured(values, bodies)
        n_outs = len(bodies[0].outs)

        def step(carry: Any, xs: Any) -> tuple[Any, Any]:
            out = list(bodies[0](*carry, *xs, *captured))
            return tuple(out[:n_carry]), tuple(out[n_carry:])

        last, ys = lax.scan(step, tuple(given[:n_carry]), tuple(given[n_carry : n_carry + n_xs]), reverse=reverse)
        flags = [jnp.any(f, 0) for f in ys[n_outs - n_carry :]]
        return (*last, *ys[: n_outs - n_carry], *flags)

    return function


# -- map ---------------------------------------------------------------------------------------------


def map(f: Callable[..., Any], xs: Any, *args: Any) -> Any:
    """``f(x, *args)`` for the slices ``x`` of ``xs`` along the first dimension, stacked.

    Args:
        f: gives tensors (or None) in any structure. It must not change tensors that it did not make, nor return
            one: return a ``clone()``.
        xs: tensors in dicts, lists and tuples, of the same first size. args: given to every call.

    >>> import torchlike as torch
    >>> from torchlike._higher_order_ops import map
    >>> map(lambda x, y: x.sum() * y, torch.ones(2, 3), torch.tensor(2.0))
    tensor([6., 6.])
    """
    (sliced, tree), (more, more_tree) = leaves_of(xs), leaves_of(args)
    _demand_map(f, xs, sliced)
    constants = {len(sliced) + i: x for i, x in enumerate(more) if not isinstance(x, Tensor)}
    fixed = [x for x in more if isinstance(x, Tensor)]

    def function(tensors: Sequence[Tensor]) -> Any:
        rest = iter(tensors[len(sliced) :])
        others = [constants[len(sliced) + i] if len(sliced) + i in constants else next(rest) for i in range(len(more))]
        return interpreted(f)(jax.tree.unflatten(tree, tensors[: len(sliced)]), *jax.tree.unflatten(more_tree, others))

    step = _Mapped(function)
    body = Body("map", step, [*(_slice(x) for x in sliced), *fixed], random=False)
    op = operator("MapAutogradOpBackward", "map", [body], len(sliced), lambda bodies: _mapped(bodies, len(sliced)))
    outs = iter(run(op, (*sliced, *fixed), [body], _flags([body])))
    return jax.tree.unflatten(step.tree, [None if none else next(outs) for none in step.nones])


class _Mapped:
    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, tensors: Sequence[Tensor]) -> list[Any]:
        leaves, self.tree = leaves_of(self.function(tensors))
        self.nones = [x is None for x in leaves]
        for x in leaves:
            if not isinstance(x, Tensor | None):
                raise RuntimeError(f"map: Expected all leaves to be of torch.Tensor type, but f returned {type(x)}")
        return [x for x in leaves if x is not None]


def _demand_map(f: Callable[..., Any], xs: Any, sliced: list[Any]) -> None:
    if not callable(f):
        raise RuntimeError(f"map: f must be callable, but got {f}")
    if not all(isinstance(x, Tensor) for x in sliced):
        raise RuntimeError(f"Mapped xs can only consist of tensors. Got xs {sliced}.")
    if not sliced or not all(x.ndim for x in sliced):
        raise IndexError(f"map: xs must have tensors with a first dimension to map over, but got {xs}")
    shapes = [x.shape for x in sliced]
    if len({s[0] for s in shapes}) > 1:
        raise RuntimeError(f"Leading dimensions of mapped xs must be consistent. Got shapes {shapes}.")
    if not shapes[0][0]:
        raise RuntimeError("Leading dimensions of mapped xs cannot be 0.")


def _mapped(bodies: Sequence[Body], n: int) -> Forward:
    def function(*values: Value) -> tuple[Any, ...]:
        given, captured = split_captured(values, bodies)
        n_outs = len(bodies[0].outs)
        _, ys = lax.scan(lambda _, x: ((), tuple(bodies[0](*x, *given[n:], *captured))), (), tuple(given[:n]))
        return (*ys[:n_outs], *(jnp.any(f, 0) for f in ys[n_outs:]))

    return function


# -- associative_scan --------------------------------------------------------------------------------


def associative_scan(
    combine_fn: Callable[..., Any], xs: Any, dim: int, reverse: bool = False, combine_mode: str = "pointwise"
) -> Any:
    """Inclusive scan with an associative function, ``y[i] = combine_fn(y[i - 1], x[i])``, in parallel.

    The order of combination is a tree, of logarithmic depth: a function that is not associative gives other
    results than a loop would.

    Args:
        combine_fn: of two slices of ``xs`` (without ``dim``), giving one. It is mapped over many pairs at once.
        xs: tensors in dicts, lists and tuples, of the same size along ``dim``.
        reverse: combine from the last slice on.
        combine_mode: "generic", or "pointwise", which says that combine_fn works on single elements; here both
            are compiled alike.

    >>> import torchlike as torch
    >>> from torchlike._higher_order_ops import associative_scan
    >>> associative_scan(lambda a, b: a * b, torch.tensor([1.0, 2.0, 3.0]), 0, combine_mode="generic")
    tensor([1., 2., 6.])
    """
    sliced, tree = _demand_associative(combine_fn, xs, dim, reverse, combine_mode)
    dim = wrap_dim(dim, sliced[0].ndim)
    sliced = [_moved(x, dim) for x in sliced]
    n = len(sliced)

    def combine(tensors: Sequence[Tensor]) -> list[Any]:
        out = interpreted(combine_fn)(jax.tree.unflatten(tree, tensors[:n]), jax.tree.unflatten(tree, tensors[n:]))
        leaves, found = leaves_of(out)
        if found != tree or not all(isinstance(x, Tensor) for x in leaves):
            raise AssertionError(
                f"associative_scan: combine_fn must return tensors in the structure of xs, {tree}, but got {found}"
            )
        return leaves

    slices = [_slice(x) for x in sliced]
    body = Body("associative_scan", combine, [*slices, *slices], random=False)
    demand_same("combine_fn's result", "xs", body.outs, slices, "associative_scan")
    op = operator("AssociativeScanAutogradOpBackward", "associative_scan", [body], (n, reverse),
                  lambda bodies: _combined(bodies, n, reverse))  # fmt: skip
    outs = run(op, sliced, [body], _flags([body]))
    return jax.tree.unflatten(tree, [_back(y, dim) for y in outs])


def _demand_associative(
    combine_fn: Callable[..., Any], xs: Any, dim: int, reverse: bool, combine_mode: str
) -> tuple[list[Any], Any]:
    if not callable(combine_fn):
        raise ValueError(f"Combine_fn must be a callable, but got {combine_fn}")
    _demand_bool(reverse)
    if combine_mode not in ("pointwise", "generic"):
        raise ValueError(f"Combine_mode must either 'pointwise' or 'generic', but got {combine_mode}")
    if not isinstance(dim, int):
        raise TypeError(f"associative_scan(): dim must be an int, not {type(dim).__name__}")
    sliced, tree = leaves_of(xs)
    if not sliced:
        raise IndexError("associative_scan(): xs holds no tensor")
    for x in sliced:
        if not isinstance(x, Tensor):
            raise RuntimeError(f"associative_scan(): all xs leaves must be a Tensor but got {x}")
    _demand_slices(sliced, dim, ValueError, "associative_scan")
    return sliced, tree


def _combined(bodies: Sequence[Body], n: int, reverse: bool) -> Forward:
    """The kernel of an associative scan; the body is mapped over the pairs that are combined."""

    def function(*values: Value) -> tuple[Any, ...]:
        given, captured = split_captured(values, bodies)
        flags = []

        def combine(a: Any, b: Any) -> tuple[Any, ...]:
            out = jax.vmap(lambda p, q: tuple(bodies[0](*p, *q, *captured)))(tuple(a), tuple(b))
            flags.extend(jnp.any(f, 0) for f in out[n:])
            return tuple(out[:n])

        out = lax.associative_scan(combine, tuple(given), reverse=reverse)
        if not bodies[0].errors:
            return tuple(out)
        none = jnp.zeros(len(bodies[0].errors), bool)
        return (*out, jnp.any(jnp.stack([none, *flags]), 0))

    return function
