"""torch._vmap_internals._vmap: flat results, which may be None."""

import importlib

import pytest
from both import agree, agree_error


def mapped(t, *args, **options):
    return importlib.import_module(t.__name__ + "._vmap_internals")._vmap(*args, **options)


CASES = {
    "one": lambda t, x: mapped(t, lambda x: x * 2)(x),
    "axes": lambda t, x: mapped(t, lambda x, y: (x, y.sum()), (1, None), (1, 0))(x, x),
    "a number": lambda t, x: mapped(t, lambda x, y: x * y, (0, None))(x, 3),
    "none": lambda t, x: mapped(t, lambda x: (x, None), 0, (1, 0), True)(x),
    "nested": lambda t, x: mapped(t, lambda x: mapped(t, lambda y: y * y)(x))(x),
    "a tuple": lambda t, x: mapped(t, lambda pair: pair[0] + pair[1])((x, x)),
}
REFUSED = {
    "none": lambda t, x: mapped(t, lambda x: None)(x),
    "none in a tuple": lambda t, x: mapped(t, lambda x: (x, None))(x),
    "a list": lambda t, x: mapped(t, lambda x: [x])(x),
    "a float": lambda t, x: mapped(t, lambda x: 3.0)(x),
    "out_dims": lambda t, x: mapped(t, lambda x: (x, x), 0, (0,))(x),
    "no out_dims": lambda t, x: mapped(t, lambda x: (x, x), 0, (0, None))(x),
    "no inputs": lambda t, x: mapped(t, lambda: 3)(),
}


@pytest.mark.parametrize("name", CASES)
def test_results(name):
    agree(lambda t: CASES[name](t, t.arange(6.0).view(2, 3)))


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name):
    def message(t):
        with pytest.raises(ValueError) as found:
            REFUSED[name](t, t.ones(2, 3))
        return str(found.value)

    agree(message)


def test_batches_of_gradients():
    def f(t):
        x = t.arange(2.0, requires_grad=True)
        y = x * x
        return mapped(t, lambda g: t.autograd.grad(y, [x], g, retain_graph=True))(t.eye(2))

    agree(f)


@pytest.mark.parametrize("f", [lambda t, x: t.rand_like(x), lambda t, x: t.nn.functional.dropout(x)])
def test_random_numbers_are_refused(f):
    agree_error(lambda t: mapped(t, lambda x: f(t, x))(t.ones(2, 3)), "We do not yet support calling random operations")


def test_random_numbers_in_batches_of_gradients():
    def f(t):
        x = t.ones(2, requires_grad=True)
        y = x.clone()
        y.register_hook(lambda g: g * t.rand_like(g))
        t.autograd.grad(y, x, t.eye(2), is_grads_batched=True)

    agree_error(f, "We do not yet support calling random operations")


@pytest.mark.parametrize("room", [4, 5])
def test_a_mapped_tangent_is_kept(room):
    def f(t):
        forward, kept = t.autograd.forward_ad, []

        def tangent(x):
            with forward.dual_level():
                dual = forward.make_dual(t.ones(room)[:4].detach(), x)
                kept.append(forward.unpack_dual(dual).tangent is x)
                return forward.unpack_dual(dual.as_strided((2, 2), (2, 1), 0) * 2).tangent

        return mapped(t, tangent)(t.arange(12.0).reshape(3, 4)), kept

    agree(f)
