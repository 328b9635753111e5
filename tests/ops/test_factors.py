"""LDL factorizations, products of reflections, and ``torch.gradient``, beside PyTorch's."""

import math

import numpy as np
import pytest
from both import agree
from oracle import check, check_error

rng = np.random.RandomState(7)
A, TALL = rng.randn(5, 5), rng.randn(5, 3)
Z = A + 1j * rng.randn(5, 5)
SYMMETRIC = {
    "real": A + A.T,
    "hollow": (A + A.T) * (1 - np.eye(5)),  # with blocks of two
    "complex": (Z + Z.T) * (1 - np.eye(5)),
    "hermitian": Z + Z.conj().T,
    "whole": np.round((A + A.T) * (1 - np.eye(5)) * 2),  # of columns with equal numbers
    "batch": np.stack([A + A.T, A.T @ A]),
    "one": np.array([[-2.0]]),
    "zero": np.zeros((3, 3)),
    "empty": np.zeros((2, 0, 0)),
}


@pytest.mark.parametrize("kind", SYMMETRIC)
def test_ldl(kind):
    a, hermitian = SYMMETRIC[kind], kind == "hermitian"
    factor = lambda t, x: t.linalg.ldl_factor_ex(x, hermitian=hermitian)  # noqa: E731
    check(lambda t, x: (lambda r: (r.LD, r.pivots, r.info))(factor(t, x.detach())), a, grad=False, stride=False)
    if kind in ("zero", "empty"):
        return
    b = np.broadcast_to(a[..., :2] + 1, (*a.shape[:-1], min(2, a.shape[-1])))

    def solve(t, x, b):
        LD, pivots = t.linalg.ldl_factor(x.detach(), hermitian=hermitian)
        return t.linalg.ldl_solve(LD, pivots, b.detach(), hermitian=hermitian)

    check(solve, a, b.copy(), grad=False, stride=False, tol=10)


def test_ldl_of_nan():
    """A column that is NaN on the diagonal and has nothing below is none to go on with."""
    agree(
        lambda t: [
            t.linalg.ldl_factor_ex(x).info
            for x in (t.full((3, 3), math.nan), t.diag(t.tensor([1.0, math.nan, 1])), t.eye(2), t.zeros(2, 2))
        ]
    )


def test_ldl_of_many_right_sides():
    def solve(t, x, b):
        LD, pivots = t.linalg.ldl_factor(x.detach())
        return t.linalg.ldl_solve(LD, pivots.long(), b.detach())

    check(solve, SYMMETRIC["hollow"], rng.randn(3, 5, 2), grad=False, stride=False)


def lam(text, names="x"):
    return eval(f"lambda t, {names}: {text}")


LDL_ERRORS = [
    ("t.linalg.ldl_factor(x * 0)", "singular: a block of D is zero"),
    ("t.linalg.ldl_factor_ex(x * 0, check_errors=True)", "singular: a block of D is zero"),
    ("t.linalg.ldl_factor(x[:2])", "A must be batches of square matrices, but they are 2 by 5 matrices"),
    ("t.linalg.ldl_factor(x.int())", "Expected a floating point or complex tensor as input. Got Int"),
    ("t.linalg.ldl_factor(x.half())", "not implemented for 'Half'"),
    ("t.linalg.ldl_factor(x[0])", "must have at least 2 dimensions"),
    ("t.linalg.ldl_solve(x, x[0].int(), x[:3])", "each A matrix is 5 by 5 but each b matrix is 3 by 5"),
    ("t.linalg.ldl_solve(x, x[0].int(), x.float())", "Expected b and A to have the same dtype"),
    ("t.linalg.ldl_solve(x, x[0, :3].int(), x)", "Expected LD.shape.*got pivots with shape .3. instead"),
    ("t.linalg.ldl_solve(x, x[0], x)", "Expected pivots to be integers. Got Double"),
    ("t.linalg.ldl_factor(x.clone().requires_grad_())[0].sum().backward()", "aten::linalg_ldl_factor_ex"),
]  # fmt: skip


