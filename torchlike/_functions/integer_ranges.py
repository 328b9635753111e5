"""The ranges of random numbers: their checks, and how those of integers reach kernels."""

import jax
import numpy as np

import torchlike._base.dtypes as dtypes
from torchlike._base.bits import X64
from torchlike._base.frames import warn

_BITS = 64 if X64 else 32


def largest(dtype):
    """The largest integer up to which ``dtype`` holds all."""
    if dtype.name == "bool":
        return 1
    if dtype.is_floating_point or dtype.is_complex:
        return 2 ** (jax.numpy.finfo(dtype.np).nmant + 1)
    return int(np.iinfo(dtype.np).max)


def smallest(dtype):
    """The smallest integer down to which ``dtype`` holds all."""
    if dtype.name == "bool":
        return 0
    return -largest(dtype) if dtype.is_floating_point else int(np.iinfo(dtype.np).min)


def span(name, low, high, dtype):
    """(low, number of integers, whether it needs more than 32 bits), after the checks."""
    if low >= high:
        raise RuntimeError(f"{name} expects 'from' to be less than 'to', but got from={low} >= to={high}")
    if dtype.is_complex:
        raise RuntimeError(f"{name}: random integers are of integral, floating-point and boolean types, not {dtype}")
    bottom, top = (extremes if dtype.is_floating_point else _limits)(dtype)
    for value, what in ((low, "from"), (high - 1, "to - 1")):
        if not bottom <= value <= top:
            raise RuntimeError(f"{what} is out of bounds for {dtype}: {name} got from={low}, to={high}")
        if dtype.is_floating_point and not smallest(dtype) <= value <= largest(dtype):
            bits = largest(dtype).bit_length() - 1
            warn(f"{what} is out of bounds [-(2^{bits}), 2^{bits}], within which {dtype} holds all integers: {name} "
                 f"got from={low}, to={high}")  # fmt: skip
    return packed(low, high - low)


def _limits(dtype):
    return smallest(dtype), largest(dtype)


def extremes(dtype):
    """The least and the largest number of a floating-point ``dtype``."""
    top = float(jax.numpy.finfo(dtype.np).max)
    return -top, top


def packed(low, span):
    """(low, the number of integers as an int64 or None for 2**64 of them, whether it needs more than 32 bits)."""
    if span == 2**_BITS:
        return low, None, True
    return low, span if span < 2 ** (_BITS - 1) else span - 2**_BITS, span >= 2**32


def unpacked(packed):
    """The number of integers, from how :func:`packed` passes it on."""
    return 2**_BITS if packed is None else packed % 2**_BITS


def random_range(dtype, low=0, high=None):
    """What ``random_`` fills a tensor with, as :func:`packed`."""
    if high is not None:
        return span("random_", low, high, dtype)
    if dtype.is_complex:
        return 0, 1, False
    top = largest(dtype) if not (low < 0 and dtype is dtypes.int64 and X64) else 2**63 - 1
    return packed(low, top + 1 - low)


def demand_interval(dtype, low, high):
    """Refuse an interval of ``uniform_`` that is none, or that a floating-point ``dtype`` cannot hold."""
    top = extremes(dtype)[1] if dtype.is_floating_point else float("inf")
    for value, what in ((low, "from"), (high, "to")):
        if not abs(value) <= top:
            raise RuntimeError(f"uniform_: {what} is out of bounds for {dtype}: {value}")
    if not low <= high:
        raise RuntimeError(f"uniform_ expects to return a [from, to) range, but found from={low} > to={high}")
    if high - low > top:
        raise RuntimeError(
            f"uniform_ expects to-from <= the largest {dtype}, but found to={high} and from={low} which result in "
            "to-from to exceed the limit"
        )
