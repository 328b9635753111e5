"""Copies, and operators that join, cut and rearrange."""

import jax.numpy as jnp
from jax import lax

from torchlike._base import float8
from torchlike._decl import rules
from torchlike._decl.op import op
from torchlike._decl.words import aten


@op("split.Tensor(Tensor(a) self, int[] split_size, int dim=0) -> Tensor(a)[]",
    aten={
    "schema": "(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]",
    "calls": lambda aten, self, sizes, dim: aten["split.Tensor"](self, sizes[0] if sizes else 0, dim)},
    variants="", node="SplitBackward",
    saved={"dim": "dim", "self_sym_sizes": "self_sym_sizes",
           "split_size": lambda split_size: split_size[0]},
    vjp={"self": lambda grads, dim: aten.cat(list(grads), dim)}, jvp="kernel")  # fmt: skip
def split(self, split_size, dim):
    return _cut(self, split_size, dim)


@op("split_with_sizes(Tensor(a -> *) self, SymInt[] split_sizes, int dim=0) -> Tensor(a)[]", variants="",
    saved="dim self_sym_sizes split_sizes",
    vjp={"self": lambda grads, dim: aten.cat(list(grads), dim)}, jvp="kernel")  # fmt: skip
def split_with_sizes(self, split_sizes, dim):
    return _cut(self, split_sizes, dim)


def _cut(x, sizes, dim):
    out, start = [], 0
    for n in sizes:
        out.append(lax.slice_in_dim(x, start, start + n, axis=dim))
        start += n
    return tuple(out)


@op("unbind.int(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]", variants="",
    vjp={"self": lambda grads, dim: aten.stack(list(grads), dim)}, jvp="kernel")  # fmt: skip
def unbind(self, dim):
    return tuple(lax.index_in_dim(self, i, dim, keepdims=False) for i in range(self.shape[dim]))


@op("clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor", variants="", strides=True, saved="")
def clone(self, memory_format):
    return jnp.copy(self)


def cast(x, dtype):
    """``x`` as a numpy dtype, as PyTorch casts on a CPU: integers wrap around, imaginary parts are dropped."""
    dtype = jnp.dtype(dtype)
    if dtype.kind == "b":
        return x != 0
    if jnp.iscomplexobj(x) and not jnp.issubdtype(dtype, jnp.complexfloating):
        x = jnp.real(x)
    if jnp.issubdtype(dtype, jnp.integer) and jnp.issubdtype(x.dtype, jnp.floating):
        return _whole(x, dtype).astype(dtype)
    return float8.converted(rules.unknown_truth(x, dtype), dtype, jnp)


def _whole(x, dtype):
    """Floating-point numbers as int32 or int64; what does not fit, NaN too, is the smallest integer."""
    wide = jnp.dtype(jnp.int64 if dtype.itemsize == 8 or dtype == jnp.uint32 else jnp.int32)
    low = -(2.0 ** (8 * wide.itemsize - 1))
    if jnp.finfo(x.dtype).max < -low:
        x = x.astype(jnp.float32)
    return jnp.where((x >= low) & (x < -low), x, low).astype(wide)


def onto(x, like):
    """``x`` broadcast and cast to what it is written over, with PyTorch's errors."""
    target = like.shape
    if x.shape != target:
        extra = x.ndim - len(target)
        if extra > 0 and all(n == 1 for n in x.shape[:extra]):
            x = x.reshape(x.shape[extra:])
        if x.ndim > len(target):
            raise RuntimeError(f"output with shape {list(target)} doesn't match the broadcast shape {list(x.shape)}")
        for dim in range(-1, -x.ndim - 1, -1):
            if x.shape[dim] not in (1, target[dim]):
                raise RuntimeError(
                    f"The expanded size of the tensor ({target[dim]}) must match the existing size "
                    f"({x.shape[dim]}) at "
                    f"non-singleton dimension {len(target) + dim}.  Target sizes: {list(target)}.  "
                    f"Tensor sizes: {list(x.shape)}"
                )
        x = jnp.broadcast_to(x, target)
    return cast(x, like.dtype)


@op("copy(Tensor self, Tensor src, bool non_blocking=False) -> Tensor", variants="inplace", node="CopyBackwards",
    numbers=True, saved="")  # fmt: skip
def copy(self, src, non_blocking):
    return onto(src, self)


@op("fill.Scalar(Tensor self, Scalar value) -> Tensor", vjp={"self": lambda grad: jnp.zeros_like(grad)},
    variants="inplace", strides=True, node="FillBackward FillBackward2")  # fmt: skip
def fill_number(self, value):
    return jnp.broadcast_to(cast(jnp.asarray(value), self.dtype), self.shape)


@op("fill.Tensor(Tensor self, Tensor value) -> Tensor", variants="inplace", out="after", strides=True, vjp={
        "self": lambda grad: jnp.zeros_like(grad), "value": lambda grad: jnp.sum(grad)},
    node="FillBackward1 FillBackward3")  # fmt: skip
def fill_tensor(self, value):
    if value.ndim:
        raise RuntimeError(f"fill_ only supports 0-dimension value tensor but got tensor with {value.ndim} dimensions.")
    return jnp.broadcast_to(cast(value, self.dtype), self.shape)


fill_number.inplace.node, fill_tensor.inplace.node = "FillBackward2", "FillBackward3"


@op("zero(Tensor self) -> Tensor", variants="inplace", vjp={"self": lambda grad: jnp.zeros_like(grad)})
def zero(self):
    return jnp.zeros_like(self)
