"""Orthogonal polynomials by their three-term recurrences; they have no derivatives, as in PyTorch."""

import jax.numpy as jnp
from jax import lax

from torchlike._decl.op import op
from torchlike._ops._elementwise import broadcast, demand_wide


def _recurrence(first, following):
    """(x, n) -> p_n(x) from p_0 = 1, p_1 = first(x), p_(k+1) = following(k, x, p_k, p_(k-1)); 0 for n < 0."""

    def evaluate(x, n):
        n = jnp.where(n < 0, lax.ceil(n), lax.floor(n))

        def step(state):
            k, now, before = state
            return k + 1, jnp.where(k < n, following(k, x, now, before), now), jnp.where(k < n, now, before)

        one = jnp.ones_like(x)
        start = (jnp.ones((), x.dtype), first(x), one)
        last = lax.while_loop(lambda state: jnp.any(state[0] < n), step, start)[1]
        return jnp.where(n < 0, 0, jnp.where(n < 1, one, last))

    return evaluate


def _declare(name, evaluate, doc):
    """The overloads of one polynomial: the point and the degree are tensors, or one of them a number."""
    public = "special_" + name
    doc = f"""{doc}

    Shapes broadcast; the degree loses its fraction, and below 0 the result is 0. NotImplementedError for
    complex and 16-bit tensors.
    """

    def kernel(x, n):
        x, n = broadcast(name, x, n)
        demand_wide(name, x)
        return evaluate(x, n)

    kernel.__doc__ = doc
    schemas = "(Tensor x, Tensor n)", ".x_scalar(Scalar x, Tensor n)", ".n_scalar(Tensor x, Scalar n)"
    options = {"dtype": "int_to_float", "policy": "x n", "variants": "out", "vjp": {}, "strides": True}
    return [op(f"{public}{schema} -> Tensor", **options)(kernel) for schema in schemas]


def _chebyshev(first):
    return _recurrence(first, lambda k, x, p, q: 2 * x * p - q)


def _shifted(evaluate):
    return lambda x, n: evaluate(2 * x - 1, n)


_CHEBYSHEV = {
    "t": ("first", _chebyshev(lambda x: x)),
    "u": ("second", _chebyshev(lambda x: 2 * x)),
    "v": ("third", _chebyshev(lambda x: 2 * x - 1)),
    "w": ("fourth", _chebyshev(lambda x: 2 * x + 1)),
}

OVERLOADS = {}
for _letter, (_kind, _evaluate) in _CHEBYSHEV.items():
    _doc = f"The Chebyshev polynomial of the {_kind} kind of degree ``n`` at ``x``."
    _name = f"chebyshev_polynomial_{_letter}"
    OVERLOADS[_name] = _declare(_name, _evaluate, _doc)
    OVERLOADS["shifted_" + _name] = _declare(
        "shifted_" + _name, _shifted(_evaluate), _doc.replace("``x``", "``2 * x - 1``")
    )

_OTHERS = {
    "hermite_polynomial_h": (
        _recurrence(lambda x: 2 * x, lambda k, x, p, q: 2 * x * p - 2 * k * q),
        "The physicist's Hermite polynomial of degree ``n`` at ``x``.",
    ),
    "hermite_polynomial_he": (
        _recurrence(lambda x: x, lambda k, x, p, q: x * p - k * q),
        "The probabilist's Hermite polynomial of degree ``n`` at ``x``.",
    ),
    "laguerre_polynomial_l": (
        _recurrence(lambda x: 1 - x, lambda k, x, p, q: ((2 * k + 1 - x) * p - k * q) / (k + 1)),
        "The Laguerre polynomial of degree ``n`` at ``x``.",
    ),
    "legendre_polynomial_p": (
        _recurrence(lambda x: x, lambda k, x, p, q: ((2 * k + 1) * x * p - k * q) / (k + 1)),
        "The Legendre polynomial of degree ``n`` at ``x``.",
    ),
}
for _name, (_evaluate, _doc) in _OTHERS.items():
    OVERLOADS[_name] = _declare(_name, _evaluate, _doc)
