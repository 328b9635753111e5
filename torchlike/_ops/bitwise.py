"""Bits of integers: logic, shifts, divisors."""

import jax.numpy as jnp
import numpy as np
from jax import lax

from torchlike._decl import rules
from torchlike._decl.op import pointwise
from torchlike._ops._elementwise import broadcast, demand


def _bits(name, f, sign, doc, kinds="bi"):
    def kernel(self, other):
        if self.weak_type and other.weak_type:
            raise TypeError(f"{name}() takes a tensor and a tensor or number, not two numbers; use torch.tensor()")
        bound = {"self": self, "other": other}
        rules.promote(bound, ("self", "other"), dict(bound))
        self, other = broadcast(name, *bound.values())
        demand(name, self, kinds)
        return f(self, other)

    kernel.__doc__ = doc
    schema = f"{name}.Tensor(Tensor self, Tensor other) -> Tensor"
    return pointwise(schema, vjp={}, operator=sign)(kernel)


bitwise_and = _bits("bitwise_and", lax.bitwise_and, "&", "Bitwise and of integers or bools.")
bitwise_or = _bits("bitwise_or", lax.bitwise_or, "|", "Bitwise or of integers or bools.")
bitwise_xor = _bits("bitwise_xor", lax.bitwise_xor, "^", "Bitwise exclusive or of integers or bools.")


@pointwise("bitwise_not(Tensor self) -> Tensor", out="exact", vjp={}, numbers="")
def bitwise_not(self):
    """Bitwise complement of integers, logical complement of bools."""
    demand("bitwise_not", self, "bi")
    return ~self


def _too_far(x, shift):
    return (shift < 0) | (shift >= x.dtype.itemsize * 8)


def _left(x, shift):
    far = _too_far(x, shift)
    return jnp.where(far, 0, lax.shift_left(x, jnp.where(far, 0, shift)))


def _right(x, shift):
    far = _too_far(x, shift)
    most = x.dtype.itemsize * 8 - 1
    by = jnp.where(far, most, shift)
    if np.issubdtype(x.dtype, np.unsignedinteger):
        return jnp.where(far, 0, lax.shift_right_logical(x, by))
    return lax.shift_right_arithmetic(x, by)


bitwise_left_shift = _bits("bitwise_left_shift", _left, "<<", "Bits moved left; 0 if moved by the width or more.", "i")
bitwise_right_shift = _bits("bitwise_right_shift", _right, ">>", "Bits moved right, the sign bit repeated.", "i")


def greatest_divisor(a, b):
    def step(pair):
        a, b = pair
        safe = jnp.where(b == 0, 1, b)
        return jnp.where(b == 0, a, b), jnp.where(b == 0, 0, lax.rem(a, safe))

    return lax.while_loop(lambda pair: jnp.any(pair[1] != 0), step, (jnp.abs(a), jnp.abs(b)))[0]


def _least_multiple(a, b):
    dtype = a.dtype
    if dtype.itemsize < 4:  # as C does, which wraps the absolute value
        a, b = a.astype(np.int32), b.astype(np.int32)
    divisor = greatest_divisor(a, b)
    return jnp.where(divisor == 0, 0, jnp.abs(lax.div(a, jnp.where(divisor == 0, 1, divisor)) * b)).astype(dtype)


@pointwise("gcd(Tensor self, Tensor other) -> Tensor", dtype="promote", vjp={}, numbers="")
def gcd(self, other):
    """The greatest common divisor of integers, not negative; gcd(0, 0) = 0."""
    demand("gcd", self, "i")
    return greatest_divisor(*broadcast("gcd", self, other))


@pointwise("lcm(Tensor self, Tensor other) -> Tensor", dtype="promote", vjp={}, numbers="")
def lcm(self, other):
    """The least common multiple of integers, not negative."""
    demand("lcm", self, "i")
    return _least_multiple(*broadcast("lcm", self, other))
