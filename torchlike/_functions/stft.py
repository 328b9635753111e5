"""Fourier transforms of the frames of a signal: ``torch.stft``, and ``torch.istft`` back."""

from torchlike._base.frames import warn
from torchlike._base.once import warn_once
from torchlike._base.state import state
from torchlike._core.dispatch.dispatch import call
from torchlike._core.tensor import arguments
from torchlike._core.tensor.arguments import bools, bools_or_none
from torchlike._core.tensor.tensor import Tensor
from torchlike._functions import fourier
from torchlike._functions._install import FUNCTIONS, both
from torchlike._functions.rearrange import pad as padded
from torchlike._ops import fourier as ops
from torchlike._ops.pad import constant_pad_nd
from torchlike._ops.view import unfold_backward


def _demand_arguments(name, input, window, **ints):
    """The ints, of arguments that must be such; TypeError for what is no tensor."""
    if not isinstance(input, Tensor):
        raise arguments.no_tensor(name, "input", 0, input)
    if window is not None and not isinstance(window, Tensor):
        raise arguments.no_tensor(name, "window", None, window)
    return [n if n is None or n.__class__ is int else arguments.as_int(name, k, n) for k, n in ints.items()]


def _refuse(name, problem, input, n_fft, hop, win, window):
    shape = None if window is None else list(window.shape)
    return RuntimeError(
        f"{name}({input.dtype.scalar_name}{list(input.shape)}, n_fft={n_fft}, hop_length={hop}, win_length={win}, "
        f"window={shape}): {problem}"
    )


def _centered(window, n_fft, win):
    """The window with zeros on both sides up to ``n_fft``."""
    left = (n_fft - win) // 2
    return call(constant_pad_nd, (window, 0), ((left, n_fft - win - left),)) if win < n_fft else window


def _window_of(input, window, n_fft, win):
    """The window of ``n_fft`` points, or None where it changes nothing."""
    if window is None and win < n_fft:
        window = FUNCTIONS["ones"](win, dtype=input.dtype, device=input.device)
    return None if window is None else _centered(window, n_fft, win)


_ONES = "window=torch.ones(n_fft) says that it is meant."
_LEAKS = f"whose spectra leak; torch.hann_window and torch.hamming_window leak less. {_ONES}"
_THE_SAME = f"Give the window that stft had, or the signal is another one. {_ONES}"


