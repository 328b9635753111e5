"""Joining and repeating."""

import jax.numpy as jnp

from torchlike._base.dims import wrap_dim
from torchlike._decl.op import op


def _cat_dim(tensors, dim):
    """The dimension to join along; PyTorch's errors of tensors that do not fit."""
    if not tensors:
        raise ValueError("torch.cat(): expected a non-empty list of Tensors")
    for i, t in enumerate(tensors):
        if not t.ndim:
            raise RuntimeError(f"zero-dimensional tensor (at position {i}) cannot be concatenated")
    kept = [t for t in tensors if t.shape != (0,)] or tensors  # an empty vector joins anything
    first = kept[0]
    dim = wrap_dim(dim, first.ndim)
    for i, t in enumerate(tensors):
        if t.shape == (0,):
            continue
        if t.ndim != first.ndim:
            raise RuntimeError(f"Tensors must have same number of dimensions: got {first.ndim} and {t.ndim}")
        for d, (n, m) in enumerate(zip(first.shape, t.shape, strict=True)):
            if d != dim and n != m:
                raise RuntimeError(
                    f"Sizes of tensors must match except in dimension {dim}. Expected size {n} but got size {m} for tensor "
                    f"number {i} in the list."
                )
    return dim, kept


@op("cat(Tensor[] tensors, int dim=0) -> Tensor", dtype="promote", variants="")
def cat(tensors, dim):
    dim, kept = _cat_dim(tensors, dim)
    return jnp.concatenate(kept, axis=dim)


@op("stack(Tensor[] tensors, int dim=0) -> Tensor", dtype="promote", variants="")
def stack(tensors, dim):
    if not tensors:
        raise RuntimeError("stack expects a non-empty TensorList")
    first = tensors[0].shape
    dim = wrap_dim(dim, len(first) + 1)
    for i, t in enumerate(tensors):
        if t.shape != first:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(first)} at entry 0 and {list(t.shape)} at entry {i}"
            )
    return jnp.stack(tensors, axis=dim)
