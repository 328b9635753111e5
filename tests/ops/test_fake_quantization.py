"""Fake quantization: values, gradients, dtypes and errors."""

import numpy as np
import pytest
from both import agree, agree_error

SCALES, ODD = [0.037, 0.011, 0.02], [-1.0, -0.05, -0.049, 0.05, 0.15, 0.25, 3.0, np.nan, np.inf, -np.inf, 1e30]


def numbers(t, dtype):
    return t.from_numpy(np.random.default_rng(0).normal(0, 3, (3, 400)).astype(np.float32)).to(getattr(t, dtype))


def shown(t, x, f):
    x = x.requires_grad_()
    y = f(x)
    factors = t.arange(x.numel(), dtype=y.dtype).reshape(x.shape)
    y.backward(factors)
    return y.detach().double().numpy().tolist(), x.grad.double().numpy().tolist(), y.dtype, y.grad_fn.name()


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_per_tensor(dtype):
    agree(lambda t: shown(t, numbers(t, dtype), lambda x: t.fake_quantize_per_tensor_affine(x, 0.037, 3, -128, 127)))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("zero_point", [[1, -3, 2], [1.5, -0.3, 2.2]], ids=["whole", "broken"])
def test_per_channel(dtype, zero_point):
    def f(t):
        kind = t.int32 if isinstance(zero_point[0], int) else t.float32
        given = t.tensor(SCALES), t.tensor(zero_point, dtype=kind)
        return shown(t, numbers(t, dtype), lambda x: t.fake_quantize_per_channel_affine(x, *given, 0, -128, 127))

    agree(f)


def test_odd_numbers():
    agree(lambda t: shown(t, t.tensor(ODD), lambda x: t.fake_quantize_per_tensor_affine(x, 0.1, 2, 0, 15)))
    for scale, zero in ((0.0, 2), (-0.1, 2), (1, 0)):
        agree(lambda t, a=scale, b=zero: t.fake_quantize_per_tensor_affine(t.tensor(ODD), a, b, 0, 15))
    for scale, zero in ((0.1, 2.6), ([0.1], -2.6), (0.1, 20)):
        agree(lambda t, a=scale, b=zero: t.fake_quantize_per_tensor_affine(
            t.tensor(ODD), t.tensor(a), t.tensor(b), 0, 15))  # fmt: skip
    agree(lambda t: t.fake_quantize_per_channel_affine(
        t.tensor([ODD]), t.tensor([0.1]), t.tensor([20.0]), 0, -8, 7))  # fmt: skip
    agree(lambda t: t.fake_quantize_per_tensor_affine(t.ones(2, 3).t()[::2], 0.1, 0, -8, 7).stride())


def per_channel(t, scale=(0.1, 0.2), zero=(0, 0), axis=1, low=-8, kind="int32", scales="float32", x="float32"):
    x, scale = t.ones(3, 2, dtype=getattr(t, x)), t.tensor(scale, dtype=getattr(t, scales))
    return t.fake_quantize_per_channel_affine(x, scale, t.tensor(zero, dtype=getattr(t, kind)), axis, low, 7)


WRONG = {
    "zero_point. must be between": lambda t: t.fake_quantize_per_tensor_affine(t.ones(2), 0.1, 20, 0, 15),
    "quant_min. should be less than": lambda t: t.fake_quantize_per_tensor_affine(t.ones(2), 0.1, 2, 15, 0),
    "handling. not implemented for": lambda t: t.fake_quantize_per_tensor_affine(t.ones(2).int(), 0.1, 2, 0, 15),
    "fake_quantize_per_tensor_affine": lambda t: t.fake_quantize_per_tensor_affine(t.ones(2), 0.1, 2.0, 0, 15),
    "cannot be converted to Scalar": lambda t: t.fake_quantize_per_tensor_affine(
        t.ones(2), t.ones(2), t.zeros(2), 0, 15),
    "not differentiable with": lambda t: t.fake_quantize_per_tensor_affine(
        t.ones(2), t.ones((), requires_grad=True), t.zeros(()), 0, 15),
    "Scale must be Float": lambda t: per_channel(t, scales="float64"),
    "Zero-point must be Int32": lambda t: per_channel(t, kind="int64"),
    "scale should be a 1-D": lambda t: per_channel(t, scale=[[0.1, 0.2]]),
    "need to have the same": lambda t: per_channel(t, zero=[0]),
    "not consistent with input": lambda t: per_channel(t, axis=0),
    "axis. must be between": lambda t: per_channel(t, axis=-1),
    "Dimension out of range": lambda t: per_channel(t, axis=2),
    "should be less than": lambda t: per_channel(t, low=8),
    "must be between .quant": lambda t: per_channel(t, zero=[9, 0]),
    "cpu_type_handling. not": lambda t: per_channel(t, x="int32"),
}  # fmt: skip


@pytest.mark.parametrize("match", WRONG)
def test_refused(match):
    agree_error(WRONG[match], match)


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("rows", [False, True])
def test_ranges_whose_zero_points_are_ties(rows, symmetric):
    def run(t):
        found = []
        for k, flags in enumerate([(1, 1), (0, 1), (1, 0)] * 4):
            x = t.tensor([[k * 7 % 13 - 9.0, 3, k], [k * 5 % 11, -k, 2]]) / 4
            low, high = (t.tensor([-0.5, 0.25]), t.tensor([0.5, 1.0])) if rows else (t.tensor(-0.5), t.tensor(0.5))
            scale, zero = t.ones(2 if rows else 1), t.zeros(2 if rows else 1, dtype=t.int32)
            on, rounds = (t.tensor([flag]) for flag in flags)
            state = on, rounds, low, high, scale, zero, 0.5, *((-128, 127) if k % 2 else (0, 255)), 0, rows, symmetric
            found += [t.fused_moving_avg_obs_fake_quant(x, *state), low, high, scale, zero]
        return found

    agree(run)
