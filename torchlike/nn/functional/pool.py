"""Pooling."""

import math

from torchlike._base.deterministic import alert_not_deterministic
from torchlike._base.layout import channels_last_strides
from torchlike._base.result_layouts import suggests_channels_last
from torchlike._core.autocast.composite import in_float32_on_cpu
from torchlike._core.dispatch.bind import front
from torchlike._core.dispatch.dispatch import call
from torchlike._core.dispatch.observers import as_calls
from torchlike._core.tensor import arguments
from torchlike._core.tensor.arguments import as_tensor_arg, bools
from torchlike._core.tensor.memory_order import restride
from torchlike._core.tensor.tensor import Tensor
from torchlike._functions._install import FUNCTIONS, function
from torchlike._ops import _composed, avgpool, fractional
from torchlike._ops import pool as ops
from torchlike.nn.functional._replaced import PUBLIC, REPLACED

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices", "adaptive_max_pool2d", "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d", "adaptive_max_pool3d_with_indices", "avg_pool1d", "avg_pool2d", "avg_pool3d",
    "fractional_max_pool2d", "fractional_max_pool2d_with_indices", "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices", "lp_pool1d", "lp_pool2d", "lp_pool3d", "max_pool1d",
    "max_pool1d_with_indices", "max_pool2d", "max_pool2d_with_indices", "max_pool3d",
    "max_pool3d_with_indices", "max_unpool1d", "max_unpool2d",
    "max_unpool3d",
]  # fmt: skip


def _ints(name, what, value, n):
    if value.__class__ is int:
        return (value,)
    if value.__class__ is tuple:
        return arguments.as_ints(name, what, value)
    return () if value is None and what == "stride" else arguments.as_ints_or_int(n)(name, what, value)


def _max_pool(name, n, input, kernel_size, stride, padding, dilation, ceil_mode):
    sizes = (("kernel_size", kernel_size), ("stride", stride), ("padding", padding), ("dilation", dilation))
    return call(ops.max_pool[n], (input,), (*(_ints(name, what, v, n) for what, v in sizes), bool(ceil_mode)))


_max_pool_in_float32 = in_float32_on_cpu(_max_pool)


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
    bools("max_pool1d", ceil_mode=ceil_mode)
    out = _max_pool("max_pool1d", 1, input, kernel_size, stride, padding, dilation, ceil_mode)
    return tuple(out) if return_indices else out[0]


def max_pool2d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """The maximum of every window of the last two dimensions of [N, C, H, W] or [C, H, W].

    The gradient goes to the first maximum of a window (to its last NaN). See :func:`max_pool1d`.

    >>> import torchlike as torch
    >>> torch.nn.functional.max_pool2d(torch.arange(16.0).view(1, 4, 4), 2).tolist()
    [[[5.0, 7.0], [13.0, 15.0]]]
    """
    bools("max_pool2d", ceil_mode=ceil_mode)
    out = _max_pool("max_pool2d", 2, input, kernel_size, stride, padding, dilation, ceil_mode)
    return tuple(out) if return_indices else out[0]


def max_pool3d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """The maximum of every window of the last three dimensions; see :func:`max_pool1d`."""
    bools("max_pool3d", ceil_mode=ceil_mode)
    pool = _max_pool if return_indices else _max_pool_in_float32  # as PyTorch's autocast has it
    out = pool("max_pool3d", 3, input, kernel_size, stride, padding, dilation, ceil_mode)
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


avg_pool1d = front([avgpool.avg_pool1d], "function")
avg_pool2d = front([avgpool.avg_pool2d], "function")
avg_pool3d = front([avgpool.avg_pool3d], "function")
for _function in (avg_pool1d, avg_pool2d, avg_pool3d):
    _function.__module__ = "torchlike.nn.functional"


def _adaptive_size(name, n, input, output_size):
    """The output size, with None replaced by the input's size in that dimension."""
    if output_size.__class__ is int:
        return (output_size,) * n
    if not isinstance(output_size, list | tuple):
        return arguments.as_ints_or_int(n)(name, "output_size", output_size)
    if n == 1:
        output_size = arguments.as_ints(name, "output_size", output_size)
    if len(output_size) != n:
        raise RuntimeError(f"{name}: output_size must be {n} (an int or {n} ints), but got {list(output_size)}")
    if n > 1 and input.dim() <= n:
        raise ValueError(f"{name}: Input dimension should be at least {n + 1}, but got {input.dim()}")
    sizes = input.shape[-n:]
    return arguments.as_ints(
        name, "output_size", [s if o is None else o for o, s in zip(output_size, sizes, strict=True)]
    )


