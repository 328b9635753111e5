"""Samples of gamma and Dirichlet distributions, and how they move with the parameters.

A sample x of a distribution function F(x; a) moves by dx/da = -(dF/da) / (dF/dx): implicit reparametrisation.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from torchlike._base import rng
from torchlike._base.dtypes import from_np
from torchlike._decl import rules
from torchlike._decl.op import op
from torchlike._ops.random import _computed


def _floating(name, x):
    if not jnp.issubdtype(x.dtype, jnp.floating):
        raise NotImplementedError(f"\"{name}\" not implemented for '{from_np(x.dtype).scalar_name}': it takes floats")


def _slope(concentration, sample):
    """How a sample of the standard gamma distribution moves with its concentration."""
    kind = np.float64  # in single precision it is 1e-3 off at 10,000
    return lax.random_gamma_grad(concentration.astype(kind), sample.astype(kind)).astype(concentration.dtype)


@op(
    "_standard_gamma(Tensor self, Tensor words) -> Tensor",
    variants="",
    node="StandardGammaBackward0",
    vjp={"self": lambda grad, self, result: grad * _slope(self, result)},
)
def standard_gamma(self, words):
    _floating("gamma_cpu", self)
    if jnp.asarray(words).dtype != np.uint32:  # samples
        return words.reshape(self.shape).astype(self.dtype)
    kind = _computed(self.dtype)
    drawn = jnp.exp(jax.random.loggamma(rng.key(words), self.astype(kind), dtype=kind))
    return jnp.maximum(drawn, jnp.finfo(kind).tiny).astype(self.dtype)


@op(
    "_standard_gamma_grad(Tensor self, Tensor output) -> Tensor",
    variants="function",
    vjp={
        "self, output": rules.undefined(
            NotImplementedError("the derivative for '_standard_gamma_grad' is not implemented.")
        )
    },
)
def standard_gamma_grad(self, output):
    """How samples ``output`` of standard gamma distributions move with their concentrations ``self``."""
    _floating("_standard_gamma_grad_cpu", self)
    self, output = jnp.broadcast_arrays(self, output)
    return _slope(self, output)


def _simplex_grad(grad, self, result):
    total = jnp.broadcast_to(jnp.sum(self, -1, keepdims=True), self.shape)
    return _dirichlet_slope(result, self, total) * (grad - jnp.sum(result * grad, -1, keepdims=True))


def _inside(shares, kind):
    """Shares of 1 that are neither 0 nor 1, where the density may be infinite."""
    info = jnp.finfo(kind)
    return jnp.clip(shares, info.tiny, 1 - info.epsneg)


@op(
    "_sample_dirichlet(Tensor self, Tensor words) -> Tensor",
    variants="",
    node="DirichletBackward0",
    vjp={"self": _simplex_grad},
)
def sample_dirichlet(self, words):
    _floating("dirichlet", self)
    kind = _computed(self.dtype)
    if jnp.asarray(words).dtype != np.uint32:  # samples of gamma distributions
        parts = words.reshape(self.shape) / jnp.sum(words.reshape(self.shape), -1, keepdims=True)
        return _inside(parts, kind).astype(self.dtype)
    logs = jax.random.loggamma(rng.key(words), self.astype(kind), dtype=kind)
    return _inside(jax.nn.softmax(logs, -1), kind).astype(self.dtype)


_STEP = 0.06
_POINTS = np.arange(-4.2, 5.4, _STEP)
_NODES = np.exp(_POINTS - np.exp(-_POINTS))  # of the integral over (0, inf), doubly exponentially dense at 0
_WEIGHTS = _STEP * _NODES * (1 + np.exp(-_POINTS))


def _dirichlet_slope(x, alpha, total):
    """dx/da over (1 - x), for x of Beta(a, b) at a = ``alpha``, b = ``total - alpha``.

    The integral of f(t) (log t - digamma(a) + digamma(a + b)), from 0 to x or from x to 1, over f(x). The variable is
    -log of t / x or of (1 - t) / (1 - x), in which both ends of the density are smooth.
    """
    shape, dtype = jnp.broadcast_shapes(x.shape, alpha.shape, total.shape), x.dtype
    x, alpha, total = (jnp.broadcast_to(v, shape)[..., None].astype(np.float64) for v in (x, alpha, total))
    beta, mean = total - alpha, alpha / total
    low = x < mean
    x = jnp.clip(x, np.finfo(np.float64).tiny, 1.0)
    rate = jnp.where(low, alpha, beta)
    s = _NODES / rate
    near = jnp.where(low, x, 1 - x)  # the distance to the end that is integrated to
    inner = -jnp.expm1(-s) * near
    t = jnp.where(low, x * jnp.exp(-s), x + inner)
    far = jnp.where(low, (beta - 1) * jnp.log1p(inner / jnp.where(low, 1 - x, 1)), (alpha - 1) * jnp.log1p(inner / x))
    logs = jnp.where(low, jnp.log(x) - s, jnp.log(t))
    density = jnp.exp(far - rate * s) * (logs - lax.digamma(alpha) + lax.digamma(total))
    area = jnp.sum(density * (_WEIGHTS / rate), -1)
    x, low = x[..., 0], low[..., 0]
    return jnp.where(low, -x / jnp.where(low, 1 - x, 1) * area, area).astype(dtype)


@op("_dirichlet_grad(Tensor x, Tensor alpha, Tensor total) -> Tensor", variants="function")
def dirichlet_grad(x, alpha, total):
    """How a share ``x`` of a Dirichlet sample moves with its concentration ``alpha`` of ``total``, over ``1 - x``."""
    _floating("_dirichlet_grad_cpu", x)
    return _dirichlet_slope(x, alpha, total)
