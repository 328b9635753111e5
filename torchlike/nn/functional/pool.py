"""Pooling."""

from torchlike._core import arguments
from torchlike._core.dispatch import call
from torchlike._functions._install import function
from torchlike._ops import pool as ops

__all__ = [
    "max_pool1d", "max_pool1d_with_indices", "max_pool2d", "max_pool2d_with_indices", "max_pool3d", "max_pool3d_with_indices",
]  # fmt: skip


def _ints(name, what, value, n):
    if value.__class__ is int:
        return (value,)
    if value.__class__ is tuple:
        return arguments.as_ints(name, what, value)
    return () if value is None else arguments.as_ints_or_int(n)(name, what, value)


def _max_pool(name, n, input, kernel_size, stride, padding, dilation, ceil_mode):
    sizes = (("kernel_size", kernel_size), ("stride", stride), ("padding", padding), ("dilation", dilation))
    return call(ops.max_pool[n], (input,), (*(_ints(name, what, v, n) for what, v in sizes), bool(ceil_mode)))


def max_pool1d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """The maximum of every window of the last dimension of [N, C, L] or [C, L].

    Args:
        stride: distance of windows (default: ``kernel_size``).
        padding: how far windows may start before the input; at most half of ``kernel_size``.
        dilation: distance of the elements of a window.
        ceil_mode: whether the last window may hang over the end.
        return_indices: also return the positions of the maxima.

    >>> import torchlike as torch
    >>> torch.nn.functional.max_pool1d(torch.tensor([[1.0, 3.0, 2.0, 0.0]]), 2).tolist()
    [[3.0, 2.0]]
    """
    out = _max_pool("max_pool1d", 1, input, kernel_size, stride, padding, dilation, ceil_mode)
    return tuple(out) if return_indices else out[0]


def max_pool2d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """The maximum of every window of the last two dimensions of [N, C, H, W] or [C, H, W].

    The gradient goes to the first maximum of a window (to its last NaN). See :func:`max_pool1d`.

    >>> import torchlike as torch
    >>> torch.nn.functional.max_pool2d(torch.arange(16.0).view(1, 4, 4), 2).tolist()
    [[[5.0, 7.0], [13.0, 15.0]]]
    """
    out = _max_pool("max_pool2d", 2, input, kernel_size, stride, padding, dilation, ceil_mode)
    return tuple(out) if return_indices else out[0]


def max_pool3d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """The maximum of every window of the last three dimensions; see :func:`max_pool1d`."""
    out = _max_pool("max_pool3d", 3, input, kernel_size, stride, padding, dilation, ceil_mode)
    return tuple(out) if return_indices else out[0]


def max_pool1d_with_indices(
    input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False
):
    """:func:`max_pool1d` and the positions of the maxima."""
    return max_pool1d(input, kernel_size, stride, padding, dilation, ceil_mode, True)


def max_pool2d_with_indices(
    input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False
):
    """:func:`max_pool2d` and the positions of the maxima in the flattened last two dimensions."""
    return max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode, True)


def max_pool3d_with_indices(
    input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False
):
    """:func:`max_pool3d` and the positions of the maxima in the flattened last three dimensions."""
    return max_pool3d(input, kernel_size, stride, padding, dilation, ceil_mode, True)


@function("max_pool1d")
def _max_pool1d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False):
    """The maximum of every window of the last dimension."""
    return max_pool1d(input, kernel_size, stride, padding, dilation, ceil_mode)


@function("max_pool2d")
def _max_pool2d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False):
    """The maximum of every window of the last two dimensions."""
    return max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode)


@function("max_pool3d")
def _max_pool3d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False):
    """The maximum of every window of the last three dimensions."""
    return max_pool3d(input, kernel_size, stride, padding, dilation, ceil_mode)


@function("max_pool1d_with_indices")
def _max_pool1d_with_indices(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False):
    """The maximum of every window of the last dimension, and its position."""
    return max_pool1d(input, kernel_size, stride, padding, dilation, ceil_mode, True)
