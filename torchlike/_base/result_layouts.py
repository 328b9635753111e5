"""Rules for the strides of results, as declarations name them (``layout=`` of ``_decl/op.py: op``).

A rule is asked only where an input is no contiguous tensor. It gets the layouts of the inputs (None for what is no
tensor), the shape of a result, and the static arguments, and gives the result's strides, or None for contiguous ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from torchlike._base.layout import (
    Ints,
    Layout,
    channels_last_order,
    channels_last_strides,
    contiguous_strides,
    is_contiguous,
    is_contiguous_channels_last,
    numel,
    pointwise_strides,
    preserve_strides,
)

_SMALL = 20480  # of the first four sizes of a volume; PyTorch computes larger ones otherwise

Layouts: TypeAlias = Sequence[Layout | None]
Rule: TypeAlias = Callable[[Layouts, Ints, tuple[Any, ...]], Ints | None]


def suggests_channels_last(layout: Layout | None) -> bool:
    """Whether memory goes from channels over the other dimensions, rows last, to the batch; gaps do not matter.

    Where sizes of 1 leave it open, contiguous is the answer.
    """
    if layout is None or len(layout.shape) not in (4, 5) or 0 in layout.shape or layout.strides[1] == 0:
        return False
    inside = 0
    for dim in channels_last_order(len(layout.shape)):
        stride, size = layout.strides[dim], layout.shape[dim]
        if stride < inside or (dim == 0 and inside == layout.strides[1]):
            return False
        inside = stride * size if size > 1 else stride
    return True


def _channels_last(shape: Ints, when: bool) -> Ints | None:
    return channels_last_strides(shape, len(shape)) if when else None


def elementwise(layouts: Layouts, shape: Ints, static: Any) -> Ints | None:
    """As of pointwise operators: the memory order of the first input that tells; reduced results are contiguous."""
    found = [layout for layout in layouts if layout is not None]
    return None if any([len(x.shape) > len(shape) for x in found]) else pointwise_strides(found, shape)


def differences(layouts: Layouts, shape: Ints, static: Any) -> Ints | None:
    """As :func:`elementwise`, of an operator that is none: it reads neighbours too."""
    return elementwise(layouts, shape, static)


def second_first(layouts: Layouts, shape: Ints, static: Any) -> Ints | None:
    """As :func:`elementwise`, with the second input asked first."""
    return elementwise((layouts[1], layouts[0], *layouts[2:]), shape, static)


def third_first(layouts: Layouts, shape: Ints, static: Any) -> Ints | None:
    """As :func:`elementwise`, with the third input asked first."""
    return elementwise((layouts[2], *layouts[:2], *layouts[3:]), shape, static)


def like_first(layouts: Layouts, shape: Ints, static: Any) -> Ints | None:
    """The memory order of the first input, for results of its shape."""
    first = layouts[0]
    return preserve_strides(first) if first is not None and first.shape == shape else None


def rotated(layouts: Layouts, shape: Ints, static: Any) -> Ints | None:
    """As :func:`like_first`, but where nothing turns."""
    return like_first(layouts, shape, static) if static[0] % 4 else None


def attention(layouts: Layouts, shape: Ints, static: Any) -> Ints | None:
    """The memory order of the query where PyTorch has a kernel for CPUs, which broadcasts and drops nothing."""
    query, key, value, mask, words = layouts[:5]
    if query is None or key is None or value is None or words is not None or len(shape) != 4 or query.shape != shape:
        return None
    if any([x.strides[-1] != 1 or 0 in x.shape or len(x.shape) != 4 for x in (query, key, value)]):
        return None
    alike = 1 if static[1] else 2  # the heads that the keys may not have under enable_gqa
    if not key.shape[:alike] == value.shape[:alike] == shape[:alike]:
        return None
    if mask is not None and len(mask.shape) not in (2, 4):
        return None
    return preserve_strides(query)


def suggested(layouts: Layouts, shape: Ints, static: Any) -> Ints | None:
    """channels_last if the first input is, for results of as many dimensions."""
    first = layouts[0]
    return _channels_last(shape, first is not None and len(first.shape) == len(shape) and suggests_channels_last(first))


def _as_image(rule: Rule, layouts: Layouts, shape: Ints, static: Any) -> Ints | None:
    """What a rule gives for rows as images of a height of 1, which PyTorch makes of them."""
    found = [None if x is None or len(x.shape) != 3 else _image(x) for x in layouts]
    strides = rule(found, (*shape[:2], 1, shape[2]), static)
    return None if strides is None else (*strides[:2], strides[3])


def _image(layout: Layout) -> Layout:
    (n, c, width), (a, b, step) = layout.shape, layout.strides
    return Layout((n, c, 1, width), (a, b, width * step, step))


def suggested_rows(layouts: Layouts, shape: Ints, static: Any) -> Ints | None:
    """As :func:`suggested`, of rows as images of a height of 1."""
    return _as_image(suggested, layouts[:1], shape, static) if len(shape) == 3 else None


def images(layouts: Layouts, shape: Ints, static: Any) -> Ints | None:
    """As :func:`suggested`, of images only."""
    return suggested(layouts, shape, static) if len(shape) == 4 else None


def unpooled(layouts: Layouts, shape: Ints, static: Any) -> Ints | None:
    """As :func:`images`, where two dimensions were pooled."""
    return images(layouts, shape, static) if len(static[-1]) == 2 else None


def convolution(layouts: Layouts, shape: Ints, static: Any) -> Ints | None:
    """channels_last if the input or the weight is; not for small volumes without groups, one at a time."""
    input, weight = layouts[:2]
    if len(shape) == 3:
        return _as_image(convolution, (weight, weight), shape, static)  # the input is not asked
    if len(shape) not in (4, 5) or not (suggests_channels_last(input) or suggests_channels_last(weight)):
        return None
    if len(shape) == 5 and shape[0] == 1 and static[-1] == 1 and input is not None and weight is not None:
        if min(weight.shape[-2:]) <= 3 and numel(input.shape[:4]) <= _SMALL:
            return None
    return channels_last_strides(shape, len(shape))


def cat(layouts: Layouts, shape: Ints, static: Any) -> Ints | None:
    """channels_last if all are."""
    found = [x for x in layouts if x is not None and x.shape != (0,)]
    return _channels_last(shape, len(shape) in (4, 5) and all([suggests_channels_last(x) for x in found]))


def stack(layouts: Layouts, shape: Ints, static: Any) -> Ints | None:
    """As if joined along the dimension that follows the new one, which is then split."""
    dim = static[0] % len(shape)
    if dim == len(shape) - 1:
        return None
    count, size = shape[dim], shape[dim + 1]
    strides = cat(layouts, (*shape[:dim], count * size, *shape[dim + 2 :]), static)
    return None if strides is None else (*strides[:dim], strides[dim] * size, *strides[dim:])


def halved(layouts: Layouts, shape: Ints, static: Any) -> Ints | None:
    """The memory order of one half of the first input."""
    first = layouts[0]
    return None if first is None else pointwise_strides([Layout(shape, first.strides)], shape)


def padded(layouts: Layouts, shape: Ints, static: Any) -> Ints | None:
    """As :func:`suggested`; what is only cut keeps its memory order."""
    first = layouts[0]
    if first is not None and all(pad <= 0 for pad in static[0]):
        return preserve_strides(Layout(shape, first.strides))
    return suggested(layouts, shape, static)


def of_images(layouts: Layouts, shape: Ints, static: Any) -> Ints | None:
    """As :func:`suggested`, for results of the first input's shape."""
    first = layouts[0]
    return suggested(layouts, shape, static) if first is not None and first.shape == shape else None


