"""``vmap`` where functorch has it, and the steps that programs have taken from its inside."""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

from torchlike._core.tensor.tensor import Tensor as Tensor
from torchlike._transforms.levels.inspection import batch_of
from torchlike._transforms.levels.nesting import _add_batch_dim as _add_batch_dim
from torchlike._transforms.levels.nesting import _remove_batch_dim as _remove_batch_dim
from torchlike._transforms.levels.nesting import _vmap_decrement_nesting, _vmap_increment_nesting
from torchlike.func import vmap as vmap
from torchlike.func._vmap import REPLACED, _mapped, _places
from torchlike.func._vmap import _name as _get_name
from torchlike.interop.alias import missing_names
from torchlike.utils._pytree import TreeSpec
from torchlike.utils._pytree import _broadcast_to_and_flatten as _broadcast_to_and_flatten
from torchlike.utils._pytree import tree_flatten as tree_flatten
from torchlike.utils._pytree import tree_map as tree_map
from torchlike.utils._pytree import tree_map_ as tree_map_
from torchlike.utils._pytree import tree_unflatten as tree_unflatten

__getattr__ = missing_names(__name__)


def _process_batched_inputs(in_dims: Any, args: tuple, func: Callable) -> tuple[int, list, list, TreeSpec]:
    """(length of the mapped axes, axis of each leaf, the leaves, their structure), after the checks of vmap."""
    return _mapped(func, in_dims, args)


def _validate_and_get_batch_size(flat_in_dims: list, flat_args: list) -> int:
    """The length of the mapped axes; ValueError where it differs."""
    sizes = [x.size(d) for x, d in zip(flat_args, flat_in_dims, strict=True) if d is not None]
    if not sizes:
        raise ValueError("vmap: Expected at least one Tensor to vmap over")
    if any(n != sizes[0] for n in sizes):
        raise ValueError(
            f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sizes} for the "
            "mapped dimension"
        )
    return sizes[0]


def _create_batched_inputs(flat_in_dims: list, flat_args: list, vmap_level: int, args_spec: TreeSpec) -> Any:
    """The arguments as the function at that level of vmap sees them."""
    pairs = zip(flat_in_dims, flat_args, strict=True)
    return tree_unflatten([x if d is None else _add_batch_dim(x, d, vmap_level) for d, x in pairs], args_spec)


def _unwrap_batched(batched_outputs: Any, out_dims: Any, vmap_level: int, batch_size: int, func: Callable) -> Any:
    """The results of the function at that level of vmap as its caller sees them."""
    flat, spec = tree_flatten(batched_outputs)
    places = _places(_get_name(func), out_dims, spec)
    name = _get_name(func)
    outs = [_maybe_remove_batch_dim(name, x, vmap_level, batch_size, d) for x, d in zip(flat, places, strict=True)]
    return tree_unflatten(outs, spec)


def _maybe_remove_batch_dim(
    name: str, batched_output: Any, vmap_level: int, batch_size: int, out_dim: int | None
) -> Any:
    """One result as the caller of vmap sees it; ValueError for no tensor, or one that is mapped without an axis."""
    if out_dim is None:
        batch = batch_of(batched_output) if isinstance(batched_output, Tensor) else None
        if batch is not None and batch.level.depth == vmap_level:
            raise ValueError(f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim is None")
        return batched_output
    if not isinstance(batched_output, Tensor):
        raise ValueError(
            f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(batched_output)}. Did you mean to "
            f"set out_dims= to None for output?"
        )
    return _remove_batch_dim(batched_output, vmap_level, batch_size, out_dim)


def vmap_impl(
    func: Callable, in_dims: Any, out_dims: Any, randomness: str, chunk_size: int | None, *args: Any, **kwargs: Any
) -> Any:
    """``vmap(func, in_dims, out_dims, randomness, chunk_size=chunk_size)(*args, **kwargs)``."""
    return vmap(func, in_dims, out_dims, randomness, chunk_size=chunk_size)(*args, **kwargs)


def get_chunk_sizes(total_elems: int, chunk_size: int) -> list[int]:
    """The lengths of the chunks into which ``total_elems`` are cut.

    >>> from torchlike._functorch.vmap import get_chunk_sizes
    >>> get_chunk_sizes(7, 3)
    [3, 3, 1]
    """
    whole, rest = divmod(total_elems, chunk_size)
    return [chunk_size] * whole + [rest] * bool(rest)


@contextlib.contextmanager
def vmap_increment_nesting(batch_size: int, randomness: str) -> Iterator[int]:
    """The context in which a level of vmap is active; gives its depth."""
    try:
        yield _vmap_increment_nesting(batch_size, randomness)
    finally:
        _vmap_decrement_nesting()


def restore_vmap(func: Callable, in_dims: Any, batch_size: int, randomness: str) -> Callable:
    """As ``vmap``, of a function of anything: gives the results and their mapped axes (or None)."""

    @functools.wraps(func)
    def inner(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        with vmap_increment_nesting(batch_size, randomness) as level:
            return unwrap_batched(func(*wrap_batched(args, in_dims, level), **kwargs), level)

    return inner


def wrap_batched(args: tuple, bdims: Any, level: int) -> Any:
    """The arguments as the function at that level of vmap sees them; None in ``bdims`` for what all examples share."""
    flat, spec = tree_flatten(args)
    dims = _broadcast_to_and_flatten(bdims, spec)
    if dims is None:
        raise ValueError(f"wrap_batched(): dims {bdims} do not fit arguments of the structure {spec}")
    return _create_batched_inputs(dims, flat, level, spec)


def unwrap_batched(args: Any, level: int) -> tuple[Any, Any]:
    """What the tensors stand for at that level of vmap, and where each has its mapped axis (None: nowhere)."""
    flat, spec = tree_flatten(args)
    pairs = [_unwrapped(x, level) for x in flat]
    return tuple(tree_unflatten([p[i] for p in pairs], spec) for i in (0, 1))  # type: ignore[return-value]


def _unwrapped(x: Any, level: int) -> tuple[Any, int | None]:
    batch = batch_of(x) if isinstance(x, Tensor) else None
    return (batch.inner, batch.dim) if batch is not None and batch.level.depth == level else (x, None)


# -- packages that put steps of their own here (tensordict): vmap is made of them then -----------------

_OURS = (_process_batched_inputs, _create_batched_inputs, _unwrap_batched)


def _are_replaced() -> bool:
    return (_process_batched_inputs, _create_batched_inputs, _unwrap_batched) != _OURS


def _by_steps(
    func: Callable, in_dims: Any, out_dims: Any, randomness: str, chunk_size: int | None, args: tuple, kwargs: dict
) -> Any:
    size, dims, flat, spec = _process_batched_inputs(in_dims, args, func)
    if chunk_size is not None and chunk_size < size:
        raise NotImplementedError("vmap(chunk_size=...): not in chunks while a package replaces steps of vmap")
    with vmap_increment_nesting(size, randomness) as level:
        outputs = func(*_create_batched_inputs(dims, flat, level, spec), **kwargs)
        return _unwrap_batched(outputs, out_dims, level, size, func)


REPLACED[:] = [_are_replaced, _by_steps]
