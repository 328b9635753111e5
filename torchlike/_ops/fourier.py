"""Discrete Fourier transforms: complex to complex, real to complex and complex to real.

``normalization``: 0 leaves sums as they are, 1 divides them by the root of the number of points, 2 by that number.
"""

import jax.numpy as jnp
from jax import lax

from torchlike._base.dtypes import from_np
from torchlike._decl.op import op
from torchlike._decl.words import aten
from torchlike._ops import _composed, _derivatives

# What numpy calls a normalization, of a transform forward (e^-i) and of one back.
_NORMS = {True: ("backward", "ortho", "forward"), False: ("forward", "ortho", "backward")}


def _demand(name, x, complex_):
    """RuntimeError unless ``x`` is of single or double precision, and complex or real as the operator has it."""
    if jnp.iscomplexobj(x) is not complex_ or jnp.real(x).dtype not in (jnp.float32, jnp.float64):
        kind = "complex64 or complex128" if complex_ else "float32 or float64"
        got = from_np(x.dtype).scalar_name
        raise RuntimeError(f"Unsupported dtype {got}: {name} expects a tensor of {kind}")


def _resized(x, dim, length):
    """``x`` with ``length`` along ``dim``, cut or filled with zeros."""
    if length <= x.shape[dim]:
        return lax.slice_in_dim(x, 0, length, axis=dim)
    return lax.pad(x, jnp.zeros((), x.dtype), [(0, length - n if d == dim else 0, 0) for d, n in enumerate(x.shape)])


@op(
    "_fft_c2c(Tensor self, SymInt[] dim, int normalization, bool forward) -> Tensor",
    out="cast",
    aten=True,
    variants="function out",
    node="FftC2CBackward",
    saved="dim normalization forward",
    vjp={"self": lambda grad, dim, normalization, forward: aten._fft_c2c(grad, list(dim), normalization, not forward)},
    jvp="kernel",
)
def fft_c2c(self, dim, normalization, forward):
    """The transform of complex numbers over the dimensions ``dim``."""
    _demand("_fft_c2c", self, True)
    if not dim or not self.size:
        return self
    transform = jnp.fft.fftn if forward else jnp.fft.ifftn
    return transform(self, axes=dim, norm=_NORMS[forward][normalization])


def _r2c_vjp(grad, self, dim, normalization, onesided):
    last = dim[-1]
    if onesided and grad.shape[last] != self.shape[last]:
        filler = self.shape[last] - grad.shape[last]
        zeros = aten.new_zeros(grad, [filler if d == last else n for d, n in enumerate(grad.shape)], options=True)
        grad = aten.cat([grad, zeros], last)
    return jnp.real(aten._fft_c2c(grad, list(dim), normalization, False))


@op(
    "_fft_r2c(Tensor self, int[] dim, int normalization, bool onesided) -> Tensor",
    out="cast",
    aten=True,
    variants="function out",
    node="FftR2CBackward",
    saved="self? dim normalization onesided",
    vjp={"self": _r2c_vjp},
    backward=_derivatives.r2c,
    jvp="kernel",
)
def fft_r2c(self, dim, normalization, onesided):
    """The transform of real numbers over ``dim``; ``onesided``: the first half of the last of them alone."""
    _demand("_fft_r2c", self, False)
    norm = _NORMS[True][normalization]
    if onesided and self.size:
        return jnp.fft.rfftn(self, axes=dim, norm=norm)
    out = self.astype(jnp.promote_types(self.dtype, jnp.complex64))
    out = jnp.fft.fftn(out, axes=dim, norm=norm) if self.size else out
    return _resized(out, dim[-1], self.shape[dim[-1]] // 2 + 1) if onesided else out


def _c2r_vjp(grad, dim, normalization):
    """Each number of the half that was given stands for two, but for those that are their own mirror image."""
    last, half = dim[-1], aten._fft_r2c(grad, list(dim), normalization, True)
    first, inner, rest = jnp.split(half, [1, 1 + grad.shape[last] - half.shape[last]], axis=last)
    return jnp.concatenate([first, 2 * inner, rest], last)


@op(
    "_fft_c2r(Tensor self, int[] dim, int normalization, SymInt last_dim_size) -> Tensor",
    out="cast",
    aten={"own": False, "calls": _composed.fft_c2r},
    variants="function out",
    node="FftC2RBackward",
    saved="dim normalization",
    vjp={"self": _c2r_vjp},
    backward=_derivatives.c2r,
    jvp="kernel",
)
def fft_c2r(self, dim, normalization, last_dim_size):
    """The real numbers (``last_dim_size`` in the last of ``dim``) that a half of their spectrum stands for."""
    _demand("_fft_c2r", self, True)
    last = dim[-1]
    x = _resized(self, last, last_dim_size // 2 + 1)
    if not self.size:
        return jnp.real(_resized(self, last, last_dim_size))
    sizes = [last_dim_size if d == last else self.shape[d] for d in dim]
    return jnp.fft.irfftn(x, s=sizes, axes=dim, norm=_NORMS[False][normalization])


def _covers(self, envelope):
    lowest = jnp.min(jnp.abs(envelope)) if envelope.size else jnp.zeros(())
    return lowest < 1e-11, RuntimeError(
        "istft: window overlap add min: 1: the squares of the shifted windows add up to 0 somewhere, so the signal is "
        "not determined there; choose a shorter hop_length or another window"
    )


@op(
    "_istft_divided(Tensor self, Tensor envelope) -> Tensor",
    aten={"own": True, "calls": lambda aten, self, envelope: aten["div.Tensor"](self, envelope)},
    variants="",
    node="DivBackward",
    check=_covers,
    vjp={"self": lambda grad, envelope: grad / jnp.conj(envelope),
         "envelope": lambda grad, self, envelope: grad * -jnp.conj(self / envelope / envelope)},
)  # fmt: skip
def istft_divided(self, envelope):
    """The sum of the frames of a signal by that of the squares of their windows."""
    return self / envelope
