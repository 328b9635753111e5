"""The integers of a dtype that observers spread numbers over."""

from __future__ import annotations

from typing import Any

import torchlike._base.dtypes as dtypes

_RANGES = {
    dtypes.quint8: (0, 255), dtypes.uint8: (0, 255), dtypes.qint8: (-128, 127), dtypes.int8: (-128, 127),
    dtypes.qint32: (-(2**31), 2**31 - 1), dtypes.int32: (-(2**31), 2**31 - 1), dtypes.int16: (-(2**15), 2**15 - 1),
    dtypes.uint16: (0, 2**16 - 1), dtypes.quint4x2: (0, 15),
}  # fmt: skip


def demand_dtype(dtype: Any) -> None:
    """AssertionError for a dtype that no observer is for."""
    if dtype not in (*_RANGES, dtypes.float8_e5m2, dtypes.float8_e4m3fn):
        raise AssertionError(f"Default Observer only works for {(*_RANGES,)} data types, not {dtype}")


def range_of(dtype: Any, reduce_range: bool) -> tuple[int, int]:
    """The least and the greatest integer of ``dtype``, half as far apart with ``reduce_range``."""
    if dtype not in _RANGES:
        raise NotImplementedError(f"observers of {dtype} are not supported by torchlike; use torch.quint8")
    least, most = _RANGES[dtype]
    if reduce_range and dtype in (dtypes.quint8, dtypes.uint8, dtypes.qint8, dtypes.int8):
        return (0, 127) if least == 0 else (-64, 63)
    return least, most


def checked_range(quant_min: int, quant_max: int, dtype: Any, reduce_range: bool) -> tuple[int, int]:
    """A range that a user gave, halved with ``reduce_range``."""
    if not quant_min <= 0 <= quant_max:
        raise AssertionError(f"Used-specified quantization range must include 0: {quant_min} to {quant_max} does not")
    if quant_min >= quant_max:
        raise AssertionError(f"qmin must be less than qmax: got {quant_min} and {quant_max}")
    return (quant_min // 2, quant_max // 2) if reduce_range else (quant_min, quant_max)
