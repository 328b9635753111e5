"""``torch.fft``: discrete Fourier transforms.

``norm`` of a transform forward is "backward" (None: the sums as they are), "ortho" (divided by the root of the number
of points) or "forward" (divided by that number); transforms back divide where those forward do not. Inputs shorter
than asked for are filled with zeros, longer ones are cut. Computed in single and double precision: RuntimeError for
half precision, for lengths below 1 and for another ``norm``. Integers are taken as of the default dtype.
"""

import numpy as np

import torchlike._base.dtypes as dtypes
from torchlike._base.state import state
from torchlike._core.autocast.composite import in_float32_on_cpu
from torchlike._core.conversion.factories import finish
from torchlike._core.dispatch.observers import made
from torchlike._core.overrides.torch_function import publish as _publish
from torchlike._core.tensor import arguments
from torchlike._core.tensor.tensor import Tensor
from torchlike._functions import fourier as _fourier
from torchlike._functions._install import FUNCTIONS as _FUNCTIONS
from torchlike.interop.alias import missing_names

_LAST = (-2, -1)

# -- over one dimension ------------------------------------------------------------------------------


@in_float32_on_cpu
def fft(input, n=None, dim=-1, norm=None, *, out=None):
    """The transform of ``n`` points (all) along ``dim``, of real or complex numbers; the result is complex.

    >>> import torchlike as torch
    >>> torch.fft.fft(torch.tensor([1., 0., 0., 0.]))
    tensor([1.+0.j, 1.+0.j, 1.+0.j, 1.+0.j])
    """
    return _fourier.one_complex("fft", input, n, dim, norm, True, out)


@in_float32_on_cpu
def ifft(input, n=None, dim=-1, norm=None, *, out=None):
    """The transform back along ``dim``: ``ifft(fft(x))`` is x.

    >>> import torchlike as torch
    >>> torch.fft.ifft(torch.tensor([4., 0., 0., 0.], dtype=torch.complex64))
    tensor([1.+0.j, 1.+0.j, 1.+0.j, 1.+0.j])
    """
    return _fourier.one_complex("ifft", input, n, dim, norm, False, out)


@in_float32_on_cpu
def rfft(input, n=None, dim=-1, norm=None, *, out=None):
    """The first ``n // 2 + 1`` numbers of the transform of real numbers, which has the others as their conjugates.

    RuntimeError for complex numbers.

    >>> import torchlike as torch
    >>> torch.fft.rfft(torch.tensor([1., 0., 0., 0.]))
    tensor([1.+0.j, 1.+0.j, 1.+0.j])
    """
    return _fourier.one_halved("rfft", input, n, dim, norm, True, out)


@in_float32_on_cpu
def irfft(input, n=None, dim=-1, norm=None, *, out=None):
    """The real numbers of which ``rfft`` gives this: ``n`` of them, by default ``2 * (input.size(dim) - 1)``.

    >>> import torchlike as torch
    >>> torch.fft.irfft(torch.ones(3, dtype=torch.complex64))
    tensor([1., 0., 0., 0.])
    """
    return _fourier.one_real("irfft", input, n, dim, norm, False, out)


@in_float32_on_cpu
def hfft(input, n=None, dim=-1, norm=None, *, out=None):
    """The real transform of a signal that is its own conjugate mirrored, given by its first half.

    >>> import torchlike as torch
    >>> torch.fft.hfft(torch.ones(3, dtype=torch.complex64))
    tensor([4., 0., 0., 0.])
    """
    return _fourier.one_real("hfft", input, n, dim, norm, True, out)


@in_float32_on_cpu
def ihfft(input, n=None, dim=-1, norm=None, *, out=None):
    """The first half of what ``hfft`` gives these real numbers of. RuntimeError for complex ones.

    >>> import torchlike as torch
    >>> torch.fft.ihfft(torch.tensor([4., 0., 0., 0.])).resolve_conj()
    tensor([1.-0.j, 1.-0.j, 1.-0.j])
    """
    return _fourier.one_halved("ihfft", input, n, dim, norm, False, out)


# -- over several ------------------------------------------------------------------------------------


@in_float32_on_cpu
def fftn(input, s=None, dim=None, norm=None, *, out=None):
    """The transform over the dimensions ``dim`` (all, or the last of them if ``s`` has as many lengths).

    ``s``: the length in each of ``dim``, -1 for that of the input.

    >>> import torchlike as torch
    >>> torch.fft.fftn(torch.ones(2, 2)).real
    tensor([[4., 0.],
            [0., 0.]])
    """
    return _fourier.many_complex("fftn", input, s, dim, norm, True, out)


