"""Overloads of ``torch.ops.aten`` over public functions: those of PyTorch that are made of other calls, and windows."""

from typing import Any

from torchlike import fft
from torchlike._aten.source import SOURCE, Overload

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
