"""``torch.signal.windows``: window functions of ``M`` points, made of operations on tensors.

``sym=False`` gives the first ``M`` points of the window of ``M + 1`` (for spectra). ValueError for a negative ``M`` and
for other types than float32 and float64.
"""

import math
from collections.abc import Iterable

import torchlike._base.dtypes as dtypes
from torchlike._base.state import state as _state
from torchlike._core.overrides.torch_function import publish as _publish
from torchlike._core.tensor.arguments import as_int as _as_int
from torchlike._core.tensor.tensor import strided
from torchlike._functions._install import FUNCTIONS as _FUNCTIONS
from torchlike.interop.alias import missing_names

_linspace = _FUNCTIONS["linspace"]


def _demand(name, M, dtype, layout):
    """The type of the window."""
    dtype = dtypes.get_default_dtype() if dtype is None else dtype
    if M < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={M}")
    if layout is not strided:
        raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
    if dtype not in (dtypes.float32, dtypes.float64):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {dtype}")
    return {"dtype": dtype}


def _short(M, options):
    """The window of no points or of one."""
    M = _as_int("linspace", "steps", M)
    return _FUNCTIONS["ones"](1, **options) if M else _FUNCTIONS["empty"](0, **options)


def _points(name, M, dtype, layout, device, requires_grad):
    options = _demand(name, M, dtype, layout)
    return options | {"layout": layout, "device": device, "requires_grad": requires_grad}


def exponential(M, *, center=None, tau=1.0, sym=True, dtype=None, layout=strided, device=None, requires_grad=False):
    """The window ``exp(-|x - center| / tau)``; ``center`` is the middle, and may be given for ``sym=False`` only.

    >>> import torchlike as torch
    >>> torch.signal.windows.exponential(3)
    tensor([0.3679, 1.0000, 0.3679])
    """
    options = _points("exponential", M, dtype, layout, device, requires_grad)
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    if M < 1:
        return _short(M, options)
    sym = sym or M == 1
    center = (M if not sym else M - 1) / 2.0 if center is None else center
    k = _linspace(-center / tau, (-center + (M - 1)) / tau, M, **options)
    return (-k.abs()).exp()


def cosine(M, *, sym=True, dtype=None, layout=strided, device=None, requires_grad=False):
    """The first half of a sine wave.

    >>> import torchlike as torch
    >>> torch.signal.windows.cosine(3)
    tensor([0.5000, 1.0000, 0.5000])
    """
    options = _points("cosine", M, dtype, layout, device, requires_grad)
    if M < 1:
        return _short(M, options)
    step = math.pi / (M + 1 if not sym and M > 1 else M)
    return _linspace(0.5 * step, (0.5 + (M - 1)) * step, M, **options).sin()


def gaussian(M, *, std=1.0, sym=True, dtype=None, layout=strided, device=None, requires_grad=False):
    """The window ``exp(-x**2 / (2 std**2))`` about the middle.

    >>> import torchlike as torch
    >>> torch.signal.windows.gaussian(3)
    tensor([0.6065, 1.0000, 0.6065])
    """
    options = _points("gaussian", M, dtype, layout, device, requires_grad)
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    if M < 1:
        return _short(M, options)
    start, scale = -(M if not sym and M > 1 else M - 1) / 2.0, 1 / (std * math.sqrt(2))
    k = _linspace(start * scale, (start + (M - 1)) * scale, M, **options)
    return (-(k**2)).exp()


def kaiser(M, *, beta=12.0, sym=True, dtype=None, layout=strided, device=None, requires_grad=False):
    """The Kaiser window of shape ``beta``.

    >>> import torchlike as torch
    >>> torch.signal.windows.kaiser(3, beta=2.0)
    tensor([0.4387, 1.0000, 0.4387])
    """
    options = _points("kaiser", M, dtype, layout, device, requires_grad)
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    if M < 2:
        return _short(M, options)
    shape, beta = beta, _FUNCTIONS["tensor"](beta, dtype=options["dtype"], device=device)
    if _state.dispatch_modes:
        start = -beta
        step = beta * 2.0 / (M if not sym else M - 1)
        k = _linspace(start, _FUNCTIONS["minimum"](beta, start + step * (M - 1)), M, **options)
    else:  # the same in numbers, which nothing waits for
        step = 2.0 * shape / (M if not sym else M - 1)
        k = _linspace(-shape, min(shape, -shape + (M - 1) * step), M, **options)
    return (beta * beta - k**2).sqrt().i0() / beta.i0()


