"""Convolutions."""

from torchlike._base.once import warn_once
from torchlike._core.dispatch.dispatch import call
from torchlike._core.tensor import arguments
from torchlike._core.tensor.tensor import Tensor
from torchlike._functions._install import FUNCTIONS, function
from torchlike._ops.conv import convolution
from torchlike._ops.pad import constant_pad_nd

__all__ = ["conv1d", "conv2d", "conv3d", "conv_tbc", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"]

conv_tbc = FUNCTIONS["conv_tbc"]
_ZEROS = {1: (0,), 2: (0, 0), 3: (0, 0, 0)}


def _ints(name, what, value):
    return (value,) if value.__class__ is int else arguments.as_ints_or_int(1)(name, what, value)


def _named_padding(name, input, weight, stride, dilation, padding):
    """The input and the numbers of ``padding='same'`` or ``'valid'``; the input has what the high ends have more."""
    n = weight.ndim - 2
    if padding == "valid":
        return input, (0,) * n
    if padding != "same":
        raise RuntimeError(f"Invalid padding string: '{padding}'; {name}() knows 'same' and 'valid'")
    if any(s != 1 for s in stride):
        raise RuntimeError(f"padding='same' is not supported for strided convolutions (in {name}())")
    reach = [d * (k - 1) for d, k in zip(dilation * (n // len(dilation)), weight.shape[2:], strict=True)]
    if any(r % 2 for r in reach):
        warn_once(
            "Using padding='same' with even kernel lengths and odd dilation may require a zero-padded copy of the "
            "input be created"
        )
        input = call(constant_pad_nd, (input, 0), (tuple(p for r in reversed(reach) for p in (0, r % 2)),))
    return input, tuple(r // 2 for r in reach)


def _run(name, n, inputs, static):
    """One convolution; an input without batch dimension gets one for the call."""
    for what, t in zip(("input", "weight"), inputs[:2], strict=True):
        if not isinstance(t, Tensor):
            raise TypeError(f"{name}(): argument '{what}' must be Tensor, not {type(t).__name__}")
    input, weight, bias = inputs
    if static[-1].__class__ is not int:
        static = (*static[:-1], arguments.as_int(name, "groups", static[-1]))
    if input.ndim == n + 2:
        return call(convolution, inputs, static)
    if input.ndim != n + 1:
        raise RuntimeError(
            f"Expected {n + 1}D (unbatched) or {n + 2}D (batched) input to {name}, but got input of size: "
            f"{list(input.shape)}"
        )
    return call(convolution, (Tensor.unsqueeze(input, 0), weight, bias), static).squeeze(0)


def _forward(name, n, input, weight, bias, stride, padding, dilation, groups):
    if stride.__class__ is not tuple:
        stride = _ints(name, "stride", stride)
    if dilation.__class__ is not tuple:
        dilation = _ints(name, "dilation", dilation)
    if isinstance(padding, str):
        input, padding = _named_padding(name, input, weight, stride, dilation, padding)
    elif padding.__class__ is not tuple:
        padding = _ints(name, "padding", padding)
    return _run(name, n, (input, weight, bias), (stride, padding, dilation, False, _ZEROS[n], groups))


def _transposed(name, n, input, weight, bias, stride, padding, output_padding, groups, dilation):
    stride, padding = _ints(name, "stride", stride), _ints(name, "padding", padding)
    dilation = _ints(name, "dilation", dilation)
    output_padding = _ints(name, "output_padding", output_padding)
    return _run(name, n, (input, weight, bias), (stride, padding, dilation, True, output_padding, groups))


@function()
def conv1d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """Cross-correlation over the last dimension.

    Args:
        input: [N, C, L] or [C, L]. weight: [out, C / groups, k]. bias: [out].
        padding: an int, or ``'same'`` (stride 1) or ``'valid'``.

    >>> import torchlike as torch
    >>> torch.conv1d(torch.ones(1, 1, 4), torch.ones(1, 1, 3)).tolist()
    [[[3.0, 3.0]]]
    """
    return _forward("conv1d", 1, input, weight, bias, stride, padding, dilation, groups)


@function()
def conv2d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """Cross-correlation over the last two dimensions: [N, C, H, W] or [C, H, W]; see :func:`conv1d`.

    >>> import torchlike as torch
    >>> torch.conv2d(torch.ones(1, 1, 3, 3), torch.ones(1, 1, 3, 3), padding=1)[0, 0, 0].tolist()
    [4.0, 6.0, 4.0]
    """
    return _forward("conv2d", 2, input, weight, bias, stride, padding, dilation, groups)


@function()
def conv3d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """Cross-correlation over the last three dimensions: [N, C, D, H, W]; see :func:`conv1d`."""
    return _forward("conv3d", 3, input, weight, bias, stride, padding, dilation, groups)


@function()
def conv_transpose1d(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    """The adjoint of :func:`conv1d`: input [N, C, L] or [C, L], weight [C, out / groups, k].

    The output has length ``(L - 1) * stride - 2 * padding + dilation * (k - 1) + output_padding + 1``.

    >>> import torchlike as torch
    >>> torch.conv_transpose1d(torch.ones(1, 1, 2), torch.ones(1, 1, 2), stride=2).tolist()
    [[[1.0, 1.0, 1.0, 1.0]]]
    """
    return _transposed("conv_transpose1d", 1, input, weight, bias, stride, padding, output_padding, groups, dilation)


@function()
def conv_transpose2d(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    """The adjoint of :func:`conv2d`; see :func:`conv_transpose1d`."""
    return _transposed("conv_transpose2d", 2, input, weight, bias, stride, padding, output_padding, groups, dilation)


@function()
def conv_transpose3d(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    """The adjoint of :func:`conv3d`; see :func:`conv_transpose1d`."""
    return _transposed("conv_transpose3d", 3, input, weight, bias, stride, padding, output_padding, groups, dilation)
