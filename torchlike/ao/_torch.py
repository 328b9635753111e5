"""The functions of ``torch`` that quantization is written in."""

from typing import Any

from torchlike import _api
from torchlike.nn import functional

torch: Any = _api
F: Any = functional
