"""``grad``, ``grad_and_value`` and ``vjp``: reverse-mode derivatives of functions."""

import functools
from collections.abc import Callable
from typing import Any

from torchlike._base.state import followed, state
from torchlike._core.autograd import node as nodes
from torchlike._core.autograd.backward import GradientEdge, gradients
from torchlike._core.autograd.fields import mark
from torchlike._core.dispatch.bind import FUNCTIONS
from torchlike._core.dispatch.dispatch import refresh
from torchlike._core.overrides.torch_function import unseen
from torchlike._core.tensor.tensor import Tensor, preserve_format
from torchlike._executor.level import mapped
from torchlike._functions.like import zeros_like
from torchlike._transforms.levels.grad import GradLevel
from torchlike._transforms.levels.levels import leave_inference, level_below, resume_inference
from torchlike.func._arguments import made, selected
from torchlike.utils._pytree import tree_flatten, tree_map, tree_unflatten


def grad(func: Callable, argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Callable:
    """The function that computes the gradient of ``func``, which returns a tensor of no dimensions.

    Numbers inside of ``func`` are concrete: it may branch on them. It nests with itself and all other transforms, and
    what it returns is recorded by autograd as any other result.

    Args:
        func: takes tensors (nested in tuples, lists and dicts) and anything else.
        argnums: which positional argument to differentiate with respect to; a tuple for several.
        has_aux: ``func`` returns ``(output, aux)``; the result is ``(gradient, aux)``.

    Raises:
        RuntimeError: an argnum out of range, an output that is no scalar tensor, an argument of integers; in ``func``:
            a change in place of a tensor that it did not make and was not given, ``backward()``, ``requires_grad_()``.
        ValueError: the chosen arguments hold something that is no tensor.

    >>> import torchlike as torch
    >>> torch.func.grad(torch.sin)(torch.tensor(0.0))
    tensor(1.)
    >>> torch.func.grad(torch.func.grad(lambda x: x**3))(torch.tensor(2.0))
    tensor(12.)
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        found, value = both(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return wrapped


def grad_and_value(func: Callable, argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Callable:
    """As :func:`grad`; the result is ``(gradient, output)``, with ``has_aux`` ``(gradient, (output, aux))``.

    >>> import torchlike as torch
    >>> torch.func.grad_and_value(torch.square)(torch.tensor(3.0))
    (tensor(6.), tensor(9.))
    """

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        level = GradLevel()
        try:
            with level:
                args, kwargs = _lifted(level, args), _lifted(level, kwargs) if kwargs else {}
                flat, spec = tree_flatten(selected(args, argnums))
                edges = _differentiable(flat)
                out, aux = _split(followed(func)(*made(args), **made(kwargs)), has_aux, "grad_and_value(f)(*args)")
                _demand_scalar(out)
                root = _edge(out)
                with level_below(level):
                    value, aux = _lowered(level, out), _lowered(level, aux) if has_aux else None
        finally:
            level.end()
        seed = _seed(value) if value.is_meta or state.dispatch_modes else None
        found = _pulled(level, [root], [seed], edges, flat, keep=False, create=None)
        result = tree_unflatten(found, spec)
        return result, (value, aux) if has_aux else value

    return wrapped


def vjp(func: Callable, *primals: Any, has_aux: bool = False) -> tuple:
    """``func(*primals)``, and the function that multiplies its transposed Jacobian with given cotangents.

    Args:
        func: takes ``primals``, tensors nested in tuples, lists and dicts, and returns such a nest.
        has_aux: ``func`` returns ``(output, aux)``; the result is ``(output, vjp_fn, aux)``.

    Returns ``(output, vjp_fn)``. ``vjp_fn(cotangents)``, of the structure of the output, gives a tuple of the structure
    of ``primals``; it may be called again and again, unless with ``retain_graph=False``. ``create_graph=False`` gives
    results without history.

    Raises:
        RuntimeError: outputs that are no tensors, cotangents of another structure or shape, primals of integers.
        ValueError: primals that hold something that is no tensor.

    >>> import torchlike as torch
    >>> y, pull = torch.func.vjp(torch.sin, torch.zeros(2))
    >>> pull(torch.tensor([1.0, 2.0]))
    (tensor([1., 2.]),)
    """
    return vjp_of(func, None, primals, has_aux)


def vjp_of(func: Callable, argnums: Any, primals: tuple, has_aux: bool, forward: bool = False) -> tuple:
    """As :func:`vjp`, with respect to the chosen arguments; all of them for None. ``forward``: of ``GradLevel``."""
    level = GradLevel(forward)
    name = "vjp(f, *primals)"
    try:
        with level:
            primals = _lifted(level, primals)
            flat, spec = tree_flatten(primals if argnums is None else selected(primals, argnums))
            edges = _differentiable(flat)
            out, aux = _split(followed(func)(*made(primals)), has_aux, name)
            outs, out_spec = tree_flatten(out)
            _demand_tensors(name, outs)
            roots = [_edge(o) for o in outs]
            with level_below(level):
                outs = [_lowered(level, o) for o in outs]
                aux = _lowered(level, aux) if has_aux else None
    finally:
        level.end()

    def vjp_fn(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        seeds, given = tree_flatten(cotangents)
        if given != out_spec:
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree structure of outputs to the "
                f"function. cotangents: {_shape_of(given)}, primal output: {_shape_of(out_spec)}"
            )
        found = _pulled(level, roots, seeds, edges, flat, retain_graph, create_graph)
        return tree_unflatten(found, spec)

    result = tree_unflatten(outs, out_spec)
    return (result, vjp_fn, aux) if has_aux else (result, vjp_fn)


def _lifted(level: GradLevel, tree: Any) -> Any:
    """The tensors of the tree at the level."""
    leaves, spec = tree_flatten(tree)
    return spec.unflatten(level.lifted(leaves))


@unseen
def _differentiable(flat: list) -> list[GradientEdge]:
    """Where the gradients of the arguments go, which begin to require grad."""
    for x in flat:
        if not isinstance(x, Tensor):
            raise ValueError(f"Thing passed to transform API must be Tensor, got {type(x)}")
        if not (x.dtype.is_floating_point or x.dtype.is_complex):
            raise RuntimeError(f"only Tensors of floating point dtype can require gradients, not of {x.dtype}")
    return [GradientEdge(nodes.accumulator(mark(x, True)), 0) for x in flat]


def _split(out: Any, has_aux: bool, name: str) -> tuple[Any, Any]:
    if not has_aux:
        return out, None
    if not (isinstance(out, tuple) and len(out) == 2):
        raise RuntimeError(f"{name}: output of function f should be a tuple: (output, aux) if has_aux is True")
    return out


@unseen
def _demand_scalar(out: Any) -> None:
    if not isinstance(out, Tensor):
        raise RuntimeError(f"grad_and_value(f)(*args): Expected f(*args) to return a Tensor, got {type(out)}")
    if out.dim():
        raise RuntimeError(
            f"grad_and_value(f)(*args): Expected f(*args) to return a scalar Tensor, got tensor with {out.dim()} dims. "
            "Maybe you wanted to use the vjp or jacrev APIs instead?"
        )


def _demand_tensors(name: str, outs: list) -> None:
    if not outs or outs == [None]:
        raise RuntimeError(f"{name}: Expected f to be a function that has non-empty output (got output = {outs})")
    for o in outs:
        if not isinstance(o, Tensor):
            raise RuntimeError(f"{name}: expected f(*primals) to return only tensors, got unsupported type {type(o)}")


def _edge(out: Tensor) -> GradientEdge | None:
    """Where the gradient of an output of the level flows in; None where it does not depend on the arguments."""
    level = state.levels[-1]
    if not level.holds(out):
        return None
    if out._diff is not None:
        refresh(out)
    if not nodes.requires_grad(out):
        return None
    node, nr = nodes.edge_of(out)
    return GradientEdge(node, nr)


def _lowered(level: GradLevel, tree: Any) -> Any:
    """The tensors of the tree at the level below, which is active."""

    def lower(x: Any) -> Any:
        if not isinstance(x, Tensor):
            raise RuntimeError(f"Expected tensors, got unsupported type {type(x)}")
        return level.lower(x)

    return level.lower(tree) if type(tree) is Tensor else tree_map(lower, tree)


def _seed(value: Tensor) -> Tensor:
    """The gradient 1 of ``value``, as a call: one for all examples of a map."""
    if mapped(value):
        return FUNCTIONS["ones"](tuple(value.shape), dtype=value.dtype, device=value.device)
    return FUNCTIONS["ones_like"](value, memory_format=preserve_format)


def _pulled(level, roots, seeds, edges, arguments, keep, create) -> list[Tensor]:  # type: ignore[no-untyped-def]
    """The gradient of each argument, zeros where the outputs do not depend on it."""
    used = [(r, s) for r, s in zip(roots, seeds, strict=True) if r is not None and r.node is not None]
    if create is None:
        create = bool(state.grad)
    create = create and (level.tracks or any(nodes.requires_grad(s) for _, s in used if isinstance(s, Tensor)))
    found: Any = [None] * len(edges)
    inference = leave_inference()
    try:
        if used and edges:
            found = gradients([r for r, _ in used], edges, [s for _, s in used], keep, create, True)
        return [_zeros(x) if g is None else g for g, x in zip(found, arguments, strict=True)]
    finally:
        resume_inference(inference)


@unseen
def _zeros(x: Tensor) -> Tensor:
    return zeros_like(x.detach())


def _shape_of(spec: Any) -> str:
    """The structure as nested brackets of stars."""
    return str(tree_map(lambda x: _STAR, tree_unflatten([0] * spec.num_leaves, spec)))


class _Star:
    def __repr__(self) -> str:
        return "*"


_STAR = _Star()
