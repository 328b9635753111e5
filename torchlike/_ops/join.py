"""Joining, repeating, turning."""

import jax.numpy as jnp
import numpy as np

from torchlike._base import result_layouts
from torchlike._base.dims import wrap_dim, wrap_dims
from torchlike._decl.op import op
from torchlike._decl.words import aten
from torchlike._ops import _composed, _composed_sums
from torchlike._ops._elementwise import no_derivative


def _cat_dim(tensors, dim):
    """The dimension to join along; PyTorch's errors of tensors that do not fit."""
    for i, t in enumerate(tensors):
        if not t.ndim:
            raise RuntimeError(f"zero-dimensional tensor (at position {i}) cannot be concatenated")
    kept = [t for t in tensors if t.shape != (0,)] or tensors  # an empty vector joins anything
    first = kept[0]
    if first.shape == (0,):  # all are, and PyTorch asks for no dimension then
        return 0, tensors
    dim = wrap_dim(dim, first.ndim)
    for i, t in enumerate(tensors):
        if t.shape == (0,):
            continue
        if t.ndim != first.ndim:
            raise RuntimeError(f"Tensors must have same number of dimensions: got {first.ndim} and {t.ndim}")
        for d, (n, m) in enumerate(zip(first.shape, t.shape, strict=True)):
            if d != dim and n != m:
                raise RuntimeError(
                    f"Sizes of tensors must match except in dimension {dim}. Expected size {n} but "
                    f"got size {m} for tensor "
                    f"number {i} in the list."
                )
    return dim, kept


def _pieces(grad, tensors_aval, dim):
    """The gradient of each of the joined tensors."""
    at, found = 0, []
    dim %= max(grad.ndim, 1)
    for x in tensors_aval:
        if x.shape == (0,):  # joined with anything
            found.append(aten.new_zeros(grad, x.shape, options=True))
            continue
        length = x.shape[dim]
        found.append(aten["slice.Tensor"](grad, dim, at, at + length))
        at += length
    return (found,)


@op(
    "cat(Tensor[] tensors, int dim=0) -> Tensor",
    out="cast apart promotes",
    dtype="promote",
    variants="",
    vjp={"tensors": _pieces},
    jvp="kernel",
    layout=result_layouts.cat,
    autocast={"cpu": "promote"},
)
def cat(tensors, dim):
    dim, kept = _cat_dim(tensors, dim)
    return jnp.concatenate(kept, axis=dim)


def _slices(grad, tensors_aval, dim):
    """The gradient of each of the stacked tensors."""
    return ([aten["select.int"](grad, dim, i) for i in range(len(tensors_aval))],)


@op("_chunk_cat(Tensor[] tensors, int dim, int num_chunks) -> Tensor", aten=True, variants="function out", out="cast",
    vjp={"tensors": no_derivative("_chunk_cat")})  # fmt: skip
def chunk_cat(tensors, dim, num_chunks):
    """Tensors, filled with zeros along ``dim`` to ``num_chunks`` equal parts, with the first parts of all together.

    The result is [..., num_chunks, size], where ... are the dimensions before ``dim``. It has no derivative.
    """
    if num_chunks < 1:
        raise RuntimeError(f"_chunk_cat expects positive num_chunks, but got {num_chunks}")
    if not tensors:
        raise RuntimeError("_chunk_cat expects a non-empty input tensor list")
    first = tensors[0]
    if dim < 0 and any(t.ndim != first.ndim for t in tensors):
        raise RuntimeError("_chunk_cat expects non-negative dim when input tensors have different ndims")
    dim = wrap_dim(dim, first.ndim)
    for t in tensors:
        if t.dtype != first.dtype:
            raise RuntimeError(f"_chunk_cat expects tensors with the same dtype, but got {first.dtype} and {t.dtype}")
        if not t.size:
            raise RuntimeError(f"_chunk_cat expects non-empty tensor, but got one of shape {list(t.shape)}")
        if t.ndim <= dim or t.shape[:dim] != first.shape[:dim]:
            raise RuntimeError(
                "_chunk_cat expects same sizes of 0,...,dim-1 dimensions for all tensors, but got "
                f"{list(first.shape)} and {list(t.shape)} with dim={dim}"
            )
    return jnp.concatenate([_chunks(t, dim, num_chunks) for t in tensors], dim + 1)


