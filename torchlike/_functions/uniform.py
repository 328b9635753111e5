"""Tensors of uniform random numbers, of any dtype."""

import math
from typing import Any

from torchlike._base import dtypes
from torchlike._core.conversion.factories import empty
from torchlike._core.dispatch.bind import FUNCTIONS
from torchlike._core.tensor.tensor import Tensor


def uniform(
    size: tuple[int, ...], dtype: dtypes.dtype, device: Any, low: Any, high: Any, noncontiguous: bool = False
) -> Tensor:
    """Numbers from ``low`` to ``high``, in the order in which PyTorch draws them; parts of complex ones alike."""
    if noncontiguous and math.prod(size) >= 2:
        return uniform((*size[:-1], 2 * size[-1]), dtype, device, low, high)[..., 1::2]
    if dtype.is_complex:
        return FUNCTIONS["complex"](*uniform((*size, 2), dtype.to_real(), device, low, high).unbind(-1))
    if not dtype.is_floating_point:
        return FUNCTIONS["randint"](low, high, size, dtype=dtype, device=device)
    if high - low == 0 or dtype.itemsize == 1:
        wide = empty(size, dtype=dtypes.float32, device=device)
        return (wide.fill_(low) if high == low else wide.uniform_(low, high)).to(dtype)
    if high - low <= dtypes.finfo(dtype).max:
        return empty(size, dtype=dtype, device=device).uniform_(low, high)
    return empty(size, dtype=dtype, device=device).uniform_(low / 2, high / 2) * 2  # where high - low overflows
