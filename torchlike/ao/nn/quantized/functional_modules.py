"""Sums and products as modules, whose results can be observed and quantized."""

from __future__ import annotations

from typing import Any

from torchlike.ao._torch import F, torch
from torchlike.ao.nn.quantized import _operators as quantized
from torchlike.ao.nn.quantized._module import ScaledModule
from torchlike.nn import Identity, Module


class FloatFunctional(Module):
    """Operators between tensors, for models that are prepared: ``f.add(x, y)`` instead of ``x + y``.

    >>> import torchlike as torch
    >>> torch.ao.nn.quantized.FloatFunctional().add(torch.ones(2), torch.ones(2))
    tensor([2., 2.])
    """

    def __init__(self) -> None:
        super().__init__()
        self.activation_post_process = Identity()

    def forward(self, x: Any) -> Any:
        """RuntimeError: its methods are to be called."""
        raise RuntimeError("FloatFunctional is not intended to use the 'forward'. Please use the underlying operation")

    def add(self, x: Any, y: Any) -> Any:
        """``x + y``."""
        return self.activation_post_process(torch.add(x, y))

    def add_scalar(self, x: Any, y: float) -> Any:
        """``x + y`` of a number; it is not observed."""
        return torch.add(x, y)

    def mul(self, x: Any, y: Any) -> Any:
        """``x * y``."""
        return self.activation_post_process(torch.mul(x, y))

    def mul_scalar(self, x: Any, y: float) -> Any:
        """``x * y`` of a number; it is not observed."""
        return torch.mul(x, y)

    def cat(self, x: Any, dim: int = 0) -> Any:
        """``torch.cat(x, dim)``."""
        return self.activation_post_process(torch.cat(x, dim=dim))

    def add_relu(self, x: Any, y: Any) -> Any:
        """``relu(x + y)``."""
        return self.activation_post_process(F.relu(torch.add(x, y)))

    def matmul(self, x: Any, y: Any) -> Any:
        """``x @ y``."""
        return self.activation_post_process(torch.matmul(x, y))


class FXFloatFunctional(Module):
    """As :class:`FloatFunctional`, without observers."""

    def forward(self, x: Any) -> Any:
        """RuntimeError: its methods are to be called."""
        raise RuntimeError("FXFloatFunctional is not intended to use the 'forward'; use the underlying operation")

    def add(self, x: Any, y: Any) -> Any:
        """``x + y``."""
        return torch.add(x, y)

    def add_scalar(self, x: Any, y: float) -> Any:
        """``x + y`` of a number."""
        return torch.add(x, y)

    def mul(self, x: Any, y: Any) -> Any:
        """``x * y``."""
        return torch.mul(x, y)

    def mul_scalar(self, x: Any, y: float) -> Any:
        """``x * y`` of a number."""
        return torch.mul(x, y)

    def cat(self, x: Any, dim: int = 0) -> Any:
        """``torch.cat(x, dim)``."""
        return torch.cat(x, dim=dim)

    def add_relu(self, x: Any, y: Any) -> Any:
        """``relu(x + y)``."""
        return F.relu(torch.add(x, y))

    def matmul(self, x: Any, y: Any) -> Any:
        """``x @ y``."""
        return torch.matmul(x, y)


class QFunctional(ScaledModule):
    """Operators between quantized tensors, whose results have ``scale`` and ``zero_point``."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.zero_point = 1.0, 0
        self.activation_post_process = Identity()

    def _get_name(self) -> str:
        return "QFunctional"

    def extra_repr(self) -> str:
        return f"scale={self.scale}, zero_point={self.zero_point}"

    def forward(self, x: Any) -> Any:
        """RuntimeError: its methods are to be called."""
        raise RuntimeError("Functional is not intended to use the 'forward'. Please use the underlying operation")

    def _observed(self, x: Any) -> Any:
        return self.activation_post_process(x)

    def add(self, x: Any, y: Any) -> Any:
        """``x + y``."""
        return self._observed(quantized.add(x, y, self.scale, self.zero_point))

    def add_relu(self, x: Any, y: Any) -> Any:
        """``relu(x + y)``."""
        return self._observed(quantized.add_relu(x, y, self.scale, self.zero_point))

    def mul(self, x: Any, y: Any) -> Any:
        """``x * y``."""
        return self._observed(quantized.mul(x, y, self.scale, self.zero_point))

    def cat(self, x: Any, dim: int = 0) -> Any:
        """``torch.cat(x, dim)``."""
        return self._observed(quantized.cat(x, dim, self.scale, self.zero_point))

    def matmul(self, x: Any, y: Any) -> Any:
        """``x @ y``."""
        return self._observed(quantized.matmul(x, y, self.scale, self.zero_point))

    def add_scalar(self, x: Any, y: float) -> Any:
        """``x + y`` of a number: the integers stay and the zero point moves; the scale grows where it cannot."""
        return self._observed(quantized.add_scalar(x, y))

    def mul_scalar(self, x: Any, y: float) -> Any:
        """``x * y`` of a number: the integers of ``x`` with another scale, mirrored where ``y`` is negative."""
        return self._observed(quantized.mul_scalar(x, y))

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """What was observed, quantized."""
        new = cls()
        new._quantizes_to(mod.activation_post_process)
        return new
