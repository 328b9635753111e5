"""Fractional max pooling: windows at places that random numbers choose."""

import math

import jax.numpy as jnp

from torchlike._base.dtypes import from_np
from torchlike._decl.op import op
from torchlike._ops.pool import _scattered

_WORDS = {2: ("height", "width"), 3: ("time", "height", "width")}


def _numbers(name, what, value, n):
    if len(value) not in (1, n):
        raise RuntimeError(f"{name}: {what} must either be a single Int or tuple of Ints, but got {list(value)}")
    return value * n if len(value) == 1 else value


def _starts(samples, size, out, window):
    """[N, C, out]: where the windows along one dimension start."""
    if out == 0:
        return jnp.zeros((*samples.shape, 0), jnp.int64)
    if out == 1:
        return jnp.full((*samples.shape, 1), size - window)
    step = jnp.asarray((size - window) / (out - 1), samples.dtype)
    at = jnp.arange(out, dtype=samples.dtype)
    starts = ((at + samples[..., None]) * step).astype(jnp.int64) - (samples * step).astype(jnp.int64)[..., None]
    return starts.at[..., -1].set(size - window)


def _check(name, n, x, samples, kernel, out):
    size = x.shape[-n:]
    if x.ndim not in (n + 1, n + 2):
        raise RuntimeError(f"{name}(): Expected {n + 1}D or {n + 2}D tensor, but got: {list(x.shape)}")
    for d in range(x.ndim - n - 1, x.ndim):
        if x.shape[d] == 0:
            raise RuntimeError(
                f"{name}(): Expected input to have non-zero size for non-batch dimensions, but got {list(x.shape)} "
                f"with dimension {d} being empty."
            )
    if samples.dtype != x.dtype:
        raise RuntimeError("Expect _random_samples to have the same dtype as input")
    if samples.ndim != 3:
        raise RuntimeError(f"Expect _random_samples to have 3 dimensions, got {samples.ndim}")
    if samples.shape[0] < (1 if x.ndim == n + 1 else x.shape[0]):
        raise RuntimeError("Expect _random_samples.size(0) no less then input batch size.")
    if samples.shape[1] != x.shape[-n - 1]:
        raise RuntimeError("Expect _random_samples.size(1) equals to input channel size.")
    if samples.shape[2] != n:
        raise RuntimeError(f"Expect _random_samples.size(2) equals to {n}; got {samples.shape[2]}.")
    for word, s, k, o in zip(_WORDS[n], size, kernel, out, strict=True):
        if o + k - 1 > s - (n == 3):  # PyTorch's bound is strict for volumes
            raise RuntimeError(f"{name}(): pool {word} {k} too large relative to input {word} {s}")


def _windows(x, n, samples, kernel, out):
    """(values, flat indices) [N, C, *out, elements of a window] of every window of x [N, C, *size]."""
    size = x.shape[2:]
    samples = samples[: x.shape[0]]
    flat = jnp.arange(math.prod(size)).reshape(1, 1, *size)
    index = jnp.broadcast_to(flat, x.shape)
    for d in range(n):
        # PyTorch takes the numbers of two dimensions in the order width, height
        starts = _starts(samples[..., 1 - d if n == 2 else d], size[d], out[d], kernel[d])
        at = starts[..., None] + jnp.arange(kernel[d])
        at = at.reshape(*x.shape[:2], *[out[d] * kernel[d] if i == d else 1 for i in range(n)])
        x, index = (jnp.take_along_axis(a, at, axis=2 + d) for a in (x, index))
    split = [v for o, k in zip(out, kernel, strict=True) for v in (o, k)]
    order = (0, 1, *range(2, 2 + 2 * n, 2), *range(3, 3 + 2 * n, 2))
    shape = (*x.shape[:2], *out, math.prod(kernel))
    return tuple(a.reshape(*a.shape[:2], *split).transpose(order).reshape(shape) for a in (x, index))


def _pool(name, n, self, kernel_size, output_size, random_samples):
    kernel = _numbers(name, "kernel_size", kernel_size, n)
    out = _numbers(name, "output_size", output_size, n)
    _check(name, n, self, random_samples, kernel, out)
    if not jnp.issubdtype(self.dtype, jnp.floating):
        raise NotImplementedError(f"\"{name}\" not implemented for '{from_np(self.dtype).scalar_name}'")
    x = self if self.ndim == n + 2 else self[None]
    values, index = _windows(x, n, random_samples, kernel, out)
    place = jnp.arange(values.shape[-1])
    last_nan = jnp.max(jnp.where(jnp.isnan(values), place, -1), -1)
    best = jnp.where(last_nan >= 0, last_nan, jnp.argmax(values, -1))[..., None]
    values, index = (jnp.take_along_axis(a, best, axis=-1)[..., 0] for a in (values, index))
    shape = (*self.shape[:-n], *out)
    return values.reshape(shape), index.reshape(shape)


def _declare(n):
    name = f"fractional_max_pool{n}d"

    def backward(grads, self_aval, result1):
        size = self_aval.shape[-n:]
        grad, index = (t.reshape(math.prod(t.shape[:-n]), *t.shape[-n:]) for t in (grads[0], result1))
        return _scattered(grad, index, size).reshape(self_aval.shape)

    @op(f"{name}(Tensor self, int[{n}] kernel_size, int[{n}] output_size, Tensor random_samples) -> "
        "(Tensor result0, Tensor result1)", variants="", node=f"FractionalMaxPool{n}DBackward",
        vjp={"self": backward}, nondiff=(1,), autocast={"cpu": "fp32"}, backward=(
            f"{name}_backward(Tensor grad_output, Tensor self, int[{n}] kernel_size, int[{n}] output_size, "
            "Tensor indices) -> Tensor", {"indices": "result1"}),
        saved="kernel_size output_size result1 self!", aten={"out": "output output indices"})  # fmt: skip
    def fractional_max_pool(self, kernel_size, output_size, random_samples):
        return _pool(name, n, self, kernel_size, output_size, random_samples)

    return fractional_max_pool


fractional_max_pool = {n: _declare(n) for n in (2, 3)}
