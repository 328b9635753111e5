"""Windows, and ``torch.stft`` and ``torch.istft`` over them: values, types, graphs, derivatives, errors."""

import re

import numpy as np
import pytest
import torch
import torch.signal.windows
from both import agree, attempt, plain
from oracle import check, check_error

import torchlike

rng = np.random.RandomState(5)
SIGNAL = rng.randn(2, 30)
COMPLEX = SIGNAL + 1j * rng.randn(2, 30)
WINDOWS = ["hann", "hamming", "blackman", "bartlett", "kaiser"]
FORMS = """(6) | (7, False) | (0) | (1) | (2, periodic=False) | (6, dtype=t.float64) | (5, dtype=t.half)
(5, dtype=t.bfloat16) | (6, requires_grad=True) | (window_length=4, periodic=True) | (33, True, dtype=t.float64)"""
FURTHER = ["kaiser_window(6, True, 8.0)", "kaiser_window(6, False, beta=3)", "hamming_window(6, True, 0.5)",
           "hamming_window(6, False, alpha=0.5, beta=0.4)"]  # fmt: skip


def split(text):
    return [c.strip() for line in text.split("\n") for c in line.split("|")]


def close(code):
    """Windows are computed from cosines: of half precision a rounding may differ, of others the last digit."""

    def run(t):
        w = eval(code, {"t": t, "W": t.signal.windows})
        return plain(w)[:2], w.requires_grad, w.grad_fn and w.grad_fn.name(), w.detach().double().numpy()

    (*ours, a), (*theirs, b) = run(torchlike), run(torch)
    assert ours == theirs
    eps = {"torch.float64": 1e-12, "torch.float32": 2e-7, "torch.float16": 1e-3, "torch.bfloat16": 8e-3}[ours[0][0]]
    np.testing.assert_allclose(a, b, rtol=eps, atol=eps)


@pytest.mark.parametrize("form", split(FORMS))
@pytest.mark.parametrize("name", WINDOWS)
def test_windows(name, form):
    close(f"t.{name}_window{form}")


@pytest.mark.parametrize("form", FURTHER)
def test_windows_with_numbers(form):
    close(f"t.{form}")


@pytest.mark.parametrize("form", ["(6)", "(7, sym=False)", "(0)", "(1)", "(2)", "(9, dtype=t.float64)",
                                  "(6, requires_grad=True)"])  # fmt: skip
@pytest.mark.parametrize("name", torch.signal.windows.__all__)
def test_signal_windows(name, form):
    form = form[:-1] + ", a=[0.5, 0.3, 0.2])" if name == "general_cosine" else form
    close(f"W.{name}{form}")


@pytest.mark.parametrize(
    "form",
    [
        "exponential(7, tau=2.0)",
        "exponential(7, center=1, sym=False)",
        "gaussian(7, std=2.0)",
        "kaiser(7, beta=5.0)",
        "general_hamming(7, alpha=0.6)",
        "general_cosine(5, a=(1.0, 0.5))",
    ],
)
def test_signal_windows_with_numbers(form):
    close(f"W.{form}")


REFUSED = [
    ("t.hann_window(-1)", "hann_window requires non-negative window_length, got window_length=-1"),
    ("t.hann_window(3, dtype=t.int64)", "hann_window expects floating point dtypes"),
    ("t.hann_window(3, dtype=t.complex64)", "not implemented for 'ComplexFloat'"),
    ("t.hann_window(2.5)", "argument 'window_length'.* must be int, not float"),
    ("t.hann_window(3, 1)", "hann_window"),
    ("t.kaiser_window(3, beta=1.0)", "invalid combination of arguments"),
    ("t.signal.windows.hann(-1)", "requires non-negative window length, got M=-1"),
    ("t.signal.windows.bartlett(3, dtype=t.half)", "bartlett expects float32 or float64 dtypes, got"),
    ("t.signal.windows.exponential(3, center=1)", "Center must be None for symmetric windows"),
    ("t.signal.windows.exponential(3, tau=0)", "Tau must be positive, got: 0 instead"),
    ("t.signal.windows.gaussian(3, std=-1)", "Standard deviation must be positive, got: -1 instead"),
    ("t.signal.windows.kaiser(3, beta=-1)", "beta must be non-negative, got: -1 instead"),
    ("t.signal.windows.general_cosine(3, a=[])", "Coefficients cannot be empty"),
    ("t.signal.windows.general_cosine(3, a=1.0)", "Coefficients must be a list/tuple"),
]


@pytest.mark.parametrize("code, match", REFUSED)
def test_windows_refuse(code, match):
    errors = [attempt(lambda t=t: eval(code, {"t": t})) for t in (torchlike, torch)]
    assert type(errors[0]) is type(errors[1])
    assert all(re.search(match, str(e)) for e in errors), errors


STFT = """x, 8, return_complex=True | x, 8, 3, 6, return_complex=True | x[0], 8, normalized=True, return_complex=True
x, 8, window=w, return_complex=True | x, 8, window=w, center=False, return_complex=True
x, 8, 2, 5, window=w[:5], return_complex=True | x, 8, onesided=False, return_complex=True
x, 8, pad_mode="constant", return_complex=True | x, 9, pad_mode="replicate", return_complex=True
x, 8, 2, 5, center=False, align_to_window=True, return_complex=True | x, 8, window=w + 0j"""