def _demand_channels(name, n, input):
    if input.ndim == n + 2 and not input.shape[1]:
        raise RuntimeError(
            f"{name}(): Expected input to have non-zero size for non-batch dimensions, but input has sizes "
            f"{list(input.shape)} with dimension 1 being empty"
        )


@as_calls(_composed.adaptive_avg_pool1d_whole)
def _mean(input):
    return input.mean(-1, keepdim=True)


def _adaptive_avg(n, input, output_size):
    size = _adaptive_size(f"adaptive_avg_pool{n}d", n, input, output_size)
    if size == (1,) and input.dim() in (2, 3):
        return _mean(input)
    if size == (1,) * n and (n > 1 or input.dim() in (2, 3)):
        out = input.mean(tuple(range(-n, 0)), keepdim=True)
        if input._view is not None and out.ndim == n + 2 and suggests_channels_last(input._layout):
            restride(out, channels_last_strides(tuple(out.shape), out.ndim))
        return out
    if n == 3:
        _demand_channels("adaptive_avg_pool3d", n, input)
    return call(avgpool.adaptive_avg_pool[n], (input,), (size,))


@function()
def adaptive_avg_pool1d(input, output_size):
    """Means over ``output_size`` intervals that cover the last dimension of [N, C, L] or [C, L].

    >>> import torchlike as torch
    >>> torch.nn.functional.adaptive_avg_pool1d(torch.tensor([[1.0, 2.0, 3.0, 4.0]]), 2)
    tensor([[1.5000, 3.5000]])
    """
    return _adaptive_avg(1, input, output_size)


def adaptive_avg_pool2d(input, output_size):
    """Means over a grid of ``output_size`` cells of the last two dimensions; None keeps a dimension.

    >>> import torchlike as torch
    >>> torch.nn.functional.adaptive_avg_pool2d(torch.ones(1, 3, 5, 7), (None, 2)).shape
    torch.Size([1, 3, 5, 2])
    """
    return _adaptive_avg(2, input, output_size)


def adaptive_avg_pool3d(input, output_size):
    """Means over a grid of ``output_size`` cells of the last three dimensions."""
    return _adaptive_avg(3, input, output_size)


def _adaptive_max(n, input, output_size):
    size = _adaptive_size(f"adaptive_max_pool{n}d", n, input, output_size)
    _demand_channels(f"adaptive_max_pool{n}d", n, input)
    return tuple(call(avgpool.adaptive_max_pool[n], (input,), (size,)))


def _chosen(own, return_indices, *arguments):
    """What ``own`` gives; without indices it is what a program has put into its place."""
    if return_indices:
        return own(*arguments)
    return (PUBLIC[own.__name__] if REPLACED else own)(*arguments)[0]


def adaptive_max_pool1d(input, output_size, return_indices=False):
    """Maxima over ``output_size`` intervals that cover the last dimension of [N, C, L] or [C, L].

    >>> import torchlike as torch
    >>> torch.nn.functional.adaptive_max_pool1d(torch.tensor([[1.0, 2.0, 3.0, 4.0]]), 2)
    tensor([[2., 4.]])
    """
    return _chosen(adaptive_max_pool1d_with_indices, return_indices, input, output_size)


def adaptive_max_pool2d(input, output_size, return_indices=False):
    """Maxima over a grid of ``output_size`` cells of the last two dimensions; None keeps a dimension."""
    return _chosen(adaptive_max_pool2d_with_indices, return_indices, input, output_size)


def adaptive_max_pool3d(input, output_size, return_indices=False):
    """Maxima over a grid of ``output_size`` cells of the last three dimensions."""
    return _chosen(adaptive_max_pool3d_with_indices, return_indices, input, output_size)


def adaptive_max_pool1d_with_indices(input, output_size, return_indices=False):
    """:func:`adaptive_max_pool1d` and the positions of the maxima."""
    return _adaptive_max(1, as_tensor_arg("adaptive_max_pool1d", "input", input), output_size)


def adaptive_max_pool2d_with_indices(input, output_size, return_indices=False):
    """:func:`adaptive_max_pool2d` and the positions of the maxima in the flattened last two dimensions."""
    return _adaptive_max(2, input, output_size)


def adaptive_max_pool3d_with_indices(input, output_size, return_indices=False):
    """:func:`adaptive_max_pool3d` and the positions of the maxima in the flattened last three dimensions."""
    return _adaptive_max(3, input, output_size)


function("adaptive_max_pool1d")(adaptive_max_pool1d_with_indices)