@pytest.mark.parametrize("case, match", LDL_ERRORS)
def test_ldl_refuses(case, match):
    check_error(lam(case), A + A.T, match=match)


TAU, B, COMPLEX = rng.rand(3), rng.randn(5, 2), rng.randn(5, 3) + 1j * rng.randn(5, 3)
ORMQR = ["t.ormqr(a, u, b)", "t.ormqr(a, u, b, transpose=True)", "t.ormqr(a, u, b.mT, left=False)",
         "a.ormqr(u, b.mT, False, True)", "t.ormqr(a.expand(2, 5, 3), u.expand(2, 3), b.expand(2, 5, 2))"]  # fmt: skip


@pytest.mark.parametrize("case", ORMQR)
def test_ormqr(case):
    check(lam(case, "a, u, b"), TALL, TAU, B, stride=False)
    check(lam(case, "a, u, b"), COMPLEX, TAU + 0.5j, B - 1j * B[::-1], stride=False, gradgrad=False)


@pytest.mark.parametrize("case, match", [
    ("t.ormqr(x, x[0, :3], x[:3])", "other.shape.-2. must be equal to input.shape.-2."),
    ("t.ormqr(x[:, :3], x[0, :2], x)", "tau.shape.-1. must be equal to min"),
    ("t.ormqr(x[0], x[0], x)", "input must have at least 2 dimensions"),
    ("t.ormqr(x, x[0].float(), x)", "Expected input and tau to have the same dtype"),
    ("t.ormqr(x.int(), x[0].int(), x.int())", "not implemented for 'Int'"),
    ("t.ormqr(x.expand(2, 5, 5), x[:2], x)", "Expected other to have the same number of dimensions as input"),
])  # fmt: skip
def test_ormqr_refuses(case, match):
    check_error(lam(case), A, match=match)


GRADIENT = """t.gradient(x) | t.gradient(x, dim=1) | t.gradient(x, edge_order=2) | t.gradient(x, spacing=2.0)
t.gradient(x, spacing=[2.0, 3.0]) | t.gradient(x, dim=(1, 0), spacing=(2, 3)) | t.gradient(x, dim=-1, edge_order=2)
t.gradient(x, spacing=(x[:, 0].exp().cumsum(0), x[0].exp().cumsum(0))) | t.gradient(x[0], spacing=t.tensor(2.0))
t.gradient(x[0], spacing=(x[0].exp().cumsum(0),), edge_order=2) | t.gradient(x[0, 0]) | t.gradient(x[:2])"""


@pytest.mark.parametrize("case", [c.strip() for line in GRADIENT.split("\n") for c in line.split("|")])
def test_gradient(case):
    check(lam(case), A[:4], gradgrad=False)


@pytest.mark.parametrize("array", [np.arange(6) ** 2, COMPLEX, TALL.astype(np.float16)], ids=lambda a: str(a.dtype))
def test_gradient_of_types(array):
    check(lam("t.gradient(x, dim=0)"), array, gradgrad=False)


@pytest.mark.parametrize("case, match", [
    ("t.gradient(x, edge_order=3)", "only supports edge_order=1 and edge_order=2"),
    ("t.gradient(x[:1])", "each dimension size to be at least edge_order.1"),
    ("t.gradient(x[:2], edge_order=2)", "each dimension size to be at least edge_order.1"),
    ("t.gradient(x, dim=(0, 0))", "dim 0 appears multiple times"),
    ("t.gradient(x, dim=7)", "Dimension out of range"),
    ("t.gradient(x, spacing=[2.0, 3.0], dim=0)", "spacing argument of length 2 and a dim argument of length 1"),
    ("t.gradient(x.byte())", "does not support uint8 input"),
])  # fmt: skip
def test_gradient_refuses(case, match):
    check_error(lam(case), A, match=match)
