"""Draws from, and new memory for, tensors whose class has a __torch_dispatch__."""

import pytest
from both import agree


def asked(t, f):
    """The calls that reach the class when ``f`` is called with a wrapper of ones, and the type of the result."""
    calls = []

    class Wrapper(t.Tensor):
        @staticmethod
        def __new__(cls, held):
            made = t.Tensor._make_wrapper_subclass(cls, held.shape, dtype=held.dtype)
            made.held = held
            return made

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            kwargs = kwargs or {}
            shown = {name: str(x) for name, x in kwargs.items() if name != "generator"}
            named = t.Tensor, t.UntypedStorage
            calls.append((str(func), [type(x).__name__ if isinstance(x, named) else str(x) for x in args], shown))
            inner = lambda x: x.held if isinstance(x, Wrapper) else x  # noqa: E731
            return func(*t.utils._pytree.tree_map(inner, args), **t.utils._pytree.tree_map(inner, kwargs))

    t.manual_seed(3)
    result = f(t, Wrapper(t.ones(2, 3)))
    values = [round(x, 4) for x in result.flatten().tolist()] if type(result) is t.Tensor else None
    return calls, type(result).__name__, result.requires_grad, values


CALLS = {
    "rand_like": lambda t, x: t.rand_like(x),
    "rand_like, options": lambda t, x: t.rand_like(x, dtype=t.float64, requires_grad=True),
    "rand_like, generator": lambda t, x: t.rand_like(x, generator=t.Generator().manual_seed(5)),
    "randn_like": lambda t, x: t.randn_like(x, memory_format=t.contiguous_format, device="cpu"),
    "randint_like": lambda t, x: t.randint_like(x, 5),
    "randint_like, low": lambda t, x: t.randint_like(x, 2, 9),
    "randint_like, names": lambda t, x: t.randint_like(x, low=1, high=3, dtype=t.int64),
    "randint_like, generator": lambda t, x: t.randint_like(x, 1, 7, generator=t.Generator().manual_seed(5)),
    "poisson": lambda t, x: t.poisson(x),
    "binomial": lambda t, x: t.binomial(x, t.full((2, 3), 0.5)),
    "_standard_gamma": lambda t, x: t._standard_gamma(x),
    "_sample_dirichlet": lambda t, x: t._sample_dirichlet(x),
    "bernoulli": lambda t, x: t.bernoulli(x),
    "normal": lambda t, x: t.normal(x, 1.0),
    "normal of two": lambda t, x: t.normal(x, x),
    "multinomial": lambda t, x: t.multinomial(x, 2),
    "dropout": lambda t, x: t.dropout(x, 0.5, True),
    "nn.functional.dropout": lambda t, x: t.nn.functional.dropout(x),
    "set_": lambda t, x: x.set_(),
    "set_, a tensor": lambda t, x: x.set_(t.zeros(2, 3)),
    "set_, to a wrapper": lambda t, x: t.zeros(2, 3).set_(x),
    "set_, geometry": lambda t, x: x.set_(t.zeros(6), 0, (2, 3), (3, 1)),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_wrapper_is_asked(name):
    agree(lambda t: asked(t, CALLS[name]))
