"""Layouts: how the elements of a tensor lie in its storage.

A layout is plain Python integers: no array, no dtype. `geometry` computes the layout of a view from
the layout of its base; this file tells what a layout is like (contiguous, dense, overlapping) and
which strides a fresh result takes from its operands.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

Ints = tuple[int, ...]


class Layout(NamedTuple):
    """Shape, strides (in elements) and storage offset (in elements) of a tensor."""

    shape: Ints
    strides: Ints
    offset: int = 0


def numel(shape: Sequence[int]) -> int:
    """The number of elements of a shape."""
    total = 1
    for size in shape:
        total *= size
    return total


def contiguous_strides(shape: Sequence[int]) -> Ints:
    """Row-major strides. A dimension of size 0 counts as 1, so that no stride is 0."""
    step, out = 1, []
    for size in reversed(shape):
        out.append(step)
        if size != 0:  # not > 1, which a symbolic length may leave open
            step *= size
    out.reverse()
    return tuple(out)


def permuted_strides(shape: Sequence[int], order: Sequence[int]) -> Ints:
    """The strides of dense memory in which the dimensions lie in this order, outermost first."""
    inner = contiguous_strides([shape[d] for d in order])
    return tuple([inner[order.index(d)] for d in range(len(shape))])


def contiguous(shape: Ints) -> Layout:
    """The layout of a fresh tensor of this shape."""
    return Layout(shape, contiguous_strides(shape), 0)


def channels_last_order(ndim: int) -> Ints:
    """The dimensions of channels_last (4) or channels_last_3d (5), innermost first: C, then W, H."""
    return (1, *range(ndim - 1, 1, -1), 0)


def channels_last_strides(shape: Sequence[int], dims: int = 4) -> Ints:
    """Strides of (N, C, H, W), or (N, C, D, H, W) if `dims` is 5, stored with C innermost."""
    if len(shape) != dims:
        name = "channels_last" if dims == 4 else "channels_last_3d"
        raise RuntimeError(f"required rank {dims} tensor to use {name} format, got rank {len(shape)}")
    return strides_in_order(shape, channels_last_order(dims))


def strides_in_order(shape: Sequence[int], order: Sequence[int]) -> Ints:
    """Dense strides for `shape` with the dimensions laid out in `order`, innermost first."""
    step, out = 1, [0] * len(shape)
    for dim in order:
        out[dim] = step
        if shape[dim] > 1:
            step *= shape[dim]
    return tuple(out)


def is_contiguous(layout: Layout) -> bool:
    """Whether the elements lie in row-major order without gaps (size-1 strides do not matter)."""
    step, shape = 1, layout[0]
    for size, stride in zip(reversed(shape), reversed(layout[1]), strict=True):
        if size != 1:
            if stride != step:
                return 0 in shape
            step *= size
    return True


def is_contiguous_channels_last(layout: Layout, dims: int = 4) -> bool:
    """Tensor.is_contiguous(memory_format=channels_last), or channels_last_3d with `dims` 5."""
    shape, strides, _ = layout
    if len(shape) != dims:
        return False
    step = 1
    for dim in channels_last_order(dims):
        if shape[dim] != 1:
            if strides[dim] != step:
                return False
            step *= shape[dim]
    return True


def is_dense(layout: Layout) -> bool:
    """Whether the elements fill a block of memory, each place once, in some order of dimensions."""
    if is_contiguous(layout):
        return True
    step = 1
    for stride, size in sorted([(st, n) for n, st in zip(layout[0], layout[1], strict=True) if n != 1]):
        if stride != step:
            return False
        step *= size
    return True


def is_disjoint(layout: Layout) -> bool:
    """Whether no two elements share a place, as far as lengths and strides tell it one by one."""
    span = 0
    # A length that is not known yet cannot be compared otherwise.
    for stride, n in sorted([(stride, n) for n, stride in zip(layout.shape, layout.strides, strict=True) if n != 1]):
        if stride <= span:
            return False
        span += (n - 1) * stride
    return True


def has_overlap(layout: Layout) -> bool:
    """Whether an expanded dimension makes several elements share a place.

    It is the question in-place operators ask. Overlaps of other origin (`as_strided`, `unfold`)
    are not looked for, as in PyTorch.
    """
    shape, strides, _ = layout
    if 0 not in strides or 0 in shape:
        return False
    return any([stride == 0 and size > 1 for size, stride in zip(shape, strides, strict=True)])


# ----- the layout of a result -----


def _compare(a: int, b: int, shape: Ints, operands: Sequence[Ints]) -> int:
    """1 if dimension `a` should lie outside `b`, -1 if inside, 0 if no operand tells.

    The first operand that is expanded in neither decides, by stride; equal strides put the larger
    dimension outside, else leave it to the next operand.
    """
    for strides in operands:
        x, y = strides[a], strides[b]
        if x and y:
            if x != y:
                return 1 if x > y else -1
            if shape[a] > shape[b]:
                return 1
    return 0


def _order(shape: Ints, operands: Sequence[Ints]) -> list[int]:
    """Dimensions from innermost to outermost, starting from row-major order.

    An insertion sort that steps over undecided pairs: as the comparison is no total order, which
    sort it is shows in the result.
    """
    order = list(range(len(shape) - 1, -1, -1))
    for start in range(1, len(order)):
        at = start
        for other in range(start - 1, -1, -1):
            verdict = _compare(order[other], order[at], shape, operands)
            if verdict > 0:
                order[other], order[at] = order[at], order[other]
                at = other
            elif verdict < 0:
                break
    return order


def memory_order(layout: Layout) -> Ints:
    """The dimensions from innermost to outermost in memory."""
    return tuple(_order(layout[0], (layout[1],)))


def preserve_strides(layout: Layout) -> Ints:
    """Strides of clone(), empty_like() and casts with preserve_format.

    A dense layout is kept; another is packed in its memory order.
    """
    if is_dense(layout):
        return layout[1]
    return strides_in_order(layout[0], _order(layout[0], (layout[1],)))


def _broadcast_strides(layout: Layout, shape: Ints) -> Ints:
    lead = len(shape) - len(layout[0])
    own = [
        0 if size == 1 and out != 1 else stride
        for size, out, stride in zip(layout[0], shape[lead:], layout[1], strict=True)
    ]
    return (0,) * lead + tuple(own)


def pointwise_strides(layouts: Sequence[Layout], shape: Ints) -> Ints:
    """Strides of the fresh result, of `shape`, of an elementwise operator on operands of these layouts.

    Operands of one common layout hand it on; else the first operand that tells two dimensions apart
    orders them. An operand of another dtype than the one computed in counts with the layout of its
    cast, `Layout(shape, preserve_strides(layout))`.
    """
    first = layouts[0]
    if all([layout[0] == shape for layout in layouts]):
        if all([is_contiguous(layout) for layout in layouts]):
            return contiguous_strides(shape)
        if len(shape) == 4 and all([is_contiguous_channels_last(layout) for layout in layouts]):
            return channels_last_strides(shape)
        if all([layout[1] == first[1] for layout in layouts]) and is_dense(first):
            return first[1]
    order = _order(shape, [_broadcast_strides(layout, shape) for layout in layouts])
    if order == list(range(len(shape) - 1, -1, -1)):
        return contiguous_strides(shape)
    # Unlike everywhere else, a size of 0 here makes the strides outside it 0.
    step, out = 1, [0] * len(shape)
    for dim in order:
        out[dim] = step
        step *= shape[dim]
    return tuple(out)