def _chunks(t, dim, n):
    """[..., n, size]: the tensor in ``n`` parts."""
    fill = [(0, 0)] * t.ndim
    fill[dim] = (0, -t.shape[dim] % n)
    return jnp.pad(t, fill).reshape(*t.shape[:dim], n, -1)


@op("stack(Tensor[] tensors, int dim=0) -> Tensor", dtype="promote", variants="", vjp={"tensors": _slices},
    out="cast promotes", jvp="kernel", autocast={"cpu": "promote"}, layout=result_layouts.stack)  # fmt: skip
def stack(tensors, dim):
    first = tensors[0].shape
    dim = wrap_dim(dim, len(first) + 1)
    for i, t in enumerate(tensors):
        if t.shape != first:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(first)} at entry 0 and "
                f"{list(t.shape)} at entry {i}"
            )
    return jnp.stack(tensors, axis=dim)


@op("block_diag(Tensor[] tensors) -> Tensor", dtype="promote", variants="")
def block_diag(tensors):
    for i, t in enumerate(tensors):
        if t.ndim > 2:
            raise RuntimeError(
                f"torch.block_diag: Input tensors must have 2 or fewer dimensions. Input {i} has {t.ndim} dimensions"
            )
    blocks = [jnp.atleast_2d(t) for t in tensors]
    width, left, rows = sum(b.shape[1] for b in blocks), 0, []
    for b in blocks:
        rows.append(jnp.pad(b, ((0, 0), (left, width - left - b.shape[1]))))
        left += b.shape[1]
    return jnp.concatenate(rows, 0)


# -- turning -------------------------------------------------------------------------------------


@op("flip(Tensor self, int[] dims) -> Tensor", layout=result_layouts.like_first,
    backward=lambda grad, dims: aten.flip(grad, [*dims]))  # fmt: skip
def flip(self, dims):
    """``input`` with the order of elements reversed along ``dims``; a copy.

    >>> import torchlike as torch
    >>> torch.flip(torch.tensor([1, 2, 3]), [0])
    tensor([3, 2, 1])
    """
    dims = wrap_dims(dims, self.ndim)
    return jnp.flip(self, dims) if self.ndim and dims else self


@op("roll(Tensor self, SymInt[1] shifts, int[1] dims=[]) -> Tensor", jvp="kernel",
    layout=result_layouts.rolled,
    vjp={"self": lambda grad, shifts, dims: aten.roll(grad, [-s for s in shifts], list(dims))})  # fmt: skip
def roll(self, shifts, dims):
    """``input`` shifted along ``dims``; what leaves at one end comes in at the other.

    Without ``dims`` the tensor is seen as one row.

    >>> import torchlike as torch
    >>> torch.roll(torch.tensor([1, 2, 3]), 1)
    tensor([3, 1, 2])
    """
    if not shifts:
        raise RuntimeError("`shifts` required (roll got none)")
    if not dims and len(shifts) == 1:
        return jnp.roll(self, shifts[0])
    if len(shifts) != len(dims):
        raise RuntimeError(f"shifts and dimensions must align. shifts: {len(shifts)}, dims:{len(dims)}")
    dims = [wrap_dim(d, self.ndim, scalar_ok=False) for d in dims]
    return jnp.roll(self, shifts, dims)


@op("rot90(Tensor self, int k=1, int[] dims=[0,1]) -> Tensor", variants="", layout=result_layouts.rotated,
    backward=lambda grad, k, dims: aten.rot90(grad, -k, [*dims]))  # fmt: skip
def rot90(self, k, dims):
    if len(dims) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    if self.ndim < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {self.ndim}")
    first, second = (wrap_dim(d, self.ndim) for d in dims)
    if first == second:
        raise RuntimeError(f"expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}")
    return jnp.rot90(self, k, (first, second))


# -- repeating -----------------------------------------------------------------------------------


@op("repeat(Tensor self, SymInt[] repeats) -> Tensor", variants="method", saved="repeats self_sym_sizes")
def repeat(self, repeats):
    """The tensor repeated ``repeats[i]`` times along dimension ``i``; extra counts come first.

    >>> import torchlike as torch
    >>> torch.tensor([1, 2]).repeat(2, 1)
    tensor([[1, 2],
            [1, 2]])
    """
    if len(repeats) < self.ndim:
        raise RuntimeError("Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor")
    return _tiled("repeat", self, repeats)


