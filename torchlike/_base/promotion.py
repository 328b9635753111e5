"""Which type results when types meet: PyTorch's promotion rules."""

from collections.abc import Iterable
from functools import cache
from typing import Any

from . import dtypes
from .dtypes import as_dtype, dtype

TENSOR, ZERO_DIM, NUMBER = 0, 1, 2
"""The categories of operands, the weightiest first."""

_BYTES = frozenset((dtypes.uint8, dtypes.int8))
_INTEGERS = frozenset((
    dtypes.uint8, dtypes.uint16, dtypes.uint32, dtypes.uint64,
    dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64,
))  # fmt: skip
# The types that promote with one another; the others meet only their own kind, if at all.
_STANDARD = frozenset((
    dtypes.bool, dtypes.uint8, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64,
    dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64,
    dtypes.complex32, dtypes.complex64, dtypes.complex128,
))  # fmt: skip


def _kind(t: dtype) -> int:
    """0 for bool, 1 for integers, 2 for floating and 3 for complex types."""
    return 3 if t.is_complex else 2 if t.is_floating_point else 0 if t is dtypes.bool else 1


def promote_types(type1: Any, type2: Any) -> dtype:
    """The smallest type that both types promote to.

    RuntimeError for pairs that do not promote: quantized, bits, float8 and the unsigned
    integers wider than 8 bits promote with themselves only (the last with floats too).

    >>> import torchlike as torch
    >>> torch.promote_types(torch.uint8, torch.int8), torch.promote_types(torch.int64, torch.float16)
    (torch.int16, torch.float16)
    """
    return _promote(as_dtype(type1, "promote_types", "type1"), as_dtype(type2, "promote_types", "type2"))


@cache
def _promote(a: dtype, b: dtype) -> dtype:
    if a is b:
        return a
    if a not in _STANDARD or b not in _STANDARD:
        return _promote_odd(a, b)
    low, high = sorted((a, b), key=_kind)
    if _kind(low) < 2:
        if _kind(low) < _kind(high):
            return high
        if {a, b} == _BYTES:
            return dtypes.int16
        return max(a, b, key=lambda t: t.itemsize)
    real = _wider_float(a.to_real(), b.to_real())
    return real.to_complex() if high.is_complex else real


def _wider_float(a: dtype, b: dtype) -> dtype:
    if a is not b and a.itemsize == b.itemsize:  # float16 and bfloat16: neither holds the other
        return dtypes.float32
    return max(a, b, key=lambda t: t.itemsize)


def _promote_odd(a: dtype, b: dtype) -> dtype:
    """Promotion where one type is outside the standard ones: an unsigned integer gives way to a float."""
    for one, other in ((a, b), (b, a)):
        unsigned = other.name.startswith("uint") and other is not dtypes.uint8
        if unsigned and one.is_floating_point and not one.name.startswith("float8"):
            return one
    raise RuntimeError(
        f"Promotion of {a!r} and {b!r} is not supported: bool, uint8, int8 to int64, float16, bfloat16, "
        "float32, float64 and complex types promote; convert one operand first with .to(dtype)"
    )


def can_cast(from_: Any, to: Any) -> bool:
    """Whether a result of the first type may be written to a tensor of the second.

    Complex goes to complex only, floating not to integers or bool, and only bool to bool.

    >>> import torchlike as torch
    >>> torch.can_cast(torch.float64, torch.float32), torch.can_cast(torch.float32, torch.int64)
    (True, False)
    """
    return _can_cast(as_dtype(from_, "can_cast", "from_"), as_dtype(to, "can_cast", "to"))


def demand_castable(name: str, source: dtype, target: dtype) -> None:
    """RuntimeError where the result of the in-place call ``name`` is not one that the written tensor can hold."""
    if source is not target and not can_cast(source, target):
        raise RuntimeError(
            f"result type {source.scalar_name} can't be cast to the desired output type {target.scalar_name} (in "
            f"{name})"
        )


@cache
def _can_cast(src: dtype, dst: dtype) -> bool:
    if src.is_complex:
        return dst.is_complex
    if src.is_floating_point and dst in _INTEGERS:
        return False
    return dst is not dtypes.bool or src is dtypes.bool


def number_dtype(number: complex) -> dtype:
    """The type of a Python number: bool, int64, the default type, or the default's complex type."""
    if isinstance(number, bool):
        return dtypes.bool
    if isinstance(number, int):
        return dtypes.int64
    default = dtypes.get_default_dtype()
    return default if isinstance(number, float) else default.to_complex()


def result_type(operands: Iterable[tuple[dtype, int]]) -> dtype:
    """The type of an operation on operands given as (dtype, category).

    Operands of a category are promoted together. A lighter category (0-dim tensors beside
    tensors, Python numbers beside both) changes the result only if it is of a higher kind,
    in the order bool, integer, floating, complex, and then as little as it can.
    RuntimeError if there is no operand, or types that do not promote.
    """
    return _result_type(tuple(operands))


@cache
def _result_type(operands: tuple[tuple[dtype, int], ...]) -> dtype:
    if not operands:
        raise RuntimeError("result_type() needs at least one operand")
    result = None
    for category in (TENSOR, ZERO_DIM, NUMBER):
        members = [t for t, c in operands if c == category]
        if members:
            own = members[0]
            for t in members[1:]:
                own = _promote(own, t)
            result = own if result is None else _combine(result, own)
    assert result is not None, operands
    return result


def _combine(heavy: dtype, light: dtype) -> dtype:
    """The heavier category's type, raised to the kind of the lighter one's."""
    if _kind(light) <= _kind(heavy):
        return heavy
    if light.is_complex:
        return heavy.to_complex() if heavy.is_floating_point else light
    return _promote(heavy, light)
