"""`F.normalize`: one kernel where nobody sees the calls that it is made of, with PyTorch's numbers and strides."""

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode as TheirMode

import torchlike
from torchlike.utils._python_dispatch import TorchDispatchMode as OurMode

SHAPES = [((4, 8), 1, 1e-12), ((4, 8), 0, 1e-12), ((2, 3, 4), -1, 0.9), ((4, 8), 1, 3.0), ((3,), 0, 1e-12),
          ((0, 3), 1, 1e-12), ((3, 0), 1, 1e-12)]  # fmt: skip


def _numbers(shape, dtype):
    x = np.random.RandomState(0).randn(*shape).astype(dtype)
    if x.size and x.ndim > 1:
        x[0] = 0  # no direction, and so no slope of the length
    return x


def _slopes(t, array, make, **options):
    """The result, its gradient and the gradient of that."""
    x = t.tensor(array, requires_grad=True)
    w = t.arange(x.numel(), dtype=x.dtype).reshape(x.shape)
    y = t.nn.functional.normalize(make(x), **options)
    (g,) = t.autograd.grad((y * make(w)).sum(), x, create_graph=True)
    (h,) = t.autograd.grad((g * w).sum(), x)
    return y, g, h


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape, dim, eps", SHAPES)
def test_numbers_and_slopes(shape, dim, eps, dtype):
    array = _numbers(shape, dtype)
    theirs, ours = (_slopes(t, array, lambda x: x, dim=dim, eps=eps) for t in (torch, torchlike))
    assert ours[0].grad_fn.name() == theirs[0].grad_fn.name() and ours[0].stride() == theirs[0].stride()
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("make", [lambda x: x.T, lambda x: x[:, ::2], lambda x: x[1:3], lambda x: x.half()])
def test_views_and_halves(make):
    theirs, ours = (_slopes(t, _numbers((4, 8), "float32"), make) for t in (torch, torchlike))
    assert ours[0].stride() == theirs[0].stride()
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("number", [0.0, float("inf"), float("nan"), 1e-13])
def test_edges(number):
    array = np.array([[number, 0.0], [1.0, number]], np.float64)
    theirs, ours = (t.nn.functional.normalize(t.tensor(array)).numpy() for t in (torch, torchlike))
    np.testing.assert_allclose(ours, theirs)


@pytest.mark.parametrize("dim", [2, -3])
def test_no_such_dimension(dim):
    for t in (torch, torchlike):
        with pytest.raises(IndexError, match="Dimension out of range"):
            t.nn.functional.normalize(t.ones(2, 3), dim=dim)


def test_the_result_may_change_and_the_input_may_not():
    x = torchlike.ones(2, 3, requires_grad=True)
    y = torchlike.nn.functional.normalize(x)
    y.mul_(2)
    y.sum().backward()
    leaf = torchlike.ones(2, 3, requires_grad=True)
    source = leaf * 1
    y = torchlike.nn.functional.normalize(source)
    source.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def _seen(t, mode):
    calls = []

    class Mode(mode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            calls.append(str(func))
            return func(*args, **(kwargs or {}))

    with Mode():
        t.nn.functional.normalize(t.ones(2, 3))
    return calls


def test_modes_see_pytorchs_calls():
    assert _seen(torchlike, OurMode) == _seen(torch, TheirMode)


def test_forward_mode_and_vmap():
    x, d = _numbers((4, 8), "float64") + 1, np.ones((4, 8))
    theirs, ours = (t.func.jvp(t.nn.functional.normalize, (t.tensor(x),), (t.tensor(d),)) for t in (torch, torchlike))
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), atol=1e-12)
    rows = torchlike.func.vmap(lambda r: torchlike.nn.functional.normalize(r, dim=0))(torchlike.tensor(x))
    np.testing.assert_allclose(rows.numpy(), torch.nn.functional.normalize(torch.tensor(x)).numpy())


def test_compiled():
    f = torchlike.compile(lambda x: torchlike.nn.functional.normalize(x).sum())
    x = _numbers((4, 8), "float32")
    np.testing.assert_allclose(
        f(torchlike.tensor(x)).item(), torch.nn.functional.normalize(torch.tensor(x)).sum().item(), rtol=1e-5
    )
