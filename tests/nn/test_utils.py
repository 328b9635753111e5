"""Gradients clipped, parameters as vectors, modules without initial values."""

import numpy as np
import pytest
import torch
from oracle import check_error, host

import torchlike

INF = float("inf")
GRADS = [np.array([3.0, -4.0]), None, np.array([[1.0, 2.0, -2.0]])]


def parameters(t, grads=GRADS, dtype=np.float64):
    found = []
    for g in grads:
        p = t.nn.Parameter(t.tensor(np.zeros(2 if g is None else g.shape, dtype if g is None else g.dtype)))
        p.grad = None if g is None else t.tensor(g)
        found.append(p)
    return found


def same(run):
    """Run on both libraries and compare what is returned and the gradients after."""
    results = []
    for t in (torchlike, torch):
        params = parameters(t)
        out = run(t, params)
        results.append(([None if p.grad is None else host(p.grad) for p in params], out))
    (ours, a), (theirs, b) = results
    for x, y in zip(ours, theirs, strict=True):
        assert (x is None) == (y is None)
        if y is not None:
            np.testing.assert_allclose(x, y)
    if isinstance(b, torch.Tensor):
        assert str(a.dtype) == str(b.dtype)
        np.testing.assert_allclose(host(a), b.numpy())
    else:
        assert a == b


@pytest.mark.parametrize("order", [2, 2.0, 1, 0, 3.5, INF, "inf", -INF])
@pytest.mark.parametrize("most", [1.0, 100.0])
def test_clip_grad_norm(order, most):
    same(lambda t, ps: t.nn.utils.clip_grad_norm_(ps, most, norm_type=order))


def test_clip_grad_norm_forms():
    same(lambda t, ps: t.nn.utils.clip_grad_norm_(ps[0], 1.0))
    same(lambda t, ps: t.nn.utils.clip_grad_norm_((p for p in ps), t.tensor(1.0)))
    same(lambda t, ps: t.nn.utils.clip_grad_norm_(ps[1:2], 1.0))
    same(lambda t, ps: t.nn.utils.clip_grad_norm_([], 1.0))
    same(lambda t, ps: t.nn.utils.clip_grads_with_norm_(ps, 1.0, t.tensor(5.0)))
    same(lambda t, ps: t.nn.utils.get_total_norm([p.grad for p in ps if p.grad is not None]))
    same(lambda t, ps: t.nn.utils.get_total_norm([]))
    with pytest.warns(UserWarning, match="empty generator"):
        torchlike.nn.utils.clip_grad_norm_((p for p in []), 1.0)
    with pytest.warns(FutureWarning, match="clip_grad_norm_"):
        torchlike.nn.utils.clip_grad_norm(parameters(torchlike), 1.0)


@pytest.mark.parametrize("bad", [np.nan, INF])
def test_norms_that_are_not_finite(bad):
    def f(t, x):
        p = t.nn.Parameter(t.zeros(2))
        p.grad = t.tensor([1.0, bad])
        return t.nn.utils.clip_grad_norm_([p], 1.0, error_if_nonfinite=True)

    check_error(f, np.zeros(2), match="order 2.0 .* is non-finite")
    p = torchlike.nn.Parameter(torchlike.zeros(2))
    p.grad = torchlike.tensor([1.0, bad])
    with pytest.raises(RuntimeError):
        torchlike.nn.utils.clip_grad_norm_([p], 1.0, error_if_nonfinite=True)
    assert p.grad._version == 0 and p.grad[0].item() == 1
    torchlike.nn.utils.clip_grad_norm_([p], 1.0)
    assert np.isnan(host(p.grad)).any()


def test_complex_and_mixed_dtypes():
    grads = [np.array([3 + 4j, 1j]), np.array([1.0, 2.0], np.float32), np.array([2.0])]
    for run in (
        lambda t, ps: t.nn.utils.clip_grad_norm_(ps, 1.0),
        lambda t, ps: t.nn.utils.clip_grad_norm_(ps[1:], 1.0),
    ):
        ours, theirs = parameters(torchlike, grads), parameters(torch, grads)
        a, b = run(torchlike, ours), run(torch, theirs)
        assert str(a.dtype) == str(b.dtype)
        np.testing.assert_allclose(host(a), b.numpy(), rtol=1e-6)
        for p, q in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(host(p.grad), q.grad.numpy(), rtol=1e-5)


@pytest.mark.parametrize("most", [1.5, "2", -1.0, INF])
def test_clip_grad_value(most):
    same(lambda t, ps: t.nn.utils.clip_grad_value_(ps, most))
    same(lambda t, ps: t.nn.utils.clip_grad_value_(ps[0], most))


def test_clipping_writes_in_place():
    p = parameters(torchlike)[0]
    alias = p.grad
    torchlike.nn.utils.clip_grad_norm_([p], 1.0)
    assert p.grad is alias and alias._version == 1


def test_vectors():
    params = parameters(torchlike)
    vector = torchlike.nn.utils.parameters_to_vector(params)
    assert vector.shape == (7,) and type(vector.grad_fn).__name__ == "CatBackward0"
    values = torchlike.arange(7.0, dtype=torchlike.float64)
    torchlike.nn.utils.vector_to_parameters(values, params)
    np.testing.assert_array_equal(host(torchlike.nn.utils.parameters_to_vector(params)), np.arange(7.0))
    values[0] = 9
    assert params[0][0].item() == 9, "they share the storage of the vector, as in PyTorch"
    assert all(p.is_leaf and p.requires_grad for p in params)


ERRORS = [
    (lambda t, ps: t.nn.utils.vector_to_parameters([1.0], ps), "expected torch.Tensor, but got: list"),
    (lambda t, ps: t.nn.utils.vector_to_parameters(t.arange(3.0), ps), "invalid for input of size"),
    (lambda t, ps: t.nn.utils.get_total_norm([t.ones(2).long()]), "floating point or complex"),
    (lambda t, ps: t.nn.utils.skip_init(int), "Expected a Module"),
    (lambda t, ps: t.nn.utils.skip_init(t.nn.ReLU), "'device' arg"),
    (lambda t, ps: t.nn.utils.parameters_to_vector([]), ""),
]


@pytest.mark.parametrize("f, match", ERRORS)
def test_errors(f, match):
    check_error(lambda t: f(t, parameters(t)), match=match)


def test_skip_init():
    module = torchlike.nn.utils.skip_init(torchlike.nn.Linear, 2, 3, bias=False)
    assert repr(module) == repr(torch.nn.Linear(2, 3, bias=False))
    assert module.weight.device.type == "cpu" and module.weight.requires_grad
