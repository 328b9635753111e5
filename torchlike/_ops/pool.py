"""Max pooling: values with the positions they came from, so that gradients go to one element."""

import itertools
import math

import jax.numpy as jnp
from jax import lax

from torchlike._base import result_layouts
from torchlike._base.dtypes import from_np, int64
from torchlike._base.opaque import stored
from torchlike._decl.op import op
from torchlike._ops import _composed

# Windows with more elements than this are reduced by jax instead of one slice after another.
_UNROLLED = 32
# On the CPU gradients find their elements by comparison, if as many windows lie in a row; else one after another.
_ROW = 12


def expand(name, what, value, n):
    """``value`` (a tuple of one or ``n`` ints) as ``n`` ints."""
    if len(value) == 1:
        return value * n
    if len(value) != n:
        words = {1: "one int", 2: "two ints", 3: "three ints"}[n]
        raise RuntimeError(f"{name}: {what} must either be a single int, or a tuple of {words}, but got {list(value)}")
    return value


def output_size(size, kernel, stride, pad, dilation, ceil_mode):
    """Number of windows along one dimension; with ``ceil_mode`` a last one may hang over the end."""
    room = size + 2 * pad - dilation * (kernel - 1) - 1
    count = (room + (stride - 1 if ceil_mode else 0)) // stride + 1
    if ceil_mode and (count - 1) * stride >= size + pad:
        count -= 1
    return count


def batched(name, x, n):
    """``x`` with its leading dimensions merged into one, and their sizes; refuses other ranks."""
    if x.ndim not in (n + 1, n + 2) or 0 in x.shape[x.ndim - n - 1 :]:
        raise RuntimeError(
            f"{name}: Expected {n + 1}D or {n + 2}D (batch mode) tensor with optional 0 dim batch size for "
            f"input, but got:{list(x.shape)}"
        )
    lead = x.shape[:-n]
    return x.reshape(math.prod(lead), *x.shape[-n:]), lead


class Windows:
    """The windows of one pooling call: sizes by dimension, checked as PyTorch checks them."""

    def __init__(self, name, size, kernel_size, stride, padding, dilation, ceil_mode):
        n = len(size)
        self.size = size
        self.kernel = expand(name, "kernel_size", kernel_size, n)
        self.stride = expand(name, "stride", stride, n) if stride else self.kernel
        self.pad = expand(name, "padding", padding, n)
        self.dilation = expand(name, "dilation", dilation, n)
        self._check(name)
        self.out = tuple(
            output_size(*numbers, ceil_mode)
            for numbers in zip(size, self.kernel, self.stride, self.pad, self.dilation, strict=True)
        )
        if min(self.out) < 1:
            raise RuntimeError(
                f"{name}: Given input size: ({'x'.join(map(str, size))}). Calculated output size: "
                f"({'x'.join(map(str, self.out))}). Output size is too small"
            )

    def _check(self, name):
        if min(self.kernel) < 1:
            raise RuntimeError(f"{name}: kernel size should be greater than zero, but got {list(self.kernel)}")
        if min(self.stride) < 1:
            raise RuntimeError(f"{name}: stride should not be zero, but got {list(self.stride)}")
        if min(self.dilation) < 1:
            raise RuntimeError(f"{name}: dilation should be greater than zero, but got {list(self.dilation)}")
        for p, k in zip(self.pad, self.kernel, strict=True):
            if p < 0:
                raise RuntimeError(f"{name}: pad must be non-negative, but got pad: {p}")
            if p > k // 2:
                raise RuntimeError(
                    f"{name}: pad should be smaller than or equal to half of kernel size, but got pad={p} and "
                    f"kernel_size={k}"
                )

    @property
    def apart(self):
        """Whether no element belongs to two windows and none lies between windows' elements."""
        return self.kernel == self.stride and set(self.dilation) == {1}

    def taps(self):
        """Offsets of the elements of a window, by dimension."""
        return itertools.product(*(range(0, k * d, d) for k, d in zip(self.kernel, self.dilation, strict=True)))

    def reach(self):
        """(low, high) padding that makes every window whole; a negative high cuts what no window covers."""
        span = [(o - 1) * s + d * (k - 1) + 1 for o, s, d, k in
                zip(self.out, self.stride, self.dilation, self.kernel, strict=True)]  # fmt: skip
        return [(p, e - n - p) for p, e, n in zip(self.pad, span, self.size, strict=True)]

    def padded(self, x, value):
        """``x`` [B, *size] with ``reach`` applied."""
        edges = self.reach()
        if all(edge == (0, 0) for edge in edges):
            return x
        return lax.pad(x, jnp.asarray(value, x.dtype), ((0, 0, 0), *((lo, hi, 0) for lo, hi in edges)))

    def at(self, x, tap):
        """The element ``tap`` of every window of the padded ``x``."""
        limits = [t + (o - 1) * s + 1 for t, o, s in zip(tap, self.out, self.stride, strict=True)]
        return lax.slice(x, (0, *tap), (x.shape[0], *limits), (1, *self.stride))

    def places(self, tap):
        """Where in the input element ``tap`` of every window is, by dimension: each for [1, *out]."""
        for i, (t, s, p) in enumerate(zip(tap, self.stride, self.pad, strict=True)):
            yield lax.broadcasted_iota(jnp.int64, (1, *self.out), i + 1) * s + (t - p)

    def flat(self, places):
        """The flat index in the input of what is told by dimension: :meth:`places`, or a distance."""
        flat = 0
        for at, n in zip(places, self.size, strict=True):
            flat = flat * n + at
        return flat

    def first(self):
        """The flat index of every window's first element, which may lie in the padding: [1, *out]."""
        return self.flat(self.places((0,) * len(self.size)))

    def within(self, places):
        """Whether they are inside the input."""
        inside = True
        for at, n in zip(places, self.size, strict=True):
            inside = inside & (at >= 0) & (at < n)
        return inside

    def split(self, x):
        """The padded ``x`` as [B, out0, kernel0, out1, kernel1, ...]; only if ``apart``."""
        return x.reshape(-1, *(v for pair in zip(self.out, self.kernel, strict=True) for v in pair))

    def between(self, x):
        """[B, *out] as an array that broadcasts against ``split``."""
        return x.reshape(-1, *(v for o in self.out for v in (o, 1)))


