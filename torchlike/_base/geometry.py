"""View geometry: the layout of a view from the layout of what it views.

Each function takes a `Layout` and PyTorch's arguments (already ints) and returns the layout that
PyTorch's view has, or raises what PyTorch raises. They run on every view call, so the arithmetic is
written out where a helper would cost more than it says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from torchlike._base.dims import infer_size, wrap_dim, wrap_dims
from torchlike._base.layout import Ints, Layout, contiguous_strides, numel

_VIEW_HINT = (
    "view size is not compatible with input tensor's size and stride (at least one dimension spans "
    "across two contiguous subspaces). Use .reshape(...) instead."
)


def _replaced(values: Ints, dim: int, new: int) -> Ints:
    return (*values[:dim], new, *values[dim + 1 :])


def _swapped(values: Ints, i: int, j: int) -> Ints:
    out = list(values)
    out[i], out[j] = out[j], out[i]
    return tuple(out)


# ----- view and reshape -----


def can_view(layout: Layout, size: Ints) -> Ints | None:
    """Strides of `layout` seen as `size` (no -1, same number of elements), or None if it must be copied."""
    shape, strides, _ = layout
    if 0 in shape:
        return strides if size == shape else contiguous_strides(size)
    if not shape:
        return (1,) * len(size)
    out = [0] * len(size)
    new = len(size) - 1
    base, count, filled = strides[-1], 1, 1
    for dim in range(len(shape) - 1, -1, -1):
        count *= shape[dim]
        if dim and (shape[dim - 1] == 1 or strides[dim - 1] == count * base):
            continue
        # The dimensions since the last break advance evenly: new dimensions may cut them anywhere.
        while new >= 0 and (filled < count or size[new] == 1):
            out[new] = filled * base
            filled *= size[new]
            new -= 1
        if filled != count:
            return None
        if dim:
            base, count, filled = strides[dim - 1], 1, 1
    return tuple(out) if new < 0 else None


def view(layout: Layout, size: Sequence[int]) -> Layout:
    """Tensor.view(size). RuntimeError if no strides can express it."""
    shape = infer_size(size, numel(layout[0]))
    strides = can_view(layout, shape)
    if strides is None:
        raise RuntimeError(_VIEW_HINT)
    return Layout(shape, strides, layout[2])


def flatten_shape(shape: Ints, start_dim: int = 0, end_dim: int = -1) -> Ints:
    """The shape that Tensor.flatten(start_dim, end_dim) reshapes to; `shape` itself for one dimension,
    where flatten returns its tensor.
    """
    start, end = wrap_dim(start_dim, len(shape)), wrap_dim(end_dim, len(shape))
    if start > end:
        raise RuntimeError(
            f"flatten() has invalid args: start_dim cannot come after end_dim (got {start_dim} and {end_dim})"
        )
    if not shape:
        return (1,)
    if start == end:
        return shape
    return (*shape[:start], numel(shape[start : end + 1]), *shape[end + 1 :])


def unflatten_shape(shape: Ints, dim: int, sizes: Sequence[int]) -> Ints:
    """The shape that Tensor.unflatten(dim, sizes) views as."""
    at = wrap_dim(dim, len(shape))
    if not sizes:
        raise RuntimeError("unflatten: sizes must be non-empty")
    if not shape:
        raise RuntimeError("unflatten: Dimension specified as 0 but tensor has no dimensions")
    mismatch = (
        f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {at} ({shape[at]}) "
        "in the input tensor"
    )
    return (*shape[:at], *infer_size(sizes, shape[at], mismatch), *shape[at + 1 :])


# ----- order of dimensions -----


def transpose(layout: Layout, dim0: int, dim1: int) -> Layout:
    """Tensor.transpose(dim0, dim1)."""
    shape, strides, offset = layout
    dim0, dim1 = wrap_dim(dim0, len(shape)), wrap_dim(dim1, len(shape))
    if dim0 == dim1:
        return layout
    return Layout(_swapped(shape, dim0, dim1), _swapped(strides, dim0, dim1), offset)


def permute(layout: Layout, dims: Sequence[int]) -> Layout:
    """Tensor.permute(dims)."""
    shape, strides, offset = layout
    ndim = len(shape)
    if len(dims) != ndim:
        raise RuntimeError(
            "permute(): number of dimensions in the tensor input does not match the length of the desired "
            f"ordering of dimensions i.e. input.dim() = {ndim} is not equal to len(dims) = {len(dims)}"
        )
    order: list[int] = []
    for dim in dims:
        wrapped = wrap_dim(dim, ndim)
        if wrapped in order:
            raise RuntimeError(f"permute(): duplicate dims are not allowed. Got {list(dims)}.")
        order.append(wrapped)
    return Layout(tuple([shape[d] for d in order]), tuple([strides[d] for d in order]), offset)


def movedim_order(ndim: int, source: Sequence[int], destination: Sequence[int]) -> Ints:
    """The permutation that torch.movedim(source, destination) applies."""
    if len(source) != len(destination):
        raise RuntimeError(
            f"movedim: Invalid source or destination dims: source ({list(source)} dims) should contain the "
            f"same number of dims as destination ({list(destination)} dims)"
        )
    src, dst = [wrap_dim(d, ndim) for d in source], [wrap_dim(d, ndim) for d in destination]
    for name, given, dims in (("source", source, src), ("destination", destination, dst)):
        if len(set(dims)) != len(dims):
            raise RuntimeError(f"movedim: repeated dim in `{name}` ({list(given)})")
    if not ndim:
        return ()
    out = [-1] * ndim
    for s, d in zip(src, dst, strict=True):
        out[d] = s
    rest = iter([d for d in range(ndim) if d not in src])
    return tuple([d if d >= 0 else next(rest) for d in out])


def movedim(layout: Layout, source: Sequence[int], destination: Sequence[int]) -> Layout:
    """torch.movedim(source, destination)."""
    return permute(layout, movedim_order(len(layout[0]), source, destination))


def reverse_dims(layout: Layout) -> Layout:
    """Tensor.T."""
    return Layout(layout[0][::-1], layout[1][::-1], layout[2])


def t(layout: Layout) -> Layout:
    """Tensor.t(): RuntimeError beyond two dimensions."""
    if len(layout[0]) > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {len(layout[0])}D")
    return reverse_dims(layout)


def matrix_transpose(layout: Layout, name: str = "mT") -> Layout:
    """Tensor.mT, and the layout of `mH` and `adjoint()`: the name is for the error."""
    shape, strides, offset = layout
    ndim = len(shape)
    if ndim == 1:
        raise RuntimeError(f"tensor.{name} is only supported on matrices or batches of matrices. Got 1-D tensor.")
    if not ndim:
        return layout
    return Layout(_swapped(shape, -1, -2), _swapped(strides, -1, -2), offset)


def hermitian(layout: Layout) -> Layout:
    """The layout of Tensor.H: matrices and scalars only."""
    ndim = len(layout[0])
    if ndim not in (0, 2):
        hint = "" if ndim == 1 else " For batches of matrices, consider using tensor.mH"
        raise RuntimeError(f"tensor.H is only supported on matrices (2-D tensors). Got {ndim}-D tensor.{hint}")
    return reverse_dims(layout)


# ----- parts -----


def select(layout: Layout, dim: int, index: int) -> Layout:
    """Tensor.select(dim, index)."""
    shape, strides, offset = layout
    if not shape:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    dim = wrap_dim(dim, len(shape))
    size = shape[dim]
    if not -size <= index < size:
        raise IndexError(f"select(): index {index} out of range for tensor of size {list(shape)} at dimension {dim}")
    start = index + size if index < 0 else index
    after = dim + 1
    return Layout(shape[:dim] + shape[after:], strides[:dim] + strides[after:], offset + start * strides[dim])


def selected(layout: Layout, dim: int) -> list[Layout]:
    """Tensor.select(dim, index) for each index; ``dim`` is not negative."""
    shape, strides, offset = layout
    inner, steps, step = shape[:dim] + shape[dim + 1 :], strides[:dim] + strides[dim + 1 :], strides[dim]
    return [Layout(inner, steps, offset + i * step) for i in range(shape[dim])]


def clamp_slice(length: int, start: int | None, end: int | None) -> tuple[int, int]:
    """Start and end of `start:end` in a dimension of this length, with 0 <= start <= end <= length."""
    start = 0 if start is None else start + length if start < 0 else start
    end = length if end is None else end + length if end < 0 else end
    start = 0 if start < 0 else length if start > length else start
    return start, start if end < start else length if end > length else end


def slice(layout: Layout, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Layout:
    """Tensor[start:end:step] in one dimension; the step must be positive."""
    shape, strides, offset = layout
    if not shape:
        raise IndexError("slice() cannot be applied to a 0-dim tensor.")
    dim = wrap_dim(dim, len(shape))
    if step <= 0:
        raise RuntimeError(f"slice step must be positive, got {step}")
    first, last = clamp_slice(shape[dim], start, end)
    stride = strides[dim]
    return Layout(
        _replaced(shape, dim, (last - first + step - 1) // step),
        strides if step == 1 else _replaced(strides, dim, stride * step),
        offset + first * stride,
    )


def narrow(layout: Layout, dim: int, start: int, length: int) -> Layout:
    """Tensor.narrow(dim, start, length)."""
    shape, strides, offset = layout
    if not shape:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    if length < 0:
        raise RuntimeError(f"narrow(): length must be non-negative. Got {length}.")
    dim = wrap_dim(dim, len(shape))
    size = shape[dim]
    if not -size <= start <= size:
        raise IndexError(f"start out of range (expected to be in range of [{-size}, {size}], but got {start})")
    first = start + size if start < 0 else start
    if first + length > size:
        raise RuntimeError(f"start ({first}) + length ({length}) exceeds dimension size ({size}).")
    return Layout(_replaced(shape, dim, length), strides, offset + first * strides[dim])


def unfold(layout: Layout, dim: int, size: int, step: int) -> Layout:
    """Tensor.unfold(dim, size, step): windows of `size` every `step`, as a new last dimension."""
    shape, strides, offset = layout
    dim = wrap_dim(dim, len(shape))
    length, stride = (shape[dim], strides[dim]) if shape else (1, 1)
    if size < 0:
        raise RuntimeError(f"size is {size} but must be >= 0")
    if size > length:
        raise RuntimeError(f"maximum size for tensor at dimension {dim} is {length} but size is {size}")
    if step <= 0:
        raise RuntimeError(f"step is {step} but must be > 0")
    if not shape:
        return Layout((size,), (1,), offset)
    windows = (length - size) // step + 1
    return Layout((*_replaced(shape, dim, windows), size), (*_replaced(strides, dim, stride * step), stride), offset)


def diagonal(layout: Layout, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Layout:
    """Tensor.diagonal(offset, dim1, dim2): the two dimensions become one, placed last."""
    shape, strides, start = layout
    first, second = wrap_dim(dim1, len(shape)), wrap_dim(dim2, len(shape))
    if first == second:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    rows, cols = shape[first], shape[second]
    size = min(rows, cols - offset) if offset >= 0 else min(rows + offset, cols)
    if size > 0:
        start += offset * strides[second] if offset >= 0 else -offset * strides[first]
    kept = [d for d in range(len(shape)) if d != first and d != second]
    return Layout(
        (*[shape[d] for d in kept], max(size, 0)),
        (*[strides[d] for d in kept], strides[first] + strides[second]),
        start,
    )


# ----- singleton dimensions -----


def _expand_error(size: Sequence[int], shape: Ints, at: int) -> NoReturn:
    lead = len(size) - len(shape)
    if at < lead:
        raise RuntimeError(
            f"The expanded size of the tensor ({size[at]}) isn't allowed in a leading, non-existing dimension {at}"
        )
    raise RuntimeError(
        f"The expanded size of the tensor ({size[at]}) must match the existing size ({shape[at - lead]}) at "
        f"non-singleton dimension {at}.  Target sizes: {list(size)}.  Tensor sizes: {list(shape)}"
    )


def expand(layout: Layout, size: Sequence[int]) -> Layout:
    """Tensor.expand(size): -1 keeps a size; new dimensions come first; expanded ones have stride 0."""
    shape, strides, offset = layout
    lead = len(size) - len(shape)
    if lead < 0:
        raise RuntimeError(
            f"expand(Tensor{{{list(shape)}}}, size={list(size)}): the number of sizes provided ({len(size)}) "
            f"must be greater or equal to the number of dimensions in the tensor ({len(shape)})"
        )
    out_shape, out_strides = list(size), [0] * len(size)
    step = 1
    for dim in range(len(size) - 1, -1, -1):
        old = dim - lead
        length, stride = (shape[old], strides[old]) if old >= 0 else (1, step if shape else 0)
        target = size[dim]
        if target == -1 and old >= 0:
            out_shape[dim] = target = length
        if target != length:
            if length != 1 or target < 0:
                _expand_error(size, shape, dim)
            stride = 0
        out_strides[dim] = stride
        step = target * stride
    return Layout(tuple(out_shape), tuple(out_strides), offset)


def squeeze(layout: Layout, dim: int | Sequence[int] | None = None) -> Layout:
    """Tensor.squeeze(), squeeze(dim) or squeeze(dims): drop the dimensions of size 1 among those."""
    shape, strides, offset = layout
    ndim = len(shape)
    if isinstance(dim, int):
        dim = wrap_dim(dim, ndim)
        if not shape or shape[dim] != 1:
            return layout
        return Layout(shape[:dim] + shape[dim + 1 :], strides[:dim] + strides[dim + 1 :], offset)
    dims = range(ndim) if dim is None else wrap_dims(dim, ndim)
    kept = [d for d in range(ndim) if shape[d] != 1 or d not in dims]
    return Layout(tuple([shape[d] for d in kept]), tuple([strides[d] for d in kept]), offset)


def unsqueeze(layout: Layout, dim: int) -> Layout:
    """Tensor.unsqueeze(dim)."""
    shape, strides, offset = layout
    ndim = len(shape)
    dim = wrap_dim(dim, ndim + 1)
    stride = shape[dim] * strides[dim] if dim < ndim else 1
    return Layout((*shape[:dim], 1, *shape[dim:]), (*strides[:dim], stride, *strides[dim:]), offset)


# ----- the storage seen otherwise -----


def as_strided(
    layout: Layout,
    size: Sequence[int],
    stride: Sequence[int],
    offset: int | None,
    storage_numel: int,
    itemsize: int = 1,
) -> Layout:
    """Tensor.as_strided(size, stride, offset) over a storage of `storage_numel` elements.

    `offset` None keeps that of `layout`. `itemsize` only serves the message, which counts bytes.
    """
    start = layout[2] if offset is None else offset
    sizes, strides = list(size), list(stride)
    if len(sizes) != len(strides):
        raise RuntimeError(f"mismatch in length of strides and shape: sizes {sizes}, strides {strides}")
    if strides and min(strides) < 0:
        raise RuntimeError(f"as_strided: Negative strides are not supported at the moment, got strides: {strides}")
    if sizes and min(sizes) < 0:
        raise RuntimeError(f"as_strided: sizes must be non-negative, got sizes={sizes} and strides={strides}")
    if start < 0:
        raise RuntimeError(f"Tensor: invalid storage offset {start}")
    if 0 not in sizes:
        needed = start + 1 + sum([(n - 1) * st for n, st in zip(sizes, strides, strict=True)])
        if needed > storage_numel:
            raise RuntimeError(
                f"setStorage: sizes {sizes}, strides {strides}, storage offset {start}, and itemsize "
                f"{itemsize} requiring a storage size of {needed * itemsize} are out of bounds for storage "
                f"of size {storage_numel * itemsize}"
            )
    return Layout(tuple(sizes), tuple(strides), start)


def view_as_real(layout: Layout) -> Layout:
    """torch.view_as_real of a complex layout: a last dimension of size 2; strides count real elements."""
    shape, strides, offset = layout
    return Layout((*shape, 2), (*[2 * s for s in strides], 1), 2 * offset)


def view_as_complex(layout: Layout) -> Layout:
    """torch.view_as_complex of a real layout whose last dimension holds (real, imaginary) pairs."""
    shape, strides, offset = layout
    if not shape:
        raise RuntimeError("Input tensor must have one or more dimensions")
    if shape[-1] != 2:
        raise RuntimeError(f"Tensor must have a last dimension of size 2, got size {shape[-1]}")
    if strides[-1] != 1:
        raise RuntimeError(f"Tensor must have a last dimension with stride 1, got stride {strides[-1]}")
    if any([st % 2 and n != 1 for n, st in zip(shape[:-1], strides[:-1], strict=True)]):
        raise RuntimeError(
            f"Tensor must have a stride divisible by 2 for all but last dimension, got strides {list(strides)}"
        )
    if offset % 2:
        raise RuntimeError(f"Tensor must have a storage_offset divisible by 2, got {offset}")
    return Layout(shape[:-1], tuple([s // 2 for s in strides[:-1]]), offset // 2)


def real(layout: Layout) -> Layout:
    """The real parts of a complex layout."""
    return Layout(layout[0], tuple([2 * s for s in layout[1]]), 2 * layout[2])


def imag(layout: Layout) -> Layout:
    """The imaginary parts of a complex layout."""
    return Layout(layout[0], tuple([2 * s for s in layout[1]]), 2 * layout[2] + 1)


def view_dtype(
    layout: Layout, old_itemsize: int, new_itemsize: int, old_name: str = "it", new_name: str = "that dtype"
) -> Layout:
    """Tensor.view(dtype): the names are those of the dtypes in PyTorch's errors ("Float", "Long")."""
    if old_itemsize == new_itemsize:
        return layout
    shape, strides, offset = layout
    how = f"to view {old_name} as {new_name} (different element sizes)"
    if not shape:
        raise RuntimeError(f"self.dim() cannot be 0 {how}")
    uneven = f"self.stride(-1) must be 1 {how}, but got {strides[-1]}"
    if old_itemsize > new_itemsize:
        if strides[-1] != 1:
            raise RuntimeError(uneven)
        ratio = old_itemsize // new_itemsize
        return Layout((*shape[:-1], shape[-1] * ratio), (*[s * ratio for s in strides[:-1]], 1), offset * ratio)
    ratio = new_itemsize // old_itemsize
    checks = [("size(-1)", shape[-1]), ("storage_offset()", offset)]
    checks += [(f"stride({i})", s) for i, s in enumerate(strides[:-1])]
    for what, value in checks:
        if value % ratio:
            raise RuntimeError(f"self.{what} must be divisible by {ratio} {how}, but got {value}")
        if strides[-1] != 1:
            raise RuntimeError(uneven)
    return Layout((*shape[:-1], shape[-1] // ratio), (*[s // ratio for s in strides[:-1]], 1), offset // ratio)
