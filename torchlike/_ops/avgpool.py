"""Average and adaptive pooling, and the inverse of max pooling."""

import math

import jax.numpy as jnp
import numpy as np
from jax import lax

from torchlike._base import result_layouts
from torchlike._base.dims import demand_countable
from torchlike._base.dtypes import from_np, int64
from torchlike._decl.op import op
from torchlike._ops import _composed, _derivatives
from torchlike._ops._elementwise import demand, direction, wide
from torchlike._ops._resample import mean_table, resample
from torchlike._ops.pool import Windows, batched
from torchlike._ops.power import number_power

# Windows longer than this are summed by one reduction instead of slice by slice.
_UNROLLED = 16


def _window_sums(x, windows):
    """Sums over the windows, one dimension after another."""
    x = windows.padded(x, 0)
    for axis, (o, k, s) in enumerate(zip(windows.out, windows.kernel, windows.stride, strict=True), 1):
        if o == 1:
            x = jnp.sum(lax.slice_in_dim(x, 0, k, axis=axis), axis, keepdims=True)
        elif k <= _UNROLLED:
            x = sum(lax.slice_in_dim(x, i, i + (o - 1) * s + 1, s, axis) for i in range(k))
        else:
            shape, strides = [1] * x.ndim, [1] * x.ndim
            shape[axis], strides[axis] = k, s
            x = lax.reduce_window(x, np.zeros((), x.dtype), lax.add, shape, strides, "VALID")
    return x


def _divisor(windows, count_include_pad):
    """Number of elements of each window, those of the padding included or not."""
    total = np.ones((1,) * len(windows.out), np.int64)
    numbers = zip(windows.size, windows.out, windows.kernel, windows.stride, windows.pad, strict=True)
    for axis, (n, o, k, s, p) in enumerate(numbers):
        start = np.arange(o) * s - p
        end = np.minimum(start + k, n + p)
        if not count_include_pad:
            start, end = np.maximum(start, 0), np.minimum(end, n)
        shape = [1] * len(windows.out)
        shape[axis] = -1
        total = total * (end - start).reshape(shape)
    return total.flat[0] if (total == total.flat[0]).all() else total


def _avg_pool(n, self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override):
    name = f"avg_pool{n}d"
    if not (jnp.issubdtype(self.dtype, jnp.floating) or self.dtype == int64.np):
        raise NotImplementedError(f"\"{name}\" not implemented for '{from_np(self.dtype).scalar_name}'")
    if divisor_override == 0:
        raise RuntimeError(f"divisor must be not zero (in {name})")
    if self.ndim not in (n + 1, n + 2):
        raise RuntimeError(
            f"Expected {n + 1} to {n + 2} dimensions, but got {self.ndim}-dimensional tensor for argument #1 "
            f"'self' (while checking arguments for {name})"
        )
    x, lead = batched(name, self, n)
    windows = Windows(name, x.shape[1:], kernel_size, stride, padding, (1,), ceil_mode)
    if n == 3 and any([k > size for k, size in zip(windows.kernel, windows.size, strict=True)]):
        (t, h, w), (kt, kh, kw) = windows.size, windows.kernel
        raise RuntimeError(
            f"{name}: input image (T: {t} H: {h} W: {w}) smaller than kernel size (kT: {kt} kH: {kh} kW: {kw})"
        )
    exact = wide(x)
    total = _window_sums(exact, windows)
    count = np.asarray(divisor_override or _divisor(windows, count_include_pad)).astype(total.dtype)
    out = lax.div(total, jnp.broadcast_to(count, total.shape)) if total.dtype == int64.np else total / count
    return out.reshape(*lead, *windows.out).astype(self.dtype)


_SQUEEZED = {"dim": lambda: -2 % 2**64, "self!": None}  # in one dimension PyTorch pools in two, then squeezes


@op("avg_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=0, bool ceil_mode=False, "
    "bool count_include_pad=True) -> Tensor", variants="function", node="SqueezeBackward1", saved=_SQUEEZED,
    aten={"out": "out", "calls": _composed.avg_pool1d}, layout=result_layouts.suggested_rows)  # fmt: skip
