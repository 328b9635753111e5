"""Values without derivative for jax: what ``detach()`` and ``no_grad`` make in a function that jax traces."""

import jax
import jax.numpy as jnp

from torchlike._decl.op import view


def _prepare_constant(t):
    raise NotImplementedError("_constant is a step of views, not an operator of its own")


@jax.custom_jvp
def carried(old, new):
    """``new``, with the derivative that jax has for ``old``: what is changed unseen by autograd keeps its history."""
    return new


carried.defjvp(lambda primals, tangents: (carried(*primals), tangents[0]))


@jax.custom_jvp
def still(x):
    """``x`` without derivative. What ``lax.stop_gradient`` gives may be an array, which is no longer the function's."""
    return x


# Zeros that jax does not know to be zeros: what has them stays a value of the function, which may be changed in place.
still.defjvp(lambda primals, tangents: (still(primals[0]), jnp.where(False, tangents[0], 0)))


@view("_constant(Tensor(a) self, bool unseen) -> Tensor(a)", prepare=_prepare_constant,
      write=lambda value, new, unseen: carried(value, new), variants="")  # fmt: skip
def constant(self, unseen):
    """The same values, constant for jax: what ``detach()`` gives in a function that jax traces."""
    return still(self)
