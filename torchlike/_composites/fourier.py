"""Overloads of ``torch.ops.aten`` over public functions: those of PyTorch that are made of other calls, and windows."""

from typing import Any

from torchlike import fft
from torchlike._aten.source import SOURCE, Overload
from torchlike._core.dispatch.bind import FUNCTIONS

_OPTIONS = "*, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None"
_OUT = "*, Tensor(a!) out"


def _add(text: str, call: Any) -> None:
    SOURCE.add(Overload(text, lambda: call))


def _written(name: str, arguments: str, call: Any) -> None:
    """The overload that gives a new tensor, and that with ``out=``."""
    _add(f"{name}({arguments}) -> Tensor", call)
    _add(f"{name}.out({arguments}, {_OUT}) -> Tensor(a!)", call)


for _name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
    _one = "Tensor self, SymInt? n=None, int dim=-1, str? norm=None"
    _two = "Tensor self, SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None"
    _many = "Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None"
    for _ending, _arguments in (("", _one), ("2", _two), ("n", _many)):
        _written(f"fft_{_name}{_ending}", _arguments, getattr(fft, _name + _ending))
for _name in ("fftfreq", "rfftfreq"):
    _add(f"fft_{_name}(int n, float d=1., {_OPTIONS}) -> Tensor", getattr(fft, _name))
    _add(f"fft_{_name}.out(int n, float d=1., {_OUT}) -> Tensor(a!)", getattr(fft, _name))
for _name in ("fftshift", "ifftshift"):
    _add(f"fft_{_name}(Tensor self, int[1]? dim=None) -> Tensor", getattr(fft, _name))
_WINDOWS = {
    "hann": ("", "periodic"), "blackman": ("", "periodic"), "bartlett": ("", "periodic"),
    "hamming": ("", "periodic", "periodic_alpha", "periodic_alpha_beta"), "kaiser": ("", "periodic", "beta"),
}  # fmt: skip
for _name, _overloads in _WINDOWS.items():
    for _n, _overload in enumerate(_overloads):
        _numbers = ["bool periodic", "float beta" if _name == "kaiser" else "float alpha", "float beta"][:_n]
        _head, _arguments = f"{_name}_window", ", ".join(["int window_length", *_numbers])
        _add(f"{_head}{'.' if _n else ''}{_overload}({_arguments}, {_OPTIONS}) -> Tensor", FUNCTIONS[_head])
_add(
    "stft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, "
    "bool normalized=False, bool? onesided=None, bool? return_complex=None, bool? align_to_window=None) -> Tensor",
    lambda self, n_fft, hop_length=None, win_length=None, window=None, *rest, **named: FUNCTIONS["stft"](
        self, n_fft, hop_length, win_length, window, False, "reflect", *rest, **named
    ),
)
_add(
    "stft.center(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, "
    'bool center=True, str pad_mode="reflect", bool normalized=False, bool? onesided=None, '
    "bool? return_complex=None, bool? align_to_window=None) -> Tensor",
    FUNCTIONS["stft"],
)
_add(
    "istft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, "
    "bool center=True, bool normalized=False, bool? onesided=None, int? length=None, bool return_complex=False) "
    "-> Tensor",
    FUNCTIONS["istft"],
)
