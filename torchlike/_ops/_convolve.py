"""Convolution and its adjoints, in the forms that XLA compiles well.

XLA's CPU backend is slow on grouped convolutions and on the weight gradient of dilated inputs (both
by factors of ten to a hundred, measured with jaxlib 0.10), so groups become separate, elementwise or
block-diagonal convolutions there, and a transposed convolution gets the gradients of the plain one.
"""

import itertools
import math

import jax
import jax.numpy as jnp
from jax import lax

from torchlike._decl import rules

# On the CPU: up to this many groups are convolved one by one, ...
_SEPARATE = 8
# ... and kernels of one channel for each group with up to this many elements are summed slice by slice.
_SLICES = 49


def convolve(x, weight, stride, pairs, dilation, groups):
    """Cross-correlation of x [N, C, *size] with weight [out, C / groups, *kernel]; pairs of padding."""
    if groups == 1 or jax.default_backend() != "cpu":
        return lax.conv_general_dilated(
            x, weight, stride, pairs, rhs_dilation=dilation, feature_group_count=groups,
            precision=lax.Precision.HIGHEST,
        )  # fmt: skip
    if weight.shape[1] == 1 and math.prod(weight.shape[2:]) <= _SLICES:
        return _slices(x, weight, stride, pairs, dilation)
    if groups <= _SEPARATE:
        parts = zip(jnp.split(x, groups, 1), jnp.split(weight, groups, 0), strict=True)
        return jnp.concatenate([convolve(a, w, stride, pairs, dilation, 1) for a, w in parts], 1)
    out, per = weight.shape[0] // groups, weight.shape[1]
    blocks = weight.reshape(groups, out, 1, per, *weight.shape[2:])
    mine = jnp.eye(groups, dtype=bool).reshape(groups, 1, groups, *(1,) * (weight.ndim - 1))
    dense = jnp.where(mine, blocks, 0).reshape(groups * out, groups * per, *weight.shape[2:])
    return convolve(x, dense, stride, pairs, dilation, 1)


def _slices(x, weight, stride, pairs, dilation):
    """A convolution of every channel by itself, as a sum of products of shifted inputs."""
    zero = jnp.zeros((), x.dtype)
    x = lax.pad(x, zero, [(0, 0, 0), (0, 0, 0), *((lo, hi, 0) for lo, hi in pairs)])
    times = weight.shape[0] // x.shape[1]
    kernel, dims = weight.shape[2:], range(weight.ndim - 2)
    size = [(x.shape[2 + i] - dilation[i] * (kernel[i] - 1) - 1) // stride[i] + 1 for i in dims]
    weight = weight.reshape(1, x.shape[1], times, *kernel)
    total = None
    for at in itertools.product(*map(range, kernel)):
        start = [a * d for a, d in zip(at, dilation, strict=True)]
        stop = [b + (n - 1) * s + 1 for b, n, s in zip(start, size, stride, strict=True)]
        part = lax.slice(x, (0, 0, *start), (*x.shape[:2], *stop), (1, 1, *stride))
        term = part[:, :, None] * weight[(..., *at)].reshape(1, x.shape[1], times, *(1 for _ in dims))
        total = term if total is None else total + term
    return total.reshape(x.shape[0], x.shape[1] * times, *size)


def transpose(x, weight, size, stride, pairs, dilation, groups):
    """The adjoint of ``convolve`` with respect to its input, whose positions are ``size``."""
    if not jnp.issubdtype(x.dtype, jnp.inexact):
        return _dilated(x, weight, size, stride, pairs, dilation, groups)
    shape = (x.shape[0], weight.shape[1] * groups, *size)

    def forward(y):
        return convolve(y, weight, stride, pairs, dilation, groups)

    return jax.linear_transpose(forward, jax.ShapeDtypeStruct(shape, x.dtype))(x)[0]


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


def gradients(grad, x, weight, stride, pairs, dilation, groups):
    """Gradients of ``convolve`` with respect to x and weight."""
    return rules.adjoint(lambda x, w: convolve(x, w, stride, pairs, dilation, groups), x, weight)(grad)


def transpose_gradients(grad, x, weight, stride, pairs, dilation, groups):
    """Gradients of ``transpose`` with respect to x and weight, both made of plain convolutions."""
    back, x = rules.conj(grad), rules.conj(x)
    for_input = convolve(back, weight, stride, pairs, dilation, groups)
    _, pull = jax.vjp(lambda w: convolve(back, w, stride, pairs, dilation, groups), weight)
    return rules.conj(for_input), rules.conj(pull(rules.conj(x))[0])
