"""``vmap``: a function over a mapped axis of its arguments."""

import functools
from collections.abc import Callable
from typing import Any

from torchlike._base.dims import wrap_dim
from torchlike._base.state import followed
from torchlike._core.dispatch.bind import FUNCTIONS
from torchlike._core.tensor.tensor import Tensor
from torchlike._functions.generator import default_generator
from torchlike._transforms.levels.vmap import VmapLevel, lift, lowered_view
from torchlike.func._arguments import made
from torchlike.utils._pytree import TreeSpec, _broadcast_to_and_flatten, tree_flatten, tree_unflatten

# Of torch._functorch.vmap: whether a program has put steps of its own there, and how vmap is made of these.
REPLACED: list[Callable] = []


def vmap(
    func: Callable, in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", *, chunk_size: int | None = None
) -> Callable:
    """The function that maps ``func`` over an axis of its arguments.

    ``func`` is run once, on tensors that stand for all examples; each operator in it is computed for all at once.

    Args:
        func: takes tensors (nested in tuples, lists and dicts) and gives tensors.
        in_dims: the axis of each positional argument to map over: an int for all, or a nested tuple as the
            arguments; None for what every example shares. Keyword arguments are mapped over axis 0 of no one: they
            are shared.
        out_dims: where the mapped axis is in the outputs: an int, or a structure as that of the outputs.
        randomness: what random operators do: ``"error"`` raises, ``"same"`` draws the same for every example,
            ``"different"`` draws for each.
        chunk_size: how many examples to compute at once; all if None.

    Raises:
        ValueError: dims that do not fit the arguments or results, axes of unequal length, results that are no tensors.
        RuntimeError: in ``func``: control flow that depends on values, ``.item()``, a change in place of a shared
            tensor by a mapped one, random operators where ``randomness`` is ``"error"``.

    >>> import torchlike as torch
    >>> torch.vmap(torch.dot)(torch.ones(3, 2), torch.arange(6.0).reshape(3, 2))
    tensor([1., 5., 9.])
    >>> y = (x := torch.ones(2, requires_grad=True)) * torch.tensor([2.0, 3.0])
    >>> torch.vmap(lambda v: torch.autograd.grad(y, x, v, retain_graph=True)[0])(torch.eye(2))
    tensor([[2., 0.],
            [0., 3.]])
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")
    if chunk_size is not None and not chunk_size > 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if REPLACED and REPLACED[0]():
            return REPLACED[1](func, in_dims, out_dims, randomness, chunk_size, args, kwargs)
        size, dims, flat, spec = _mapped(func, in_dims, args)
        if chunk_size is None or chunk_size >= size:
            return _joined([_run(func, size, dims, flat, spec, out_dims, randomness, kwargs)])
        parts, before = [], default_generator.get_state() if randomness == "same" else None
        for start in range(0, size, chunk_size):
            if start and before is not None and not before.equal(default_generator.get_state()):
                default_generator.set_state(before)  # all chunks draw the same numbers
            n = min(chunk_size, size - start)
            some = [x if d is None else x.narrow(d, start, n) for x, d in zip(flat, dims, strict=True)]
            parts.append(_run(func, n, dims, some, spec, out_dims, randomness, kwargs))
        return _joined(parts)

    return wrapped


def _name(func: Callable) -> str:
    if hasattr(func, "__name__"):
        return func.__name__
    if isinstance(func, functools.partial):
        return f"functools.partial({_name(func.func)}, ...)"
    return repr(func)


def _mapped(func: Callable, in_dims: Any, args: tuple) -> tuple:
    """(length of the mapped axes, axis of each leaf, the leaves, their structure), after the checks."""
    if not isinstance(in_dims, int | tuple):
        raise ValueError(
            f"{_where(func, in_dims)}: expected `in_dims` to be int or a (potentially nested) tuple matching the "
            f"structure of inputs, got: {type(in_dims)}."
        )
    if not args:
        raise ValueError(
            f"vmap({_name(func)})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying to vmap "
            "over a function with no inputs. The latter is unsupported."
        )
    flat, spec = tree_flatten(args)
    dims = _broadcast_to_and_flatten(in_dims, spec)
    if dims is None:
        raise ValueError(
            f"{_where(func, in_dims)}: in_dims is not compatible with the structure of `inputs`. in_dims has structure "
            f"{tree_flatten(in_dims)[1]} but inputs has structure {spec}."
        )
    dims = [None if d is None else _checked(func, in_dims, x, d) for x, d in zip(flat, dims, strict=True)]
    sizes = [x.size(d) for x, d in zip(flat, dims, strict=True) if d is not None]
    if not sizes:
        raise ValueError("vmap: Expected at least one Tensor to vmap over")
    if any(n != sizes[0] for n in sizes):
        raise ValueError(
            "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
            f"{sizes} for the mapped dimension"
        )
    return sizes[0], dims, flat, spec


def batch_size(in_dims: Any, args: tuple, func: Callable) -> int:
    """The length of the mapped axes."""
    return _mapped(func, in_dims, args)[0]


def _where(func: Callable, in_dims: Any) -> str:
    return f"vmap({_name(func)}, in_dims={in_dims}, ...)(<inputs>)"


def _checked(func: Callable, in_dims: Any, x: Any, dim: Any) -> int:
    if not isinstance(dim, int):
        raise ValueError(
            f"{_where(func, in_dims)}: Got in_dim={dim} for an input but in_dim must be either an integer dimension or "
            "None."
        )
    if not isinstance(x, Tensor):
        raise ValueError(
            f"{_where(func, in_dims)}: Got in_dim={dim} for an input but the input is of type {type(x)}. We cannot "
            "vmap over non-Tensor arguments, please use None as the respective in_dim"
        )
    if dim < -x.dim() or dim >= x.dim():  # asked twice, as PyTorch asks: modes see it
        n = x.dim()
        raise ValueError(
            f"{_where(func, in_dims)}: Got in_dim={dim} for some input, but that input is a Tensor of dimensionality "
            f"{n} so expected in_dim to satisfy -{n} <= in_dim < {n}."
        )
    return dim % x.dim() if dim < 0 else dim


def _run(func, size, dims, flat, spec, out_dims, randomness, kwargs) -> tuple:  # type: ignore[no-untyped-def]
    """(the outputs with their mapped axes, their structure, where the axes are)."""
    with VmapLevel(size, randomness) as level:
        inside = [x if d is None else lift(x, d, level) for x, d in zip(flat, dims, strict=True)]
        outputs = followed(func)(*made(tree_unflatten(inside, spec)), **kwargs)
    name = _name(func)
    flat_out, out_spec = tree_flatten(outputs)
    places = _places(name, out_dims, out_spec)
    return [_outside(name, level, x, d) for x, d in zip(flat_out, places, strict=True)], out_spec, places


def _places(name: str, out_dims: Any, spec: TreeSpec) -> list:
    if isinstance(out_dims, int):
        return [out_dims] * spec.num_leaves
    leaves, own = tree_flatten(out_dims)
    if any(not isinstance(d, int | None) for d in leaves):
        raise ValueError(
            f"vmap({name}, ..., out_dims={out_dims}): `out_dims` must be an int, None or a python collection of ints "
            "representing where in the outputs the vmapped dimension should appear."
        )
    if isinstance(out_dims, tuple) and len(out_dims) == 1 and spec.is_leaf():
        out_dims = out_dims[0]
    found = _broadcast_to_and_flatten(out_dims, spec)
    if found is None:
        raise ValueError(
            f"vmap({name}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible with the structure of "
            f"`outputs`. out_dims has structure {own} but outputs has structure {spec}."
        )
    return found


def _outside(name: str, level: VmapLevel, x: Any, dim: Any) -> Any:
    """An output as the caller sees it."""
    batch = level.of(x)
    if dim is None:
        if batch is not None:
            raise ValueError(f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim is None")
        return x
    if not isinstance(x, Tensor):
        raise ValueError(
            f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(x)}. Did you mean to set out_dims= "
            "to None for output?"
        )
    if batch is None:
        dim = wrap_dim(dim, x.ndim + 1)
        shape = list(x.shape)
        shape.insert(dim, level.size)
        return (x.unsqueeze(dim) if dim else x).expand(shape)
    return lowered_view(batch, dim)


def _joined(parts: list[tuple]) -> Any:
    """The outputs of chunks, each joined along its mapped axis."""
    first, spec, places = parts[0]
    if len(parts) == 1:
        return tree_unflatten(first, spec)
    columns = zip(*[flat for flat, _, _ in parts], strict=True)
    whole = [column[0] if d is None else FUNCTIONS["cat"](column, d) for column, d in zip(columns, places, strict=True)]
    return tree_unflatten(whole, spec)
