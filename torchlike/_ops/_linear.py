"""Linear functions whose adjoint is known: jax differentiates them by it, and maps both over further axes."""

import jax
from jax.interpreters import ad, batching, mlir

from torchlike._base.jaxprs import Primitive

_linear_p = Primitive("linear_map")


def linear(function, adjoint, x):
    """``function(x)``, a linear function of one array, whose transpose is ``adjoint``."""
    return _linear_p.bind(x, function=function, adjoint=adjoint)


def _run(x, *, function, adjoint):
    return function(x)


def _aval(x, *, function, adjoint):
    out = jax.eval_shape(function, jax.ShapeDtypeStruct(x.shape, x.dtype))
    return jax.core.ShapedArray(out.shape, out.dtype)


def _transpose(grad, x, *, function, adjoint):
    return [linear(adjoint, function, grad)]


def _batch(args, dims, *, function, adjoint):
    (x,), (dim,) = args, dims
    return linear(jax.vmap(function), jax.vmap(adjoint), jax.numpy.moveaxis(x, dim, 0)), 0


_linear_p.def_impl(_run)
_linear_p.def_abstract_eval(_aval)
mlir.register_lowering(_linear_p, mlir.lower_fun(_run, multiple_results=False))
ad.deflinear2(_linear_p, _transpose)
batching.primitive_batchers[_linear_p] = _batch
