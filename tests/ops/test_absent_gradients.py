"""Gradients that an operator does not give: none at all, or an error once one is wanted."""

import pytest
import torch as torch_oracle

import torchlike as torch

BOTH = pytest.mark.parametrize("lib", [torch, torch_oracle], ids=["own", "oracle"])


def _leaf(lib, *values):
    return lib.tensor(values, dtype=lib.float64, requires_grad=True)


def _in_place(lib, a, x):
    return (a * 1).igamma_(x)


def _in_place_of_a_view(lib, a, x):
    whole = a * 1
    whole[:1].igamma_(x[:1])
    return whole


CALLS = {
    "igamma": lambda lib, a, x: lib.igamma(a, x),
    "igammac": lambda lib, a, x: lib.igammac(a, x),
    "of results": lambda lib, a, x: lib.igamma(a * 1, x * 2),
    "zeta": lambda lib, a, x: lib.special.zeta(a + 1, x),
    "mapped": lambda lib, a, x: lib.func.vmap(lib.igamma)(a, x),
    "in place": _in_place,
    "in place of a view": _in_place_of_a_view,
}


@pytest.mark.parametrize("create", [False, True])
@pytest.mark.parametrize("name", CALLS)
def test_an_input_without_derivative_leaves_the_others_theirs(name, create):
    def gradient(lib):
        a, x = _leaf(lib, 1.0, 2.0), _leaf(lib, 0.5, 0.7)
        return lib.autograd.grad(CALLS[name](lib, a, x).sum(), x, create_graph=create)[0].tolist()

    assert gradient(torch) == pytest.approx(gradient(torch_oracle), rel=1e-10)


@BOTH
@pytest.mark.parametrize("name", CALLS)
def test_a_wanted_gradient_without_derivative_is_an_error(name, lib):
    a, x = _leaf(lib, 1.0, 2.0), _leaf(lib, 0.5, 0.7)
    with pytest.raises(NotImplementedError, match="the derivative for '.*' is not implemented"):
        lib.autograd.grad(CALLS[name](lib, a, x).sum(), a)


@BOTH
def test_a_whole_backward_wants_every_gradient(lib):
    a, x = _leaf(lib, 1.0, 2.0), _leaf(lib, 0.5, 0.7)
    with pytest.raises(NotImplementedError, match="'igamma: input'"):
        lib.igamma(a, x).sum().backward()


COUNTS = {
    "vector_norm": lambda lib, x: lib.linalg.vector_norm(x, 0),
    "norm": lambda lib, x: lib.norm(x, 0),
    "dist": lambda lib, x: lib.dist(x, lib.ones_like(x), 0),
    "pairwise_distance": lambda lib, x: lib.nn.functional.pairwise_distance(lib.ones_like(x), x, 0),
    "pdist": lambda lib, x: lib.nn.functional.pdist(lib.stack([x, x * 2]), 0),
}


@pytest.mark.parametrize("name", COUNTS)
def test_counts_have_no_gradient(name):
    def gradients(lib):
        x = _leaf(lib, 3.0, 0.0, 4.0)
        COUNTS[name](lib, x).sum().backward()
        return None if x.grad is None else x.grad.tolist()

    assert gradients(torch) == gradients(torch_oracle)


def test_counts_under_a_map_and_in_transforms():
    def gradients(lib):
        x = lib.full((3, 2), 0.5, requires_grad=True)
        count = lib.func.vmap(lambda row: lib.linalg.vector_norm(row, 0))(x)
        beside = lib.func.vmap(lambda row: lib.linalg.vector_norm(row, 0) + row.sum())(x)
        return (
            lib.autograd.grad(count.sum(), x, allow_unused=True)[0],
            lib.autograd.grad(beside.sum(), x)[0].tolist(),
            lib.func.grad(lambda t: lib.linalg.vector_norm(t, 0))(lib.ones(3)).tolist(),
        )

    assert gradients(torch) == gradients(torch_oracle)


SEVERAL = {
    "addcdiv": lambda lib, a, b, c: lib.addcdiv(a, b, c, value=2),
    "addcdiv in place": lambda lib, a, b, c: (a * 1).addcdiv_(b, c),
    "addcmul": lambda lib, a, b, c: lib.addcmul(a, b, c),
    "ldexp": lambda lib, a, b, c: lib.ldexp(a, b) + c,
    "lerp": lambda lib, a, b, c: lib.lerp(a, b, c),
}


@pytest.mark.parametrize("wanted", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)])
@pytest.mark.parametrize("name", SEVERAL)
def test_gradients_of_some_of_the_inputs(name, wanted):
    def gradients(lib):
        given = [_leaf(lib, 1.0, 2.0), _leaf(lib, 0.5, 0.7), _leaf(lib, 3.0, 5.0)]
        used = [x if i in wanted else x.detach() for i, x in enumerate(given)]
        return [g.tolist() for g in lib.autograd.grad(SEVERAL[name](lib, *used).sum(), [given[i] for i in wanted])]

    assert gradients(torch) == [pytest.approx(g, rel=1e-12) for g in gradients(torch_oracle)]
