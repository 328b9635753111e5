"""What a tensor is filled with from PyTorch's stream: :mod:`samples` for its shape, dtype and order in memory.

Each function takes the parameters of a distribution, the place to be filled, and the engine; it gives an array of
the place's shape, or None, with the engine untouched, where the operator is going to refuse the call.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from torchlike._base.geometry import can_view
from torchlike._base.layout import Layout, contiguous_strides, preserve_strides
from torchlike._core.conversion.convert import host
from torchlike._core.tensor.tensor import value_of
from torchlike._executor.pending import as_numpy
from torchlike._functions import samples
from torchlike._transforms.levels.vmap import Batched

if TYPE_CHECKING:
    from torchlike._base.dtypes import dtype as DType
    from torchlike._base.mersenne import Mersenne
    from torchlike._core.tensor.tensor import Tensor

Numbers = np.ndarray | None
_FLOATS = frozenset({"float16", "bfloat16", "float32", "float64"})


class Place(NamedTuple):
    """What is filled. ``strides``: None where it is contiguous; ``outer``: those of the axes that vmap maps over."""

    shape: Sequence[int]
    dtype: DType
    strides: Sequence[int] | None = None
    outer: tuple[int, ...] = ()

    @classmethod
    def like(cls, t: Tensor) -> Place:
        """The memory of a new tensor with the shape, dtype and, where they are dense, strides of another."""
        if t._view is None or t.is_contiguous():
            return cls(tuple(t.shape), t.dtype)
        sizes, outer = _outer(t)
        strides = preserve_strides(Layout((*sizes, *t.shape), (*outer, *t.stride()), 0))
        return cls(tuple(t.shape), t.dtype, strides[len(outer) :], strides[: len(outer)])

    @classmethod
    def rows(cls, t: Tensor) -> Place:
        """As ``like``, of a matrix whose rows are those of all examples."""
        sizes, outer = _outer(t)
        shape = (*sizes, *t.shape)
        if not sizes or len(shape) < 3:
            return cls.like(t)
        n = math.prod(shape[:-1])
        strides = can_view(Layout(shape, (*outer, *t.stride()), 0), (n, shape[-1]))
        if strides is None:
            return cls(tuple(t.shape), t.dtype)
        row, column = preserve_strides(Layout((n, shape[-1]), strides, 0))
        full = (*[step * row for step in contiguous_strides(shape[:-1])], column)
        return cls(tuple(t.shape), t.dtype, full[len(sizes) :], full[: len(sizes)])

    @classmethod
    def of(cls, t: Tensor) -> Place:
        """The memory of a tensor."""
        strides = None if t._view is None or t.is_contiguous() else t.stride()
        return cls(tuple(t.shape), t.dtype, strides, _outer(t)[1])

    def of_all(self, sizes: Sequence[int]) -> Place:
        """The memory of all examples, whose mapped axes have these lengths and come first (none: of one)."""
        strides = None if sizes else self.strides
        if self.strides is not None and len(self.outer) == len(sizes):
            strides = (*self.outer, *self.strides)
        return Place((*sizes, *self.shape), self.dtype, strides)


def _outer(t: Tensor) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The lengths and strides of the axes that vmap maps over, the outermost first."""
    found: list[tuple[int, int]] = []
    value = t._storage.value
    while value.__class__ is Batched:
        layout = value.inner._layout
        found.insert(0, (layout.shape[value.dim], layout.strides[value.dim]))
        value = value.inner._storage.value
    return tuple(n for n, _ in found), tuple(step for _, step in found)


class Drawn(NamedTuple):
    """A sample that depends on numbers in tensors: ``make(engine, an array of each)``."""

    make: Callable[..., Numbers]
    tensors: tuple[Tensor, ...]

    def __call__(self, e: Mersenne) -> Numbers:
        return self.make(e, *map(host, self.tensors))

    def of_all(self, e: Mersenne, levels: Sequence[Any]) -> Numbers:
        """The samples of all examples of these levels, whose mapped axes come first; None where others map too."""
        ndim = max(t.ndim for t in self.tensors)
        arrays = [_numbers_of_all(t, levels, ndim) for t in self.tensors]
        return None if any(a is None for a in arrays) else self.make(e, *arrays)


def _numbers_of_all(t: Tensor, levels: Sequence[Any], ndim: int) -> Numbers:
    """The numbers of ``t`` for all examples: an axis for each of the levels, and ``ndim`` for an example."""
    value, shape, order = value_of(t), tuple(t.shape), list(range(t.ndim))
    found = []
    while value.__class__ is Batched:
        found.append(value.level)
        order = [d + (d >= value.dim) for d in order]  # where each axis lies in the tensor below
        order.insert(0, value.dim)
        value = value_of(value.inner)
    found.reverse()
    if not set(found) <= set(levels):
        return None
    numbers = as_numpy(value).transpose(order)
    lengths = [level.size if level in found else 1 for level in levels]
    numbers = numbers.reshape(*lengths, *(1,) * (ndim - len(shape)), *shape)
    return np.broadcast_to(numbers, (*[level.size for level in levels], *numbers.shape[len(levels) :]))