def _tiled(name, x, repeats):
    x = x.reshape((1,) * (len(repeats) - x.ndim) + x.shape)
    shape = [n * m for n, m in zip(x.shape, repeats, strict=True)]
    for n in shape:
        if n < 0:
            raise RuntimeError(f"Trying to create tensor with negative dimension {n}: {shape} (in {name}())")
    return jnp.tile(x, repeats) if repeats else x


def _counts(self, dims):
    return (1,) * (len(self.shape) - len(dims)) + dims


@op("tile(Tensor self, SymInt[] dims) -> Tensor", aten={"out": None, "calls": _composed.tile}, node="RepeatBackward",
    saved={"repeats": lambda self_aval, dims: _counts(self_aval, dims),
           "self_sym_sizes": "self_sym_sizes"})  # fmt: skip
def tile(self, dims):
    """The tensor repeated; missing counts are ones. See ``repeat``."""
    return _tiled("tile", self, _counts(self, dims))


@op("repeat_interleave.self_int(Tensor self, SymInt repeats, int? dim=None) -> Tensor", variants="",
    aten={"out": None, "calls": _composed_sums.repeat_interleave}, node="ViewBackward", saved="")  # fmt: skip
def repeat_interleave(self, repeats, dim):
    if repeats < 0:
        raise RuntimeError(f"Repeats must be non-negative (repeat_interleave got {repeats})")
    if dim is None:
        return jnp.repeat(self.reshape(-1), repeats)
    return jnp.repeat(self, repeats, wrap_dim(dim, self.ndim))


@op("_repeat_index(Tensor repeats, int output_size) -> Tensor", variants="")
def repeat_index(repeats, output_size):
    """Each index as often as ``repeats`` says."""
    return jnp.repeat(jnp.arange(repeats.shape[0]), repeats, total_repeat_length=output_size)


@op("_gathered(Tensor self, Tensor index, int dim) -> Tensor", variants="", node="IndexSelectBackward",
    aten={"calls": lambda aten, self, index, dim: aten.index_select(self, dim, index) if index.ndim == 1
          else aten["index.Tensor"](self, [*[None] * dim, index])},
    saved="dim index self_sym_sizes")  # fmt: skip
def gathered(self, index, dim):
    """``index_select`` of indices that are known to be in range."""
    return jnp.take(self, index, axis=dim, mode="clip")


# -- sequences -----------------------------------------------------------------------------------


@op("vander(Tensor x, int? N=None, bool increasing=False) -> Tensor", aten={"out": None}, variants="function",
    node="CatBackward", saved={"x!": None, "dim": lambda: -1 % 2**64})  # fmt: skip
def vander(x, N, increasing):
    """The matrix of powers of a vector: columns ``x**(N-1), ..., x, 1``, or the other way when ``increasing``."""
    if x.ndim != 1:
        raise RuntimeError(f"x must be a one-dimensional tensor. (vander got {x.ndim} dimensions)")
    N = x.shape[0] if N is None else N
    if N < 0:
        raise RuntimeError(f"N must be non-negative. (vander got {N})")
    x = x if jnp.issubdtype(x.dtype, jnp.inexact) else x.astype(np.int64)
    if not N:
        return jnp.zeros((x.shape[0], 0), x.dtype)
    ones = jnp.ones((x.shape[0], 1), x.dtype)
    powers = jnp.cumprod(jnp.concatenate([ones, jnp.broadcast_to(x[:, None], (x.shape[0], N - 1))], 1), 1)
    return powers if increasing else jnp.flip(powers, 1)


@op("_unravel_index(Tensor indices, int[] shape) -> Tensor", variants="")
def unravel_index(indices, shape):
    out, indices = [], indices.astype(np.int64)
    for n in reversed(shape):
        out.append(indices % n)
        indices = indices // n
    return jnp.stack(out[::-1], -1) if out else jnp.zeros((*indices.shape, 0), indices.dtype)


@op("_isin(Tensor self, Tensor test_elements, bool invert) -> Tensor", dtype="promote", numbers=True, variants="",
    aten={"calls": _composed_sums.isin}, vjp={})  # fmt: skip
def isin(self, test_elements, invert):
    ordered = jnp.sort(test_elements.reshape(-1))
    if not ordered.size:
        return jnp.full(self.shape, invert)
    flat = self.reshape(-1)  # of which jax's functions know no more than 64 dimensions
    place = jnp.clip(jnp.searchsorted(ordered, flat), 0, ordered.size - 1)
    return ((ordered[place] == flat) != invert).reshape(self.shape)
