"""Linear algebra: products of Householder reflections, as ``torch.geqrf`` gives them."""

import jax.numpy as jnp

from torchlike._base.dtypes import from_np
from torchlike._decl.op import op
from torchlike._ops._square import adjoint, floating, matrices, mm, same_dtype


def _reflected(a, tau, other, adjoined):
    """``Q @ other``, or with the adjoint of Q: the product of the reflections ``1 - tau v v^H`` of the columns of a."""
    order = range(tau.shape[-1])
    for i in order if adjoined else reversed(order):
        rows = jnp.arange(a.shape[-2])
        v = jnp.where(rows > i, a[..., :, i], 0) + (rows == i).astype(a.dtype)
        scale = jnp.conj(tau[..., i]) if adjoined else tau[..., i]
        other = other - scale[..., None, None] * v[..., :, None] * mm(jnp.conj(v)[..., None, :], other)
    return other


@op(
    "linalg_householder_product(Tensor input, Tensor tau) -> Tensor",
    out="cast safely",
    variants="out",
    node="LinalgHouseholderProductBackward",
    saved="input result! tau",
    autocast={"cpu": "fp32"},
    columns=(0,),
)
def householder_product(input, tau):
    """The first columns of a product of Householder reflections, from their vectors and scales.

    >>> import torchlike as torch
    >>> torch.linalg.householder_product(torch.eye(2), torch.zeros(2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    name = "linalg.householder_product"
    if tau.dtype != input.dtype:
        raise RuntimeError(
            f"torch.{name}: tau dtype {from_np(tau.dtype).scalar_name} does not match input dtype "
            f"{from_np(input.dtype).scalar_name}"
        )
    matrices("torch." + name, input, "input")
    if input.shape[-2] < input.shape[-1]:
        raise RuntimeError(f"torch.{name}: input.shape[-2] must be greater than or equal to input.shape[-1]")
    if tau.shape[-1] > input.shape[-1]:
        raise RuntimeError(f"torch.{name}: input.shape[-1] must be greater than or equal to tau.shape[-1]")
    if tau.ndim != input.ndim - 1:
        raise RuntimeError(
            f"torch.{name}: Expected tau to have one dimension less than input, but got tau.ndim equal to {tau.ndim} "
            f"and input.ndim is equal to {input.ndim}"
        )
    if tau.shape[:-1] != input.shape[:-2]:
        raise RuntimeError(
            f"torch.{name}: Expected batch dimensions of tau to be equal to input.shape[:-2], got {tau.shape}"
        )
    floating(name, input)
    out = jnp.broadcast_to(jnp.eye(*input.shape[-2:], dtype=input.dtype), input.shape)
    return _reflected(input, tau, out, False)


def _demand_reflections(input, tau, other, left):
    name = "torch.ormqr"
    for what, x, least in (("input", input, 2), ("other", other, 2)):
        if x.ndim < least:
            raise RuntimeError(f"{name}: {what} must have at least {least} dimensions, got {x.ndim}.")
    side = "-2" if left else "-1"
    if other.shape[-2 if left else -1] != input.shape[-2]:
        raise RuntimeError(
            f"{name}: other.shape[{side}] must be equal to input.shape[-2], got {list(other.shape)} and "
            f"{list(input.shape)}"
        )
    if tau.shape[-1] > input.shape[-1] or tau.shape[-1] != min(other.shape[-2 if left else -1], input.shape[-1]):
        raise RuntimeError(
            f"{name}: tau.shape[-1] must be equal to min(other.shape[{side}], input.shape[-1]), got {list(tau.shape)}"
        )
    for what, x, lead in (("tau", tau, tau.shape[:-1]), ("other", other, other.shape[:-2])):
        if x.ndim != input.ndim - (what == "tau"):
            raise RuntimeError(
                f"{name}: Expected {what} to have "
                + ("one dimension less than" if what == "tau" else "the same number of dimensions as")
                + f" input, but got {what}.ndim equal to {x.ndim} and input.ndim is equal to {input.ndim}"
            )
        if lead != input.shape[:-2]:
            raise RuntimeError(
                f"{name}: batch dimensions of {what} should be equal to input.shape[:-2], which is "
                f"{list(input.shape[:-2])}, but got {list(lead)}"
            )
    same_dtype(name, input, tau, "input", "tau")
    same_dtype(name, input, other, "input", "other")
    if input.dtype.itemsize < 4 or not jnp.issubdtype(input.dtype, jnp.inexact):
        raise NotImplementedError(f"\"ormqr_cpu\" not implemented for '{from_np(input.dtype).scalar_name}'")


@op(
    "ormqr(Tensor self, Tensor input2, Tensor input3, bool left=True, bool transpose=False) -> Tensor",
    variants="function method out",
    saved="self input2 input3 left transpose result!",
    autocast={"cpu": "fp32"},
    columns=(0,),
)
def ormqr(self, input2, input3, left, transpose):
    """The product of the orthogonal matrix of a QR factorization and a matrix.

    ``self`` and ``input2`` are what ``torch.geqrf`` gives: the m by m matrix Q is the product of their reflections. The
    result is ``Q @ input3``, with ``left=False`` ``input3 @ Q``; ``transpose``: the adjoint of Q in its place.

    >>> import torchlike as torch
    >>> a, tau = torch.geqrf(torch.tensor([[3., 1.], [4., 2.]]))
    >>> torch.ormqr(a, tau, torch.tensor([[3.], [4.]]), transpose=True).abs().round(decimals=3)
    tensor([[5.],
            [0.]])
    """
    _demand_reflections(self, input2, input3, left)
    if left:
        return _reflected(self, input2, input3, transpose)
    return adjoint(_reflected(self, input2, adjoint(input3), not transpose))