def _lp_pool(n, input, norm_type, kernel_size, stride, ceil_mode):
    if norm_type == 0:
        raise ZeroDivisionError(f"float division by zero: lp_pool{n}d() takes the root 1 / norm_type, but got 0")
    name = f"lp_pool{n}d"
    if REPLACED and not REPLACED.isdisjoint(("relu", f"avg_pool{n}d")):
        return _lp_pool_by_functions(n, input, norm_type, kernel_size, stride, ceil_mode)
    sizes = _ints(name, "kernel_size", kernel_size, n), _ints(name, "stride", stride, n)
    if isinstance(norm_type, Tensor) and norm_type.requires_grad:
        return _lp_pool_by_powers(n, input, norm_type, sizes, ceil_mode)
    if abs(norm_type) == math.inf:
        return _lp_pool_of_extremes(n, input, 1 if norm_type > 0 else -1, sizes, ceil_mode)
    return call(avgpool.lp_pool[n], (input, norm_type), (*sizes, bool(ceil_mode)))


def _lp_pool_of_extremes(n, input, sign, sizes, ceil_mode):
    """The limits of large exponents: the largest modulus of each window, of negative ones the smallest."""
    run = (max_pool1d, max_pool2d, max_pool3d)[n - 1]
    return run(input.abs() * sign, sizes[0], sizes[1] or None, 0, 1, ceil_mode) * sign


def _lp_pool_by_powers(n, input, norm_type, sizes, ceil_mode):
    """The same by operators, for a norm that is differentiated."""
    kernel = sizes[0] * (n if len(sizes[0]) == 1 else 1)
    average = (avg_pool1d, avg_pool2d, avg_pool3d)[n - 1]
    total = average(input.pow(norm_type), kernel, sizes[1] or None, 0, ceil_mode) * math.prod(kernel)
    return (total.sign() * total.abs().relu()).pow(1.0 / norm_type)


def _lp_pool_by_functions(n, input, norm_type, kernel_size, stride, ceil_mode):
    """The same by what a program has put into ``torch.nn.functional``."""
    average, powers = PUBLIC[f"avg_pool{n}d"], input.pow(norm_type)
    if stride is None:
        means = average(powers, kernel_size, padding=0, ceil_mode=ceil_mode)
    else:
        means = average(powers, kernel_size, stride, 0, ceil_mode)
    count = kernel_size**n if isinstance(kernel_size, int) else math.prod(kernel_size)
    return (means.sign() * PUBLIC["relu"](means.abs())).mul(count).pow(1.0 / norm_type)


