"""Views, selections and concatenations of nested tensors."""

from __future__ import annotations

import math
from typing import Any

from torchlike._base.dims import wrap_dim
from torchlike._core.tensor.tensor import Tensor
from torchlike.nested._base import dim_of, lengths_of, like, plain
from torchlike.nested._ragged import NestedInt, of_lengths
from torchlike.nested._rules import demand_whole, inner, int_list, is_jagged, rule, with_ragged


@rule("view", "reshape", "expand", "view_as", "reshape_as", "expand_as")
def _viewed(func: Any, t: Tensor, *sizes: Any, **kwargs: Any) -> Any:
    name = func.__name__.removesuffix("_as")
    if name != func.__name__:
        sizes = tuple(sizes[0].shape)
    given = int_list(sizes or tuple(kwargs.values()))
    if len(given) == 1 and not isinstance(given[0], int | NestedInt):
        raise NotImplementedError(f"{name}(): a nested tensor is not seen as another dtype; view its values()")
    if name == "expand":
        return _expanded(t, given)
    inside, at = _inside(name, t, given)
    try:
        return with_ragged(getattr(plain(t), name)(inside), t, at)
    except RuntimeError as error:
        raise RuntimeError(f"{name}(): cannot view shape {tuple(t.shape)} as {given}: {error}") from None


def _inside(name: str, t: Any, sizes: list[Any]) -> tuple[list[int], int]:
    """The shape of the values that goes with ``sizes``, and where the ragged dimension is among these."""
    own: Any
    own, refusal = lengths_of(t), f"{name}(): cannot view shape {tuple(t.shape)} as {sizes}"
    places = [i for i, n in enumerate(sizes) if isinstance(n, NestedInt)]
    at = places[0] if places else sizes.index(-1) if -1 in sizes[1:] else 0
    fits = sizes and sizes[0] in (-1, len(t._ragged)) and len(places) < 2 and at > 0
    if not fits or places and sizes[at] != t._ragged.symbol:
        raise RuntimeError(refusal)
    inside = sizes[1:]
    before = math.prod(own[: t._ragged_idx - 1])
    if -1 in inside[: at - 1] or math.prod(inside[: at - 1]) != before:
        raise RuntimeError(f"{refusal}: dimensions do not move across the ragged one")
    inside[at - 1] = own[t._ragged_idx - 1]
    if inside[at - 1] == 0 and -1 in inside:
        rest = math.prod(own[t._ragged_idx :])
        inside[inside.index(-1)] = rest // max(math.prod([n for n in inside[at:] if n != -1]), 1)
    return inside, at


def _expanded(t: Tensor, sizes: list[Any]) -> Tensor:
    more = len(sizes) - t.dim()
    at = t._ragged_idx + more
    if more or sizes[0] not in (-1, len(t._ragged)) or sizes[at] not in (-1, t._ragged.symbol):
        raise RuntimeError(f"expand(): cannot expand shape {tuple(t.shape)} -> {sizes}")
    inside = sizes[1:]
    inside[at - 1] = -1
    return like(plain(t).expand(inside), t)


@rule("unflatten")
def _unflattened(func: Any, t: Tensor, dim: int, sizes: Any) -> Tensor:
    d = inner("unflatten", t, dim)
    return with_ragged(plain(t).unflatten(d, sizes), t, _behind(t, d, len(sizes) - 1))


def _behind(t: Tensor, d: int, more: int) -> int:
    """The ragged dimension where dimension ``d`` of the values gave place to ``more`` more."""
    return t._ragged_idx + (more if d < t._ragged_idx - 1 else 0)


