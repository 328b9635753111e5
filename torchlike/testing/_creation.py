"""``make_tensor``: random tensors of any dtype and memory format."""

import math
import warnings
from typing import Any

from torchlike._base import dtypes
from torchlike._core.conversion.factories import empty
from torchlike._core.tensor.tensor import MemoryFormat, Tensor
from torchlike._functions.uniform import uniform

_INTEGERS = (
    dtypes.uint8, dtypes.uint16, dtypes.uint32, dtypes.uint64, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64
)  # fmt: skip


def make_tensor(
    *shape: Any,
    dtype: dtypes.dtype,
    device: Any,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: MemoryFormat | None = None,
) -> Tensor:
    """A tensor of uniform random numbers from ``low`` to ``high``, which is not included.

    Args:
        shape: the size, as integers or as one sequence of them.
        low, high: the interval, cut to what the dtype can hold. Defaults: 0 and 2 for bool, 0 and 10 for uint8, -9
            and 10 for other integers, -9 and 9 for floating and complex numbers, whose parts are both drawn from it.
        requires_grad: for floating and complex dtypes.
        noncontiguous: leave gaps in memory, if there is more than one element.
        exclude_zero: put the smallest positive number (for bool and integers, 1) for 0.
        memory_format: of the result; not together with ``noncontiguous``.

    Raises:
        ValueError: an empty interval, or one outside of the dtype; NaN; arguments that exclude each other.
        TypeError: a dtype that random numbers are not made for.

    >>> import torchlike as torch
    >>> t = torch.testing.make_tensor(2, 3, dtype=torch.int64, device="cpu", low=4, high=6)
    >>> t.shape, bool(((t == 4) | (t == 5)).all())
    (torch.Size([2, 3]), True)
    """
    size = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
    _check(dtype, requires_grad, noncontiguous, memory_format)
    made = uniform(size, dtype, device, *_interval(dtype, low, high), noncontiguous)
    if memory_format is not None:
        made = empty(size, dtype=dtype, device=device, memory_format=memory_format).copy_(made)
    if exclude_zero:
        made[made.eq(0)] = _smallest(dtype)
    return made.requires_grad_() if requires_grad else made


def _check(dtype: Any, requires_grad: bool, noncontiguous: bool, memory_format: Any) -> None:
    if not isinstance(dtype, dtypes.dtype) or not (_is_continuous(dtype) or dtype in (dtypes.bool, *_INTEGERS)):
        raise TypeError(f"The requested dtype '{dtype}' is not supported by torch.testing.make_tensor()")
    if requires_grad and not _is_continuous(dtype):
        raise ValueError(
            f"`requires_grad=True` is not supported for boolean and integral dtypes, but got dtype={dtype}"
        )
    if noncontiguous and memory_format is not None:
        raise ValueError(
            "The parameters `noncontiguous` and `memory_format` are mutually exclusive, but got "
            f"noncontiguous={noncontiguous} and memory_format={memory_format}"
        )


def _is_continuous(dtype: dtypes.dtype) -> bool:
    return dtype.is_floating_point or dtype.is_complex


def _limits(dtype: dtypes.dtype) -> tuple[Any, Any, Any, Any]:
    """The default interval, and the one of all finite numbers."""
    if _is_continuous(dtype):
        info = dtypes.finfo(dtype)
        return -9, 9, info.min, info.max
    if dtype is dtypes.bool:
        return 0, 2, 0, 2
    least, most = dtypes.iinfo(dtype).min, dtypes.iinfo(dtype).max
    return max(-9, least), 10, least, most + 1


def _interval(dtype: dtypes.dtype, low: Any, high: Any) -> tuple[Any, Any]:
    """Where the numbers are drawn from: ``low`` included, ``high`` not."""
    first, last, least, end = _limits(dtype)
    low, high = first if low is None else low, last if high is None else high
    if low != low or high != high:
        raise ValueError(f"`low` and `high` cannot be NaN, but got low={low} and high={high}")
    if low == high and _is_continuous(dtype):
        warnings.warn(
            "Passing `low==high` to `torch.testing.make_tensor` for floating or complex types is deprecated since 2.1 "
            "and will be removed in 2.3. Use `torch.full(...)` instead.",
            FutureWarning,
            stacklevel=3,
        )
    elif low >= high:
        raise ValueError(f"`low` must be less than `high`, but got {low} >= {high}")
    elif high <= least or low >= end:
        raise ValueError(
            f"The value interval specified by `low` and `high` is [{low}, {high}), but {dtype} only supports "
            f"[{least}, {end})"
        )
    low, high = max(low, least), min(high, end)
    return (low, high) if _is_continuous(dtype) else (math.ceil(low), math.ceil(high))


def _smallest(dtype: dtypes.dtype) -> float:
    return dtypes.finfo(dtype).tiny if _is_continuous(dtype) else 1
