"""Eigenvectors and singular vectors of complex matrices: losses that depend on their phases; ``out=`` of such calls."""

import numpy as np
import pytest
import torch
from both import attempt

import torchlike

A = np.array([[1, 2j, 0.5], [0.3, -1, 2], [1j, 1, 0.7]])
VECTORS = {
    "eigh": lambda t, x: t.linalg.eigh(x + x.mH)[1:],
    "eig": lambda t, x: t.linalg.eig(x)[1:],
    "svd": lambda t, x: t.linalg.svd(x, full_matrices=False)[::2],
    "wide": lambda t, x: t.linalg.svd(x[:2])[::2],
    "old": lambda t, x: t.svd(x)[::2],
}
LOSSES = {
    "sum": lambda v: sum(x.sum().real for x in v),
    "one": lambda v: v[-1][..., 0].sum().imag,
    "sizes": lambda v: sum(x.abs()[..., :1].sum() for x in v),
    "little": lambda v: 1e-3 * v[0].sum().real,
    "product": lambda v: (v[0][:, :2] @ v[-1][:2]).sum().real,
}


def _gradient(t, vectors, loss, array=A):
    x = t.from_numpy(array.copy()).requires_grad_()
    return t.autograd.grad(LOSSES[loss](VECTORS[vectors](t, x)), x)[0].numpy()


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("vectors", VECTORS)
def test_gradients_that_depend_on_a_phase_are_refused_as_pytorch_refuses_them(vectors, loss):
    theirs = attempt(lambda: _gradient(torch, vectors, loss))
    ours = attempt(lambda: _gradient(torchlike, vectors, loss))
    if isinstance(theirs, Exception):
        assert type(ours) is RuntimeError and "ill-defined" in str(ours) and "ill-defined" in str(theirs)
    elif loss != "little":  # PyTorch's of such a loss is as arbitrary as ours
        np.testing.assert_allclose(ours, theirs, atol=1e-9)
    else:
        assert not isinstance(ours, Exception)


def _shares(t, u, v):
    x = t.from_numpy(A).requires_grad_()
    U, _, Vh = t.linalg.svd(x, full_matrices=False)
    return t.autograd.grad((U, Vh), x, ((1j * u * U).detach(), (1j * v * Vh).detach()))[0].numpy()


@pytest.mark.parametrize(
    "u, v", [(0.0049, 0), (0.0051, 0), (0, 0.005), (0, 0.0052), (1.014, 1), (1.016, 1), (101, 100)]
)
def test_the_tolerance_is_pytorchs(u, v):
    theirs, ours = (attempt(lambda t=t: _shares(t, u, v)) for t in (torch, torchlike))
    assert type(ours) is type(theirs)


def test_the_phase_is_looked_at_in_backwards_of_every_kind():
    for create in (False, True):
        x = torchlike.from_numpy(A).requires_grad_()
        with pytest.raises(RuntimeError, match="linalg_eig_backward: .*ill-defined"):
            torchlike.autograd.grad(torchlike.linalg.eig(x)[1].sum().real, x, create_graph=create)
    with pytest.raises(RuntimeError, match="ill-defined"):
        torchlike.func.grad(lambda x: torchlike.linalg.eig(x)[1].sum().real)(torchlike.from_numpy(A))
    real = torch.tensor(A.real).requires_grad_(), torchlike.from_numpy(A.real).requires_grad_()
    for t, x in zip((torch, torchlike), real, strict=True):
        vectors = t.linalg.eig(x).eigenvectors
        with pytest.raises(RuntimeError, match="ill-defined"):
            vectors.backward((1j * vectors).detach())


@pytest.mark.once
def test_compiled_steps_say_so_too():
    def loss(x):
        return torchlike.linalg.eigh(x + x.mH)[1].sum().real

    step, forward = torchlike.compile(torchlike.func.grad(loss)), torchlike.compile(loss)
    with pytest.raises(RuntimeError, match="ill-defined"):
        step(torchlike.from_numpy(A))
        step(torchlike.from_numpy(A))
        step(torchlike.from_numpy(A))
    for _ in range(3):
        x = torchlike.from_numpy(A).requires_grad_()
        with pytest.raises(RuntimeError, match="ill-defined"):
            forward(x).backward()


def _beside(t, x):
    return x.new_empty(0), x.new_empty(0, dtype=t.int64), x.new_empty(0)


OUTS = {
    "cond": (lambda t, x, o: t.linalg.cond(x, out=o), 0),
    "cond_1": (lambda t, x, o: t.linalg.cond(x, 1, out=o), 0),
    "matrix_norm": (lambda t, x, o: t.linalg.matrix_norm(x, 1, out=o), 0),
    "nuc": (lambda t, x, o: t.linalg.matrix_norm(x, "nuc", out=o), 0),
    "tensorsolve": (lambda t, x, o: t.linalg.tensorsolve(x, x[0], out=o), 1),
    "tensorinv": (lambda t, x, o: t.linalg.tensorinv(x, 1, out=o), 2),
    "cholesky_solve": (lambda t, x, o: t.cholesky_solve(x, x, out=o), 2),
    "cholesky_inverse": (lambda t, x, o: t.cholesky_inverse(x, out=o), 2),
    "eigvals": (lambda t, x, o: t.linalg.eigvals(x, out=o), 1),
    "lu": (lambda t, x, o: t.lu(x, out=(o, t.empty(0, dtype=t.int32)))[0], 2),
    "square": (lambda t, x, o: t.square(x, out=o), 2),
    "pow": (lambda t, x, o: t.pow(x, 0.5, out=o), 2),
    "cat": (lambda t, x, o: t.cat([x, x], out=o), 2),
    "hstack": (lambda t, x, o: t.hstack([x, x.double()], out=o), 2),
    "stack": (lambda t, x, o: t.stack([x, x], out=o), 3),
    "lstsq": (lambda t, x, o: t.linalg.lstsq(x, x, driver="gelsd", out=(o, *_beside(t, x)))[0], 2),
}


@pytest.mark.filterwarnings("ignore:torch.lu is deprecated")
@pytest.mark.parametrize("dtype", ["int64", "float32", "float64", "complex128"])
@pytest.mark.parametrize("name", OUTS)
def test_outputs_of_other_dtypes_are_refused_where_pytorch_refuses_them(name, dtype):
    call, n = OUTS[name]

    def tried(t):
        return call(t, t.eye(3) + 1, t.empty((0,) * n, dtype=getattr(t, dtype)))

    theirs, ours = (attempt(lambda t=t: tried(t)) for t in (torch, torchlike))
    assert type(ours).__name__ == type(theirs).__name__, (theirs, ours)
    if isinstance(theirs, Exception):
        assert ("safely castable" in str(ours)) is ("safely castable" in str(theirs)), (theirs, ours)
    else:
        assert str(ours.dtype)[-6:] == str(theirs.dtype)[-6:]
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-4, atol=1e-5)
