"""Copies, and operators that join, cut and rearrange."""

import jax.numpy as jnp
from jax import lax

from torchlike._decl.op import op


@op("split.Tensor(Tensor(a) self, int[] split_size, int dim=0) -> Tensor(a)[]", variants="", node="SplitBackward")
def split(self, split_size, dim):
    return _cut(self, split_size, dim)


@op("split_with_sizes(Tensor(a) self, int[] split_sizes, int dim=0) -> Tensor(a)[]", variants="")
def split_with_sizes(self, split_sizes, dim):
    return _cut(self, split_sizes, dim)


def _cut(x, sizes, dim):
    out, start = [], 0
    for n in sizes:
        out.append(lax.slice_in_dim(x, start, start + n, axis=dim))
        start += n
    return tuple(out)


@op("unbind.int(Tensor(a) self, int dim=0) -> Tensor(a)[]", variants="")
def unbind(self, dim):
    return tuple(lax.index_in_dim(self, i, dim, keepdims=False) for i in range(self.shape[dim]))


@op("clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor", variants="", strides=True)
def clone(self, memory_format):
    return jnp.copy(self)


@op("copy(Tensor self, Tensor src, bool non_blocking=False) -> Tensor", variants="inplace", node="CopyBackwards",
    numbers=True)  # fmt: skip
def copy(self, src, non_blocking):
    return jnp.broadcast_to(src, self.shape).astype(self.dtype)
