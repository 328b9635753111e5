"""Convolution and transposed convolution in any number of dimensions."""

from functools import partial

import jax.numpy as jnp
import numpy as np
from jax import lax

from torchlike._base import result_layouts
from torchlike._base.dtypes import from_np
from torchlike._decl.op import op
from torchlike._ops._divided import convolve, gradients, transpose, transpose_gradients
from torchlike._ops._elementwise import is_reduced, widely


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


def _geometry(weight, stride, padding, dilation, output_padding):
    """(stride, pairs of padding, dilation), each for every dimension.

    A transposed convolution's ``output_padding`` is padding that its adjoint does not read.
    """
    n = weight.ndim - 2
    stride, dilation = (
        expand("convolution", "stride", stride, n),
        expand("convolution", "dilation", dilation, n),
    )
    padding = expand("convolution", "padding", padding, n)
    extra = expand("convolution", "output_padding", output_padding, n)
    return stride, tuple((p, p - e) for p, e in zip(padding, extra, strict=True)), dilation


def _convolution_backward(
    grad, input, weight, bias_aval, stride, padding, dilation, transposed, output_padding, groups
):
    if not input.shape[1]:
        bias = None if bias_aval is None else jnp.zeros(bias_aval.shape, bias_aval.dtype)
        return jnp.zeros_like(input), jnp.zeros_like(weight), bias
    geometry = _geometry(weight, stride, padding, dilation, output_padding)
    make = transpose_gradients if transposed else gradients
    for_input, for_weight = make(grad, input, weight, *geometry, groups)
    return for_input, for_weight, None if bias_aval is None else jnp.sum(grad, (0, *range(2, grad.ndim)))


def _for_each(numbers, weight):
    """One number for each dimension that is convolved."""
    return numbers * (len(weight.shape) - 2) if len(numbers) == 1 else numbers


def _for_each_dimension(aten, input, weight, bias, *rest):
    return aten.convolution(input, weight, bias, *[list(_for_each(x, weight)) if type(x) is tuple else x for x in rest])


@op("convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] "
    "dilation, bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor",
    variants="function", autocast="lower_precision_fp", aten={"calls": _for_each_dimension},
    layout=result_layouts.convolution,
    vjp={"input, weight, bias": _convolution_backward},
    backward={"input, weight, bias": (
        "convolution_backward(Tensor grad_output, Tensor input, Tensor weight, SymInt[]? bias_sizes, SymInt[] stride, "
        "SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups, "
        "bool[3] output_mask) -> (Tensor, Tensor, Tensor)", {
            "bias_sizes": lambda bias_aval: [0] if bias_aval is None else list(bias_aval.shape),
            "stride": lambda stride, weight_aval: list(_for_each(stride, weight_aval)),
            "padding": lambda padding, weight_aval: list(_for_each(padding, weight_aval)),
            "dilation": lambda dilation, weight_aval: list(_for_each(dilation, weight_aval)),
            "output_padding": lambda output_padding, weight_aval: list(_for_each(output_padding, weight_aval)),
        })},
    saved={
        **{n: n for n in ("bias_sym_sizes_opt", "groups", "input", "transposed", "weight")},
        "stride": lambda stride, weight_aval: _for_each(stride, weight_aval),
        "padding": lambda padding, weight_aval: _for_each(padding, weight_aval),
        "dilation": lambda dilation, weight_aval: _for_each(dilation, weight_aval),
        "output_padding": lambda output_padding, weight_aval: _for_each(output_padding, weight_aval),
    })  # fmt: skip
def convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    """Cross-correlation of input [N, C, *size] with weight [out, C / groups, *kernel], plus bias [out].

    ``padding`` is one number for all dimensions, or one for each; a transposed convolution is the adjoint of the
    convolution with the same weight [C, out / groups, *kernel].
    No channels in, none out, as in PyTorch.
    """
    n = weight.ndim - 2
    _check_ranks(input, weight, n)
    stride, pairs, dilation = _geometry(weight, stride, padding, dilation, (0,))
    output_padding = expand("convolution", "output_padding", output_padding, n)
    _check_numbers(stride, dilation, pairs, output_padding, groups)
    _check_types(input, weight, bias, transposed)
    _check_sizes(input, weight, bias, pairs, dilation, transposed, groups)
    if transposed:
        size = _transposed_size(input, weight, stride, pairs, dilation, output_padding)
        geometry = _geometry(weight, stride, padding, dilation, output_padding)
        convolved = partial(transpose, size=size)
    else:
        geometry, convolved = (stride, pairs, dilation), convolve
    numbers = dict(zip(("stride", "pairs", "dilation", "groups"), (*geometry, groups), strict=True))
    if not input.shape[1]:
        return convolved(input, weight, **numbers)[:, :0]
    convolved = partial(convolved, **numbers)
    return convolved(input, weight) if bias is None else _plus(bias, convolved, input, weight)


def _plus(bias, convolved, input, weight):
    """With its bias; on the CPU, which computes with short floats in float32, rounded once, as PyTorch does."""

    def added(input, weight, bias):
        return convolved(input, weight) + bias.reshape(-1, *(1,) * (weight.ndim - 2))

    if not is_reduced(input):
        return added(input, weight, bias)
    return lax.platform_dependent(input, weight, bias, cpu=partial(widely, added), default=added)


