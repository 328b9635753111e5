"""The functions of ``torch`` that distributions are written in."""

from typing import Any

from torchlike import _api, linalg, special
from torchlike.nn import functional

torch: Any = _api
F: Any = functional
LA: Any = linalg
SP: Any = special
Tensor: Any = _api.Tensor
