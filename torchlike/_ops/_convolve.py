"""Convolution and its adjoints, in the forms that XLA compiles well.

XLA's CPU backend is slow on grouped convolutions and on some shapes of plain ones (by factors of three to
a hundred, measured with jaxlib 0.10), so groups become separate, elementwise or block-diagonal convolutions
there, and plain convolutions are computed as ``_conv_cpu`` chooses. The platform is that of the computation,
not of the process: a program exported for another one keeps XLA's own convolution.
"""

import functools
import itertools
import math

import jax
import jax.numpy as jnp
from jax import lax

from torchlike._ops import _conv_cpu as cpu
from torchlike._ops._elementwise import is_reduced, widely

# On the CPU: up to this many groups are convolved one by one, ...
_SEPARATE = 8
# ... and kernels of one channel for each group with up to this many elements are summed slice by slice.
_SLICES = 49


def _by_platform(on_cpu, elsewhere, rule, first, second, **options):
    """``on_cpu`` there and ``elsewhere`` on other platforms, or only the latter if the CPU has no better way."""
    elsewhere = functools.partial(elsewhere, **options)
    on_cpu = functools.partial(on_cpu, **options)
    if not all(type(n) is int for n in first.shape + second.shape):  # the choice needs numbers
        return elsewhere(first, second)
    if is_reduced(first):
        on_cpu = functools.partial(widely, on_cpu)
    elif options["groups"] == 1 and cpu.choice(rule, first, second, options["g"]) == "xla":
        return elsewhere(first, second)
    return lax.platform_dependent(first, second, cpu=on_cpu, default=elsewhere)


def convolve(x, weight, stride, pairs, dilation, groups):
    """Cross-correlation of x [N, C, *size] with weight [out, C / groups, *kernel]; pairs of padding."""
    g = cpu.geometry(x.shape[2:], weight, stride, pairs, dilation)
    return _by_platform(_convolve_on_cpu, _plain, cpu.forward_rule, x, weight, g=g, groups=groups)


def _plain(x, weight, *, g, groups):
    return lax.conv_general_dilated(
        x, weight, g.stride, g.pairs, rhs_dilation=g.dilation, feature_group_count=groups,
        precision=lax.Precision.HIGHEST,
    )  # fmt: skip


def _as_slices(weight_shape):
    return weight_shape[1] == 1 and math.prod(weight_shape[2:]) <= _SLICES


def _dense(weight, groups):
    """The weight of one group that does what ``groups`` groups do: blocks along a diagonal."""
    out, per = weight.shape[0] // groups, weight.shape[1]
    blocks = weight.reshape(groups, out, 1, per, *weight.shape[2:])
    mine = jnp.eye(groups, dtype=bool).reshape(groups, 1, groups, *(1,) * (weight.ndim - 1))
    return jnp.where(mine, blocks, 0).reshape(groups * out, groups * per, *weight.shape[2:])


def _convolve_on_cpu(x, weight, *, g, groups):
    if groups == 1:
        return cpu.forward(x, weight, g)
    if _as_slices(weight.shape):
        return _slices(x, weight, g)
    if groups <= _SEPARATE:
        parts = zip(jnp.split(x, groups, 1), jnp.split(weight, groups, 0), strict=True)
        return jnp.concatenate([cpu.forward(a, w, g) for a, w in parts], 1)
    return cpu.forward(x, _dense(weight, groups), g)


def _slices(x, weight, g):
    """A convolution of every channel by itself, as a sum of products of shifted inputs."""
    zero = jnp.zeros((), x.dtype)
    x = lax.pad(x, zero, [(0, 0, 0), (0, 0, 0), *((lo, hi, 0) for lo, hi in g.pairs)])
    times, size = weight.shape[0] // x.shape[1], g.out
    weight = weight.reshape(1, x.shape[1], times, *g.kernel)
    total = None
    for at in itertools.product(*map(range, g.kernel)):
        start = [a * d for a, d in zip(at, g.dilation, strict=True)]
        stop = [b + (n - 1) * s + 1 for b, n, s in zip(start, size, g.stride, strict=True)]
        part = lax.slice(x, (0, 0, *start), (*x.shape[:2], *stop), (1, 1, *g.stride))
        term = part[:, :, None] * weight[(..., *at)].reshape(1, x.shape[1], times, *(1 for _ in size))
        total = term if total is None else total + term
    return total.reshape(x.shape[0], x.shape[1] * times, *size)


