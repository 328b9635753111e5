"""Conditions on values, for programs in which nobody can look at them."""

import builtins

import jax.numpy as jnp

from torchlike._decl.op import op


def _check(condition, error, message):
    return ~jnp.all(condition), getattr(builtins, error)(message)


@op("_demand(Tensor condition, str error, str message) -> Tensor", variants="", vjp={}, aten=False, check=_check)
def demand(condition, error, message):
    """The bool tensor ``condition``; a call where it does not hold everywhere raises ``error``."""
    return condition