def avg_pool1d(self, kernel_size, stride, padding, ceil_mode, count_include_pad):
    """The mean of every window of the last dimension of [N, C, L] or [C, L].

    Args:
        stride: distance of windows (default: ``kernel_size``).
        ceil_mode: whether the last window may hang over the end.
        count_include_pad: whether padding counts in the means.

    >>> import torchlike as torch
    >>> torch.nn.functional.avg_pool1d(torch.tensor([[1.0, 3.0, 5.0, 7.0]]), 2)
    tensor([[2., 6.]])
    """
    return _avg_pool(1, self, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


@op("avg_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, bool ceil_mode=False, "
    "bool count_include_pad=True, int? divisor_override=None) -> Tensor", variants="out",
    node="AvgPool2DBackward", layout=result_layouts.suggested,
    backward="avg_pool2d_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] stride, int[2] padding, "
    "bool ceil_mode, bool count_include_pad, int? divisor_override) -> Tensor",
    saved="ceil_mode count_include_pad divisor_override kernel_size padding self! stride")  # fmt: skip
def avg_pool2d(self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override):
    """The mean of every window of the last two dimensions of [N, C, H, W] or [C, H, W].

    Args as of :func:`avg_pool1d`; ``divisor_override`` replaces the number of elements.

    >>> import torchlike as torch
    >>> torch.nn.functional.avg_pool2d(torch.arange(4.0).view(1, 2, 2), 2)
    tensor([[[1.5000]]])
    """
    return _avg_pool(2, self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


@op("avg_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, bool ceil_mode=False, "
    "bool count_include_pad=True, int? divisor_override=None) -> Tensor", variants="out",
    node="AvgPool3DBackward",
    backward="avg_pool3d_backward(Tensor grad_output, Tensor self, int[3] kernel_size, int[3] stride, int[3] padding, "
    "bool ceil_mode, bool count_include_pad, int? divisor_override) -> Tensor",
    saved="ceil_mode count_include_pad divisor_override kernel_size padding self! stride",
    autocast={"cpu": "fp32"})  # fmt: skip
def avg_pool3d(self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override):
    """The mean of every window of the last three dimensions; see :func:`avg_pool2d`.

    RuntimeError for a window that is larger than the input, whatever the padding.
    """
    return _avg_pool(3, self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


_IMAGES = {
    1: result_layouts.suggested_rows,
    2: result_layouts.images,
    3: None,
}  # whose results are channels_last where the input is
_SPATIAL = {1: None, 2: None, 3: {"cpu": "fp32"}}  # what autocast does, by dimensions


def _declare_lp(n):
    def lp_pool(self, norm_type, kernel_size, stride, ceil_mode):
        x, lead = batched(f"lp_pool{n}d", self, n)
        windows = Windows(f"lp_pool{n}d", x.shape[1:], kernel_size, stride, (0,), (1,), ceil_mode)
        p = jnp.asarray(norm_type).astype(x.dtype)
        total = _window_sums(number_power(x, p), windows)
        share = math.prod(windows.kernel) / _divisor(windows, True)  # as of the mean, at a last window that hangs over
        total = total * jnp.asarray(share, x.dtype)
        size = jnp.abs(total)
        size = jnp.where(size <= 0, 0, size)  # where the slope of the root is infinite, and the gradient 0
        root = number_power(direction(total) * size, 1 / p)
        return root.reshape(*lead, *windows.out)

    schema = f"_lp_pool{n}d(Tensor self, float norm_type, int[] kernel_size, int[] stride, bool ceil_mode) -> Tensor"
    return op(
        schema, variants="", node="PowBackward", autocast={**(_SPATIAL[n] or {}), "cuda": "fp32"}, layout=_IMAGES[n]
    )(lp_pool)


lp_pool = {n: _declare_lp(n) for n in (1, 2, 3)}


def _check_adaptive(name, self, output_size):
    n = len(output_size)
    if self.ndim not in (n + 1, n + 2):
        raise RuntimeError(
            f"Expected {n + 1} to {n + 2} dimensions, but got {self.ndim}-dimensional tensor for argument #1 "
            f"'self' (while checking arguments for {name})"
        )
    if min(output_size) < 0:
        raise RuntimeError(
            f"{name}: elements of output_size must be greater than or equal to 0 but received {list(output_size)}"
        )
    made = (*self.shape[:-n], *output_size)
    demand_countable(made, self.dtype.itemsize, name)
    if 0 not in output_size and not jnp.issubdtype(self.dtype, jnp.floating):
        raise NotImplementedError(f"\"{name}\" not implemented for '{from_np(self.dtype).scalar_name}'")
    for i in range(self.ndim - n, self.ndim):
        if self.shape[i] == 0:
            raise RuntimeError(
                f"{name}(): Expected input to have non-zero size for non-batch dimensions, but input has "
                f"sizes {list(self.shape)} with dimension {i} being empty"
            )


def _adaptive_avg_pool(n, self, output_size):
    _check_adaptive(f"adaptive_avg_pool{n}d", self, output_size)
    if 0 in output_size:
        return jnp.zeros((*self.shape[:-n], *output_size), self.dtype)
    x = wide(self)
    for axis, out in enumerate(output_size, self.ndim - n):
        size = x.shape[axis]
        if out == 1:
            x = jnp.mean(x, axis, keepdims=True)
        elif size % out == 0 and size // out <= _UNROLLED:
            step = size // out
            total = sum(lax.slice_in_dim(x, i, size, step, axis) for i in range(step))
            x = total / step
        else:
            x = resample(x, mean_table(size, out), axis)
    return x.astype(self.dtype)


def _declare_adaptive(n):
    def adaptive(self, output_size):
        return _adaptive_avg_pool(n, self, output_size)

    node, saved = ("SqueezeBackward1", _SQUEEZED) if n == 1 else (f"AdaptiveAvgPool{n}DBackward", "self!")
    schema = f"_adaptive_avg_pool{n}d(Tensor self, SymInt[{n}] output_size) -> Tensor"
    aten = n > 1 or {"own": True, "calls": _composed.adaptive_avg_pool1d}
    back = f"_adaptive_avg_pool{n}d_backward(Tensor grad_output, Tensor self) -> Tensor" if n > 1 else None
    settings = {"saved": saved, "aten": aten, "autocast": _SPATIAL[n], "layout": _IMAGES[n], "backward": back}
    return op(schema, variants="", node=node, **settings)(adaptive)


adaptive_avg_pool = {n: _declare_adaptive(n) for n in (1, 2, 3)}


def _intervals(size, out):
    """For each of ``out`` intervals the elements it covers: [out, longest], and which of those count."""
    starts = np.arange(out) * size // out
    ends = -(-(np.arange(out) + 1) * size // out)
    at = starts[:, None] + np.arange((ends - starts).max() if out else 1)[None, :]
    return np.minimum(at, size - 1), at < ends[:, None]


def _adaptive_max_pool(n, self, output_size):
    _check_adaptive(f"adaptive_max_pool{n}d", self, output_size)
    size, lead = self.shape[-n:], self.shape[:-n]
    x = self.reshape(math.prod(lead), *size)
    flat = np.zeros((1,) * (1 + 2 * n), np.int64)
    inside = np.ones((1,) * (1 + 2 * n), bool)
    for i, out in enumerate(output_size):
        at, used = _intervals(size[i], out)
        x = jnp.take(x, at, axis=1 + 2 * i)
        shape = [1] * (1 + 2 * n)
        shape[1 + 2 * i : 3 + 2 * i] = at.shape
        flat, inside = flat * size[i] + at.reshape(shape), inside & used.reshape(shape)
    inner = tuple(range(2, x.ndim, 2))
    best = jnp.max(jnp.where(inside, x, -jnp.inf), inner, keepdims=True)
    first = jnp.min(jnp.where((x == best) & inside, flat, np.iinfo(int64.np).max), inner)
    last_nan = jnp.max(jnp.where((x != x) & inside, flat, -1), inner)
    index = jnp.where(last_nan >= 0, last_nan, first)
    shape = (*lead, *output_size)
    return best.reshape(shape), index.reshape(shape)


def _adaptive_max_backward(n, grads, self_aval, result1):
    rows, count = math.prod(self_aval.shape[:-n]), math.prod(self_aval.shape[-n:])
    out = jnp.zeros((rows, count), grads[0].dtype)
    flat = rows, math.prod(result1.shape[-n:])
    at = jnp.arange(rows)[:, None], result1.reshape(flat)
    return out.at[at].add(grads[0].reshape(flat)).reshape(self_aval.shape)


def _declare_adaptive_max(n):
    def backward(grads, self_aval, result1):
        return _adaptive_max_backward(n, grads, self_aval, result1)

    def adaptive(self, output_size):
        return _adaptive_max_pool(n, self, output_size)

    schema = f"_adaptive_max_pool{n}d(Tensor self, int[] output_size) -> (Tensor result0, Tensor result1)"
    node, saved = f"AdaptiveMaxPool{n}DBackward", "result1 self!"
    if n == 1:
        node, saved = "SqueezeBackward1", _SQUEEZED
    calls = _composed.adaptive_max_pool1d if n == 1 else _composed.renamed(f"adaptive_max_pool{n}d")
    aten = {"own": True, "calls": calls}
    back = f"adaptive_max_pool{n}d_backward(Tensor grad_output, Tensor self, Tensor indices) -> Tensor"
    shown = None if n == 1 else (back, {"indices": "result1"})
    settings = {"nondiff": (1,), "saved": saved, "autocast": _SPATIAL[n], "layout": _IMAGES[n], "aten": aten}
    return op(schema, variants="", node=node, vjp={"self": backward}, backward=shown, **settings)(adaptive)


adaptive_max_pool = {n: _declare_adaptive_max(n) for n in (1, 2, 3)}


def _check_unpool(self, indices, output_size):
    count = math.prod(output_size)
    bad = (indices < 0) | (indices >= count)

    def error():
        at = np.asarray(indices)
        found = int(at[(at < 0) | (at >= count)].flat[0])
        return RuntimeError(
            f"Found an invalid max index: {found} (output volumes are of size {'x'.join(map(str, output_size))})"
        )

    return jnp.any(bad), error


def _max_unpool_backward(grad, self_aval, indices, output_size):
    """What is at the elements' positions, also where several shared one."""
    n = len(output_size)
    rows = math.prod(grad.shape[:-n])
    at = jnp.arange(rows)[:, None], indices.reshape(rows, math.prod(indices.shape[-n:]))
    return grad.reshape(rows, math.prod(output_size))[at].reshape(self_aval.shape)


@op("_max_unpool(Tensor self, Tensor indices, int[] output_size) -> Tensor", variants="",
    node=lambda output_size: f"MaxUnpool{len(output_size)}DBackward" if len(output_size) > 1 else "SqueezeBackward1",
    aten={"own": True, "calls": _composed.max_unpool},
    check=_check_unpool, layout=result_layouts.unpooled, vjp={"self": _max_unpool_backward}, autocast={"cpu": "fp32"},
    backward=_derivatives.unpooled,
    jvp={"self": lambda dot, indices, output_size: _unpooled(dot, indices, output_size)})  # fmt: skip
def max_unpool(self, indices, output_size):
    """Zeros of ``output_size`` with the input's elements at their flat positions."""
    n = len(output_size)
    name = f"max_unpooling{n}d"
    demand(f"max_unpool{max(n, 2)}d", self, "f")
    if indices.dtype != int64.np:
        raise RuntimeError(f"elements in indices should be type int64 but got: {from_np(indices.dtype).scalar_name}")
    if indices.shape != self.shape:
        raise RuntimeError(
            f"Expected shape of indices to be same as that of the input tensor ({list(self.shape)}) but got "
            f"indices tensor with shape: {list(indices.shape)} (in {name})"
        )
    return _unpooled(self, indices, output_size)


def _unpooled(x, indices, output_size):
    """Of elements that share a position, one."""
    lead, size = x.shape[: -len(output_size)], math.prod(x.shape[-len(output_size) :])
    rows = math.prod(lead)
    at = jnp.arange(rows)[:, None], indices.reshape(rows, size)
    blank = jnp.zeros((rows, math.prod(output_size)), x.dtype)
    return blank.at[at].set(x.reshape(rows, size)).reshape(*lead, *output_size)
