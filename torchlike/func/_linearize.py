"""``linearize``."""

from collections.abc import Callable
from typing import Any

from torchlike._base.state import followed
from torchlike._core.tensor.tensor import Tensor
from torchlike._functions.like import zeros_like
from torchlike.func._grad import vjp
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

    def tensors_of(*args: Any) -> tuple:
        outs, out_spec = tree_flatten(followed(func)(*args))
        rest[:] = out_spec, outs
        return tuple(o for o in outs if isinstance(o, Tensor))

    if flat:
        outs, pull = vjp(tensors_of, *primals)
        _, push = vjp(lambda seeds: tuple(tree_flatten(pull(seeds))[0]), tuple(zeros_like(o.detach()) for o in outs))
    else:
        outs, push = tensors_of(), None
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
        if push is None:
            return output_of([zeros_like(o) for o in outs])
        return output_of(push(tuple(dots))[0])

    return output_of(outs), jvp_fn


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
