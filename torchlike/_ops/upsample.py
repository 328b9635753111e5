"""Interpolation to another size, shuffles of pixels and channels, and sliding blocks."""

import math

import jax.numpy as jnp
from jax import lax

from torchlike._base import result_layouts
from torchlike._base.dtypes import from_np
from torchlike._decl.op import op
from torchlike._decl.words import aten
from torchlike._ops import _resample as tables
from torchlike._ops._linear import linear
from torchlike._ops.pool import Windows, expand

_NODES = {
    "nearest": "UpsampleNearest{n}DBackward", "nearest-exact": "UpsampleNearestExact{n}DBackward",
    "linear": "UpsampleLinear1DBackward", "bilinear": "UpsampleBilinear2DBackward",
    "trilinear": "UpsampleTrilinear3DBackward", "bicubic": "UpsampleBicubic2DBackward",
    "lanczos": "UpsampleLanczos2DBackward",
}  # fmt: skip
MODES = tuple(_NODES)


def _table(mode, size, out, scale, align_corners, antialias, single):
    if mode.startswith("nearest"):
        return tables.nearest_table(size, out, scale, mode == "nearest-exact")
    if antialias:
        return tables.antialias_table(mode, size, out, scale, align_corners)
    make = tables.cubic_table if mode == "bicubic" else tables.linear_table
    return make(size, out, scale, align_corners, single)


def _check_sizes(self, output_size):
    letters = ("D: ", "H: ", "W: ")[-len(output_size) :] if len(output_size) > 1 else ("W: ",)
    sizes = self.shape[2:]
    if self.ndim != len(output_size) + 2 or self.shape[1] == 0:
        raise RuntimeError(
            f"Non-empty {len(output_size) + 2}D data tensor expected but got a tensor with sizes {list(self.shape)}"
        )
    if min(*sizes, *output_size) <= 0:
        text = [
            "(" + ", ".join(k + str(v) for k, v in zip(letters, s, strict=True)) + ")" for s in (sizes, output_size)
        ]
        raise RuntimeError(
            f"Input and output sizes should be greater than 0, but got input {text[0]} output {text[1]} (in "
            "interpolate)"
        )


def _repeated(x, axis, times):
    wide = jnp.broadcast_to(jnp.expand_dims(x, axis + 1), (*x.shape[: axis + 1], times, *x.shape[axis + 1 :]))
    return wide.reshape(*x.shape[:axis], x.shape[axis] * times, *x.shape[axis + 1 :])


def _is_exact(scale, times):
    """Whether positions divided by ``scale`` are those divided by ``times`` without rounding: a power of two."""
    return scale == times and times & (times - 1) == 0


def _from_sizes(mode, n, antialias, size, out):
    """Whether PyTorch goes by the two sizes, whatever the factor: where one comes from rounding a factor's."""
    if mode == "nearest":
        return n == 2 and out in (size, 2 * size)
    return out == size and (antialias or mode in ("linear", "bilinear", "trilinear"))


