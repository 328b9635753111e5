"""Sums of float16 and bfloat16 numbers are rounded once, after a bias, as PyTorch rounds them."""

import pytest
import torch
from both import agree

import torchlike

KINDS = ["float16", "bfloat16"]
CALLS = {
    "linear": lambda t, r: t.nn.functional.linear(r(6, 8), r(5, 8), r(5)),
    "linear of a stack": lambda t, r: t.nn.functional.linear(r(2, 3, 8), r(5, 8), r(5)),
    "linear of a vector": lambda t, r: t.nn.functional.linear(r(8), r(5, 8), r(5)),
    "addmm": lambda t, r: t.addmm(r(5), r(6, 8), r(8, 5)),
    "addmm with factors": lambda t, r: t.addmm(r(6, 5), r(6, 8), r(8, 5), beta=0.75, alpha=0.375),
    "baddbmm": lambda t, r: t.baddbmm(r(3, 6, 5), r(3, 6, 8), r(3, 8, 5)),
    "addmv": lambda t, r: t.addmv(r(6), r(6, 8), r(8)),
    "conv1d": lambda t, r: t.nn.functional.conv1d(r(2, 3, 9), r(4, 3, 3), r(4)),
    "conv2d": lambda t, r: t.nn.functional.conv2d(r(2, 3, 9, 9), r(4, 3, 3, 3), r(4), padding=1, stride=2),
    "conv2d of each channel": lambda t, r: t.nn.functional.conv2d(r(2, 4, 9, 9), r(4, 1, 3, 3), r(4), groups=4),
}  # fmt: skip


def _numbers(t, kind):
    """Draws of short numbers, whose products add up exactly in float32 in any order."""
    generator = t.Generator().manual_seed(3)
    return lambda *shape: (t.randint(-127, 128, shape, generator=generator) / 32).to(getattr(t, kind))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CALLS)
def test_a_bias_is_added_before_rounding(name, kind):
    def code(t):
        return CALLS[name](t, _numbers(t, kind)).double()

    agree(code)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_of_short_floats(kind):
    def code(t):
        r = _numbers(t, kind)
        args = [x.requires_grad_() for x in (r(6, 8), r(5, 8), r(5))]
        return [g.double() for g in t.autograd.grad(t.nn.functional.linear(*args), args, r(6, 5))]

    agree(code)


@pytest.mark.parametrize("kind", KINDS)
def test_transposed_convolutions_with_a_bias(kind):
    def code(t):
        r = _numbers(t, kind)
        x, weight, bias = r(2, 3, 9, 9), r(3, 4, 3, 3), r(4)
        exact = t.nn.functional.conv_transpose2d(x.double(), weight.double(), bias.double())
        return t.nn.functional.conv_transpose2d(x, weight, bias), exact.to(x.dtype)

    made, exact = code(torchlike)
    assert made.equal(exact)
    theirs, wanted = code(torch)
    if theirs.equal(wanted):  # PyTorch adds up float16 in float16 here, without AVX-512 bfloat16 in bfloat16
        agree(code)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode, sizes", [("bilinear", (7, 9)), ("bicubic", (7, 9)), ("bilinear", (4, 9, 6))])
def test_grids_are_sampled_in_short_floats_step_by_step(mode, sizes, padding, corners, kind):
    def code(t):
        r = _numbers(t, kind)
        grid = r(2, *(6, 5, 4)[: len(sizes)], len(sizes)) / 2.5
        return t.nn.functional.grid_sample(r(2, 2, *sizes), grid, mode, padding, corners).double()

    agree(code)


def test_roundings_keep_numbers_below_the_least_normal_one():
    def code(t):
        x = t.tensor([2.0**-15, 3 * 2.0**-24, 2.0**-26, -5 * 2.0**-20]).half()
        return t.div(x, t.ones(4).half() * 0.75, rounding_mode="floor").double(), (x / t.tensor(3.0).half()).double()

    agree(code)
