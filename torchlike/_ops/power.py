"""Powers: of tensors and numbers, with PyTorch's derivatives at zeros."""

import jax
import jax.numpy as jnp
from jax import lax

from torchlike._decl.op import op, pointwise
from torchlike._ops._elementwise import broadcast, conj, demand, kind, widely


def _integer_power(base, exponent):
    """Integer powers that wrap; negative exponents give what truncation leaves: 0, 1 or -1."""

    def step(state):
        result, base, left = state
        return (
            jnp.where(left & 1 == 1, result * base, result),
            base * base,
            lax.shift_right_logical(left, jnp.ones_like(left)),
        )

    start = (jnp.ones_like(base), base, jnp.maximum(exponent, 0))
    result = lax.while_loop(lambda s: jnp.any(s[2] != 0), step, start)[0]
    odd = exponent & 1 == 1
    small = (
        jnp.where(base == 1, 1, jnp.where(base == -1, jnp.where(odd, -1, 1), 0))
        if base.dtype.kind == "i"
        else jnp.where(base == 1, 1, 0)
    )
    return jnp.where(exponent < 0, small.astype(base.dtype), result)


@jax.custom_jvp
def power(base, exponent):
    """``base ** exponent`` whose derivatives are PyTorch's at zeros, in every order."""
    return lax.pow(*jnp.broadcast_arrays(base, exponent))


@power.defjvp
def _power_jvp(primals, tangents):
    (base, exponent), (db, de) = primals, tangents
    result = power(base, exponent)
    return result, db * power_wrt_base(base, exponent) + de * power_wrt_exponent(base, exponent, result)


def power_wrt_base(base, exponent):
    return jnp.where(exponent == 0, 0, exponent * power(base, exponent - 1))


def power_wrt_exponent(base, exponent, result):
    still = (base == 0) & ((exponent.real if jnp.iscomplexobj(exponent) else exponent) >= 0)
    return jnp.where(still, 0, result * lax.log(jnp.where(still, 1, base)))


# Exponents that PyTorch computes without pow; x ** 2 is bitwise x * x.
SPECIAL_EXPONENTS = {
    0.5: lax.sqrt,
    -0.5: lambda x: 1 / lax.sqrt(x),
    2.0: lambda x: x * x,
    3.0: lambda x: x * x * x,
    -1.0: lambda x: 1 / x,
    -2.0: lambda x: 1 / (x * x),
    0.0: jnp.ones_like,
    1.0: lambda x: +x,
}


def _pow(self, exponent):
    """Elementwise ``input ** exponent``; either may be a number.

    RuntimeError for an integer tensor and a negative integer exponent given as a number.

    >>> import torchlike as torch
    >>> torch.pow(torch.tensor([1.0, 2.0, 3.0]), 2)
    tensor([1., 4., 9.])
    """
    self, exponent = broadcast("pow", self, exponent)
    demand("pow", self, "ifc")
    if kind(self) == "i":
        return _integer_power(self, exponent)
    return widely(power, self, exponent)


pow_tensor = pointwise(
    "pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor",
    dtype="promote",
    node="PowBackward1",
    numbers="",
    vjp={
        "self": lambda grad, self, exponent: grad * conj(power_wrt_base(self, exponent)),
        "exponent": lambda grad, self, exponent, result: (
            grad * conj(power_wrt_exponent(self, exponent, result))
        ),
    },
)(_pow)
pow_scalar = pointwise(
    "pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor",
    dtype="promote",
    policy="self exponent",
    vjp={
        "self": lambda grad, self, exponent: grad * conj(power_wrt_base(self, exponent)),
    },
)(_pow)
pow_from = op(
    "pow.Scalar(Scalar self, Tensor exponent) -> Tensor",
    dtype="promote",
    policy="self exponent",
    strides=True,
    variants="function out",
    node="PowBackward2",
    vjp={
        "exponent": lambda grad, self, exponent, result: (
            grad * conj(power_wrt_exponent(self, exponent, result))
        ),
    },
)(_pow)


def _special_grad(grad, self, exponent):
    if exponent == 0:
        return jnp.zeros_like(grad)
    less = SPECIAL_EXPONENTS.get(exponent - 1)
    e = jnp.asarray(exponent, self.dtype)
    return grad * conj(e * (less(self) if less else power(self, e - 1)))


@pointwise(
    "_pow_special(Tensor self, float exponent) -> Tensor",
    node="PowBackward",
    static="exponent",
    variants="inplace",
    vjp={"self": _special_grad},
)
def pow_special(self, exponent):
    """``self ** exponent`` for the exponents of ``SPECIAL_EXPONENTS``, compiled for each."""
    return widely(SPECIAL_EXPONENTS[exponent], self)