def _lowest(dtype):
    return -jnp.inf if jnp.issubdtype(dtype, jnp.floating) else jnp.iinfo(dtype).min


def _max_unrolled(x, windows):
    padded = windows.padded(x, _lowest(x.dtype))
    whole = all(edge[0] == 0 >= edge[1] for edge in windows.reach())
    best = None
    for tap in windows.taps():
        value, inside = windows.at(padded, tap), True if whole else windows.within(windows.places(tap))
        if best is None:
            best, found = value, inside
            further = lax.full(value.shape, 0, jnp.int64)
            continue
        better = lax.bitwise_or(lax.gt(value, best), lax.ne(value, value))  # lax: jnp's operators are traced one by one
        if not whole:  # where everything is -inf, the first element inside the input is the maximum
            better = inside & (better | ~found)
            found = found | inside
        best = lax.select(better, value, best)
        further = lax.select(better, lax.full_like(further, windows.flat(tap)), further)
    return best, windows.first() + further


def _max_apart(x, windows):
    padded = windows.split(windows.padded(x, _lowest(x.dtype)))
    return _with_places(padded, windows)


def _max_patches(x, windows):
    """Large windows that overlap: the elements of every window side by side, then as if apart."""
    padded = windows.padded(x, _lowest(x.dtype))
    for i, (o, s, k, d) in enumerate(zip(windows.out, windows.stride, windows.kernel, windows.dilation, strict=True)):
        at = jnp.arange(o)[:, None] * s + jnp.arange(k)[None, :] * d
        padded = jnp.take(padded, at, axis=1 + 2 * i)
    return _with_places(padded, windows)


def _places(windows, shape):
    """Where in the input the elements are, by dimension: each for [1, out0, kernel0, out1, kernel1, ...]."""
    shape = (1, *shape[1:])
    for i, (s, d, p) in enumerate(zip(windows.stride, windows.dilation, windows.pad, strict=True)):
        outer = lax.broadcasted_iota(jnp.int64, shape, 1 + 2 * i)
        yield outer * s + lax.broadcasted_iota(jnp.int64, shape, 2 + 2 * i) * d - p


def _with_places(padded, windows):
    """The maxima of [B, out0, kernel0, out1, kernel1, ...] and the first place of each, the last one of NaN."""
    inner = tuple(range(2, padded.ndim, 2))
    best = jnp.max(padded, inner)
    places = [*_places(windows, padded.shape)]
    flat, inside = windows.flat(places), windows.within(places)
    level = windows.between(best)
    first = jnp.min(jnp.where((padded == level) & inside, flat, jnp.iinfo(int64.np).max), inner)
    last_nan = jnp.max(jnp.where(padded != padded, flat, -1), inner)
    return best, jnp.where(last_nan >= 0, last_nan, first)


def _max_pool(name, n, self, kernel_size, stride, padding, dilation, ceil_mode):
    if self.dtype == bool or jnp.iscomplexobj(self):
        raise NotImplementedError(f"\"{name}\" not implemented for '{from_np(self.dtype).scalar_name}'")
    x, lead = batched(name, self, n)
    windows = Windows(name, x.shape[1:], kernel_size, stride, padding, dilation, ceil_mode)
    if math.prod(windows.kernel) <= _UNROLLED:
        best, index = _max_unrolled(x, windows)
    else:
        best, index = (_max_apart if windows.apart else _max_patches)(x, windows)
    return best.reshape(*lead, *windows.out), index.reshape(*lead, *windows.out)


