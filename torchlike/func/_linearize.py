"""``linearize``."""

from collections.abc import Callable
from typing import Any

from torchlike._base.state import followed
from torchlike._core.tensor.tensor import Tensor
from torchlike._functions.like import zeros_like
from torchlike._transforms.levels.jvp import JvpLevel
from torchlike.func._arguments import made
from torchlike.func._grad import vjp, vjp_of
from torchlike.func._jvp import pair
from torchlike.utils._pytree import tree_flatten, tree_unflatten


def linearize(func: Callable, *primals: Any) -> tuple[Any, Callable]:
    """``func(*primals)``, and the function that multiplies its Jacobian there with given tangents.

    ``func`` runs once: what it computed is kept, so that a product costs no second run of it.

    Args:
        func: takes ``primals``, tensors nested in tuples, lists and dicts, and returns such a nest.

    Returns ``(output, jvp_fn)``; ``jvp_fn(*tangents)`` takes tangents of the structure, shapes and dtypes of
    ``primals`` and gives their images, of the structure of the output.

    Raises:
        ValueError: primals that are not floating point. RuntimeError: tangents that do not fit.

    >>> import torchlike as torch
    >>> y, push = torch.func.linearize(torch.sin, torch.zeros(2))
    >>> push(torch.tensor([1.0, 2.0]))
    tensor([1., 2.])
    """
    flat, spec = tree_flatten(primals)
    _demand_floating(flat)
    rest: list = []

    def tensors_of(*args: Any) -> list:
        outs, out_spec = tree_flatten(followed(func)(*args))
        rest[:] = out_spec, outs
        return [o for o in outs if isinstance(o, Tensor)]

    push: Callable | None = None
    if flat:
        zeros = tuple(zeros_like(x) for x in flat)
        seeds, pull, outs = vjp_of(lambda args, dots: _pushed(tensors_of, args, dots), 1, (primals, zeros), True, True)
        _, push = vjp(pull, tuple(zeros_like(dot.detach()) for dot in seeds))
    else:
        outs = tensors_of()
    out_spec, given = rest

    def output_of(tensors: Any) -> Any:
        left = iter(tensors)
        return tree_unflatten([next(left) if isinstance(o, Tensor) else o for o in given], out_spec)

    def jvp_fn(*tangents: Any) -> Any:
        dots, given_spec = tree_flatten(tangents)
        if given_spec != spec:
            raise RuntimeError(f"Expected the tangents {given_spec} to have the same argspec as the primals {spec}")
        for i, (x, dot) in enumerate(zip(flat, dots, strict=True)):
            _demand_fit(i, x, dot)
        images = iter(() if push is None else push(tuple(dots))[0])
        return output_of([next(images) if push is not None and _smooth(o) else zeros_like(o) for o in outs])

    return output_of(outs), jvp_fn


def _smooth(t: Tensor) -> bool:
    return t.dtype.is_floating_point or t.dtype.is_complex


def _pushed(tensors_of: Callable, primals: Any, dots: tuple) -> tuple[tuple, list]:
    """(the tangents of the tensors that can have one, all tensors), of primals with tangents that a level records."""
    flat, spec = tree_flatten(primals)
    dots = tuple(dot.clone() for dot in dots)  # the function may change the primals in place, and these with them
    with JvpLevel(recorded=True) as level:
        duals = [level.dual(x, dot) for x, dot in zip(flat, dots, strict=True)]
        outs = tensors_of(*made(tree_unflatten(duals, spec)))
        pairs = [pair(level, o) for o in outs]
    return tuple(dot for o, dot in pairs if _smooth(o)) or dots, [o for o, _ in pairs]


def _demand_floating(primals: list) -> None:
    for x in primals:
        if isinstance(x, Tensor) and not (x.dtype.is_floating_point or x.dtype.is_complex):
            raise ValueError(f"Expected primal to be floating point or complex, but got: {x.dtype}")


def _demand_fit(i: int, x: Tensor, dot: Any) -> None:
    for what in ("shape", "dtype"):
        own, other = getattr(x, what), getattr(dot, what)
        if own != other:
            raise RuntimeError(
                f"tangent:{i} with {what} {other} in flattened pytree doesn't match the {what} {own} of the "
                "corresponding primal."
            )