@both()
def stft(input, n_fft, hop_length=None, win_length=None, window=None, center=True, pad_mode="reflect",
         normalized=False, onesided=None, return_complex=None, align_to_window=None):  # fmt: skip
    """The spectra of overlapping frames of a signal, or of a batch of signals.

    Args:
        input: of shape (L,) or (B, L), real or complex.
        n_fft: the points of a frame. hop_length: from one frame to the next, a quarter of that by default.
        win_length: the points of ``window`` (ones by default), which is centered in its frame.
        center: whether the signal is padded by ``n_fft // 2`` on both sides (``pad_mode``), so that frame t is centered
            at ``t * hop_length``. align_to_window: without it, frames begin where their window does.
        normalized: divide by the root of ``n_fft``. onesided: the first half of the spectra, by default where
            signal and window are real. return_complex: complex numbers, or pairs of real ones; to be given for
            real signals.

    Returns a tensor of shape (B, frequencies, frames). RuntimeError for frames longer than the signal, and for windows
    of another length than ``win_length``.

    >>> import torchlike as torch
    >>> torch.stft(torch.ones(8), 4, return_complex=True).shape
    torch.Size([3, 9])
    """
    bools("stft", normalized=normalized)
    bools_or_none("stft", onesided=onesided, return_complex=return_complex)
    n_fft, hop, win = _demand_arguments(
        "stft", input, window, n_fft=n_fft, hop_length=hop_length, win_length=win_length
    )
    if window is None:
        warn_once(f"A window was not provided. A rectangular window will be applied, {_LEAKS}")
    if align_to_window is not None and center:
        raise RuntimeError("stft align_to_window should only be set when center = false")
    hop, win = n_fft // 4 if hop is None else hop, n_fft if win is None else win
    of_complex = input.dtype.is_complex or (window is not None and window.dtype.is_complex)
    if return_complex is None and not of_complex:
        raise RuntimeError(
            "stft requires the return_complex parameter be given for real inputs, and will further require that "
            "return_complex=True in a future PyTorch release."
        )
    if onesided and of_complex:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    if center:
        border = [n_fft // 2] * 2
        shape = [1] * (3 - input.ndim) + list(input.shape)
        input = padded(Tensor.view(input, shape), border, pad_mode).view([*input.shape[:-1], -1]) if n_fft else input
    frames = _frames(input, n_fft, hop, win, window, align_to_window)
    onesided = not of_complex if onesided is None else onesided
    transform = fourier.c2c if frames.dtype.is_complex else lambda *rest: fourier.mirrored(*rest, onesided)
    out = transform(frames, (2,), "ortho" if normalized else None, True)
    if state.dispatch_modes and not out.requires_grad:
        out = out.transpose_(1, 2)
        out = out.squeeze_(0) if input.ndim == 1 else out
    else:
        out = out.transpose(1, 2)
        out = out.squeeze(0) if input.ndim == 1 else out
    if return_complex is None or return_complex:
        return out
    warn("stft with return_complex=False is deprecated: use return_complex=True, and view_as_real for pairs")
    return FUNCTIONS["view_as_real"](out)


def _frames(input, n_fft, hop, win, window, align):
    """The frames of the signals, (B, frames, n_fft), by the window."""
    given = input, n_fft, hop, win, window
    if not (input.dtype.is_floating_point or input.dtype.is_complex):
        raise _refuse("stft", "expected a tensor of floating point or complex values", *given)
    if input.ndim not in (1, 2):
        raise _refuse("stft", "expected a 1D or 2D tensor", *given)
    length = input.shape[-1]
    if not 0 < n_fft <= length:
        raise _refuse("stft", f"expected 0 < n_fft < {length}, but got n_fft={n_fft}", *given)
    if hop <= 0:
        raise _refuse("stft", f"expected hop_length > 0, but got hop_length={hop}", *given)
    if not 0 < win <= n_fft:
        raise _refuse("stft", f"expected 0 < win_length <= n_fft, but got win_length={win}", *given)
    if window is not None and tuple(window.shape) != (win,):
        problem = f"expected a 1D window tensor of size equal to win_length={win}, but got window with size"
        raise _refuse("stft", f"{problem} {list(window.shape)}", *given)
    window = _window_of(input, window, n_fft, win)
    x = Tensor.unsqueeze(input, 0) if input.ndim == 1 else input
    if align:
        left = (n_fft - win) // 2
        x = call(constant_pad_nd, (x, 0), ((left, n_fft - win - left),)) if win < n_fft else x
    count = 1 + (x.shape[1] - n_fft) // hop
    batch, step = x.stride()
    x = Tensor.as_strided(x, (x.shape[0], count, n_fft), (batch, hop * step, step))
    return x if window is None else x * window


@both()
def istft(input, n_fft, hop_length=None, win_length=None, window=None, center=True, normalized=False, onesided=None,
          length=None, return_complex=False):  # fmt: skip
    """The signal of which :func:`stft` gives these spectra: frames are added up, by their windows.

    Args:
        input: of shape (B, frequencies, frames) or without B, complex. The others are as they were for ``stft``.
        length: of the signal; without it, what the frames cover.
        return_complex: whether the signal is complex.

    RuntimeError where the windows leave a part of the signal out.

    >>> import torchlike as torch
    >>> x = torch.tensor([1., 2., 3., 4., 5., 6., 7., 8.])
    >>> torch.istft(torch.stft(x, 4, return_complex=True), 4)
    tensor([1., 2., 3., 4., 5., 6., 7., 8.])
    """
    bools("istft", center=center, normalized=normalized, return_complex=return_complex)
    n_fft, hop, win, length = _demand_arguments(
        "istft", input, window, n_fft=n_fft, hop_length=hop_length, win_length=win_length, length=length
    )
    if window is None:
        warn_once(f"A window was not provided. A rectangular window will be applied. {_THE_SAME}")
    hop, win = n_fft // 4 if hop is None else hop, n_fft if win is None else win
    onesided = _demand_spectra(input, n_fft, hop, win, window, onesided)
    if return_complex and onesided:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    if not return_complex and window is not None and window.dtype.is_complex:
        raise RuntimeError("Complex windows are incompatible with return_complex=False")
    x = Tensor.unsqueeze(input, 0) if input.ndim == 2 else input
    count, total = x.shape[2], n_fft + hop * (x.shape[2] - 1)
    frames = _signals(Tensor.transpose(x, 1, 2), n_fft, normalized, onesided, return_complex)
    if window is None:
        window = FUNCTIONS["ones"](win, dtype=frames.dtype.to_real(), device=input.device)
    elif not (window.dtype.is_floating_point or window.dtype.is_complex):
        window = Tensor.to(window, frames.dtype.to_real())
    window = _centered(window, n_fft, win)
    added = lambda t: call(unfold_backward, (t,), ((t.shape[0], total), 1, n_fft, hop))  # noqa: E731
    signal = added(frames * Tensor.view(window, 1, 1, n_fft))
    weight = added(window.pow(2).expand(1, count, n_fft))
    start = n_fft // 2 if center else 0
    end = total if length is None and not center else total - start if length is None else start + length
    stop = min(end, total)
    start = min(start, stop)
    signal, weight = (Tensor.narrow(t, 1, start, max(stop - start, 0)) for t in (signal, weight))
    signal = call(ops.istft_divided, (signal, weight), ())
    if end > total:
        warn(
            "The length of signal is shorter than the length parameter. Result is being padded with zeros in the tail. "
            "Please check your center and hop_length settings."
        )
        signal = call(constant_pad_nd, (signal, 0), ((0, end - total),))
    return signal.squeeze(0) if input.ndim == 2 else signal


def _demand_spectra(input, n_fft, hop, win, window, onesided):
    """Whether the spectra are halves; RuntimeError where they fit no signal."""
    given = input, n_fft, hop, win, window
    if not input.dtype.is_complex:
        raise RuntimeError(
            "istft requires a complex-valued input tensor matching the output from stft with return_complex=True."
        )
    if not Tensor.numel(input):
        raise _refuse("istft", "input tensor cannot be empty.", *given)
    if input.ndim < 2:
        raise IndexError(f"istft: Dimension out of range: expected (frequencies, frames), got {list(input.shape)}")
    if input.ndim > 3:
        problem = f"expected a tensor with 3 or 4 dimensions, but got {input.ndim + 1} (that of real and imaginary"
        raise _refuse("istft", f"{problem} parts is the last)", *given)
    found = input.shape[-2]
    onesided = found != n_fft if onesided is None else onesided
    wanted = n_fft // 2 + 1 if onesided else n_fft
    if found != wanted:
        kind = "n_fft / 2 + 1 when onesided=True" if onesided else "n_fft when onesided=False"
        problem = "expected the frequency dimension (3rd to the last) of the input tensor to match"
        raise _refuse("istft", f"{problem} {kind}, but got {found}, not {wanted}", *given)
    if not 0 < hop <= win:
        raise _refuse("istft", "expected 0 < hop_length <= win_length", *given)
    if not 0 < win <= n_fft:
        raise _refuse("istft", "expected 0 < win_length <= n_fft", *given)
    if window is not None and tuple(window.shape) != (win,):
        raise _refuse("istft", f"Invalid window shape. window has to be 1D and length of `win_length`={win}", *given)
    return onesided


def _signals(spectra, n_fft, normalized, onesided, return_complex):
    """The frames that spectra (B, frames, frequencies) are of."""
    norm = "ortho" if normalized else None
    if return_complex:
        return fourier.c2c(spectra, (2,), norm, False)
    half = spectra if onesided else spectra.narrow(2, 0, n_fft // 2 + 1)
    return fourier.c2r(half, (2,), norm, False, n_fft)
