"""``torch._vmap_internals``: the first ``vmap``, of flat results, which libraries take for batches of gradients."""

import functools
from collections.abc import Callable
from typing import Any

from torchlike._core.dispatch.bind import FUNCTIONS
from torchlike._core.tensor.tensor import Tensor
from torchlike._transforms.levels.vmap import NO_RANDOM
from torchlike.func import vmap
from torchlike.interop.alias import missing_names

__all__: list[str] = []

__getattr__ = missing_names(__name__)


def _vmap(
    func: Callable,
    in_dims: int | tuple = 0,
    out_dims: int | tuple[int, ...] = 0,
    allow_none_pass_through: bool = False,
) -> Callable:
    """As :func:`torch.func.vmap`, of a function that gives a tensor or a tuple of them.

    Args:
        in_dims, out_dims: the mapped axis of the arguments and of the results; ``out_dims`` has one for each result.
        allow_none_pass_through: let results be None, and stay so.

    Raises:
        ValueError: results or ``out_dims`` of another kind, and the errors of ``vmap``.

    >>> import torchlike as torch
    >>> from torchlike._vmap_internals import _vmap
    >>> _vmap(lambda x: (x.sum(), None), allow_none_pass_through=True)(torch.ones(2, 3))
    (tensor([3., 3.]), None)
    """
    name = getattr(func, "__name__", repr(func))

    @functools.wraps(func)
    def wrapped(*args: Any) -> Any:
        shape: list[Any] = []  # of the results: whether they are a tuple, and which are tensors

        @functools.wraps(func)
        def tensors(*examples: Any) -> tuple:
            out = func(*examples)
            outs = out if isinstance(out, tuple) else (out,)
            for i, o in enumerate(outs):
                if not isinstance(o, Tensor) and not (o is None and allow_none_pass_through):
                    place = f"for return {i}" if isinstance(out, tuple) else "as the return"
                    raise ValueError(
                        f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(o)} {place}."
                    )
            shape[:] = [isinstance(out, tuple), [o is not None for o in outs]]
            return tuple([o for o in outs if o is not None])

        try:
            rest = iter(vmap(tensors, in_dims)(*args))
        except RuntimeError as error:
            if not str(error).startswith("vmap: called random operation"):
                raise
            raise RuntimeError(NO_RANDOM) from None
        is_tuple, given = shape
        outs = [next(rest) if yes else None for yes in given]
        places = _places(name, out_dims, len(outs))
        moved = tuple([o if o is None else _moved(o, d) for o, d in zip(outs, places, strict=True)])
        return moved if is_tuple else moved[0]

    return wrapped


def _moved(t: Tensor, dim: int) -> Tensor:
    return FUNCTIONS["movedim"](t, 0, dim) if dim else t


def _places(name: str, out_dims: Any, count: int) -> tuple[int, ...]:
    """Where the mapped axis is in each result."""
    if isinstance(out_dims, int):
        return (out_dims,) * count
    start = f"vmap({name}, ..., out_dims={out_dims}): `out_dims` must "
    if not isinstance(out_dims, tuple) or not all(isinstance(d, int) for d in out_dims):
        raise ValueError(
            f"{start}be an int or a tuple of int representing where in the outputs the vmapped dimension should appear."
        )
    if len(out_dims) != count:
        raise ValueError(f"{start}have one dim per output (got {count} outputs) of {name}.")
    return out_dims
