"""A factor of a sum is rounded as PyTorch rounds it: to the dtype or not, and product and sum once."""

import pytest
import torch

import torchlike

FACTORS = {
    "add": lambda t, x, y, z: t.add(x, y, alpha=0.3),
    "add in place": lambda t, x, y, z: x.clone().add_(y, alpha=-0.37),
    "add of a number": lambda t, x, y, z: t.add(x, 1.7, alpha=0.3),
    "sub": lambda t, x, y, z: t.sub(x, y, alpha=0.3),
    "rsub": lambda t, x, y, z: t.rsub(x, y, alpha=0.3),
    "addcmul": lambda t, x, y, z: t.addcmul(x, y, z, value=0.3),
    "addcdiv": lambda t, x, y, z: t.addcdiv(x, y, z, value=0.3),
    "lerp": lambda t, x, y, z: t.lerp(x, y, 0.3),
    "lerp from the other end": lambda t, x, y, z: t.lerp(x, y, 0.7),
    "lerp by a tensor": lambda t, x, y, z: t.lerp(x, y, z),
}


# Products that are rounded before they are added up; of float32 XLA may do both in one instruction.
PRODUCTS = {
    "addr": lambda t, x, y, z: t.addr(x[:1000].reshape(50, 20), y[:50], z[:20]),
    "addr with factors": lambda t, x, y, z: t.addr(x[:1000].reshape(50, 20), y[:50], z[:20], beta=0.2, alpha=0.6),
    "cross": lambda t, x, y, z: t.cross(x[1:-1].reshape(3, -1), y[1:-1].reshape(3, -1), dim=0),
    "linalg.cross": lambda t, x, y, z: t.linalg.cross(x[1:-1].reshape(-1, 3), y[1:-1].reshape(-1, 3)),
    "kl_div": lambda t, x, y, z: t.nn.functional.kl_div(x, y.abs(), reduction="none"),
}


def different(ours, theirs):
    """How many numbers are, where one is NaN and the other is not too."""
    ours, theirs = torch.from_numpy(ours.float().numpy()), theirs.float()
    return (~torch.isclose(ours, theirs, rtol=0, atol=0, equal_nan=True)).sum()


def different_of_many(function, kind):
    given = torch.randn(3, 20000, generator=torch.Generator().manual_seed(5)).to(getattr(torch, kind))
    ours = function(torchlike, *torchlike.from_numpy(given.float().numpy()).to(getattr(torchlike, kind)))
    return different(ours, function(torch, *given))


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", PRODUCTS)
def test_a_product_is_rounded_before_it_is_added(name, kind):
    """Also by processors that multiply and add halves in one instruction."""
    assert different_of_many(PRODUCTS[name], kind) < 20


@pytest.mark.parametrize("kind", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", FACTORS)
def test_a_factor_is_rounded_as_in_pytorch(name, kind):
    """Fewer than 1 of 1,000 differ: where the product alone lies in the middle of two short numbers."""
    assert different_of_many(FACTORS[name], kind) < 20


SLOPES = {
    "times a number": lambda t, x: x * 0.3,
    "a number times": lambda t, x: 0.3 * x,
    "over a number": lambda t, x: x / 0.3,
    "times a tensor of no dimension": lambda t, x: x * t.tensor(0.3),
    "tanh": lambda t, x: x.tanh(),
    "sigmoid": lambda t, x: x.sigmoid(),
    "atan2": lambda t, x: t.atan2(x, x.detach().flip(0)),
    "atan2 of the other": lambda t, x: t.atan2(x.detach().flip(0), x),
} | {name: (lambda t, x, name=name: getattr(t, name)(x)) for name in (
    "tan", "asin", "acos", "atan", "asinh", "acosh", "atanh", "digamma")}  # fmt: skip


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", SLOPES)
def test_gradients_are_rounded_once(name, kind):
    """A number in them is none of 16 bits: 0.3 would be 0.30078, and so all gradients of the layers below."""
    given = torch.randn(2, 20000, generator=torch.Generator().manual_seed(5)).to(getattr(torch, kind))
    x = given[0].clone().requires_grad_()
    SLOPES[name](torch, x).backward(given[1])
    y, grad = torchlike.from_numpy(given.float().numpy()).to(getattr(torchlike, kind))
    y.requires_grad_()
    SLOPES[name](torchlike, y).backward(grad)
    assert different(y.grad, x.grad) < 20
