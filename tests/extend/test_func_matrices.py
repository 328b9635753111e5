"""Third derivatives of functions of matrices whose singular values repeat, in each nesting of the two modes."""

import itertools

import pytest

import torchlike

F = torchlike.func
FUNCTIONS = {
    "pinv": lambda a: torchlike.linalg.pinv(a)[:, 1],
    "hermitian pinv": lambda a: torchlike.linalg.pinv(a, hermitian=True)[:, 1],
    "inv": lambda a: torchlike.linalg.inv(a)[:, 1],
}


def derived(name, modes):
    def f(x):
        return FUNCTIONS[name](x.unsqueeze(-1) * x + 2 * torchlike.eye(3, dtype=torchlike.float64)).sin().sum()

    for mode in modes:
        f = {"f": F.jacfwd, "r": F.jacrev}[mode](f)
    return f(torchlike.tensor([0.3, 0.5, -0.2], dtype=torchlike.float64))


@pytest.mark.parametrize("modes", ["".join(modes) for modes in itertools.product("fr", repeat=2)] + ["frr", "rff"])
@pytest.mark.parametrize("name", ["pinv", "hermitian pinv"])
def test_inverses(name, modes):
    """The pseudo-inverse of what is regular is the inverse, of all orders."""
    assert torchlike.allclose(derived(name, modes), derived("inv", "r" * len(modes)))


def test_mapped_product_after_mapped_product():
    """A product of what a product gave, transposed: each is computed for each example."""
    a = torchlike.eye(3) * 2 + 0.1
    forward = F.jacfwd(torchlike.linalg.pinv)(a)
    assert torchlike.allclose(forward, F.jacrev(torchlike.linalg.inv)(a), atol=1e-5)
    assert list(forward.shape) == [3, 3, 3, 3]


COLUMN_MAJOR = {
    "cholesky": torchlike.linalg.cholesky,
    "solve_triangular": lambda a: torchlike.linalg.solve_triangular(a, a * a, upper=False),
    "solve": lambda a: torchlike.linalg.solve(a, a * a),
    "qr": lambda a: torchlike.linalg.qr(a)[1],
    "transposed": lambda a: (a * a.t()).t() * a.sin(),
}


@pytest.mark.parametrize("name", COLUMN_MAJOR)
def test_views_of_column_major_tangents(name):
    """A view of a result in another memory order shows the same elements of its tangent at each level."""

    def f(x):
        return COLUMN_MAJOR[name](x.unsqueeze(-1) * x + 2 * torchlike.eye(3, dtype=x.dtype)).select(-1, 0).sin().sum()

    x = torchlike.tensor([0.3, 0.5, -0.2], dtype=torchlike.float64)
    forward = F.jacrev(F.grad(lambda y: F.jacfwd(f)(y)[0]))(x)
    assert torchlike.allclose(forward, F.jacrev(F.jacrev(F.jacrev(f)))(x)[0])
