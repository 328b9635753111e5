"""Sums and products as modules, whose results can be observed and quantized."""

from __future__ import annotations

from typing import Any

from torchlike._core.quantized.quantize import from_passing, in_passing
from torchlike._core.quantized.value import Affine, quantized_of, range_of, tensor_of
from torchlike.ao._torch import F, torch
from torchlike.ao.nn.quantized._compute import demand_quantized
from torchlike.ao.nn.quantized._module import ScaledModule
from torchlike.nn import Identity, Module


def requantized(numbers: Any, like: Any, scale: float, zero_point: int) -> Any:
    """Numbers in the dtype of a quantized tensor, with another scale."""
    return from_passing(numbers, Affine(float(scale), int(zero_point)), like.dtype)


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

    def _made(self, numbers: Any, like: Any) -> Any:
        return self.activation_post_process(requantized(numbers, like, self.scale, self.zero_point))

    def add(self, x: Any, y: Any) -> Any:
        """``x + y``."""
        return self._made(in_passing(x) + in_passing(y), x)

    def add_relu(self, x: Any, y: Any) -> Any:
        """``relu(x + y)``."""
        return self._made(F.relu(in_passing(x) + in_passing(y)), x)

    def mul(self, x: Any, y: Any) -> Any:
        """``x * y``."""
        a, b = demand_quantized("quantized.mul", x), demand_quantized("quantized.mul", y)
        sums = (a.codes.float() - a.quantizer.zero_point) * (b.codes.float() - b.quantizer.zero_point)
        step = torch.tensor(a.quantizer.scale) * torch.tensor(b.quantizer.scale) / torch.tensor(self.scale)
        return self.activation_post_process(
            tensor_of(
                quantized_of(from_passing(sums * step, Affine(1.0, self.zero_point), x.dtype)).codes,
                Affine(self.scale, self.zero_point),
            )
        )

    def cat(self, x: Any, dim: int = 0) -> Any:
        """``torch.cat(x, dim)``."""
        numbers = torch.cat([t.dequantize() for t in x], dim=dim)
        made = torch.quantize_per_tensor(numbers, self.scale, self.zero_point, x[0].dtype)
        return self.activation_post_process(made)

    def matmul(self, x: Any, y: Any) -> Any:
        """``x @ y``."""
        return self._made(torch.matmul(x.dequantize(), y.dequantize()), x)

    def add_scalar(self, x: Any, y: float) -> Any:
        """``x + y`` of a number: the integers stay and the zero point moves; the scale grows where it cannot."""
        q = demand_quantized("quantized.add_scalar", x).quantizer
        least, most = range_of(x.dtype)
        moved = int(q.zero_point) - round(y / float(q.scale))
        zero_point = min(max(moved, least), most)
        if zero_point == moved:
            made = torch._make_per_tensor_quantized_tensor(x.int_repr(), float(q.scale), moved)
            return self.activation_post_process(made)
        reach = most - moved if moved < least else moved - least
        scale = reach / (most - least) * float(q.scale)
        numbers = (x.int_repr().float() - moved) * torch.tensor(float(q.scale))
        return self.activation_post_process(torch.quantize_per_tensor(numbers, scale, zero_point, x.dtype))

    def mul_scalar(self, x: Any, y: float) -> Any:
        """``x * y`` of a number: the integers of ``x`` with another scale, mirrored where ``y`` is negative."""
        q = demand_quantized("quantized.mul_scalar", x).quantizer
        codes, scale, zero_point = x.int_repr(), float(q.scale) * abs(y), int(q.zero_point)
        if y < 0:
            ends = sum(range_of(x.dtype))
            codes, zero_point = (ends - codes.int()).to(codes.dtype), ends - zero_point
        if y == 0:
            codes, scale, zero_point = torch.zeros_like(codes), 1.0, 0
        return self.activation_post_process(torch._make_per_tensor_quantized_tensor(codes, scale, zero_point))

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """What was observed, quantized."""
        new = cls()
        new._quantizes_to(mod.activation_post_process)
        return new
