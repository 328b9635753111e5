"""``torch.ops.quantized``: sums, products and lists of quantized tensors, with the scale of the result."""

from __future__ import annotations

from typing import Any

from torchlike._core.quantized.quantize import from_passing, in_passing
from torchlike._core.quantized.value import Affine, quantized_of, range_of, tensor_of
from torchlike.ao._torch import F, torch
from torchlike.ao.nn.quantized._compute import demand_quantized


def requantized(numbers: Any, like: Any, scale: float, zero_point: int) -> Any:
    """Numbers in the dtype of a quantized tensor, with another scale."""
    return from_passing(numbers, Affine(float(scale), int(zero_point)), like.dtype)


def _scaled(name: str, numbers: Any, like: Any, scale: Any, zero_point: Any) -> Any:
    """Numbers in the dtype of a quantized tensor, with another scale."""
    for argument, given in (("scale", scale), ("zero_point", zero_point)):
        if given is None:
            raise RuntimeError(f"quantized::{name}() is missing value for argument '{argument}'")
    return requantized(numbers, like, scale, zero_point)


def _sum(name: str, qa: Any, qb: Any) -> Any:
    for q in (qa, qb):
        v = quantized_of(q)
        if v is None or not isinstance(v.quantizer, Affine):
            kind = q.dtype if isinstance(q, torch.Tensor) else type(q).__name__
            raise NotImplementedError(f"Could not run 'quantized::{name}': expected tensors quantized by "
                                      f"torch.quantize_per_tensor, but got {kind}")  # fmt: skip
    return in_passing(qa) + in_passing(qb)


def add(qa: Any, qb: Any, scale: Any = None, zero_point: Any = None) -> Any:
    """``qa + qb``; a number is added as :func:`add_scalar` does."""
    if isinstance(qb, int | float):
        return add_scalar(qa, qb)
    return _scaled("add", _sum("add", qa, qb), qa, scale, zero_point)


def add_relu(qa: Any, qb: Any, scale: Any = None, zero_point: Any = None) -> Any:
    """``relu(qa + qb)``."""
    if isinstance(qb, int | float):
        return add_scalar_relu(qa, qb)
    return _scaled("add_relu", F.relu(_sum("add_relu", qa, qb)), qa, scale, zero_point)


def mul(qa: Any, qb: Any, scale: Any = None, zero_point: Any = None) -> Any:
    """``qa * qb``: the integers are multiplied, and the three scales applied to their product at once."""
    if isinstance(qb, int | float):
        return mul_scalar(qa, qb)
    return _product("mul", qa, qb, scale, zero_point, lambda x: x)


def mul_relu(qa: Any, qb: Any, scale: Any = None, zero_point: Any = None) -> Any:
    """``relu(qa * qb)``."""
    if isinstance(qb, int | float):
        return mul_scalar_relu(qa, qb)
    return _product("mul_relu", qa, qb, scale, zero_point, F.relu)


def _product(name: str, qa: Any, qb: Any, scale: Any, zero_point: Any, then: Any) -> Any:
    a, b = demand_quantized(f"quantized.{name}", qa), demand_quantized(f"quantized.{name}", qb)
    sums = (a.codes.float() - a.quantizer.zero_point) * (b.codes.float() - b.quantizer.zero_point)
    if scale is None or zero_point is None:
        _scaled(name, sums, qa, scale, zero_point)
    step = torch.tensor(a.quantizer.scale) * torch.tensor(b.quantizer.scale) / torch.tensor(float(scale))
    made = from_passing(then(sums * step), Affine(1.0, int(zero_point)), qa.dtype)
    return tensor_of(quantized_of(made).codes, Affine(float(scale), int(zero_point)))


def cat(qx: Any, dim: int, scale: Any, zero_point: Any) -> Any:
    """``torch.cat(qx, dim)``; the scale of the first for None."""
    return _joined("cat", qx, dim, scale, zero_point, lambda x: x)


def cat_relu(qx: Any, dim: int, scale: Any, zero_point: Any) -> Any:
    """``relu(torch.cat(qx, dim))``."""
    return _joined("cat_relu", qx, dim, scale, zero_point, F.relu)


def _joined(name: str, qx: Any, dim: int, scale: Any, zero_point: Any, then: Any) -> Any:
    first = demand_quantized(f"quantized.{name}", qx[0]).quantizer
    scale = first.scale if scale is None else scale
    zero_point = first.zero_point if zero_point is None else zero_point
    numbers = then(torch.cat([t.dequantize() for t in qx], dim=dim))
    return torch.quantize_per_tensor(numbers, float(scale), int(zero_point), qx[0].dtype)


def matmul(qa: Any, qb: Any, scale: Any, zero_point: Any) -> Any:
    """``qa @ qb``."""
    for q in (qa, qb):
        demand_quantized("quantized.matmul", q)
    return _scaled("matmul", torch.matmul(qa.dequantize(), qb.dequantize()), qa, scale, zero_point)


def add_scalar(qa: Any, b: Any) -> Any:
    """``qa + b`` of a number: the integers stay and the zero point moves; the scale grows where it cannot."""
    q = demand_quantized("quantized.add_scalar", qa).quantizer
    least, most = range_of(qa.dtype)
    moved = int(q.zero_point) - round(float(b) / float(q.scale))
    zero_point = min(max(moved, least), most)
    if zero_point == moved:
        return torch._make_per_tensor_quantized_tensor(qa.int_repr(), float(q.scale), moved)
    reach = most - moved if moved < least else moved - least
    scale = reach / (most - least) * float(q.scale)
    numbers = (qa.int_repr().float() - moved) * torch.tensor(float(q.scale))
    return torch.quantize_per_tensor(numbers, scale, zero_point, qa.dtype)


def mul_scalar(qa: Any, b: Any) -> Any:
    """``qa * b`` of a number: the integers of ``qa`` with another scale, mirrored where ``b`` is negative."""
    q, b = demand_quantized("quantized.mul_scalar", qa).quantizer, float(b)
    codes, scale, zero_point = qa.int_repr(), float(q.scale) * abs(b), int(q.zero_point)
    if b < 0:
        ends = sum(range_of(qa.dtype))
        codes, zero_point = (ends - codes.int()).to(codes.dtype), ends - zero_point
    if b == 0:
        codes, scale, zero_point = torch.zeros_like(codes), 1.0, 0
    return torch._make_per_tensor_quantized_tensor(codes, scale, zero_point)


def add_scalar_relu(qa: Any, b: Any) -> Any:
    """``relu(qa + b)`` of a number."""
    return F.relu(add_scalar(qa, b))


def mul_scalar_relu(qa: Any, b: Any) -> Any:
    """``relu(qa * b)`` of a number."""
    return F.relu(mul_scalar(qa, b))
