"""Convolutions of one group as matrix products, for the CPU, where XLA's own are slow for some shapes.

``FORWARD``, ``FOR_INPUT`` and ``FOR_WEIGHT`` name the ways to compute a convolution and its two adjoints;
``forward``, ``input_gradient`` and ``weight_gradient`` choose one by shape. benchmarks/convolution.py times
every way next to PyTorch; the rules below come from its table. All ways are plain jax functions, bilinear
in their two arrays, so that derivatives of every order follow.
"""

import itertools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

HIGHEST = lax.Precision.HIGHEST


class Geometry(NamedTuple):
    """What fixes a convolution beside its channels: every tuple has one entry for each dimension."""

    size: tuple
    kernel: tuple
    stride: tuple
    pairs: tuple
    dilation: tuple

    @property
    def out(self):
        """Positions of the result."""
        return tuple((n + lo + hi - d * (k - 1) - 1) // s + 1 for n, k, s, (lo, hi), d in zip(*self, strict=True))

    @property
    def taps(self):
        """Elements of the kernel."""
        return math.prod(self.kernel)

    def places(self):
        """For each tap, in the order of the kernel's elements: its offset in the padded input."""
        return itertools.product(*(range(0, k * d, d) for k, d in zip(self.kernel, self.dilation, strict=True)))


def geometry(size, weight, stride, pairs, dilation):
    """The geometry of a call; ``size`` is the input's positions."""
    return Geometry(*(tuple(v) for v in (size, weight.shape[2:], stride, pairs, dilation)))


def _shifted(x, g):
    """For each tap, what it reads of x [..., *size]: [..., positions]."""
    lead, zero = x.shape[: x.ndim - len(g.size)], jnp.zeros((), x.dtype)
    x = lax.pad(x, zero, [*((0, 0, 0) for _ in lead), *((lo, hi, 0) for lo, hi in g.pairs)])
    for place in g.places():
        stop = [p + (o - 1) * s + 1 for p, o, s in zip(place, g.out, g.stride, strict=True)]
        start, step = (*(0 for _ in lead), *place), (*(1 for _ in lead), *g.stride)
        yield lax.slice(x, start, (*lead, *stop), step).reshape(*lead, math.prod(g.out))


def _columns(x, g):
    """x [..., C, *size] as what each output position reads: [..., C * taps, positions]."""
    lead = x.shape[: x.ndim - len(g.size) - 1]
    return jnp.stack(list(_shifted(x, g)), -2).reshape(*lead, -1, math.prod(g.out))


def _image_columns(image, g):
    """One image [C, *size] as columns with the taps first, [taps * C, positions]: XLA fills these fastest."""
    channels = image.shape[0]
    columns = jnp.zeros((g.taps * channels, math.prod(g.out)), image.dtype)
    for tap, part in enumerate(_shifted(image, g)):
        columns = lax.dynamic_update_slice(columns, part, (tap * channels, 0))
    return columns


def _spread(parts, g):
    """The adjoint of ``_shifted``: what each tap gives to the input [..., *size], summed where taps overlap."""
    total = None
    for place, part in zip(g.places(), parts, strict=True):
        edges = [(0, 0, 0)] * (part.ndim - 1)
        part = part.reshape(*part.shape[:-1], *g.out)
        for p, n, o, s, (lo, _) in zip(place, g.size, g.out, g.stride, g.pairs, strict=True):
            edges.append((p - lo, n - (p - lo + (o - 1) * s + 1), s - 1))
        part = lax.pad(part, jnp.zeros((), part.dtype), edges)
        total = part if total is None else total + part
    return total


def _flat(x):
    """[N, C, *size] -> [N, C, positions]."""
    return x.reshape(*x.shape[:2], math.prod(x.shape[2:]))


def _matrix(w):
    """The weight as [out, C * taps]."""
    return w.reshape(w.shape[0], math.prod(w.shape[1:]))


def _taps_first(w):
    """The weight as [out, taps * C], copied here: a loop would copy it for every image."""
    return lax.optimization_barrier(jnp.moveaxis(w, 1, -1).reshape(w.shape[0], math.prod(w.shape[1:])))


# -- forward -----------------------------------------------------------------------------------------


def _xla(x, w, g):
    return lax.conv_general_dilated(x, w, g.stride, g.pairs, rhs_dilation=g.dilation, precision=HIGHEST)


def _forward_columns(x, w, g):
    y = jnp.einsum("ok,nkp->nop", _matrix(w), _columns(x, g), precision=HIGHEST)
    return y.reshape(x.shape[0], w.shape[0], *g.out)


def _forward_images(x, w, g):
    matrix = _taps_first(w)
    y = lax.map(lambda image: jnp.matmul(matrix, _image_columns(image, g), precision=HIGHEST), x)
    return y.reshape(x.shape[0], w.shape[0], *g.out)


# -- adjoint with respect to the input ---------------------------------------------------------------


def _xla_for_input(grad, w, g):
    shape = jax.ShapeDtypeStruct((grad.shape[0], w.shape[1], *g.size), grad.dtype)
    return jax.linear_transpose(lambda x: _xla(x, w, g), shape)(grad)[0]


def _for_input_columns(grad, w, g):
    columns = jnp.einsum("ok,nop->nkp", _matrix(w), _flat(grad), precision=HIGHEST)
    columns = columns.reshape(grad.shape[0], w.shape[1], g.taps, math.prod(g.out))
    return _spread([columns[:, :, tap] for tap in range(g.taps)], g)


def _for_input_images(grad, w, g):
    matrix = lax.optimization_barrier(_taps_first(w).T)

    def one(image):
        columns = jnp.matmul(matrix, image, precision=HIGHEST).reshape(g.taps, w.shape[1], math.prod(g.out))
        return _spread(list(columns), g)

    return lax.map(one, _flat(grad))


# -- adjoint with respect to the weight --------------------------------------------------------------


def _xla_for_weight(grad, x, g):
    shape = jax.ShapeDtypeStruct((grad.shape[1], x.shape[1], *g.kernel), grad.dtype)
    return jax.linear_transpose(lambda w: _xla(x, w, g), shape)(grad)[0]


def _for_weight_columns(grad, x, g):
    w = jnp.einsum("nop,nkp->ok", _flat(grad), _columns(x, g), precision=HIGHEST)
    return w.reshape(grad.shape[1], x.shape[1], *g.kernel)


def _for_weight_images(grad, x, g):
    def add(total, pair):
        image, flat = pair
        return total + jnp.matmul(_image_columns(image, g), flat.T, precision=HIGHEST), None

    start = jnp.zeros((x.shape[1] * g.taps, grad.shape[1]), grad.dtype)
    total = lax.scan(add, start, (x, _flat(grad)))[0]
    return jnp.moveaxis(total.reshape(*g.kernel, x.shape[1], grad.shape[1]), (-1, -2), (0, 1))


def _for_weight_taps(grad, x, g):
    flat = _flat(grad)
    parts = [jnp.einsum("nop,ncp->oc", flat, part, precision=HIGHEST) for part in _shifted(x, g)]
    return jnp.stack(parts, -1).reshape(grad.shape[1], x.shape[1], *g.kernel)


# -- three dimensions as two -------------------------------------------------------------------------


def _planes(x, w, g):
    """A three-dimensional convolution as a sum of two-dimensional ones, which XLA does much faster."""
    ((low, high), *pairs), depth = g.pairs, g.out[0]
    flat = Geometry(g.size[1:], g.kernel[1:], g.stride[1:], tuple(pairs), g.dilation[1:])
    x = jnp.moveaxis(lax.pad(x, jnp.zeros((), x.dtype), [(0, 0, 0)] * 2 + [(low, high, 0)] + [(0, 0, 0)] * 2), 2, 1)
    total = None
    for k in range(g.kernel[0]):
        first = k * g.dilation[0]
        part = lax.slice_in_dim(x, first, first + (depth - 1) * g.stride[0] + 1, g.stride[0], 1)
        part = _xla(part.reshape(-1, *part.shape[2:]), w[:, :, k], flat)
        total = part if total is None else total + part
    return jnp.moveaxis(total.reshape(-1, depth, *total.shape[1:]), 1, 2)


def _for_input_planes(grad, w, g):
    shape = jax.ShapeDtypeStruct((grad.shape[0], w.shape[1], *g.size), grad.dtype)
    return jax.linear_transpose(lambda x: _planes(x, w, g), shape)(grad)[0]


def _for_weight_planes(grad, x, g):
    shape = jax.ShapeDtypeStruct((grad.shape[1], x.shape[1], *g.kernel), grad.dtype)
    return jax.linear_transpose(lambda w: _planes(x, w, g), shape)(grad)[0]


# -- the choice --------------------------------------------------------------------------------------

FORWARD = {"xla": _xla, "columns": _forward_columns, "images": _forward_images, "planes": _planes}
FOR_INPUT = {
    "xla": _xla_for_input, "columns": _for_input_columns, "images": _for_input_images,
    "planes": _for_input_planes,
}  # fmt: skip
FOR_WEIGHT = {
    "xla": _xla_for_weight, "columns": _for_weight_columns, "images": _for_weight_images,
    "taps": _for_weight_taps, "planes": _for_weight_planes,
}  # fmt: skip

# Columns take their kernel's elements times the memory of the input: no more than this many numbers.
_ROOM = 1 << 23
# A turn of a loop costs some microseconds: no loop over images with less to multiply.
_WORK = 1 << 17
# Each tap is a slice in the program, which takes XLA minutes to compile beyond some hundred.
_TAPS = 128


def _sizes(n, channels, out, g):
    """(positions, whether one image is worth a turn of a loop, whether the columns fit)."""
    positions = math.prod(g.out)
    each = channels * g.taps * positions
    return positions, each * out >= _WORK, n * each <= _ROOM


def forward_rule(x, w, g):
    """The way for ``forward``: XLA's vectors run along the output channels, over a row of the kernel."""
    n, channels, out = x.shape[0], x.shape[1], w.shape[0]
    positions, work, fits = _sizes(n, channels, out, g)
    if fits and (channels >= 4 * positions or (g.taps == 1 and channels >= positions)):
        return "columns"
    if len(g.size) == 3 and g.taps > 1 and channels >= 8:
        return "planes"
    narrow = g.taps == 1 or out % 16 or channels * g.kernel[-1] < 16 or len(g.size) > 2
    return "images" if work and narrow else "xla"


def input_rule(grad, w, g):
    """The way for ``input_gradient``: a loop would read a large weight for few positions again and again.

    Many small images are one product: XLA's own convolution takes two to four times as long for them.
    """
    n, channels, out = grad.shape[0], w.shape[1], w.shape[0]
    positions, work, fits = _sizes(n, channels, out, g)
    if fits and (channels > positions or (not work and len(g.size) < 3 and max(g.stride) == 1)):
        return "columns"
    if len(g.size) == 3 and g.taps > 1 and channels >= 16:
        return "planes"
    strided = max(g.stride) > 1 and g.taps > 1 and channels >= 16 and len(g.size) < 3
    return "images" if work and not strided else "xla"


def weight_rule(grad, x, g):
    """The way for ``weight_gradient``."""
    n, channels, out = grad.shape[0], x.shape[1], grad.shape[1]
    positions, work, fits = _sizes(n, channels, out, g)
    if fits and (g.taps == 1 or channels >= positions):
        return "columns"
    if len(g.size) == 3 and max(g.stride) == 1:
        return "planes"
    return "images" if work and (channels < 64 or positions >= 1024) else "xla"


def choice(rule, first, second, g):
    """What ``rule`` names; what was not measured (other dtypes, nothing to compute) stays with XLA."""
    measured = first.dtype == jnp.float32 == second.dtype and 0 not in (*first.shape, *second.shape)
    way = rule(first, second, g) if measured and g.size else "xla"
    if g.taps <= _TAPS or way in ("xla", "planes"):
        return way
    return "planes" if len(g.size) == 3 else "xla"


def forward(x, w, g):
    """Cross-correlation of x [N, C, *size] with w [out, C, *kernel]."""
    return FORWARD[choice(forward_rule, x, w, g)](x, w, g)


def input_gradient(grad, w, g):
    """The adjoint of ``forward`` with respect to x, at grad [N, out, *g.out]."""
    return FOR_INPUT[choice(input_rule, grad, w, g)](grad, w, g)


def weight_gradient(grad, x, g):
    """The adjoint of ``forward`` with respect to w, at grad [N, out, *g.out]."""
    return FOR_WEIGHT[choice(weight_rule, grad, x, g)](grad, x, g)