def lp_pool1d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """``(sum of x ** p) ** (1 / p)`` of every window of the last dimension.

    >>> import torchlike as torch
    >>> torch.nn.functional.lp_pool1d(torch.tensor([[3.0, 4.0]]), 2, 2)
    tensor([[5.]])
    """
    return _lp_pool(1, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """``(sum of x ** p) ** (1 / p)`` of every window of the last two dimensions."""
    return _lp_pool(2, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """``(sum of x ** p) ** (1 / p)`` of every window of the last three dimensions."""
    return _lp_pool(3, input, norm_type, kernel_size, stride, ceil_mode)


def _unpool_size(n, input, kernel_size, stride, padding, output_size):
    as_tuple = lambda x: tuple(x) if isinstance(x, list | tuple) else (x,) * n  # noqa: E731
    kernel, pad = as_tuple(kernel_size), as_tuple(padding)
    stride = kernel if stride is None or isinstance(stride, list | tuple) and not stride else as_tuple(stride)
    sizes = zip(input.shape[-n:], stride, pad, kernel, strict=True)
    usual = [(size - 1) * s - 2 * p + k for size, s, p, k in sizes]
    if output_size is None:
        return tuple(usual)
    size = tuple(output_size)
    if len(size) == n + 2:
        size = size[2:]
    if len(size) != n:
        raise ValueError(
            f"output_size should be a sequence containing {n} or {n + 2} elements, but it has a length of '{len(size)}'"
        )
    for d, (got, default, s) in enumerate(zip(size, usual, stride, strict=True)):
        if not default - s < got < default + s:
            raise ValueError(f'invalid output_size "{size}" (dim {d} must be between {default - s} and {default + s})')
    return size


def _unpool(n, input, indices, kernel_size, stride, padding, output_size):
    size = _unpool_size(n, input, kernel_size, stride, padding, output_size)
    alert_not_deterministic(f"max_unpooling{max(n, 2)}d_forward_out")
    if n < 3:
        return call(avgpool.max_unpool, (input, indices), (size,))
    steps = [kernel_size if stride is None or stride in ([], ()) else stride, padding]
    return _unpooled3(input, indices, size, *[[x] * 3 if isinstance(x, int) else list(x) for x in steps])


@as_calls(lambda aten, *arguments: aten.max_unpool3d(*arguments))
def _unpooled3(input, indices, size, stride, padding):
    return call(avgpool.max_unpool, (input, indices), (size,))


def max_unpool1d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """Zeros with the pooled maxima back where :func:`max_pool1d` found them.

    ``output_size`` chooses among the sizes that give the same pooled size.

    >>> import torchlike as torch
    >>> F = torch.nn.functional
    >>> top, at = F.max_pool1d(torch.tensor([[1.0, 3.0, 5.0, 2.0]]), 2, return_indices=True)
    >>> F.max_unpool1d(top, at, 2)
    tensor([[0., 3., 5., 0.]])
    """
    return _unpool(1, input, indices, kernel_size, stride, padding, output_size)


def max_unpool2d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """Zeros with the pooled maxima back where :func:`max_pool2d` found them; see :func:`max_unpool1d`."""
    return _unpool(2, input, indices, kernel_size, stride, padding, output_size)


def max_unpool3d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """Zeros with the pooled maxima back where :func:`max_pool3d` found them; see :func:`max_unpool1d`."""
    return _unpool(3, input, indices, kernel_size, stride, padding, output_size)


def _fractional(n, input, kernel_size, output_size, output_ratio, samples):
    """(values, indices) of fractional max pooling."""
    name = f"fractional_max_pool{n}d"
    if not isinstance(input, Tensor):
        raise TypeError(f"{name}(): argument 'input' must be Tensor, not {type(input).__name__}")
    if output_size is None and output_ratio is None:
        raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
    if output_size is None:
        if not isinstance(output_ratio, (tuple, list)):
            raise TypeError(f"{name}: output_ratio must be a tuple of floats, not {type(output_ratio).__name__}")
        if len(output_ratio) != n:
            raise ValueError(f"{name} requires output_ratio to be a tuple of {n} floats, but got {output_ratio}")
        output_size = tuple(int(input.size(i - n) * ratio) for i, ratio in enumerate(output_ratio))
    if samples is None:
        batch = 1 if input.dim() == n + 1 else input.size(0)
        samples = FUNCTIONS["rand"](batch, input.size(-n - 1), n, dtype=input.dtype, device=input.device)
    for what, size in (("kernel_size", kernel_size), ("output_size", output_size)):
        if isinstance(size, (tuple, list)) and len(size) != n:
            counted = "Ints" if n == 2 else "three Ints"
            raise RuntimeError(f"{name}: {what} must either be a single Int or tuple of {counted}, but got {size}")
    sizes = (_ints(name, "kernel_size", kernel_size, n), _ints(name, "output_size", output_size, n))
    return call(fractional.fractional_max_pool[n], (input, samples), sizes)


def fractional_max_pool2d_with_indices(
    input, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None
):
    """(values, flat indices) of :func:`fractional_max_pool2d`."""
    return _fractional(2, input, kernel_size, output_size, output_ratio, _random_samples)


def fractional_max_pool3d_with_indices(
    input, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None
):
    """(values, flat indices) of :func:`fractional_max_pool3d`."""
    return _fractional(3, input, kernel_size, output_size, output_ratio, _random_samples)


def fractional_max_pool2d(
    input, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None
):
    """The maximum of windows at random places, so many that the result has a given size.

    Args:
        input: [N, C, H, W] or [C, H, W]. kernel_size: of a window.
        output_size, output_ratio: the size of the result, or its shares of the input's.
        return_indices: also give the place of each maximum, for :func:`max_unpool2d`.

    Raises:
        ValueError: neither a size nor a ratio. RuntimeError: windows that do not fit.

    >>> import torchlike as torch
    >>> torch.nn.functional.fractional_max_pool2d(torch.ones(1, 5, 5), 2, output_size=3).shape
    torch.Size([1, 3, 3])
    """
    sizes = input, kernel_size, output_size, output_ratio, False, _random_samples
    return _chosen(fractional_max_pool2d_with_indices, return_indices, *sizes)


def fractional_max_pool3d(
    input, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None
):
    """The maximum of windows at random places in [N, C, T, H, W]; see :func:`fractional_max_pool2d`."""
    sizes = input, kernel_size, output_size, output_ratio, False, _random_samples
    return _chosen(fractional_max_pool3d_with_indices, return_indices, *sizes)
