"""Arithmetic on tensors and numbers."""

import jax.numpy as jnp

from torchlike._decl.op import op, pointwise


@pointwise("add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", dtype="promote", operator="+")
def add(self, other, alpha):
    if self.dtype == bool:
        return jnp.logical_or(self, jnp.logical_and(other, alpha))
    return self + jnp.asarray(alpha).astype(self.dtype) * other


@pointwise("mul.Tensor(Tensor self, Tensor other) -> Tensor", dtype="promote", operator="*")
def mul(self, other):
    return self * other


@op("sum.dim_IntList(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    variants="function method out", node="SumBackward")  # fmt: skip
def sum(self, dim, keepdim, dtype):
    return jnp.sum(self, axis=dim, keepdims=keepdim)


@op("mm(Tensor self, Tensor mat2) -> Tensor")
def mm(self, mat2):
    return self @ mat2


@op("exp(Tensor self) -> Tensor", vjp={"self": lambda grad, result: grad * result}, numbers=True)
def exp(self):
    return jnp.exp(self)
