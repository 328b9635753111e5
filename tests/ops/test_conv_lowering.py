"""Every way to compute a convolution on the CPU agrees with XLA's own and with PyTorch; other platforms keep XLA's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from oracle import check

from torchlike._ops import _conv_cpu as cpu
from torchlike._ops import _convolve, _divided

rng = np.random.RandomState(0)


def r(*shape, dtype=np.float64):
    return rng.standard_normal(shape).astype(dtype)


# name: (x, w, stride, pairs of padding, dilation)
CASES = {
    "uneven padding": ((2, 3, 5, 6), (4, 3, 2, 4), (1, 1), ((0, 1), (1, 2)), (1, 1)),
    "stride with a rest": ((2, 3, 8, 7), (4, 3, 3, 2), (2, 3), ((1, 1), (0, 0)), (1, 1)),
    "dilation": ((2, 3, 9, 8), (4, 3, 3, 2), (1, 2), ((2, 2), (0, 1)), (2, 3)),
    "kernel larger than the input": ((2, 3, 2, 2), (4, 3, 5, 3), (1, 1), ((2, 2), (1, 1)), (1, 1)),
    "one position": ((2, 3, 1, 1), (4, 3, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1)),
    "1x1, padding": ((2, 3, 4, 5), (4, 3, 1, 1), (2, 1), ((1, 1), (0, 2)), (1, 1)),
    "1d": ((2, 3, 9), (4, 3, 4), (2,), ((1, 1),), (1,)),
    "3d, dilation": ((1, 2, 6, 4, 5), (3, 2, 2, 1, 3), (2, 1, 1), ((1, 2), (0, 0), (2, 2)), (3, 1, 2)),
}
KINDS = {"forward": cpu.FORWARD, "for input": cpu.FOR_INPUT, "for weight": cpu.FOR_WEIGHT}


def made(case):
    """(geometry, x, w, grad) of a case."""
    x_shape, w_shape, *numbers = CASES[case]
    x, w = r(*x_shape), r(*w_shape)
    g = cpu.geometry(x.shape[2:], w, *numbers)
    return g, x, w, r(x.shape[0], w.shape[0], *g.out)


def operands(kind, x, w, grad):
    return {"forward": (x, w), "for input": (grad, w), "for weight": (grad, x)}[kind]


WAYS = [
    (kind, way, case)
    for kind, ways in KINDS.items()
    for way in ways
    for case in CASES
    if way != "xla" and (way != "planes" or case.startswith("3d"))
]


@pytest.mark.parametrize(("kind", "way", "case"), WAYS)
def test_a_way_agrees_with_xla_and_so_do_its_derivatives(kind, way, case):
    g, *arrays = made(case)
    first, second = operands(kind, *arrays)

    def twice(f):
        """The values, the change along a direction, and both gradients of a function of them."""
        one = lambda a, b: f(a, b, g)  # noqa: E731
        out, change = jax.jvp(one, (first, second), (first[::-1], second * 2))
        return out, change, jax.grad(lambda a, b: jnp.sum(jnp.sin(one(a, b))), (0, 1))(first, second)

    ours, theirs = (jax.jit(twice, static_argnums=0)(KINDS[kind][name]) for name in (way, "xla"))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10), ours, theirs)


# name: (x, w, stride, padding, (the ways of the forward, for the input, for the weight))
CHOSEN = {
    "a first layer": ((2, 3, 32, 32), (32, 3, 3, 3), 1, 1, ("images", "images", "images")),
    "few channels, wide kernel": ((1, 3, 32, 32), (64, 3, 7, 7), 2, 3, ("xla", "images", "images")),
    "odd numbers of outputs": ((2, 20, 12, 12), (50, 20, 5, 5), 1, 0, ("images", "images", "images")),
    "middle": ((2, 32, 16, 16), (64, 32, 3, 3), 1, 1, ("xla", "images", "images")),
    "middle, stride": ((2, 32, 16, 16), (64, 32, 3, 3), 2, 1, ("xla", "xla", "images")),
    "middle, many channels": ((1, 64, 16, 16), (64, 64, 3, 3), 1, 1, ("xla", "images", "xla")),
    "deep": ((2, 64, 4, 4), (64, 64, 3, 3), 1, 1, ("columns", "columns", "columns")),
    "kernel larger than the input": ((2, 64, 2, 2), (32, 64, 3, 3), 1, 1, ("columns", "columns", "columns")),
    "1x1": ((2, 32, 16, 16), (64, 32, 1, 1), 1, 0, ("images", "images", "columns")),
    "1x1, deep": ((2, 64, 4, 4), (32, 64, 1, 1), 2, 0, ("columns", "columns", "columns")),
    "1d": ((2, 16, 200), (32, 16, 3), 1, 1, ("xla", "images", "images")),
    "3d": ((1, 16, 8, 8, 8), (16, 16, 3, 3, 3), 1, 1, ("planes", "planes", "planes")),
    "3d, stride": ((1, 16, 8, 8, 8), (16, 16, 3, 3, 3), 2, 1, ("planes", "planes", "images")),
    "3d, few channels": ((1, 2, 8, 8, 8), (16, 2, 3, 3, 3), 1, 1, ("images", "images", "planes")),
    "small": ((2, 3, 6, 6), (4, 3, 3, 3), 1, 1, ("xla", "columns", "xla")),
    "small, stride": ((2, 3, 7, 7), (4, 3, 3, 3), 2, 1, ("xla", "xla", "xla")),
    "many taps": ((1, 1, 40, 40), (1, 1, 15, 15), 1, 1, ("xla", "xla", "xla")),
    "3d, many taps": ((1, 3, 8, 16, 16), (16, 3, 3, 7, 7), 2, 3, ("planes", "planes", "planes")),
    "empty": ((0, 3, 32, 32), (32, 3, 3, 3), 1, 1, ("xla", "xla", "xla")),
}


def chosen(case):
    x, w, stride, padding, ways = CHOSEN[case]
    n = len(x) - 2
    x, w = r(*x, dtype=np.float32), r(*w, dtype=np.float32) / np.float32(np.sqrt(np.prod(w[1:])))
    return x, w, stride, padding, cpu.geometry(x.shape[2:], w, (stride,) * n, ((padding, padding),) * n, (1,) * n), ways


@pytest.mark.parametrize("case", CHOSEN)
def test_the_rules(case):
    x, w, _, _, g, ways = chosen(case)
    grad = np.zeros((x.shape[0], w.shape[0], *g.out), np.float32)
    rules = ((cpu.forward_rule, x, w), (cpu.input_rule, grad, w), (cpu.weight_rule, grad, x))
    assert tuple(cpu.choice(rule, a, b, g) for rule, a, b in rules) == ways


@pytest.mark.parametrize("case", CHOSEN)
def test_the_choice_agrees_with_pytorch(case):
    x, w, stride, padding, g, _ = chosen(case)
    convolution = lambda t, *a: getattr(t.nn.functional, f"conv{len(g.size)}d")(*a, stride=stride, padding=padding)  # noqa: E731
    check(convolution, x, w, r(w.shape[0], dtype=np.float32), tol=20, jit=False, gradgrad=x.size < 3000)


@pytest.mark.parametrize("groups", [2, 16])
@pytest.mark.parametrize("size", [2, 16])
def test_groups_and_transposes_choose_too(groups, size):
    x = r(2, 32, size, size, dtype=np.float32)
    w = r(32, 32 // groups, 3, 3, dtype=np.float32) / 9
    for name, options in (("conv2d", {}), ("conv_transpose2d", {"stride": 2, "output_padding": 1})):
        check(
            lambda t, x, w, name=name, options=options: getattr(t.nn.functional, name)(
                x, w, padding=1, groups=groups, **options
            ),
            x, w, tol=20, jit=False, gradgrad=False,
        )  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.complex64, np.int32])
def test_other_dtypes_stay_with_xla(dtype):
    x, w = np.ones((2, 3, 32, 32), dtype), np.ones((32, 3, 3, 3), dtype)
    g = cpu.geometry((32, 32), w, (1, 1), ((1, 1), (1, 1)), (1, 1))
    assert cpu.choice(cpu.forward_rule, x, w, g) == "xla"


def test_unusual_values_pass_every_way():
    """NaN and inf reach the positions that read them, and no others."""
    x, w = r(1, 3, 32, 32, dtype=np.float32), r(32, 3, 3, 3, dtype=np.float32)
    x[0, 0, 2, 2], x[0, 1, 9, 4] = np.nan, np.inf
    check(lambda t, x, w: t.nn.functional.conv2d(x, w, padding=1), x, w, grad=False, tol=20)


def _lowered(platform):
    x, w = (jax.ShapeDtypeStruct(s, jnp.float32) for s in ((2, 3, 32, 32), (32, 3, 3, 3)))

    def f(x, w):
        y = _convolve.convolve(x, w, (1, 1), ((1, 1), (1, 1)), (1, 1), 1)
        return _divided.gradients(y, x, w, (1, 1), ((1, 1), (1, 1)), (1, 1), 1)

    return jax.jit(f).trace(x, w).lower(lowering_platforms=(platform,)).as_text()


@pytest.mark.parametrize(("platform", "own"), [("cpu", False), ("tpu", True), ("cuda", True)])
def test_the_platform_of_the_program_decides(platform, own):
    assert ("stablehlo.convolution" in _lowered(platform)) == own
    assert ("stablehlo.while" in _lowered(platform)) != own


def test_vmap_over_both_arguments():
    x, w = r(3, 2, 3, 16, 16, dtype=np.float32), r(3, 8, 3, 3, 3, dtype=np.float32)
    got = jax.vmap(lambda x, w: _convolve.convolve(x, w, (1, 1), ((1, 1), (1, 1)), (1, 1), 1))(x, w)
    pairs = zip(map(torch.from_numpy, x), map(torch.from_numpy, w), strict=True)
    want = [torch.conv2d(a, b, padding=1).numpy() for a, b in pairs]
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
