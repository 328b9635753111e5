"""Dimension and size arguments: wrapped, inferred, broadcast and split as PyTorch does."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NoReturn

from torchlike._base.layout import Ints


def _dim_error(dim: int, ndim: int) -> NoReturn:
    if not -(2**63) <= dim < 2**63:
        raise ValueError(f"Overflow when unpacking long long: {dim} is no dimension")
    if isinstance(dim, float):
        _no_int(dim)
    raise IndexError(f"Dimension out of range (expected to be in range of [{-ndim}, {ndim - 1}], but got {dim})")


def wrap_dim(dim: int, ndim: int, scalar_ok: bool = True) -> int:
    """A dimension in [0, ndim). A 0-dim tensor takes 0 and -1, unless `scalar_ok` is false."""
    try:
        outside = not -ndim <= dim < ndim
    except (TypeError, RuntimeError):  # a tensor of several elements is neither true nor false
        _no_int(dim)
    if dim is True or dim is False:
        _no_int(dim)
    if outside:
        if ndim or not -1 <= dim < 1:
            _dim_error(dim, ndim or 1)
        if not scalar_ok:
            raise IndexError("Dimension specified as 0 but tensor has no dimensions")
        return 0
    return dim + ndim if dim < 0 else dim


def _no_int(dim: object) -> NoReturn:
    raise TypeError(f"argument 'dim' must be int, not {type(dim).__name__}") from None


def wrap_dims(dims: Sequence[int], ndim: int, scalar_ok: bool = True) -> list[int]:
    """Each dimension wrapped; RuntimeError if one comes twice, or if there are more than 64."""
    out: list[int] = []
    if ndim > 64:
        raise RuntimeError(f"only tensors with up to 64 dims are supported, but got {ndim}")
    for dim in dims:
        wrapped = wrap_dim(dim, ndim, scalar_ok)
        if wrapped in out:
            raise RuntimeError(f"dim {wrapped} appears multiple times in the list of dims")
        out.append(wrapped)
    return out


def infer_size(size: Sequence[int], count: int, mismatch: str = "") -> Ints:
    """The shape meant by `size`, where one -1 stands for what makes `count` elements.

    `mismatch` replaces the message for a size that cannot make them.
    """
    known, unknown = 1, -1
    for dim, length in enumerate(size):
        if length >= 0:
            known *= length
        elif length != -1:
            raise RuntimeError(f"invalid shape dimension {length} at index {dim} of shape {list(size)}")
        elif unknown >= 0:
            raise RuntimeError("only one dimension can be inferred")
        else:
            unknown = dim
    if unknown < 0:
        if known == count:
            return tuple(size)
    elif known and count % known == 0:
        return (*size[:unknown], count // known, *size[unknown + 1 :])
    elif known == count:
        raise RuntimeError(
            f"cannot reshape tensor of 0 elements into shape {list(size)} because the unspecified dimension "
            "size -1 can be any value and is ambiguous"
        )
    raise RuntimeError(mismatch or f"shape '{list(size)}' is invalid for input of size {count}")


def broadcast_shapes(*shapes: Ints) -> Ints:
    """The common shape of operands; RuntimeError naming the sizes and the dimension that disagree."""
    out = shapes[0] if shapes else ()
    for shape in shapes[1:]:
        if shape != out:
            out = _broadcast_pair(out, shape)
    return tuple(out)


def _broadcast_pair(a: Ints, b: Ints) -> Ints:
    long, short = (a, b) if len(a) >= len(b) else (b, a)
    lead = len(long) - len(short)
    out = list(long)
    for dim in range(len(long) - 1, lead - 1, -1):
        x, y = long[dim], short[dim - lead]
        if x == 1:
            out[dim] = y
        elif y != x and y != 1:
            x, y = (x, y) if long is a else (y, x)
            raise RuntimeError(
                f"The size of tensor a ({x}) must match the size of tensor b ({y}) at non-singleton dimension {dim}"
            )
    return tuple(out)


# ----- splitting a dimension -----


def split_dim(name: str, ndim: int, dim: int) -> int:
    """The wrapped dimension that `split` or `chunk` cuts; RuntimeError for a 0-dim tensor."""
    if ndim == 0:
        raise RuntimeError(f"{name} expects at least a 1-dimensional tensor")
    return wrap_dim(dim, ndim)


def split_sizes(length: int, split_size: int) -> list[int]:
    """Lengths of the pieces of torch.split(split_size): all equal but the last; at least one."""
    if split_size < 0:
        raise RuntimeError(f"split expects split_size be non-negative, but got split_size={split_size}")
    if split_size == 0:
        if length:
            raise RuntimeError(f"split_size can only be 0 if dimension size is 0, but got dimension size of {length}")
        return [0]
    pieces = max((length + split_size - 1) // split_size, 1)
    return [split_size] * (pieces - 1) + [length - split_size * (pieces - 1)]


def check_split_sizes(length: int, sizes: Sequence[int], dim: int) -> list[int]:
    """The sizes of torch.split([...]), if they are lengths that fill the dimension."""
    sizes = list(sizes)
    if sizes and min(sizes) < 0:
        raise RuntimeError(
            f"split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes={sizes}"
        )
    if sum(sizes) != length:
        raise RuntimeError(
            f"split_with_sizes expects split_sizes to sum exactly to {length} (input tensor's size at "
            f"dimension {dim}), but got split_sizes={sizes}"
        )
    return sizes


def chunk_sizes(length: int, chunks: int) -> list[int]:
    """Lengths of the pieces of torch.chunk(chunks), which may be fewer than asked."""
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    if length == 0:
        return [0] * chunks
    return split_sizes(length, (length + chunks - 1) // chunks)


def tensor_split_points(length: int, sections: int | Sequence[int]) -> list[int]:
    """Indices between the pieces of torch.tensor_split: piece i is the slice points[i-1]:points[i]."""
    if not isinstance(sections, int):
        return list(sections)
    if sections <= 0:
        raise RuntimeError(f"number of sections must be larger than 0, got {sections}")
    size, longer = divmod(length, sections)
    return [i * size + min(i, longer) for i in range(1, sections)]


def numpy_split_dim(name: str, ndim: int) -> int:
    """The dimension that `hsplit`, `vsplit` or `dsplit` cuts; RuntimeError if there are too few."""
    least, dim = {"hsplit": (1, min(ndim - 1, 1)), "vsplit": (2, 0), "dsplit": (3, 2)}[name]
    if ndim < least:
        raise RuntimeError(
            f"torch.{name} requires a tensor with at least {least} dimension, but got a tensor with {ndim} dimensions!"
        )
    return dim


def check_even_split(name: str, length: int, dim: int, sections: int) -> None:
    """RuntimeError unless `sections` divides the dimension, as hsplit, vsplit and dsplit ask."""
    if sections == 0 or length % sections:
        raise RuntimeError(
            f"torch.{name} attempted to split along dimension {dim}, but the size of the dimension {length} "
            f"is not divisible by the split_size {sections}!"
        )


def demand_countable(shape: Sequence[int], itemsize: int, name: str = "") -> None:
    """RuntimeError for an array of more bytes than 64 bits count. Lengths that are symbols do not tell."""
    if all(isinstance(n, int) for n in shape) and math.prod(shape) * itemsize >= 2**63:
        raise RuntimeError(
            f"Storage size calculation overflowed with sizes={list(shape)}" + (f" (in {name})" if name else "")
        )