def _max_pool_backward(name, n, grads, self_aval, result1, kernel_size, stride, padding, dilation, ceil_mode):
    size = self_aval.shape[-n:]
    windows = Windows(name, size, kernel_size, stride, padding, dilation, ceil_mode)
    grad, index = (t.reshape(-1, *windows.out) for t in (grads[0], result1))
    return lax.platform_dependent(
        grad,
        index,
        cpu=lambda grad, index: _on_cpu(grad, index, windows, size).reshape(self_aval.shape),
        default=lambda grad, index: _routed(grad, index, windows, size).reshape(self_aval.shape),
    )


def _on_cpu(grad, index, windows, size):
    """Each gradient to its element, the maxima of which are not found anew for every one."""
    index = stored(index)
    if not windows.apart or windows.out[-1] < _ROW:
        return _scattered(grad, index, size)
    return _routed(jnp.where(grad == 0, 0, grad), index, windows, size)  # as if added to zeros: no -0


def _scattered(grad, index, size):
    rows = jnp.arange(grad.shape[0])[:, None]
    blank = jnp.zeros((grad.shape[0], math.prod(size)), grad.dtype)
    flat = (grad.shape[0], math.prod(grad.shape[1:]))
    return blank.at[rows, index.reshape(flat)].add(grad.reshape(flat))


def _routed(grad, index, windows, size):
    if windows.apart:
        shape = (1, *(v for pair in zip(windows.out, windows.kernel, strict=True) for v in pair))
        flat = windows.flat(_places(windows, shape))
        routed = jnp.where(windows.between(index) == flat, windows.between(grad), 0)
        out = _unpadded(routed.reshape(-1, *(o * k for o, k in zip(windows.out, windows.kernel, strict=True))), windows)
    elif math.prod(windows.kernel) <= _UNROLLED:
        further = index - windows.first()
        out = sum(_place(jnp.where(further == windows.flat(tap), grad, 0), tap, windows) for tap in windows.taps())
        out = _unpadded(out, windows)
    else:
        out = _scattered(grad, index, size)
    return out


def _place(values, tap, windows):
    """``values`` [B, *out] at element ``tap`` of every window of a padded input of zeros."""
    config = [(0, 0, 0)]
    for t, o, s, (lo, hi), n in zip(tap, windows.out, windows.stride, windows.reach(), windows.size, strict=True):
        config.append((t, n + lo + hi - t - (o - 1) * s - 1, s - 1))
    return lax.pad(values, jnp.zeros((), values.dtype), config)


def _unpadded(x, windows):
    edges = windows.reach()
    if all(edge == (0, 0) for edge in edges):
        return x
    return lax.pad(x, jnp.zeros((), x.dtype), ((0, 0, 0), *((-lo, -hi, 0) for lo, hi in edges)))


_SAVED = "ceil_mode dilation kernel_size padding result1 self! stride"


def _declare(n):
    name = f"max_pool{n}d"

    def backward(grads, self_aval, result1, kernel_size, stride, padding, dilation, ceil_mode):
        return _max_pool_backward(name, n, grads, self_aval, result1, kernel_size, stride, padding, dilation, ceil_mode)

    @op(
        f"max_pool{n}d_with_indices(Tensor self, int[{n}] kernel_size, int[{n}] stride=[], int[{n}] "
        f"padding=0, int[{n}] dilation=1, bool ceil_mode=False) -> (Tensor result0, Tensor result1)",
        variants="",
        node=f"MaxPool{n}DWithIndicesBackward" if n > 1 else "SqueezeBackward1",
        vjp={"self": backward},
        nondiff=(1,),
        aten={"out": "out out indices"} if n > 1 else {"out": None, "calls": _composed.max_pool1d},
        layout=result_layouts.suggested,
        saved=_SAVED if n > 1 else {"dim": lambda: -2 % 2**64, "self!": None},
        backward=None if n == 1 else (
            f"{name}_with_indices_backward(Tensor grad_output, Tensor self, int[{n}] kernel_size, int[{n}] stride, "
            f"int[{n}] padding, int[{n}] dilation, bool ceil_mode, Tensor indices) -> Tensor", {"indices": "result1"}),
    )  # fmt: skip
    def max_pool(self, kernel_size, stride, padding, dilation, ceil_mode):
        return _max_pool(name, n, self, kernel_size, stride, padding, dilation, ceil_mode)

    return max_pool


max_pool = {n: _declare(n) for n in (1, 2, 3)}