def hamming(M, *, sym=True, dtype=None, layout=strided, device=None, requires_grad=False):
    """The window ``0.54 - 0.46 cos(x)``.

    >>> import torchlike as torch
    >>> torch.signal.windows.hamming(3)
    tensor([0.0800, 1.0000, 0.0800])
    """
    return general_hamming(M, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)


def hann(M, *, sym=True, dtype=None, layout=strided, device=None, requires_grad=False):
    """The window ``0.5 - 0.5 cos(x)``.

    >>> import torchlike as torch
    >>> torch.signal.windows.hann(3)
    tensor([0., 1., 0.])
    """
    options = {"dtype": dtype, "layout": layout, "device": device, "requires_grad": requires_grad}
    return general_hamming(M, alpha=0.5, sym=sym, **options)


def blackman(M, *, sym=True, dtype=None, layout=strided, device=None, requires_grad=False):
    """The window ``0.42 - 0.5 cos(x) + 0.08 cos(2 x)``.

    >>> import torchlike as torch
    >>> torch.signal.windows.blackman(5).abs()
    tensor([1.4901e-08, 3.4000e-01, 1.0000e+00, 3.4000e-01, 1.4901e-08])
    """
    _demand("blackman", M, dtype, layout)
    options = {"dtype": dtype, "layout": layout, "device": device, "requires_grad": requires_grad}
    return general_cosine(M, a=[0.42, 0.5, 0.08], sym=sym, **options)


def bartlett(M, *, sym=True, dtype=None, layout=strided, device=None, requires_grad=False):
    """The triangle from 0 to 1 and back.

    >>> import torchlike as torch
    >>> torch.signal.windows.bartlett(3)
    tensor([0., 1., 0.])
    """
    options = _points("bartlett", M, dtype, layout, device, requires_grad)
    if M < 2:
        return _short(M, options)
    step = 2 / (M if not sym else M - 1)
    return 1 - _linspace(-1, -1 + (M - 1) * step, M, **options).abs()


def general_cosine(M, *, a, sym=True, dtype=None, layout=strided, device=None, requires_grad=False):
    """The sum of cosines ``a[0] - a[1] cos(x) + a[2] cos(2 x)`` and so on. ValueError without weights.

    >>> import torchlike as torch
    >>> torch.signal.windows.general_cosine(3, a=[0.5, 0.5])
    tensor([0., 1., 0.])
    """
    options = _points("general_cosine", M, dtype, layout, device, requires_grad)
    if M < 2:
        return _short(M, options)
    if not isinstance(a, Iterable):
        raise TypeError("Coefficients must be a list/tuple")
    if not a:
        raise ValueError("Coefficients cannot be empty")
    step = 2 * math.pi / (M if not sym else M - 1)
    k = _linspace(0, (M - 1) * step, M, **options)
    weights = _FUNCTIONS["tensor"](
        [(-1) ** i * w for i, w in enumerate(a)], dtype=options["dtype"], device=device, requires_grad=requires_grad
    )
    i = _FUNCTIONS["arange"](weights.shape[0], dtype=weights.dtype, device=weights.device)
    return (weights.unsqueeze(-1) * (i.unsqueeze(-1) * k).cos()).sum(0)


def general_hamming(M, *, alpha=0.54, sym=True, dtype=None, layout=strided, device=None, requires_grad=False):
    """The window ``alpha - (1 - alpha) cos(x)``.

    >>> import torchlike as torch
    >>> torch.signal.windows.general_hamming(3, alpha=0.6)
    tensor([0.2000, 1.0000, 0.2000])
    """
    options = {"dtype": dtype, "layout": layout, "device": device, "requires_grad": requires_grad}
    return general_cosine(M, a=[alpha, 1.0 - alpha], sym=sym, **options)


def nuttall(M, *, sym=True, dtype=None, layout=strided, device=None, requires_grad=False):
    """The four-term window of least side lobes, after Nuttall.

    >>> import torchlike as torch
    >>> torch.signal.windows.nuttall(3)
    tensor([3.6280e-04, 1.0000e+00, 3.6280e-04])
    """
    options = {"dtype": dtype, "layout": layout, "device": device, "requires_grad": requires_grad}
    return general_cosine(M, a=[0.3635819, 0.4891775, 0.1365995, 0.0106411], sym=sym, **options)


__all__ = [
    "bartlett",
    "blackman",
    "cosine",
    "exponential",
    "gaussian",
    "general_cosine",
    "general_hamming",
    "hamming",
    "hann",
    "kaiser",
    "nuttall",
]
globals().update(_publish("torch.signal.windows", {name: globals()[name] for name in __all__}))
__getattr__ = missing_names(__name__)
