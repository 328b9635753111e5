"""Operators that PyTorch has over lists of tensors alone, each as the operator of one tensor."""

import jax.numpy as jnp
from jax import lax

from torchlike._base.result_layouts import elementwise
from torchlike._decl.op import op
from torchlike._ops._axes import cast
from torchlike._ops._elementwise import broadcast, demand, no_derivative
from torchlike._ops.binary import _demand_order


def _extreme_number(name, f, wins):
    """maximum or minimum of a tensor and a number: equal ones share the gradient."""

    def kernel(self, other):
        _demand_order(name, self)
        return f(*broadcast(name, self, other))

    def share(grad, self, other):
        other = other.astype(self.dtype)
        return jnp.where(self == other, grad / 2, jnp.where(wins(self, other), grad, 0))

    return op(
        f"_{name}_number(Tensor self, Scalar other) -> Tensor",
        dtype="promote",
        policy="self other",
        held="other",
        vjp={"self": share},
        variants="",
        node=f"Foreach{name.capitalize()}Backward",
        layout=elementwise,
    )(kernel)


maximum_number = _extreme_number("maximum", lax.max, lambda a, b: a > b)
minimum_number = _extreme_number("minimum", lax.min, lambda a, b: a < b)


@op("_powsum(Tensor self, Scalar ord=2, ScalarType? dtype=None) -> Tensor", static="ord", variants="",
    vjp={"self": no_derivative("_foreach_powsum")})  # fmt: skip
def powsum(self, ord, dtype):
    """The sum of the ``ord``-th powers of all magnitudes; real."""
    demand("powsum_cpu", self, "fc")
    x = jnp.abs(cast(self, dtype))
    wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    return jnp.sum(wide ** float(ord)).astype(x.dtype)