def batch_norm(layouts: Layouts, shape: Ints, static: Any) -> Ints | None:
    """As :func:`suggested`; what has statistics of each image is contiguous."""
    first = layouts[0]
    if static[-1] or first is None or is_contiguous(first):
        return None
    if len(shape) == 4 and is_contiguous_channels_last(first):  # also where sizes of 1 leave the strides open
        return channels_last_strides(shape)
    return suggested(layouts, shape, static)


def batch_norm_eval(layouts: Layouts, shape: Ints, static: Any) -> Ints | None:
    """As :func:`batch_norm`, of fixed statistics."""
    return batch_norm(layouts, shape, (False,))


def rolled(layouts: Layouts, shape: Ints, static: Any) -> Ints | None:
    """As :func:`of_images`; rolled as one row, a result is contiguous."""
    return of_images(layouts, shape, static) if static[1] else None


def interleaved(layouts: Layouts, shape: Ints, static: Any) -> Ints | None:
    """Of a Kronecker product: as :func:`elementwise` of pairs of dimensions, where each pair can be one dimension."""
    n, parts, whole = len(shape), [], [1] * (2 * len(shape))
    for i, layout in enumerate(layouts[:2]):
        if layout is None or 0 in shape:
            return None
        sizes, strides = [1] * (2 * n), [0] * (2 * n)
        for k, (size, stride) in enumerate(zip(layout.shape, layout.strides, strict=True), n - len(layout.shape)):
            sizes[2 * k + i], strides[2 * k + i], whole[2 * k + i] = size, stride, size
        parts.append((sizes, strides))
    kept = [k for k, size in enumerate(whole) if size > 1]
    long = tuple([whole[k] for k in kept])
    found = [Layout(tuple([a[k] for k in kept]), tuple([b[k] for k in kept])) for a, b in parts]
    steps = dict(zip(kept, pointwise_strides(found, long) or contiguous_strides(long), strict=True))
    if any([k in steps and k + 1 in steps and steps[k] != steps[k + 1] * whole[k + 1] for k in range(0, 2 * n, 2)]):
        return None
    return tuple([steps.get(k + 1, steps.get(k, 1)) for k in range(0, 2 * n, 2)])