@in_float32_on_cpu
def ifftn(input, s=None, dim=None, norm=None, *, out=None):
    """The transform of ``fftn`` back.

    ``s``: the length in each of ``dim``, -1 for that of the input.

    >>> import torchlike as torch
    >>> torch.fft.ifftn(torch.ones(2, 2)).real
    tensor([[1., 0.],
            [0., 0.]])
    """
    return _fourier.many_complex("ifftn", input, s, dim, norm, False, out)


@in_float32_on_cpu
def rfftn(input, s=None, dim=None, norm=None, *, out=None):
    """The transform of real numbers, of the last dimension the first half alone.

    ``s``: the length in each of ``dim``, -1 for that of the input.

    >>> import torchlike as torch
    >>> torch.fft.rfftn(torch.ones(2, 4)).shape
    torch.Size([2, 3])
    """
    return _fourier.rfftn("rfftn", input, s, dim, norm, out)


@in_float32_on_cpu
def irfftn(input, s=None, dim=None, norm=None, *, out=None):
    """The real numbers of which ``rfftn`` gives this; the last of ``s`` is their length.

    ``s``: the length in each of ``dim``, -1 for that of the input.

    >>> import torchlike as torch
    >>> torch.fft.irfftn(torch.ones(2, 3)).shape
    torch.Size([2, 4])
    """
    return _fourier.irfftn("irfftn", input, s, dim, norm, out)


def hfftn(input, s=None, dim=None, norm=None, *, out=None):
    """The real transform of a signal that is its own conjugate mirrored, given by a half.

    ``s``: the length in each of ``dim``, -1 for that of the input.

    >>> import torchlike as torch
    >>> torch.fft.hfftn(torch.ones(2, 3)).shape
    torch.Size([2, 4])
    """
    return _fourier.hfftn("hfftn", input, s, dim, norm, out)


def ihfftn(input, s=None, dim=None, norm=None, *, out=None):
    """The half of a signal of which ``hfftn`` gives these real numbers.

    ``s``: the length in each of ``dim``, -1 for that of the input.

    >>> import torchlike as torch
    >>> torch.fft.ihfftn(torch.ones(2, 4)).shape
    torch.Size([2, 3])
    """
    return _fourier.ihfftn("ihfftn", input, s, dim, norm, out)


@in_float32_on_cpu
def fft2(input, s=None, dim=_LAST, norm=None, *, out=None):
    """:func:`fftn` over two dimensions, the last two by default.

    >>> import torchlike as torch
    >>> torch.fft.fft2(torch.ones(2, 2)).real
    tensor([[4., 0.],
            [0., 0.]])
    """
    return _fourier.many_complex("fft2", input, s, _two("fft2", dim), norm, True, out)


@in_float32_on_cpu
def ifft2(input, s=None, dim=_LAST, norm=None, *, out=None):
    """:func:`ifftn` over two dimensions, the last two by default.

    >>> import torchlike as torch
    >>> torch.fft.ifft2(torch.ones(2, 2)).real
    tensor([[1., 0.],
            [0., 0.]])
    """
    return _fourier.many_complex("ifft2", input, s, _two("ifft2", dim), norm, False, out)


@in_float32_on_cpu
def rfft2(input, s=None, dim=_LAST, norm=None, *, out=None):
    """:func:`rfftn` over two dimensions, the last two by default.

    >>> import torchlike as torch
    >>> torch.fft.rfft2(torch.ones(2, 4)).shape
    torch.Size([2, 3])
    """
    return _fourier.rfftn("rfft2", input, s, _two("rfft2", dim), norm, out)


@in_float32_on_cpu
def irfft2(input, s=None, dim=_LAST, norm=None, *, out=None):
    """:func:`irfftn` over two dimensions, the last two by default.

    >>> import torchlike as torch
    >>> torch.fft.irfft2(torch.ones(2, 3)).shape
    torch.Size([2, 4])
    """
    return _fourier.irfftn("irfft2", input, s, _two("irfft2", dim), norm, out)


def hfft2(input, s=None, dim=_LAST, norm=None, *, out=None):
    """:func:`hfftn` over two dimensions, the last two by default.

    >>> import torchlike as torch
    >>> torch.fft.hfft2(torch.ones(2, 3)).shape
    torch.Size([2, 4])
    """
    return _fourier.hfftn("hfft2", input, s, _two("hfft2", dim), norm, out)


def ihfft2(input, s=None, dim=_LAST, norm=None, *, out=None):
    """:func:`ihfftn` over two dimensions, the last two by default.

    >>> import torchlike as torch
    >>> torch.fft.ihfft2(torch.ones(2, 4)).shape
    torch.Size([2, 3])
    """
    return _fourier.ihfftn("ihfft2", input, s, _two("ihfft2", dim), norm, out)