def _filled(place: Place, make: Callable[[int, bool], np.ndarray]) -> Numbers:
    """``make(how many, whether they are contiguous)`` in the order in which the place's elements lie in memory."""
    shape, strides = place.shape, place.strides
    if strides is None or tuple(strides) == contiguous_strides(shape):
        return make(math.prod(shape), True).reshape(shape)
    if any(step == 0 and size > 1 for step, size in zip(strides, shape, strict=True)):
        return None  # elements that share memory: refused
    order = sorted(range(len(shape)), key=lambda d: -strides[d])
    numbers = make(math.prod(shape), False).reshape([shape[d] for d in order])
    return np.ascontiguousarray(numbers.transpose(np.argsort(order)))


def _real(place: Place) -> bool:
    return place.dtype.name in _FLOATS


def _inexact(place: Place, make: Callable[[int, np.dtype, bool], np.ndarray]) -> Numbers:
    """Samples of a floating point dtype, or as many pairs of them as complex numbers."""
    kind = place.dtype.np
    if _real(place):
        return _filled(place, lambda n, contiguous: make(n, kind, contiguous))
    if kind not in (np.complex64, np.complex128):
        return None
    part = np.dtype(np.float32 if kind == np.complex64 else np.float64)
    return _filled(place, lambda n, contiguous: make(2 * n, part, contiguous).view(kind))


def uniform(place: Place, e: Mersenne, low: float = 0.0, high: float = 1.0) -> Numbers:
    """Uniform samples of [low, high)."""
    return _inexact(place, lambda n, kind, _: samples.uniform(e, n, kind, low, high))


def unit(place: Place, e: Mersenne) -> Numbers:
    """Uniform samples for comparisons with probabilities of the place's dtype."""
    if not _real(place):
        return None
    return _filled(place, lambda n, _: e.doubles(n) if place.dtype.name == "float64" else e.floats(n))


def normal(place: Place, e: Mersenne, mean: float = 0.0, std: float = 1.0) -> Numbers:
    """Normal samples; of complex ones both parts have the mean, and half the variance."""
    if place.dtype.is_complex:
        std /= math.sqrt(2)
    return _inexact(place, lambda n, kind, contiguous: samples.normal(e, n, kind, mean, std, contiguous))


def _continuous(sample: Callable, place: Place, e: Mersenne, *parameters: float) -> Numbers:
    if not _real(place):
        return None
    return _filled(place, lambda n, _: sample(e, n, place.dtype.np, *parameters))


def log_normal(place: Place, e: Mersenne, mean: float, std: float) -> Numbers:
    """Exponentials of normal samples."""
    return _continuous(samples.log_normal, place, e, mean, std)


def exponential(place: Place, e: Mersenne, rate: float = 1.0) -> Numbers:
    """Exponential samples."""
    return _continuous(samples.exponential, place, e, rate)


def cauchy(place: Place, e: Mersenne, median: float, sigma: float) -> Numbers:
    """Cauchy samples."""
    return _continuous(samples.cauchy, place, e, median, sigma)


def geometric(place: Place, e: Mersenne, p: float) -> Numbers:
    """Numbers of trials."""
    if place.dtype.is_complex or place.dtype.name == "bool":
        return None
    return _filled(place, lambda n, _: samples.geometric(e, n, p))


def bernoulli(place: Place, e: Mersenne, p: float) -> Numbers:
    """Whether trials succeed, with a probability for all."""
    return _filled(place, lambda n, _: samples.bernoulli(e, n, p))


def integers(place: Place, e: Mersenne, low: int, span: int) -> Numbers:
    """Integers of [low, low + span)."""
    if place.dtype.is_complex:
        return None
    return _filled(place, lambda n, _: samples.integers(e, n, low, span))


def any_integers(place: Place, e: Mersenne, span: int) -> Numbers:
    """Integers of [0, span), all that the dtype holds."""
    if place.dtype.is_complex:
        return None
    long = place.dtype.name in ("int64", "float64")
    return _filled(place, lambda n, _: samples.any_integers(e, n, span, long))


def permutation(place: Place, e: Mersenne) -> Numbers:
    """A permutation of all numbers below the length."""
    return samples.permutation(e, place.shape[0])


def multinomial(e: Mersenne, weights: np.ndarray, n: int) -> Numbers:
    """Indices drawn with replacement."""
    if not (np.isfinite(weights).all() and (weights >= 0).all() and (weights.sum(-1) > 0).all()):
        return None
    return samples.weighted(e, weights, n)


def kept(place: Place, e: Mersenne, p: float) -> Numbers:
    """Which elements dropout keeps."""
    return bernoulli(place, e, 1 - p) if _real(place) else None
