"""Casts and moves between devices."""

import jax.numpy as jnp

from torchlike._decl.op import op


@op("_to_copy(Tensor self, *, ScalarType? dtype=None) -> Tensor", variants="", node="ToCopyBackward", strides=True)
def to_copy(self, dtype):
    if jnp.iscomplexobj(self) and not dtype.is_complex:
        return (self != 0) if dtype.name == "bool" else jnp.real(self).astype(dtype.np)
    return jnp.copy(self).astype(dtype.np)

