"""Gradients of each example: values, several layers, layouts of batches, what is refused."""

import importlib

import pytest
from both import agree
from story_kit import said, story

import torchlike as tl


def calls(t):
    return importlib.import_module(f"{t.__name__}.nn.utils._per_sample_grad").call_for_per_sample_grads


def filled(t, m):
    with t.no_grad():
        for i, p in enumerate(m.parameters()):
            p.copy_((t.arange(float(p.numel())).reshape(p.shape) % 5 - 2 + i) / 4)
    return m


NETS = {
    "linear": (lambda t: t.nn.Linear(3, 2), (4, 3)),
    "layers": (lambda t: t.nn.Sequential(t.nn.Linear(3, 4), t.nn.Tanh(), t.nn.Linear(4, 1)), (4, 3)),
    "conv": (
        lambda t: t.nn.Sequential(t.nn.Conv2d(1, 2, 2), t.nn.ReLU(), t.nn.Flatten(), t.nn.Linear(8, 1)),
        (3, 1, 3, 3),
    ),
    "norms": (lambda t: t.nn.Sequential(t.nn.Linear(4, 6), t.nn.LayerNorm(6), t.nn.Linear(6, 1)), (3, 4)),
    "one frozen": (lambda t: t.nn.Sequential(t.nn.Linear(3, 2).requires_grad_(False), t.nn.Linear(2, 1)), (4, 3)),
}


@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize("name", NETS)
def test_each_example(name, reduction):
    def run(t):
        make, shape = NETS[name]
        m, x = (
            filled(t, make(t).double()),
            t.linspace(-1, 1, 4 * 9, dtype=t.float64).reshape(4, 9)[:, : shape[1] if len(shape) == 2 else 9],
        )
        x = x[: shape[0]].reshape(shape)
        y = calls(t)(m, loss_reduction=reduction)(x)
        getattr(y.square(), reduction)().backward()
        return y.detach(), [(n, getattr(p, "grad_sample", None), p.grad) for n, p in m.named_parameters()]

    agree(run)


def test_the_batch_in_dimension_one():
    with pytest.raises(NotImplementedError, match="batch_first=False"):
        calls(tl)(tl.nn.Linear(3, 2), batch_first=False)


@story
def test_what_is_refused(t):
    m, each = t.nn.Linear(2, 1), calls(t)
    each(m)(t.ones(2, 2)).sum().backward()
    return (
        said(lambda: each(m), "accumulates the gradients, which will be incorrect for multiple calls"),
        said(lambda: each(3), "Module passed must be nn.Module, got int"),
        said(lambda: each(t.nn.Linear(1, 1), batch_size="a"), "Batch size passed must be None or an integer, got str"),
        said(lambda: each(t.nn.Linear(1, 1), batch_size=0), "Batch size must be positive, got 0"),
        said(lambda: each(t.nn.Linear(1, 1), loss_reduction="none"), "loss_reduction argument to be sum or mean, got"),
        said(lambda: each(t.nn.Bilinear(2, 2, 1))(t.ones(2, 2), t.ones(3, 2)), "found at least one input with batch"),
    )