def first_last(layouts: Layouts, shape: Ints, static: Any) -> Ints | None:
    """The first dimension next to each other, if the second input has it: it was the last one and came forward."""
    if layouts[1] is None or not layouts[1].shape:
        return None
    return (1, *[s * shape[0] for s in contiguous_strides(shape[1:])])


def batches_second(layouts: Layouts, shape: Ints, static: Any) -> Ints | None:
    """Of sequences [B, T, H] with ``batch_first`` (the fifth static argument): steps of time follow each other."""
    if len(shape) != 3 or not static[4]:
        return None
    batch, _, width = shape
    return (width, batch * width, 1)


def by_columns(layouts: Layouts, shape: Ints, static: Any) -> Ints | None:
    """Matrices whose columns follow each other, as LAPACK leaves them."""
    if len(shape) < 2:
        return None
    *outer, rows, columns = shape
    return (*contiguous_strides((*outer, rows * columns))[:-1], 1, max(rows, 1))


def solved(layouts: Layouts, shape: Ints, static: Any) -> Ints | None:
    """As :func:`by_columns` of what stands right of the matrix (the first static argument: ``left``)."""
    return by_columns(layouts, shape, static) if static[0] else None


def inverted(layouts: Layouts, shape: Ints, static: Any) -> Ints | None:
    """As :func:`by_columns` of the power -1; others are products."""
    return by_columns(layouts, shape, static) if static[0] == -1 else None


def least_squares(layouts: Layouts, shape: Ints, static: Any) -> Ints | None:
    """The first rows of columns as long as the longer side of the system."""
    if len(shape) < 2 or layouts[0] is None:
        return None
    rows = max(1, *layouts[0].shape[-2:])
    if len(shape) < len(layouts[0].shape):  # of a vector for each matrix
        return (*contiguous_strides((*shape[:-1], rows))[:-1], 1)
    *outer, _, columns = shape
    return (*contiguous_strides((*outer, rows * columns))[:-1], 1, rows)
