"""Casts."""

import jax.numpy as jnp

from torchlike._base import result_layouts
from torchlike._decl.op import op
from torchlike._ops.shape import cast


@op(
    "_to_copy(Tensor self, *, ScalarType? dtype=None) -> Tensor",
    aten={"own": False, "out": None},
    variants="",
    node="ToCopyBackward",
    strides=True,
    layout=result_layouts.like_first,
)
def to_copy(self, dtype):
    return cast(jnp.copy(self), dtype.np)