def _transposed_size(input, weight, stride, pairs, dilation, output_padding):
    numbers = zip(input.shape[2:], stride, pairs, dilation, weight.shape[2:], output_padding, strict=True)
    size = [(n - 1) * s - lo - hi + d * (k - 1) + e + 1 for n, s, (lo, hi), d, k, e in numbers]
    if min(size) <= 0:
        raise RuntimeError(
            f"Given input size per channel: {list(input.shape[2:])}. Calculated output size per channel: "
            f"{size}. Output size is too small"
        )
    return size


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


def _check_types(input, weight, bias, transposed):
    if input.dtype != weight.dtype:
        raise RuntimeError(
            f"expected scalar type {from_np(input.dtype).scalar_name} but found "
            f"{from_np(weight.dtype).scalar_name}: convolution needs input and weight of one dtype; convert "
            "one with .to(dtype)"
        )
    if input.dtype == np.bool_ or transposed and input.dtype.kind in "iu" and input.dtype.itemsize < 8:
        raise NotImplementedError(
            f"\"convolution\" not implemented for '{from_np(input.dtype).scalar_name}'; use .float()"
        )
    if bias is not None and bias.dtype != input.dtype:
        raise RuntimeError(
            f"Input type ({from_np(input.dtype)}) and bias type ({from_np(bias.dtype)}) should be the same; "
            "convert one with .to(dtype)"
        )


def _check_sizes(input, weight, bias, pairs, dilation, transposed, groups):
    channels, kernel = input.shape[1], weight.shape[2:]
    size = f"weight of size {list(weight.shape)}"
    text = f"Given transposed=1, {size}" if transposed else f"Given groups={groups}, {size}"
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
            f"{text}, expected input{list(input.shape)} to have {needed} channels, but got {channels} channels instead"
        )
    if 0 in kernel:
        raise RuntimeError(f"{text}, expected a kernel of at least one element, but got size {list(kernel)}")
    outputs = weight.shape[1] * groups if transposed else weight.shape[0]
    if bias is not None and (bias.ndim != 1 or bias.shape[0] != outputs):
        raise RuntimeError(
            f"Given {'transposed=1, ' * transposed}{size}, expected bias to be 1-dimensional with {outputs} "
            f"elements, but got bias of size {list(bias.shape)} instead"
        )
    padded = [s + lo + hi for s, (lo, hi) in zip(input.shape[2:], pairs, strict=True)]
    needs = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    if not transposed and any(p < k for p, k in zip(padded, needs, strict=True)):
        raise RuntimeError(
            f"Calculated padded input size per channel: ({' x '.join(map(str, padded))}). Kernel size: "
            f"({' x '.join(map(str, needs))}). Kernel size can't be greater than actual input size"
        )
    if 0 in input.shape[2:] and 0 not in input.shape[:2]:
        raise RuntimeError(
            f"Only zero batch or zero channel inputs are supported, but got input shape: {list(input.shape)}"
        )


@op("conv_tbc(Tensor self, Tensor weight, Tensor bias, int pad=0) -> Tensor", variants="function",
    node="ConvTbcBackward", saved="bias! pad self weight", autocast="lower_precision_fp")  # fmt: skip
def conv_tbc(self, weight, bias, pad):
    """A convolution over time: [T, B, C] with ``weight`` [K, C, O] and ``bias`` [O] to [T + 2 pad - K + 1, B, O].

    >>> import torchlike as torch
    >>> torch.conv_tbc(torch.ones(4, 1, 2), torch.ones(3, 2, 1), torch.zeros(1)).flatten()
    tensor([6., 6.])
    """
    if self.ndim != 3:
        raise RuntimeError(f"Input must have 3 dims: time, batch, in_channel (conv_tbc got {list(self.shape)})")
    if weight.ndim != 3:
        raise RuntimeError(
            "Weight tensor must have 3 dims: kernel_width, in_channels, out_channels. "
            f"(conv_tbc got {list(weight.shape)})"
        )
    if bias.ndim != 1:
        raise RuntimeError(f"Bias must be 1-D (conv_tbc got {list(bias.shape)})")
    if self.shape[2] != weight.shape[1]:
        raise RuntimeError(
            "Input dim 2 (input channels) is not == dim 1 in the weight tensor "
            f"(conv_tbc got {list(self.shape)} and {list(weight.shape)})"
        )
    if weight.shape[2] != bias.shape[0]:
        raise RuntimeError(
            "Bias size must equal dim 2 in the weight tensor (output channels). "
            f"(conv_tbc got {list(bias.shape)} and {list(weight.shape)})"
        )
    if self.dtype != weight.dtype:
        raise RuntimeError(
            f"self and mat2 must have the same dtype, but got {from_np(self.dtype).scalar_name} and "
            f"{from_np(weight.dtype).scalar_name} (in conv_tbc)"
        )
    length = self.shape[0] + 2 * pad - weight.shape[0] + 1
    if length < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {length} (conv_tbc: too wide a kernel)")
    x = jnp.moveaxis(self, 0, 2)
    out = convolve(x, jnp.transpose(weight, (2, 1, 0)), (1,), ((pad, pad),), (1,), 1)
    return jnp.moveaxis(out, 2, 0) + bias