def lam(text):
    return eval(f"lambda t, x, w: {text}")


WINDOW = np.hanning(10)[1:-1]


@pytest.mark.parametrize("case", split(STFT))
def test_stft(case):
    check(lam(f"t.stft({case})"), SIGNAL, WINDOW, gradgrad="normalized" in case)


@pytest.mark.parametrize("case", ["x, 8, window=w", "x, 8, 3, window=w + 0j", "x[1], 7"])
def test_stft_of_complex_signals(case):
    check(lam(f"t.stft({case})"), COMPLEX, WINDOW, gradgrad=False)


def test_stft_in_pairs():
    agree(lambda t: t.stft(t.tensor(SIGNAL), 8, return_complex=False))


ISTFT = """f(x, 8, window=w), 8, window=w | f(x, 8, 3, 6), 8, 3, 6 | f(x[0], 8), 8 | f(x, 9), 9
f(x, 8, window=w), 8, window=w, length=20 | f(x, 8, window=w), 8, window=w, length=34
f(x, 8, normalized=True), 8, normalized=True | f(x, 8, center=False), 8, center=False
f(x, 8, onesided=False), 8, onesided=False | f(x, 8, onesided=False), 8, onesided=False, return_complex=True
x + 0j, 2, 1, window=w[:2], return_complex=False"""


@pytest.mark.parametrize("case", split(ISTFT))
def test_istft(case):
    call = case.replace("f(", "stft(").replace("stft(x", "t.stft(x")
    call = re.sub(r"(t\.stft\([^()]*)\)", r"\1, return_complex=True)", call)
    check(lam(f"t.istft({call})"), SIGNAL, WINDOW, gradgrad="normalized" in case, jit="w[:2]" not in case)


ERRORS = [
    ("t.stft(x, 8)", "stft requires the return_complex parameter be given for real inputs"),
    ("t.stft(x + 0j, 8, onesided=True)", "Cannot have onesided output if window or input is complex"),
    ("t.stft(x, 8, 0, return_complex=True)", "expected hop_length > 0, but got hop_length=0"),
    ("t.stft(x, 99, center=False, return_complex=True)", "expected 0 < n_fft < 30, but got n_fft=99"),
    ("t.stft(x, 8, 2, 9, return_complex=True)", "expected 0 < win_length <= n_fft, but got win_length=9"),
    ("t.stft(x, 8, window=w[:5], return_complex=True)", "expected a 1D window tensor of size equal to win_length=8"),
    ("t.stft(x[None], 8, return_complex=True)", "expected a 1D or 2D tensor"),
    ("t.stft(x.int(), 8, return_complex=True)", "expected a tensor of floating point or complex values"),
    ("t.stft(x, 8, pad_mode='no', return_complex=True)", "Unrecognised padding mode no"),
    ("t.stft(x, 8, align_to_window=True, return_complex=True)", "align_to_window should only be set when center"),
    ("t.istft(x, 8)", "istft requires a complex-valued input tensor"),
    ("t.istft(x + 0j, 8)", "expected the frequency dimension"),
    ("t.istft(x[:, :0] + 0j, 2)", "input tensor cannot be empty"),
    ("t.istft((x + 0j)[None, None], 2)", "expected a tensor with 3 or 4 dimensions, but got 5"),
    ("t.istft(x + 0j, 2, 3)", "expected 0 < hop_length <= win_length"),
    ("t.istft(x + 0j, 2, 1, 3)", "expected 0 < win_length <= n_fft"),
    ("t.istft(x + 0j, 2, 1, window=w)", "Invalid window shape"),
    ("t.istft(x + 0j, 2, 1, onesided=True, return_complex=True)", "Cannot have onesided output"),
    ("t.istft(x + 0j, 2, 1, window=w[:2] + 0j)", "Complex windows are incompatible with return_complex=False"),
    ("t.istft(x + 0j, 2, 1, window=w[:2] * 0)", "window overlap add min: 1"),
]  # fmt: skip


@pytest.mark.parametrize("case, match", ERRORS)
def test_refused(case, match):
    check_error(lam(case), SIGNAL, WINDOW, match=match)


def test_of_many_signals():
    x, w = torchlike.tensor(SIGNAL), torchlike.hann_window(8, dtype=torchlike.float64)
    spectra = torchlike.vmap(lambda x: x.stft(8, window=w, return_complex=True))(x)
    assert torchlike.allclose(spectra, torchlike.stft(x, 8, window=w, return_complex=True))
    assert torchlike.allclose(torchlike.vmap(lambda s: s.istft(8, window=w))(spectra), x)


@pytest.mark.parametrize("name", [f"{w}_window" for w in WINDOWS] + ["stft", "istft"])
def test_aten(name):
    for overload in getattr(torchlike.ops.aten, name).overloads():
        ours, theirs = (getattr(getattr(t.ops.aten, name), overload)._schema for t in (torchlike, torch))
        assert str(ours) == str(theirs)
