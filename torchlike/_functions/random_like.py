"""Random tensors like another one: of its shape, dtype, device and strides."""

from functools import partial

import torchlike._base.device as devices
import torchlike._base.dtypes as dtypes
from torchlike._core.conversion.factories import demand_strided
from torchlike._core.dispatch.observers import redispatch, watched
from torchlike._core.sparse.structure import with_values
from torchlike._core.sparse.value import value
from torchlike._core.tensor.memory_format import formatted, new_strides
from torchlike._core.tensor.tensor import COMPRESSED, Tensor, preserve_format
from torchlike._executor.sparse import LAYER
from torchlike._executor.spread import USED
from torchlike._functions import host_samples as host
from torchlike._functions import integer_ranges as ranges
from torchlike._functions._install import function
from torchlike._functions.like import spread_as
from torchlike._functions.random import _bounds_and_size, _flagged, _made
from torchlike._ops import random as ops


def _alike(op, name, input, static, numbers, dtype, device, requires_grad, memory_format, generator, sample):
    shape = tuple(input.shape)
    like = None if input._view is None else input._layout
    place = host.Place.like(input)._replace(dtype=dtype)
    if memory_format is not preserve_format:
        place = host.Place(shape, dtype, new_strides(shape, memory_format, like))
    given = dtype, device or input.device, generator, False, None, sample, place
    new = _made(op, name, shape, static(shape, dtype), numbers, *given)
    if USED:
        spread_as(input, new)
    formatted(new, memory_format, like)
    return _flagged(new, requires_grad)


def _like_dtype(name, dtype, input):
    if not isinstance(input, Tensor):
        raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    return dtypes.as_dtype(dtype) if dtype is not None else input.dtype


def _seen_like(name, bounded, given, generator, dtype, layout, device, memory_format, requires_grad):
    """What the class of a tensor gives for a draw like it."""
    overload = bounded + ("generator_" if generator is not None else "") + ("dtype" if bounded else "")
    options = {
        "generator": generator,
        "dtype": dtype and dtypes.as_dtype(dtype),
        "layout": layout,
        "device": device and devices.as_device(device, name),
        "pin_memory": False,
        "memory_format": None if memory_format is preserve_format else memory_format,
    }
    return _flagged(redispatch(f"{name}.{overload.rstrip('_') or 'default'}", *given, **options), requires_grad)


def _numbers_like(name, op, sample, input, options):
    if isinstance(input, Tensor) and watched(input):
        return _seen_like(name, "", (input,), *options)
    generator, dtype, layout, device, memory_format, requires_grad = options
    if (layout is not None or LAYER.used) and isinstance(input, Tensor):
        demand_strided(name, input.layout if layout is None else layout)
    dtype = _like_dtype(name, dtype, input)
    given = dtype, device, requires_grad, memory_format, generator, sample
    return _alike(op, name, input, lambda *s: s, (), *given)


@function()
def rand_like(
    input,
    *,
    generator=None,
    dtype=None,
    layout=None,
    device=None,
    pin_memory=False,
    requires_grad=False,
    memory_format=preserve_format,
):
    """:func:`rand` with the shape, dtype, device and strides of ``input``."""
    options = generator, dtype, layout, device, memory_format, requires_grad
    return _numbers_like("rand_like", ops.rand, host.uniform, input, options)


@function()
def randn_like(
    input,
    *,
    generator=None,
    dtype=None,
    layout=None,
    device=None,
    pin_memory=False,
    requires_grad=False,
    memory_format=preserve_format,
):
    """:func:`randn` with the shape, dtype, device and strides of ``input``; of a compressed one at its places."""
    options = generator, dtype, layout, device, memory_format, requires_grad
    if LAYER.used and isinstance(input, Tensor) and input.layout in COMPRESSED and layout in (None, input.layout):
        entries = value(input).values
        options = generator, dtype, None, device, memory_format, False
        new = with_values(input.detach(), _numbers_like("randn_like", ops.randn, host.normal, entries, options))
        return new.requires_grad_(requires_grad)
    return _numbers_like("randn_like", ops.randn, host.normal, input, options)


@function()
def randint_like(
    input,
    *args,
    low=None,
    high=None,
    generator=None,
    dtype=None,
    layout=None,
    device=None,
    pin_memory=False,
    requires_grad=False,
    memory_format=preserve_format,
):
    """:func:`randint` with the shape, dtype, device and strides of ``input``: ``(input, high)`` or ``(input,
    low, high)``.
    """
    if (layout is not None or LAYER.used) and isinstance(input, Tensor):
        demand_strided("randint_like", input.layout if layout is None else layout)
    bounded = low is not None or len(args) > 1
    low, high, _ = _bounds_and_size((*args, ()), low, high, None)
    if isinstance(input, Tensor) and watched(input):
        given = ("low_", (input, low, high)) if bounded else ("", (input, high))
        return _seen_like("randint_like", *given, generator, dtype, layout, device, memory_format, requires_grad)
    dtype = _like_dtype("randint_like", dtype, input)
    _, span, wide = ranges.span("random_", low, high, dtype)
    return _alike(
        ops.randint,
        "randint_like",
        input,
        lambda *s: (*s, wide),
        (low, span),
        dtype,
        device,
        requires_grad,
        memory_format,
        generator,
        partial(host.integers, low=low, span=high - low),
    )
