"""torch.func in and around torch.compile: one program, with the numbers of the eager call."""

from __future__ import annotations

import pytest

import torchlike as torch
from torchlike import func as F

X = torch.tensor([0.5, 1.0, 1.5], dtype=torch.float64)
XS = torch.arange(6.0, dtype=torch.float64).reshape(2, 3) / 4 + 0.1


def wave(v):
    return (v.sin() * v.cos()).sum()


def mixed(v):
    y = v.clone()
    y.sin_()
    y[0] = y[1] * 2
    y[1:].mul_(v[:2])
    return y.sum()


PROGRAMS = {
    "grad": (lambda f: F.grad(f), X),
    "grad of grad": (lambda f: F.grad(lambda a: F.grad(f)(a).pow(2).sum()), X),
    "hessian": (lambda f: F.hessian(f), X),
    "vjp": (lambda f: lambda v: F.vjp(f, v)[1](v[0])[0], X),
    "vmap of grad": (lambda f: torch.vmap(F.grad(f)), XS),
    "chunks": (lambda f: F.jacrev(F.grad(f), chunk_size=2), X),
    "linearize": (lambda f: lambda v: F.linearize(f, v)[1](v * 2), X),
}


@pytest.mark.once
@pytest.mark.parametrize("f", [wave, mixed])
@pytest.mark.parametrize("name", PROGRAMS)
def test_one_program(name, f):
    make, x = PROGRAMS[name]
    transformed = make(f)
    compiled = torch.compile(transformed, fullgraph=True)
    for at in (x, x + 1, x - 1):
        torch.testing.assert_close(compiled(at), transformed(at))


def test_a_compiled_function_can_be_transformed():
    compiled = torch.compile(wave)
    torch.testing.assert_close(F.grad(compiled)(X), F.grad(wave)(X))
    torch.testing.assert_close(torch.vmap(F.grad(compiled))(XS), torch.vmap(F.grad(wave))(XS))


def test_the_tape_around_a_program():
    o = X.clone().requires_grad_()

    def closes(v):
        return F.grad(lambda u: (u * u * o).sum())(v)

    for f, x in ((F.grad(wave), o), (closes, X)):
        expected = torch.autograd.grad(f(x).sum(), o)
        assert torch.equal(torch.autograd.grad(torch.compile(f, fullgraph=True)(x).sum(), o)[0], expected[0])


def test_containers_that_a_transform_makes():
    def loss(p, x):
        return (p["w"] * x).tanh().sum() + p["b"]["c"]

    params = {"w": X, "b": {"c": X.sum()}}
    each = torch.vmap(F.grad(loss), in_dims=(None, 0))
    expected = each(params, XS)
    for _ in range(2):
        got = torch.compile(each, fullgraph=True)(params, XS)
        torch.testing.assert_close(got, expected)
