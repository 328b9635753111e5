"""Tensors that require grad where a number is expected: their gradient is there, or they are refused; never lost."""

import pytest
from both import agree, attempt

import torchlike

TAKEN = {
    "interpolate": lambda t, q: t.nn.functional.interpolate(t.ones(1, 1, 3), scale_factor=q * 4),
    "interpolate, tuple": lambda t, q: t.nn.functional.interpolate(t.ones(1, 1, 3), scale_factor=(q * 4,)),
    "gradient": lambda t, q: t.gradient(t.arange(5.0), spacing=q),
    "embedding": lambda t, q: t.nn.functional.embedding(t.tensor([0]), t.ones(2, 2), max_norm=q),
    "embedding_bag": lambda t, q: t.nn.functional.embedding_bag(t.tensor([[0]]), t.ones(2, 2), max_norm=q),
    "alpha_dropout": lambda t, q: t.nn.functional.alpha_dropout(t.ones(2), q, True),
    "dropout": lambda t, q: t.nn.functional.dropout(t.ones(2), q),
    "add": lambda t, q: t.add(t.ones(2), t.ones(2), alpha=q),
    "softplus": lambda t, q: t.nn.functional.softplus(t.ones(2), q),
}


def half(t, grad=True):
    return t.tensor(0.5, requires_grad=grad)


@pytest.mark.parametrize("name", [n for n in TAKEN if n not in ("add", "softplus")])
def test_refused_as_by_pytorch(name):
    agree(lambda t: type(attempt(lambda: TAKEN[name](t, half(t)))).__name__)


@pytest.mark.parametrize("name", TAKEN)
def test_it_says_what_would_be_lost(name):
    with pytest.raises(TypeError, match=r"must be Number, not Tensor that requires grad.*\.item\(\)"):
        TAKEN[name](torchlike, half(torchlike))
    if name != "gradient":
        assert TAKEN[name](torchlike, half(torchlike, False)).requires_grad is False


def pooled(n, ceil, kernel):
    def script(t):
        size = (1, 2, *(5, 4, 3)[:n])
        x = (t.arange(t.Size(size).numel(), dtype=t.float64) + 1) / 9
        x = x.reshape(size).requires_grad_()
        p = t.tensor(2.5, dtype=t.float64, requires_grad=True)
        out = getattr(t.nn.functional, f"lp_pool{n}d")(x, p, kernel, ceil_mode=ceil)
        return out, *t.autograd.grad(out.sum(), (x, p))

    return script


@pytest.mark.parametrize("ceil", [False, True])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_the_norm_of_a_pool_has_a_gradient(n, ceil):
    agree(pooled(n, ceil, 2))
    if n > 1:
        agree(pooled(n, ceil, (2, 1, 2)[:n]))
