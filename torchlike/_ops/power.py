"""Powers: of tensors and numbers, with PyTorch's derivatives at zeros."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_derivatives import SymbolicZero

from torchlike._decl.op import op, pointwise
from torchlike._decl.words import spelled
from torchlike._ops import _complex, _derivatives
from torchlike._ops._complex import inverse, square_root
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
    base, exponent = jnp.broadcast_arrays(base, exponent)
    if not jnp.iscomplexobj(base):
        return lax.pow(base, exponent)
    return _complex.power(base, exponent)


def _power_jvp(primals, tangents):
    (base, exponent), (db, de) = primals, tangents
    result = power(base, exponent)
    terms = []
    if not isinstance(db, SymbolicZero):
        terms.append(_unless_constant(db, exponent, exponent * power(base, exponent - 1)))
    if not isinstance(de, SymbolicZero):  # an exponent that is a number: 0 times the logarithm of -1 is no number
        terms.append(de * jnp.where(_still(base, exponent), 0, result * lax.log(base)))
    return result, sum(terms[1:], terms[0]) if terms else jnp.zeros_like(result)  # 0 + -0. would be 0.


power.defjvp(_power_jvp, symbolic_zeros=True)


def _unless_constant(tangent, exponent, slope):
    """``tangent * slope``, 0 for exponent 0; each factor is masked, so that the transpose is too."""
    constant = exponent == 0
    return jnp.where(constant, 0, tangent) * jnp.where(constant, 0, slope)


def _still(base, exponent):
    """Where the exponent has no influence: at a zero base it keeps at zero."""
    if jnp.iscomplexobj(exponent):
        return (base == 0) & (exponent.imag == 0) & (exponent.real >= 0)
    return (base == 0) & (exponent >= 0)


def grad_to_base(grad, base, exponent, power):
    lower = spelled("pow.Tensor_Tensor" if exponent.ndim else "pow.Tensor_Scalar", power, base, exponent - 1)
    return jnp.where(exponent == 0, 0, grad * conj(exponent * lower))


def grad_to_exponent(grad, base, exponent, result):
    return grad * conj(jnp.where(_still(base, exponent), 0, result * lax.log(base)))


# Exponents that PyTorch computes without pow; x ** 2 is bitwise x * x.
SPECIAL_EXPONENTS = {
    0.5: square_root,
    -0.5: lambda x: inverse(square_root(x)),
    2.0: lambda x: x * x,
    3.0: lambda x: x * x * x,
    -1.0: inverse,
    -2.0: lambda x: inverse(x * x),
    0.0: jnp.ones_like,
    1.0: lambda x: +x,
}


def _special(exponent, dtype):
    """PyTorch's way without pow, or None: there are no roots of float16."""
    return None if dtype == np.float16 and abs(exponent) == 0.5 else SPECIAL_EXPONENTS.get(exponent)


@jax.custom_jvp
def number_power(base, exponent):
    """``base ** exponent`` of a number, whose roots are those of ``SPECIAL_EXPONENTS`` at -inf and -0."""
    if base.dtype == np.float16:
        return power(base, exponent)
    root = square_root(base)
    others = jnp.where(exponent == -0.5, inverse(root), power(base, exponent))
    return jnp.where(exponent == 0.5, root, others)


@number_power.defjvp
def _number_power_jvp(primals, tangents):
    (base, exponent), (db, _) = primals, tangents
    slope = exponent * number_power(base, exponent - 1)
    return number_power(base, exponent), _unless_constant(db, exponent, slope)


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def fixed_power(base, exponent):
    """``base ** exponent`` of a Python number, by ``SPECIAL_EXPONENTS`` in every order of derivative."""
    special = _special(exponent, base.dtype)
    return special(base) if special else power(base, jnp.asarray(exponent, base.dtype))


@fixed_power.defjvp
def _fixed_power_jvp(exponent, primals, tangents):
    (base,), (db,) = primals, tangents
    if exponent == 0:
        return fixed_power(base, exponent), jnp.zeros_like(db)
    slope = jnp.asarray(exponent, base.dtype) * fixed_power(base, exponent - 1)
    return fixed_power(base, exponent), db * slope


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
    aten={"inplace": "Tensor"},
    dtype="promote",
    node="PowBackward1",
    numbers="",
    vjp={
        "self": lambda grad, self, exponent: grad_to_base(grad, self, exponent, power),
        "exponent": lambda grad, self, exponent, result: grad_to_exponent(grad, self, exponent, result),
    },
    backward={"exponent": _derivatives.pow_exponent, "self": _derivatives.pow_base},
    saved="exponent result! self",
    autocast={"cuda": "fp32"},
)(_pow)
pow_scalar = pointwise(
    "pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor",
    aten={"inplace": "Scalar"},
    dtype="promote",
    policy="self exponent",
    held="exponent:halves",
    vjp={
        "self": lambda grad, self, exponent: grad_to_base(grad, self, exponent, number_power),
    },
    autocast={"cuda": "fp32"},
)(_pow)


def _pow_of_number(self, exponent):
    """``self ** exponent``; powers of 1 are 1, complex ones to NaN and infinity, too."""
    result = _pow(self, exponent)
    return jnp.where(self == 1, 1, result) if kind(result) == "c" else result


pow_from = op(
    "pow.Scalar(Scalar self, Tensor exponent) -> Tensor",
    dtype="promote",
    policy="self exponent",
    strides=True,
    variants="function out",
    node="PowBackward2",
    backward={"exponent": _derivatives.pow_of_number},
    vjp={
        "exponent": lambda grad, self, exponent, result: grad_to_exponent(grad, self, exponent, result),
    },
    autocast={"cuda": "fp32"},
)(_pow_of_number)


def _special_grad(grad, self, exponent):
    if exponent == 0:
        return jnp.zeros_like(grad)
    lower = spelled("pow.Tensor_Scalar", fixed_power, self, exponent - 1.0)
    return grad * conj(jnp.asarray(exponent, self.dtype) * lower)


@pointwise(
    "_pow_special(Tensor self, Scalar exponent) -> Tensor",
    aten={
        "calls": lambda aten, self, exponent: aten["pow.Tensor_Scalar"](self, exponent),
        "calls_inplace": lambda aten, self, exponent: aten["pow_.Scalar"](self, exponent),
    },
    node="PowBackward",
    static="exponent",
    variants="inplace",
    out="cast",
    vjp={"self": _special_grad},
    saved="self! exponent",
    autocast={"cuda": "fp32"},
)
def pow_special(self, exponent):
    """``self ** exponent`` for the exponents of ``SPECIAL_EXPONENTS``, compiled for each."""
    special = _special(exponent, self.dtype)
    return widely(special, self) if special else widely(power, self, jnp.asarray(exponent, self.dtype))