def transpose(x, weight, stride, pairs, dilation, groups, size):
    """The adjoint of ``convolve`` with respect to its input, whose positions are ``size``."""
    if not jnp.issubdtype(x.dtype, jnp.inexact):
        return _dilated(x, weight, size, stride, pairs, dilation, groups)
    g = cpu.geometry(size, weight, stride, pairs, dilation)
    return _by_platform(_transpose_on_cpu, _transpose_plain, cpu.input_rule, x, weight, g=g, groups=groups)


def _transposed(f, shape, x):
    """The transpose of the linear function ``f`` of an array of ``shape``, at ``x``."""
    return jax.linear_transpose(f, jax.ShapeDtypeStruct(shape, x.dtype))(x)[0]


def _transpose_plain(x, weight, *, g, groups):
    shape = (x.shape[0], weight.shape[1] * groups, *g.size)
    return _transposed(lambda y: _plain(y, weight, g=g, groups=groups), shape, x)


def _transpose_on_cpu(x, weight, *, g, groups):
    if groups == 1:
        return cpu.input_gradient(x, weight, g)
    if _as_slices(weight.shape):
        return _transposed(lambda y: _slices(y, weight, g), (x.shape[0], groups, *g.size), x)
    if groups <= _SEPARATE:
        parts = zip(jnp.split(x, groups, 1), jnp.split(weight, groups, 0), strict=True)
        return jnp.concatenate([cpu.input_gradient(a, w, g) for a, w in parts], 1)
    return cpu.input_gradient(x, _dense(weight, groups), g)


def _dilated(x, weight, size, stride, pairs, dilation, groups):
    """``transpose`` for integers, which jax does not transpose: a convolution of the dilated input."""
    kernel, pads = weight.shape[2:], []
    for n, k, d, s, (lo, _), length in zip(size, kernel, dilation, stride, pairs, x.shape[2:], strict=True):
        low = d * (k - 1) - lo
        pads.append((low, n - 1 - (length - 1) * s - low + d * (k - 1)))
    per_group = weight.reshape(groups, weight.shape[0] // groups, *weight.shape[1:])
    swapped = jnp.flip(jnp.swapaxes(per_group, 1, 2), tuple(range(3, per_group.ndim)))
    kernels = swapped.reshape(groups * weight.shape[1], weight.shape[0] // groups, *kernel)
    return lax.conv_general_dilated(
        x, kernels, (1,) * len(size), pads, lhs_dilation=stride, rhs_dilation=dilation,
        feature_group_count=groups,
    )  # fmt: skip


def for_weight(grad, x, stride, pairs, dilation, groups, kernel):
    """The adjoint of ``convolve`` with respect to its weight, whose positions are ``kernel``."""
    g = cpu.Geometry(*map(tuple, (x.shape[2:], kernel, stride, pairs, dilation)))
    shapes = {"g": g, "shape": (grad.shape[1], x.shape[1] // groups, *kernel), "groups": groups}
    return _by_platform(_for_weight_on_cpu, _for_weight_plain, cpu.weight_rule, grad, x, **shapes)


def _for_weight_plain(grad, x, *, g, shape, groups):
    return _transposed(lambda w: _plain(x, w, g=g, groups=groups), shape, grad)


def _for_weight_on_cpu(grad, x, *, g, shape, groups):
    if groups == 1:
        return cpu.weight_gradient(grad, x, g)
    if _as_slices(shape):
        return _transposed(lambda w: _slices(x, w, g), shape, grad)
    if groups <= _SEPARATE:
        parts = zip(jnp.split(grad, groups, 1), jnp.split(x, groups, 1), strict=True)
        return jnp.concatenate([cpu.weight_gradient(a, b, g) for a, b in parts], 0)
    return _transposed(lambda w: _dense(w, groups), shape, cpu.weight_gradient(grad, x, g))