@rule("flatten")
def _flattened(func: Any, t: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    start, end = dim_of(t, start_dim), dim_of(t, end_dim)
    if start == end:
        return t
    if start == 0:
        raise RuntimeError("flatten(): not supported for NestedTensor on dim=0")
    if start <= t._ragged_idx <= end:
        raise RuntimeError("flatten(): not supported for NestedTensor on ragged dim")
    return with_ragged(plain(t).flatten(start - 1, end - 1), t, _behind(t, start - 1, start - end))


@rule("transpose", "swapaxes", "swapdims")
def _transposed(func: Any, t: Tensor, dim0: int, dim1: int) -> Tensor:
    a, b = dim_of(t, dim0), dim_of(t, dim1)
    if a == b:
        return t
    if 0 in (a, b):
        raise ValueError("Transpose is not supported on the batch dimension for jagged NT")
    at = t._ragged_idx
    return with_ragged(plain(t).transpose(a - 1, b - 1), t, {a: b, b: a}.get(at, at))


@rule("permute")
def _permuted(func: Any, t: Tensor, *dims: Any, **kwargs: Any) -> Tensor:
    order = [dim_of(t, d) for d in int_list(dims or tuple(kwargs.values()))]
    if sorted(order) != list(range(t.dim())):
        raise RuntimeError(f"permute(): the dims {order} are not those of a tensor of {t.dim()} dimensions")
    if order[0] != 0:
        raise ValueError("Permute is not supported on the batch dimension for jagged NT")
    return with_ragged(plain(t).permute([d - 1 for d in order[1:]]), t, order.index(t._ragged_idx))


@rule("unsqueeze")
def _unsqueezed(func: Any, t: Tensor, dim: int) -> Tensor:
    d = wrap_dim(dim, t.dim() + 1)
    if d == 0:
        raise RuntimeError("unsqueeze(): not supported for NestedTensor on dim=0")
    return with_ragged(plain(t).unsqueeze(d - 1), t, t._ragged_idx + (d <= t._ragged_idx))


@rule("squeeze")
def _squeezed(func: Any, t: Tensor, dim: Any = None) -> Tensor:
    if dim is None:
        raise NotImplementedError("squeeze(): a nested tensor needs dim")
    given = [dim] if isinstance(dim, int) else list(dim)
    dims = [inner("squeeze", t, d) for d in given]
    gone = [d for d in dims if lengths_of(t)[d] == 1]
    return with_ragged(plain(t).squeeze(dims), t, t._ragged_idx - sum([d < t._ragged_idx - 1 for d in gone]))


@rule("unbind")
def _unbound(func: Any, t: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    if dim_of(t, dim) != 0:
        raise RuntimeError("unbind(): only supported for NestedTensor on dim=0")
    starts, lengths = t._ragged.rows()
    values, at = plain(t), t._ragged_idx - 1
    if t._ragged.lengths is None:
        return values.split(lengths.tolist(), at) if len(lengths) else ()
    return tuple([values.narrow(at, s, n) for s, n in zip(starts.tolist(), lengths.tolist(), strict=True)])


@rule("__iter__")
def _iterated(func: Any, t: Tensor) -> Any:
    return iter(_unbound(func, t))


@rule("select")
def _selected(func: Any, t: Tensor, dim: int, index: int) -> Tensor:
    if dim_of(t, dim) == 0:
        return _row(t, index)
    d = inner("select", t, dim)
    return with_ragged(plain(t).select(d, index), t, _behind(t, d, -1))


def _row(t: Tensor, index: int) -> Tensor:
    n = len(t._ragged)
    if not -n <= index < n:
        raise IndexError(f"index {index} is out of bounds for dimension 0 with size {n}")
    starts, lengths = t._ragged.rows()
    return plain(t).narrow(t._ragged_idx - 1, int(starts[index]), int(lengths[index]))


@rule("narrow")
def _narrowed(func: Any, t: Tensor, dim: int, start: int, length: int) -> Tensor:
    return like(plain(t).narrow(inner("narrow", t, dim), start, length), t)


@rule("__getitem__")
def _item(func: Any, t: Tensor, index: Any) -> Any:
    parts = list(index) if isinstance(index, tuple) else [index]
    if Ellipsis in [p for p in parts if not isinstance(p, Tensor)]:
        at = next(i for i, p in enumerate(parts) if p is Ellipsis)
        count = t.dim() - sum([p is not None for p in parts]) + 1
        parts[at : at + 1] = [slice(None)] * count
    if parts and isinstance(parts[0], int) and not isinstance(parts[0], bool):
        row = _row(t, parts[0])
        return row[tuple(parts[1:])] if len(parts) > 1 else row
    whole = slice(None)
    at = t._ragged_idx
    if not parts or parts[0] != whole or None in parts[: at + 1] or len(parts) > at and parts[at] != whole:
        raise RuntimeError(
            "slice(): not supported for NestedTensor on dim=0 and on the ragged dim: index rows with an int, or the "
            "dimensions within them"
        )
    inside = plain(t)[tuple(parts[1:])]
    gone = sum([isinstance(p, int) for p in parts[1:at]])
    return with_ragged(inside, t, at - gone)


@rule("chunk", "split", "split_with_sizes", "tensor_split")
def _parted(func: Any, t: Tensor, sizes: Any, dim: int = 0) -> tuple[Any, ...]:
    d, name = dim_of(t, dim), func.__name__
    if d == 0 and name == "chunk":
        return _chunks(t, sizes)
    return tuple([like(x, t) for x in func(plain(t), sizes, inner(name, t, d))])


def _chunks(t: Tensor, chunks: int) -> tuple[Any, ...]:
    """Parts of the batch, each a nested tensor of its own."""
    demand_whole("chunk", t)
    starts, lengths = t._ragged.rows()
    size = -(-len(lengths) // chunks)
    found = []
    for i in range(0, len(lengths), size):
        part = lengths[i : i + size]
        new = like(plain(t).narrow(t._ragged_idx - 1, int(starts[i]), int(part.sum())), t)
        new._ragged = of_lengths(part, t.device)
        found.append(new)
    return tuple(found)


@rule("cat", "concat", "concatenate", "stack")
def _joined(func: Any, tensors: Any, dim: int = 0) -> Tensor:
    t = next(x for x in tensors if is_jagged(x))
    name = func.__name__
    if any(not is_jagged(x) or x.shape[t._ragged_idx] != t._ragged.symbol for x in tensors):
        raise RuntimeError(f"{name}(): expected nested tensors of one structure; make them with the same offsets")
    d = wrap_dim(dim, t.dim() + (name == "stack"))
    if d == 0 or name != "stack" and d == t._ragged_idx:
        which = "ragged dim" if d else "dim=0"
        raise RuntimeError(f"{name}(): not supported for NestedTensor on {which}")
    out = func([plain(x) for x in tensors], d - 1)
    return with_ragged(out, t, t._ragged_idx + (name == "stack" and d <= t._ragged_idx))
