"""Convolution and transposed convolution in any number of dimensions."""

import jax.numpy as jnp
from jax import lax

from torchlike._base.dtypes import from_np
from torchlike._decl.op import op


def expand(name, what, value, n):
    """``value`` (a tuple of one or ``n`` ints) as ``n`` ints."""
    if len(value) == n:
        return value
    if len(value) == 1:
        return value * n
    raise RuntimeError(
        f"expected {what} to be a single integer value or a list of {n} values to match the convolution "
        f"dimensions, but got {what}={list(value)} (in {name})"
    )


@op("convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] "
    "dilation, bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor",
    variants="function", autocast="lower_precision_fp")  # fmt: skip
def convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    """Cross-correlation of input [N, C, *size] with weight [out, C / groups, *kernel], plus bias [out].

    ``padding`` is one number for each dimension, or a (low, high) pair for each; a transposed
    convolution is the adjoint of the convolution with the same weight [C, out / groups, *kernel].
    """
    n = weight.ndim - 2
    _check_ranks(input, weight, n)
    stride, dilation = (
        expand("convolution", "stride", stride, n),
        expand("convolution", "dilation", dilation, n),
    )
    output_padding = expand("convolution", "output_padding", output_padding, n)
    pairs = _pairs(padding, n)
    _check_numbers(stride, dilation, pairs, output_padding, groups)
    _check_types(input, weight, bias)
    _check_sizes(input, weight, bias, pairs, dilation, transposed, groups)
    if transposed:
        out = _transposed(input, weight, stride, pairs, dilation, output_padding, groups)
    else:
        out = lax.conv_general_dilated(
            input, weight, stride, pairs, rhs_dilation=dilation, feature_group_count=groups,
            precision=lax.Precision.HIGHEST,
        )  # fmt: skip
    return out if bias is None else out + bias.reshape(-1, *(1,) * n)


def _pairs(padding, n):
    if len(padding) == 2 * n and n > 1 or len(padding) == 2 and n == 1:
        return tuple(zip(padding[::2], padding[1::2], strict=True))
    return tuple((p, p) for p in expand("convolution", "padding", padding, n))


def _transposed(input, weight, stride, pairs, dilation, output_padding, groups):
    n, kernel = weight.ndim - 2, weight.shape[2:]
    reach = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
    pads = [(r - lo, r - hi + o) for r, (lo, hi), o in zip(reach, pairs, output_padding, strict=True)]
    for size, s, (lo, hi) in zip(input.shape[2:], stride, pads, strict=True):
        if (size - 1) * s + 1 + lo + hi <= 0:
            raise RuntimeError(
                f"Given input size per channel: {list(input.shape[2:])}. Calculated output size per channel "
                "is too small"
            )
    per_group = weight.reshape(groups, weight.shape[0] // groups, *weight.shape[1:])
    swapped = jnp.flip(jnp.swapaxes(per_group, 1, 2), tuple(range(3, 3 + n)))
    kernels = swapped.reshape(groups * weight.shape[1], weight.shape[0] // groups, *kernel)
    return lax.conv_general_dilated(
        input, kernels, (1,) * n, pads, lhs_dilation=stride, rhs_dilation=dilation,
        feature_group_count=groups, precision=lax.Precision.HIGHEST,
    )  # fmt: skip


def _check_ranks(input, weight, n):
    if n < 1:
        raise RuntimeError(
            f"weight should have at least three dimensions, but got {list(weight.shape)} (in convolution)"
        )
    if input.ndim != n + 2:
        raise RuntimeError(
            f"Expected {n + 2}-dimensional input for {n + 2}-dimensional weight {list(weight.shape)}, but "
            f"got {input.ndim}-dimensional input of size {list(input.shape)} instead"
        )


def _check_numbers(stride, dilation, pairs, output_padding, groups):
    if groups <= 0:
        raise RuntimeError(f"expected groups to be greater than 0, but got groups={groups}")
    if any(p < 0 for pair in pairs for p in pair):
        raise RuntimeError("negative padding is not supported")
    if any(p < 0 for p in output_padding):
        raise RuntimeError("negative output_padding is not supported")
    if any(s <= 0 for s in stride):
        raise RuntimeError("non-positive stride is not supported")
    if any(d <= 0 for d in dilation):
        raise RuntimeError(f"dilation should be greater than zero, but got {list(dilation)}")
    for o, s, d in zip(output_padding, stride, dilation, strict=True):
        if o >= s and o >= d:
            raise RuntimeError(
                "output padding must be smaller than either stride or dilation, but got output_padding: "
                f"{list(output_padding)} stride: {list(stride)} dilation: {list(dilation)}"
            )


def _check_types(input, weight, bias):
    if input.dtype != weight.dtype:
        raise RuntimeError(
            f"expected scalar type {from_np(input.dtype).scalar_name} but found "
            f"{from_np(weight.dtype).scalar_name}: convolution needs input and weight of one dtype; convert "
            "one with .to(dtype)"
        )
    if bias is not None and bias.dtype != input.dtype:
        raise RuntimeError(
            f"Input type ({from_np(input.dtype)}) and bias type ({from_np(bias.dtype)}) should be the same; "
            "convert one with .to(dtype)"
        )


def _check_sizes(input, weight, bias, pairs, dilation, transposed, groups):
    channels, kernel = input.shape[1], weight.shape[2:]
    text = f"Given groups={groups}, weight of size {list(weight.shape)}"
    if weight.shape[0] < groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be at least {groups} at dimension 0, but got weight "
            f"of size {list(weight.shape)} instead"
        )
    if weight.shape[0] % groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, but got "
            f"weight of size {list(weight.shape)} instead"
        )
    needed = weight.shape[0] if transposed else weight.shape[1] * groups
    if channels != needed:
        raise RuntimeError(
            f"{text}, expected input{list(input.shape)} to have {needed} channels, but got {channels} "
            "channels instead"
        )
    outputs = weight.shape[1] * groups if transposed else weight.shape[0]
    if bias is not None and (bias.ndim != 1 or bias.shape[0] != outputs):
        raise RuntimeError(
            f"Given weight of size {list(weight.shape)}, expected bias to be 1-dimensional with {outputs} "
            f"elements, but got bias of size {list(bias.shape)} instead"
        )
    padded = [s + lo + hi for s, (lo, hi) in zip(input.shape[2:], pairs, strict=True)]
    needs = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    if not transposed and any(p < k for p, k in zip(padded, needs, strict=True)):
        raise RuntimeError(
            f"Calculated padded input size per channel: ({' x '.join(map(str, padded))}). Kernel size: "
            f"({' x '.join(map(str, needs))}). Kernel size can't be greater than actual input size"
        )