def _interpolate(mode, self, output_size, scales, align_corners, antialias):
    _check_sizes(self, output_size)
    if not jnp.issubdtype(self.dtype, jnp.floating) and self.dtype != jnp.uint8:
        raise NotImplementedError(f"\"upsample_{mode}\" not implemented for '{from_np(self.dtype).scalar_name}'")
    if self.dtype == jnp.uint8 and mode in ("linear", "trilinear"):
        raise NotImplementedError(f"\"upsample_{mode}\" not implemented for 'Byte': use .float()")
    if self.dtype == jnp.uint8 and mode in ("bilinear", "bicubic"):
        return _of_bytes(mode, self, output_size, scales, align_corners, antialias)
    nearest = mode.startswith("nearest")
    x = self if nearest or self.dtype.itemsize >= 4 else self.astype(jnp.float32)
    for axis, (out, scale) in enumerate(zip(output_size, scales or (None,) * len(output_size), strict=True), 2):
        size = x.shape[axis]
        if _from_sizes(mode, len(output_size), antialias, size, out):
            scale = None
        if out == size and not (scale and scale != 1):
            continue
        if nearest and out % size == 0 and (not scale or _is_exact(scale, out // size)):
            x = _repeated(x, axis, out // size)
            continue
        x = tables.resample(x, _table(mode, size, out, scale, align_corners, antialias, x.dtype == jnp.float32), axis)
    if self.dtype == jnp.uint8 and not nearest:
        x = jnp.clip(jnp.round(x), 0, 255)
    return x.astype(self.dtype)


def _of_bytes(mode, self, output_size, scales, align_corners, antialias):
    """Rows first, each rounded to bytes: PyTorch's numbers, which whole weights make up to 1 off the nearest ones."""
    x, scales = self.astype(jnp.int32), scales or (None, None)
    for axis, out, scale in ((3, output_size[1], scales[1]), (2, output_size[0], scales[0])):
        size = x.shape[axis]
        if out != size:
            table = _table(mode, size, out, scale, align_corners, antialias, False)
            x = tables.resample_bytes(x, table, axis)
    return x.astype(self.dtype)


def _declare(mode, n):
    def interpolate(self, output_size, scales, align_corners, antialias):
        return _interpolate(mode, self, output_size, scales, align_corners, antialias)

    name = f"_upsample_{mode.replace('-', '_')}{n}d"
    schema = f"{name}(Tensor self, int[] output_size, float[]? scales, bool align_corners, bool antialias) -> Tensor"
    shown = None if mode == "lanczos" else {"calls": _calls(name, n, not mode.startswith("nearest"))}
    return op(schema, variants="", node=_NODES[mode].format(n=n), saved=_saved(mode, n), aten=shown,
              layout=result_layouts.suggested, autocast=None if mode == "lanczos" else {"cuda": "fp32"},
              backward=None if mode == "lanczos" else _backward(name, mode, n))(interpolate)  # fmt: skip


def _backward(name, mode, n):
    """PyTorch's operator, which has none with ``antialias`` here."""
    name = name if "exact" in mode else name[1:]
    align = "" if mode.startswith("nearest") else "bool align_corners, "
    scales = ", ".join(f"float? {s}=None" for s in _scale_names(n))
    sizes = f"SymInt[{n}] output_size, SymInt[{n + 2}] input_size"
    sources = {s: _scale_of(i) for i, s in enumerate(_scale_names(n))}
    sources |= {"input_size": lambda self_aval: list(self_aval.shape), "when": lambda antialias: not antialias}
    return f"{name}_backward(Tensor grad_output, {sizes}, {align}{scales}) -> Tensor", sources


def _scale_names(n):
    return ("scales",) if n == 1 else ("scales_d", "scales_h", "scales_w")[3 - n :]


def _calls(name, n, aligned):
    """PyTorch's operator takes a factor for each dimension, and is another one with ``antialias``."""

    def calls(aten, self, size, scales, align, antialias):
        if antialias:
            return aten["torchlike", name](self, list(size), scales, align, antialias)
        shown = name if "exact" in name else name[1:]
        return aten[shown](self, list(size), *[align] * aligned, *(scales or [None] * n))

    return calls


def _scale_of(i):
    return lambda scales: None if scales is None else scales[i]


def _saved(mode, n):
    shown = {"output_size": "output_size", "self_sym_sizes": "self_sym_sizes"}
    for i, name in enumerate(_scale_names(n)):
        shown[name] = _scale_of(i)
    return shown if mode.startswith("nearest") else shown | {"align_corners": "align_corners"}


_DIMS = {"linear": (1,), "bilinear": (2,), "trilinear": (3,), "bicubic": (2,), "lanczos": (2,)}
interpolate = {(mode, n): _declare(mode, n) for mode in MODES for n in _DIMS.get(mode, (1, 2, 3))}


# -- shuffles ----------------------------------------------------------------------------------------


def _at_least(name, x, n):
    if x.ndim < n:
        raise RuntimeError(
            f"{name} expects input to have at least {n} dimensions, but got input with {x.ndim} dimension(s)"
        )


@op("pixel_shuffle(Tensor self, int upscale_factor) -> Tensor", variants="function",
    layout=result_layouts.suggested, backward=lambda grad, upscale_factor: aten.pixel_unshuffle(grad, upscale_factor))
def pixel_shuffle(self, upscale_factor):
    """Channels to positions: [*, C * r * r, H, W] to [*, C, H * r, W * r] (Shi et al. 2016).

    >>> import torchlike as torch
    >>> torch.pixel_shuffle(torch.arange(4.0).view(4, 1, 1), 2)
    tensor([[[0., 1.],
             [2., 3.]]])
    """
    r = upscale_factor
    _at_least("pixel_shuffle", self, 3)
    if r <= 0:
        raise RuntimeError(f"pixel_shuffle expects a positive upscale_factor, but got {r}")
    *lead, c, h, w = self.shape
    if c % (r * r):
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of "
            f"upscale_factor, but input.size(-3)={c} is not divisible by {r * r}"
        )
    parts = self.reshape(math.prod(lead), c // (r * r), r, r, h, w)
    return parts.transpose(0, 1, 4, 2, 5, 3).reshape(*lead, c // (r * r), h * r, w * r)


@op(
    "pixel_unshuffle(Tensor self, int downscale_factor) -> Tensor", variants="function",
    layout=result_layouts.suggested,
    backward=lambda grad, downscale_factor: aten.pixel_shuffle(grad, downscale_factor),
)
def pixel_unshuffle(self, downscale_factor):
    """Positions to channels, the inverse of :func:`pixel_shuffle`: [*, C, H * r, W * r] to [*, C * r * r, H,
    W].

    >>> import torchlike as torch
    >>> torch.pixel_unshuffle(torch.arange(4.0).view(1, 2, 2), 2).flatten()
    tensor([0., 1., 2., 3.])
    """
    r = downscale_factor
    _at_least("pixel_unshuffle", self, 3)
    if r <= 0:
        raise RuntimeError(f"pixel_unshuffle expects a positive downscale_factor, but got {r}")
    *lead, c, h, w = self.shape
    for what, dim, size in (("height", -2, h), ("width", -1, w)):
        if size % r:
            raise RuntimeError(
                f"pixel_unshuffle expects {what} to be divisible by downscale_factor, but "
                f"input.size({dim})={size} is not divisible by {r}"
            )
    parts = self.reshape(math.prod(lead), c, h // r, r, w // r, r)
    return parts.transpose(0, 1, 3, 5, 2, 4).reshape(*lead, c * r * r, h // r, w // r)


@op("channel_shuffle(Tensor self, SymInt groups) -> Tensor", variants="function",
    layout=result_layouts.suggested, backward=lambda grad, groups:
    aten.channel_shuffle(grad, grad.shape[1] // groups))  # fmt: skip
def channel_shuffle(self, groups):
    """Interleave ``groups`` groups of channels of [N, C, ...] (Zhang et al. 2018).

    >>> import torchlike as torch
    >>> torch.channel_shuffle(torch.arange(4.0).view(1, 4, 1), 2).flatten()
    tensor([0., 2., 1., 3.])
    """
    if self.ndim <= 2:
        raise RuntimeError(f"channel_shuffle expects input with > 2 dims, but got input with sizes {list(self.shape)}")
    if groups <= 0:
        raise RuntimeError(f"Number of groups to divide channels in must be positive. Value of groups:{groups}")
    n, c, *size = self.shape
    if c % groups:
        raise RuntimeError(f"Number of channels must be divisible by groups. Got {c} channels and {groups} groups.")
    return jnp.swapaxes(self.reshape(n, groups, c // groups, *size), 1, 2).reshape(self.shape)


# -- sliding blocks ----------------------------------------------------------------------------------


class _Blocks(Windows):
    """The blocks of one unfold or fold call: no window hangs over, and any padding goes."""

    def __init__(self, size, kernel_size, dilation, padding, stride):
        names = zip(
            ("kernel_size", "dilation", "padding", "stride"),
            (kernel_size, dilation, padding, stride),
            strict=True,
        )
        for what, value in names:
            if len(value) not in (1, 2):
                raise RuntimeError(f"It is expected {what} equals to 2, but got size {len(value)}")
            low, word = (0, "non-negative") if what == "padding" else (1, "greater than zero")
            if min(value) < low:
                raise RuntimeError(
                    f"{what.replace('_', ' ')} should be {word}, but got {list(value)} (in unfold or fold)"
                )
        self.size = size
        self.kernel, self.stride = (
            expand("unfold", "kernel_size", kernel_size, 2),
            expand("unfold", "stride", stride, 2),
        )
        self.pad, self.dilation = (
            expand("unfold", "padding", padding, 2),
            expand("unfold", "dilation", dilation, 2),
        )
        numbers = zip(size, self.kernel, self.stride, self.pad, self.dilation, strict=True)
        self.out = tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in numbers)
        if min(self.out) < 1:
            raise RuntimeError(
                f"Given input with spatial size {size}, kernel_size={self.kernel}, dilation={self.dilation}, "
                f"padding={self.pad}, calculated shape of the array of sliding blocks as {self.out}, but its "
                "components must be at least one."
            )

    def unfold(self, x):
        """[B, H, W] to [B, kernel elements, blocks]."""
        padded = self.padded(x, 0)
        if self.apart:
            parts = self.split(padded).transpose(0, 2, 4, 1, 3)
            return parts.reshape(x.shape[0], math.prod(self.kernel), math.prod(self.out))
        for axis, (o, k, s, d) in enumerate(zip(self.out, self.kernel, self.stride, self.dilation, strict=True)):
            rows = [lax.slice_in_dim(padded, i * d, i * d + (o - 1) * s + 1, s, 1 + 2 * axis) for i in range(k)]
            padded = jnp.stack(rows, 1 + 2 * axis)
        return padded.transpose(0, 1, 3, 2, 4).reshape(x.shape[0], math.prod(self.kernel), math.prod(self.out))

    def fold(self, blocks):
        """The adjoint of :meth:`unfold`: elements of several blocks are summed."""
        parts = blocks.reshape(-1, *self.kernel, *self.out)
        edges = self.reach()
        if self.apart:
            total = parts.transpose(0, 3, 1, 4, 2).reshape(
                -1, *(o * k for o, k in zip(self.out, self.kernel, strict=True))
            )
        else:
            total = self._summed(self._summed(parts, 1, 3, 0), 1, 3, 1)
        config = [(0, 0, 0), *((-lo, -hi, 0) for lo, hi in edges)]
        return lax.pad(total, jnp.zeros((), total.dtype), config)

    def _summed(self, parts, element, position, i):
        """Spread axis ``position`` (blocks) over the padded dimension ``i``, summing axis ``element``."""
        k, s, d, o = self.kernel[i], self.stride[i], self.dilation[i], self.out[i]
        lo, hi = self.reach()[i]
        length, out = self.size[i] + lo + hi, 0
        for j in range(k):
            piece = lax.index_in_dim(parts, j, element, keepdims=False)
            config = [(0, 0, 0)] * piece.ndim
            config[position - 1] = (j * d, length - j * d - (o - 1) * s - 1, s - 1)
            out = out + lax.pad(piece, jnp.zeros((), piece.dtype), config)
        return out


def _only_floating(name, x):
    if not (jnp.issubdtype(x.dtype, jnp.inexact) or x.dtype == bool):
        raise NotImplementedError(f"\"{name}\" not implemented for '{from_np(x.dtype).scalar_name}'")


@op("im2col(Tensor self, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) -> Tensor",
    variants="",
    node="Im2ColBackward", jvp="kernel", vjp={
        "self": lambda grad, self_aval, kernel_size, dilation, padding, stride: aten.col2im(
            grad, list(self_aval.shape[-2:]), list(kernel_size), list(dilation), list(padding), list(stride))},
    saved="dilation kernel_size padding self_sym_argsize_minus_1 self_sym_argsize_minus_2 stride")  # fmt: skip
def im2col(self, kernel_size, dilation, padding, stride):
    """Sliding blocks: [N, C, H, W] to [N, C * kernel elements, blocks]."""
    if self.ndim not in (3, 4) or 0 in self.shape[self.ndim - 3 :]:
        raise RuntimeError(
            "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions "
            f"for input, but got: {list(self.shape)}"
        )
    _only_floating("im2col_out_cpu", self)
    *lead, c, h, w = self.shape
    blocks = _Blocks((h, w), kernel_size, dilation, padding, stride)
    out = linear(blocks.unfold, blocks.fold, self.reshape(-1, h, w))
    return out.reshape(*lead, c * math.prod(blocks.kernel), math.prod(blocks.out))


@op("col2im(Tensor self, SymInt[2] output_size, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] "
    "stride) "
    "-> Tensor", variants="", node="Col2ImBackward", jvp="kernel", vjp={
        "self": lambda grad, kernel_size, dilation, padding, stride: aten.im2col(
            grad, list(kernel_size), list(dilation), list(padding), list(stride))})  # fmt: skip
def col2im(self, output_size, kernel_size, dilation, padding, stride):
    """Sums of sliding blocks: [N, C * kernel elements, blocks] to [N, C, *output_size]."""
    if len(output_size) not in (1, 2):
        raise RuntimeError(f"It is expected output_size equals to 2, but got size {len(output_size)}")
    if self.ndim not in (2, 3) or 0 in self.shape[self.ndim - 2 :]:
        raise RuntimeError(
            "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero "
            f"dimensions for input, but got: {list(self.shape)}"
        )
    _only_floating("col2im_out_cpu", self)
    size = expand("fold", "output_size", output_size, 2)
    if min(size) < 1:
        raise RuntimeError(f"Expected output spatial size to be greater than zero, but got: {list(size)} (in fold)")
    blocks = _Blocks(size, kernel_size, dilation, padding, stride)
    *lead, rows, count = self.shape
    elements = math.prod(blocks.kernel)
    if rows % elements:
        raise RuntimeError(
            "Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got "
            f"input.size(1)={rows} and kernel_size={blocks.kernel}."
        )
    if count != math.prod(blocks.out):
        raise RuntimeError(
            f"Given output_size={size}, kernel_size={blocks.kernel}, dilation={blocks.dilation}, "
            f"padding={blocks.pad}, stride={blocks.stride}, expected size of input's dimension 2 to match "
            f"the calculated number of sliding blocks {blocks.out[0]} * {blocks.out[1]} = "
            f"{math.prod(blocks.out)}, but got input.size(2)={count}."
        )
    out = linear(blocks.fold, blocks.unfold, self.reshape(-1, elements, count))
    return out.reshape(*lead, rows // elements, *size)
