"""Python numbers against dtypes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from jax.errors import JAXTypeError

import torchlike._base.dtypes as dtypes
from torchlike._base import float8, promotion
from torchlike._core.tensor import arguments
from torchlike._core.tensor.tensor import Tensor, value_of
from torchlike._executor.immediate import Tracer
from torchlike._ops import _overflow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchlike._base.dtypes import dtype
    from torchlike._core.typed import Number
    from torchlike._decl.derive import Kernel


def of_number(number: Number) -> dtypes.dtype:
    """The dtype a Python number has by itself."""
    if isinstance(number, bool):
        return dtypes.bool
    if isinstance(number, int):
        return dtypes.int64
    default = dtypes.get_default_dtype()
    return default.to_complex() if isinstance(number, complex) else default


def of_fill(number: Any) -> dtypes.dtype:
    """The dtype of ``full`` of a number, which makes no complex halves by itself."""
    if isinstance(number, Tracer):
        number = _NUMBERS.get(number.dtype.kind, 0.0)
    if isinstance(number, complex) and dtypes.get_default_dtype().itemsize == 2:
        return dtypes.complex64
    return of_number(number)


def number_of(function: str, name: str, x: Any, position: int = 1) -> Any:
    """A Python number from what may stand for one."""
    try:
        return arguments.as_number(function, name, x)
    except JAXTypeError:  # the value is not known yet: who compiles decides
        raise
    except TypeError:
        kind = type(x).__name__
        raise TypeError(f"{function}(): argument '{name}' (position {position}) must be Number, not {kind}") from None


def fill_of(function: str, x: Any) -> Any:
    """A Python number to fill a tensor with, or what jax traces in its place."""
    x = arguments.known_number(x)
    if isinstance(x, Tensor) and not x._rg and not x.dim() and isinstance(value := value_of(x), Tracer):
        return value
    return number_of(function, "fill_value", x, 2)


def fitting(dtype: dtype, number: Any) -> Any:
    """``number`` as a number that ``dtype`` holds; RuntimeError where it would overflow."""
    if dtype in dtypes.QUANTIZED:
        return number
    kind = dtype.np.kind
    if number.__class__ in REAL and kind == "f" and dtype.itemsize >= 4:
        if -3.4e38 < number < 3.4e38 or number in _INFINITE:
            return number
    if isinstance(number, np.generic):
        number = number.item()
    if kind == "b":
        return bool(number)
    fits = True
    if isinstance(number, complex) and not dtype.is_complex:
        fits, number = not number.imag, number.real
    if fits and kind in "iu":
        fits, number = _whole(dtype, number)
    elif fits:
        parts = (number.real, number.imag) if isinstance(number, complex) else (number,)
        largest = float(jnp.finfo(dtype.np).max)
        fits = not any([abs(x) > largest and (abs(x) != float("inf") or dtype.np.name in float8.NAMES) for x in parts])
    if not fits:
        raise _overflow.error(dtype)
    return number


def filling(dtype: dtype, number: Any, shape: Sequence[int]) -> Any:
    """``number`` as one that fills a tensor of ``dtype``: a lone short float takes an infinity for what overflows."""
    if dtype in _HALVES and math.prod(shape) == 1 and number.__class__ is float:
        return math.copysign(math.inf, number) if abs(number) > float(jnp.finfo(dtype.np).max) else number
    return fitting(dtype, number)


def _whole(dtype: dtype, number: Any) -> tuple[bool, Any]:
    """(whether an integer dtype takes the number, the integer); small negative integers wrap in unsigned dtypes."""
    limits = np.iinfo(dtype.np)
    top = int(limits.max)
    low = int(limits.min) if dtype.np.kind == "i" or isinstance(number, float) else -top
    if not (number == number and low <= number <= top):
        return False, number
    whole = int(number)
    return True, whole + top + 1 if whole < 0 and dtype.np.kind == "u" else whole


_NUMBERS = {"b": False, "i": 0, "u": 0, "c": 0j}  # what is no float, by kind
REAL = frozenset((int, float))
_INFINITE = frozenset((math.inf, -math.inf))
_HALVES = frozenset((dtypes.float16, dtypes.bfloat16))


def demand_held(op: Kernel, inputs: Sequence[Any]) -> None:
    """Refuse the numbers of a call that its dtype does not hold; which, the declaration says (``held``)."""
    op = op.declaration
    for at, words in op.held:
        number = inputs[at]
        if number.__class__ in REAL:
            if (0 if "negative" in words else -127) <= number <= 127:  # every dtype of numbers holds them
                continue
        elif isinstance(number, np.generic):
            inputs = [x.item() if isinstance(x, np.generic) else x for x in inputs]
            number = inputs[at]
        elif number.__class__ is not complex:
            continue
        kind = _computed_in(op, inputs)
        if not _unasked(kind, number, words):
            fitting(dtypes.float32 if "wide" in words and kind in _HALVES else kind, number)


def _unasked(kind: dtype, number: Any, words: frozenset[str]) -> bool:
    """Whether a number need not be held; complex ones beside real tensors are the kernel's to refuse."""
    if number.__class__ is complex and not kind.is_complex:
        return True
    if kind in _HALVES:
        return "long" in words
    return ("floats" if kind.np.kind in "biu" else "halves") in words


def _computed_in(op: Any, inputs: Sequence[Any]) -> dtype:
    """The dtype that the inputs of a call have together; of what is not pointwise, that of the first."""
    pairs = zip(op.dynamic, inputs, strict=True)
    chosen = [x for a, x in pairs if a.name in op.policy_names and x is not None]
    if not op.pointwise:
        chosen = [x for x in chosen if isinstance(x, Tensor)][:1]
    return promotion.result_type(
        [(x.dtype, 0 if x.dim() else 1) if isinstance(x, Tensor) else (of_number(x), 2) for x in chosen]
    )