def _two(name, dim):
    if dim is None:
        raise TypeError(f"fft_{name}(): argument 'dim' (position 3) must be tuple of ints, not NoneType")
    return dim


# -- frequencies -------------------------------------------------------------------------------------


def fftfreq(n, d=1.0, *, out=None, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False):
    """The frequencies of the ``n`` numbers of :func:`fft`, of samples ``d`` apart: 0 and up, then the negative ones.

    RuntimeError for integer types.

    >>> import torchlike as torch
    >>> torch.fft.fftfreq(4)
    tensor([ 0.0000,  0.2500, -0.5000, -0.2500])
    """
    n = n if n.__class__ is int else arguments.as_int("fft_fftfreq", "n", n)
    _demand_count(n)
    steps = np.concatenate([np.arange((n + 1) // 2), np.arange(-(n // 2), 0)])
    return _frequencies("fftfreq", steps, n, d, out, dtype, device, requires_grad)


def rfftfreq(n, d=1.0, *, out=None, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False):
    """The frequencies of the ``n // 2 + 1`` numbers of :func:`rfft`, of samples ``d`` apart.

    RuntimeError for integer types.

    >>> import torchlike as torch
    >>> torch.fft.rfftfreq(4)
    tensor([0.0000, 0.2500, 0.5000])
    """
    n = n if n.__class__ is int else arguments.as_int("fft_rfftfreq", "n", n)
    count = int(n / 2) + 1
    _demand_count(count)
    return _frequencies("rfftfreq", np.arange(count), n, d, out, dtype, device, requires_grad)


def _demand_count(n):
    if n < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}]")


def _frequencies(name, steps, n, d, out, dtype, device, requires_grad):
    if not isinstance(d, int | float):
        d = arguments.as_float(f"fft_{name}", "d", d)
    if out is not None and not isinstance(out, Tensor):
        raise TypeError(f"fft_{name}(): argument 'out' must be Tensor, not {type(out).__name__}")
    kind = out.dtype if out is not None else dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    if not (kind.is_floating_point or kind.is_complex):
        raise RuntimeError(f"{name} requires a floating point or complex dtype, got {kind}")
    if kind.is_complex:
        raise NotImplementedError(f"\"arange_cpu\" not implemented for '{kind.scalar_name}'")
    if state.dispatch_modes and out is None:
        spacing = () if d == 1.0 else (d,)
        return made(f"fft_{name}.default", n, *spacing, dtype=dtype, device=device, requires_grad=requires_grad)
    with np.errstate(all="ignore"):
        value = steps.astype(kind.np) * np.asarray(np.float64(1.0) / (n * np.float64(d))).astype(_wide(kind))
    return finish(value.astype(kind.np), dtype, device, requires_grad, out)


def _wide(kind):
    """Numbers are multiplied in single precision where the result is of half."""
    return np.float64 if kind is dtypes.float64 else np.float32


def fftshift(input, dim=None):
    """The input with zero frequency in the middle of ``dim`` (of all dimensions).

    >>> import torchlike as torch
    >>> torch.fft.fftshift(torch.fft.fftfreq(4))
    tensor([-0.5000, -0.2500,  0.0000,  0.2500])
    """
    return _shifted("fft_fftshift", input, dim, lambda n: n // 2)


def ifftshift(input, dim=None):
    """What :func:`fftshift` moved, back in its place.

    >>> import torchlike as torch
    >>> torch.fft.ifftshift(torch.tensor([-1., 0., 1.]))
    tensor([ 0.,  1., -1.])
    """
    return _shifted("fft_ifftshift", input, dim, lambda n: (n + 1) // 2)


def _shifted(name, input, dim, by):
    if not isinstance(input, Tensor):
        raise arguments.no_tensor(name, "input", 0, input)
    dims = tuple(range(input.ndim)) if dim is None else arguments.as_ints_or_int(1)(name, "dim", dim)
    dims = tuple([_fourier.wrap_dim(d, input.ndim) for d in dims])
    if not dims:
        raise RuntimeError(f"`shifts` required: {name}() got no dimension to shift")
    return _FUNCTIONS["roll"](input, tuple([by(input.shape[d]) for d in dims]), dims)


__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "hfft2", "hfftn", "ifft", "ifft2", "ifftn", "ifftshift",
    "ihfft", "ihfft2", "ihfftn", "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip
globals().update(_publish("torch.fft", {name: globals()[name] for name in __all__}))
__getattr__ = missing_names(__name__)
