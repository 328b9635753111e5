"""Functions that create tensors."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from jax.export import is_symbolic_dim

import torchlike._base.device as devices
import torchlike._base.dtypes as dtypes
from torchlike._base import float8
from torchlike._base.deterministic import unwritten
from torchlike._base.dims import demand_countable
from torchlike._base.frames import warn
from torchlike._base.layout import contiguous_strides, permuted_strides
from torchlike._base.promotion import promote_types
from torchlike._base.state import state
from torchlike._core.conversion.convert import (
    as_tensor,
    from_dlpack,
    from_jax_array,
    from_numpy,
    place,
    requiring,
    tensor,
)
from torchlike._core.conversion.lengths import symbolic_range
from torchlike._core.conversion.numbers import fill_of, filling, number_of, of_fill
from torchlike._core.conversion.ramps import arange_values, elements, linspace_values, logspace_values, overload
from torchlike._core.dispatch.inplace import demand_distinct
from torchlike._core.dispatch.observers import made
from torchlike._core.dispatch.out import demand_unrecorded, put
from torchlike._core.dispatch.view_calls import call_view
from torchlike._core.tensor import arguments
from torchlike._core.tensor.memory_format import formatted
from torchlike._core.tensor.memory_order import restride
from torchlike._core.tensor.tensor import MemoryFormat, MemoryLayout, Tensor, fresh, jagged, preserve_format, value_of
from torchlike._core.tensor.tensor import strided as strided_layout
from torchlike._executor import immediate
from torchlike._executor.kernels import jit
from torchlike._executor.level import mapped
from torchlike._ops import view as views

if TYPE_CHECKING:
    from torchlike._base.device import device as Device
    from torchlike._core.typed import DeviceLike, Number, OptDtype, OptLayout, OptTensor, Shape


def size_of(function: str, size: Any, keyword: Sequence[int] | None = None) -> Shape:
    """The shape from ``f(2, 3)``, ``f((2, 3))`` or ``f(size=(2, 3))``."""
    if keyword is not None:
        if size:
            raise TypeError(f"{function}() got multiple values for argument 'size'")
        size = keyword
    elif not size:
        raise TypeError(f'{function}() missing 1 required positional arguments: "size"')
    elif len(size) == 1 and isinstance(size[0], list | tuple):
        size = size[0]
    elif isinstance(size[0], bool) or not (_is_number(size[0]) or is_symbolic_dim(size[0])):
        raise TypeError(
            f"{function}(): argument 'size' (position 1) must be tuple of ints, not {type(size[0]).__name__}"
        )
    return checked_size(function, size)


def _is_number(x: Any) -> bool:
    return isinstance(x, int | np.integer | Tensor) or isinstance(x, np.ndarray) and not x.ndim and x.dtype.kind in "iu"


def _length(function: str, n: Any) -> int:
    return int(n) if n is True or n is False else arguments.as_int(function, "size", n)


def checked_size(function: str, size: Iterable[Any]) -> Shape:
    """A tuple of non-negative ints; a bool may be one of them, but not the first."""
    size = (*size,)
    if size and (size[0] is True or size[0] is False):
        raise TypeError(f"{function}(): argument 'size' must be tuple of ints, but found element of type bool at pos 0")
    shape = tuple([n if n.__class__ is int else _length(function, n) for n in size])
    for n in shape:
        if n < 0:
            raise RuntimeError(f"Trying to create tensor with negative dimension {n}: {list(shape)}")
    return shape


def _dtype(function: str, dtype: Any, default: dtypes.dtype | None = None) -> dtypes.dtype:
    if dtype is None:
        return default or dtypes.get_default_dtype()
    return dtype if dtype.__class__ is dtypes.dtype else arguments.as_dtype(function, "dtype", dtype)


def _device(device: DeviceLike) -> Device | None:
    return None if device is None else devices.as_device(device)


def demand_strided(function: str, layout: Any, out: OptTensor = None) -> None:
    """Refuse another layout than ``torch.strided`` for a function that makes strided tensors only."""
    if layout is not strided_layout:
        if layout.__class__ is not MemoryLayout:
            raise TypeError(f"{function}(): argument 'layout' must be torch.layout, not {type(layout).__name__}")
        if out is not None:
            raise RuntimeError(f"layout {layout} does not match layout of out parameter ({out.layout})")
        way = "use torch.nested" if layout is jagged else "use .to_sparse()"
        raise NotImplementedError(f"{function}() is not implemented for layout {layout}; {way}")


# {layout: (layout, shape, dtype, device) -> a tensor without entries}; set by the layer of sparse tensors.
EMPTY: dict[Any, Callable[..., Tensor]] = {}
_SQUARE: Any = object()  # of eye: no second argument, where None is refused


def without_entries(
    function: str, layout: Any, shape: Shape, kind: dtypes.dtype, device: DeviceLike, requires_grad: bool,
    out: OptTensor = None
) -> Tensor:  # fmt: skip
    """Zeros of a size in another layout than ``torch.strided``."""
    if layout not in EMPTY or out is not None:
        demand_strided(function, layout, out)
    t = EMPTY[layout](layout, shape, kind, device)
    return t if requires_grad is False else requiring(t, requires_grad)


def finish(
    value: Any, dtype: dtypes.dtype | None, device: DeviceLike, requires_grad: bool, out: OptTensor = None
) -> Tensor:
    """A tensor of ``value`` on ``device``, or ``out`` with that value."""
    if out is not None:
        into(value, dtype, out, device)
        return out if requires_grad is False else requiring(out, requires_grad)
    t = fresh(place(value, _device(device)))
    return t if requires_grad is False else requiring(t, requires_grad)


def _filled(value: Any, dtype: OptDtype, device: DeviceLike, requires_grad: bool, out: OptTensor) -> Tensor:
    """A tensor of the numbers of a range; an ``out`` of as many elements keeps its shape."""
    if out is not None and out.numel() == value.size:
        value = value.reshape(out.shape)
    return finish(value, dtype, device, requires_grad, out)


def fitting_out(dtype: dtypes.dtype | None, out: Tensor, device: DeviceLike = None) -> Tensor:
    """``out``, whose dtype and device are those asked for, and which has no history. RuntimeError otherwise."""
    if dtype is not None and dtypes.as_dtype(dtype) is not out.dtype:
        asked = dtypes.as_dtype(dtype).scalar_name
        raise RuntimeError(f"dtype {asked} does not match dtype of out parameter ({out.dtype.scalar_name})")
    if device is not None and (kind := devices.as_device(device).type) != out.device.type:
        raise RuntimeError(f"device type {kind} does not match device type of out parameter ({out.device.type})")
    demand_unrecorded("numbers for out=", out)
    return out


def into(value: Any, dtype: dtypes.dtype | None, out: Tensor, device: DeviceLike = None) -> Tensor:
    """``out`` resized to the shape of ``value``, with its numbers."""
    fitting_out(dtype, out, device)
    demand_distinct("out=", out)
    put(out, place(value.astype(out.dtype.np), out.device))
    return out


def constant(shape: Shape, kind: dtypes.dtype, device: DeviceLike, number: int | None) -> Any:
    """Zeros or ones on ``device``; for None what memory holds that nothing was written to."""
    if devices.as_device(device).type == "meta":
        return immediate.Abstract(shape, kind.np)
    if number is None and (held := unwritten(kind)):
        return filled(shape, held, kind, device)
    target = devices.anchor(devices.jax_device(devices.as_device(device)))
    return (immediate.ones if number else immediate.zeros)(shape, kind.np, target)


def zeros(*args: Any, size: Sequence[int] | None = None, out: OptTensor = None, dtype: OptDtype = None,
       layout: OptLayout = None, device: DeviceLike = None, pin_memory: bool = False,
       requires_grad: bool = False) -> Tensor:  # fmt: skip
    """A tensor of zeros of the given size.

    >>> import torchlike as torch
    >>> torch.zeros(2)
    tensor([0., 0.])
    """
    if layout is not None and layout is not strided_layout:
        kind = _dtype("zeros", dtype)
        return without_entries("zeros", layout, size_of("zeros", args, size), kind, device, requires_grad, out)
    if state.dispatch_modes and out is None:
        shape = list(size_of("zeros", args, size))
        return made("zeros.default", shape, dtype=dtype, device=device, requires_grad=requires_grad)
    value = constant(size_of("zeros", args, size), _dtype("zeros", dtype), device, 0)
    return finish(value, dtype, device, requires_grad, out)


def ones(*args: Any, size: Sequence[int] | None = None, out: OptTensor = None, dtype: OptDtype = None,
       layout: OptLayout = None, device: DeviceLike = None, pin_memory: bool = False,
       requires_grad: bool = False) -> Tensor:  # fmt: skip
    """A tensor of ones of the given size."""
    if layout is not None:
        demand_strided("ones", layout, out)
    if state.dispatch_modes and out is None:
        shape = list(size_of("ones", args, size))
        return made("ones.default", shape, dtype=dtype, device=device, requires_grad=requires_grad)
    value = constant(size_of("ones", args, size), _dtype("ones", dtype), device, 1)
    return finish(value, dtype, device, requires_grad, out)


def empty(*args: Any, size: Sequence[int] | None = None, out: OptTensor = None, dtype: OptDtype = None,
       layout: OptLayout = None, device: DeviceLike = None, pin_memory: bool = False, requires_grad: bool = False,
       memory_format: MemoryFormat | None = None) -> Tensor:  # fmt: skip
    """A tensor whose values are not promised: here zeros, or what ``torch.utils.deterministic`` says."""
    if layout is not None and layout is not strided_layout:
        kind = _dtype("empty", dtype)
        return without_entries("empty", layout, size_of("empty", args, size), kind, device, requires_grad, out)
    if state.dispatch_modes and out is None:
        rest: Any = {"dtype": dtype, "device": device, "requires_grad": requires_grad, "memory_format": memory_format}
        return made("empty.memory_format", list(size_of("empty", args, size)), **rest)
    if memory_format is preserve_format:
        raise RuntimeError("unsupported memory format Preserve: empty() has no tensor whose strides it could preserve")
    value = constant(size_of("empty", args, size), _dtype("empty", dtype), device, None)
    t = finish(value, dtype, device, requires_grad, out)
    return t if memory_format is None or out is not None else formatted(t, memory_format)


def strided(function: str, size: Iterable[int], stride: Sequence[int], dtype: dtypes.dtype, device: DeviceLike,
       requires_grad: bool) -> Tensor:  # fmt: skip
    """A tensor with any strides: a window on a storage that is just large enough."""
    shape = checked_size(function, arguments.as_ints(function, "size", size))
    strides = arguments.as_ints(function, "stride", stride)
    if len(shape) != len(strides):
        raise RuntimeError(
            f"dimensionality of sizes ({len(shape)}) must match dimensionality of strides ({len(strides)})"
        )
    if strides == contiguous_strides(shape):
        return finish(constant(shape, dtype, device, None), None, device, requires_grad)
    count = 0 if 0 in shape else 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    base = fresh(place(constant((count,), dtype, device, None), _device(device)))
    t = call_view(views.as_strided, (base,), (shape, strides, 0))
    t._diff = None
    return t if requires_grad is False else requiring(t, requires_grad)


def empty_strided(size: Sequence[int], stride: Sequence[int], *, dtype: OptDtype = None, layout: OptLayout = None,
       device: DeviceLike = None, requires_grad: bool = False, pin_memory: bool = False) -> Tensor:  # fmt: skip
    """A tensor of this size and these strides, whose values are not promised."""
    if layout is not None:
        demand_strided("empty_strided", layout)
    if state.dispatch_modes:
        numbers = list(size), list(stride)
        return made("empty_strided.default", *numbers, dtype=dtype, device=device, requires_grad=requires_grad)
    return strided("empty_strided", size, stride, _dtype("empty_strided", dtype), device, requires_grad)


def empty_permuted(size: Sequence[int], physical_layout: Sequence[int], *, dtype: OptDtype = None,
       layout: OptLayout = None, device: DeviceLike = None, requires_grad: bool = False,
       pin_memory: bool = False) -> Tensor:  # fmt: skip
    """A dense tensor whose dimensions lie in memory in the order ``physical_layout``, outermost first."""
    if layout is not None:
        demand_strided("empty_permuted", layout)
    shape = checked_size("empty_permuted", size)
    order = arguments.as_ints("empty_permuted", "physical_layout", physical_layout)
    if set(order) != set(np.arange(len(shape)).tolist()) or len(order) != len(shape):
        raise RuntimeError(
            f"physical_layout {list(order)} is not a permutation of the {len(shape)} dimensions of size {list(shape)}"
        )
    options: Any = {"dtype": dtype, "device": device, "requires_grad": requires_grad}
    if state.dispatch_modes:
        return made("empty_permuted.default", [*shape], [*order], **options)
    t = empty(shape, **options)
    restride(t, permuted_strides(shape, order))
    return t


def full(size: Sequence[int], fill_value: Any, *, out: OptTensor = None, dtype: OptDtype = None,
       layout: OptLayout = None, device: DeviceLike = None, pin_memory: bool = False,
       requires_grad: bool = False) -> Tensor:  # fmt: skip
    """A tensor filled with one number; the dtype is the number's unless given.

    >>> import torchlike as torch
    >>> torch.full((2,), 7)
    tensor([7, 7])
    """
    if layout is not None:
        demand_strided("full", layout, out)
    if not isinstance(size, list | tuple):
        raise TypeError(f"full(): argument 'size' (position 1) must be tuple of ints, not {type(size).__name__}")
    shape = checked_size("full", size)
    number = fill_of("full", fill_value)
    if state.dispatch_modes and out is None:
        return made("full.default", list(shape), number, dtype=dtype, device=device, requires_grad=requires_grad)
    kind = out.dtype if out is not None else _dtype("full", dtype, of_fill(number))
    return finish(filled(shape, number, kind, device), dtype, device, requires_grad, out)


def filled(shape: Shape, number: Any, kind: dtypes.dtype, device: DeviceLike = None) -> Any:
    """An array of one number, which ``kind`` must be able to hold, or of one that jax traces."""
    if isinstance(number, immediate.Tracer):
        if number.dtype.kind == "c" and not kind.is_complex:
            number = number != 0 if kind is dtypes.bool else complex(number)  # jax's error: it may be no real one
        return jnp.full(shape, number, kind.np)
    number = filling(kind, number, shape)
    if devices.as_device(device).type == "meta":
        return immediate.Abstract(shape, kind.np)
    return _filler(shape, kind.np)(float8.converted(np.array(number), kind.np))


@functools.lru_cache(4096)
def _filler(shape: Shape, dtype: np.dtype) -> Callable[..., Any]:
    return jit(lambda number: jnp.full(shape, number, dtype), ("full", shape, np.dtype(dtype)))


@functools.lru_cache(1024)
def _identity(n: int, m: int, dtype: np.dtype) -> Callable[..., Any]:
    return jit(lambda: jnp.eye(n, m, dtype=dtype), ("eye", n, m, np.dtype(dtype)))


# -- ranges --------------------------------------------------------------------------------------

_FEW = 1 << 20  # whole numbers of a range that need no checks
_NO_RANGE = {"bool": "Bool", "complex64": "ComplexFloat", "complex128": "ComplexDouble"}


def _range_kind(function: str, dtype: dtypes.dtype | None, numbers: Iterable[Any], out: Tensor | None) -> dtypes.dtype:
    if out is not None:
        kind = out.dtype
    elif dtype is not None:
        kind = _dtype(function, dtype)
    else:
        whole = function == "arange" and all(isinstance(n, int) for n in numbers)
        kind = dtypes.int64 if whole else dtypes.get_default_dtype()
    if kind.name in _NO_RANGE:
        raise NotImplementedError(f"\"{function}_cpu\" not implemented for '{_NO_RANGE[kind.name]}'")
    return kind


def _range_numbers(function: str, start: Any, end: Any, step: Any) -> list[Any]:
    numbers = [number_of(function, n, v) for n, v in (("start", start), ("end", end), ("step", step))]
    for n in numbers:
        if isinstance(n, complex):
            raise RuntimeError("value cannot be converted to type double without overflow")
    first, last, by = numbers
    if by == 0:
        raise RuntimeError("step must be nonzero")
    if not (math.isfinite(first) and math.isfinite(last)):
        raise RuntimeError(f"unsupported range: {first} -> {last}")
    if (last - first) * by < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    return numbers


def _warn_of_size(out: Tensor, count: int) -> None:
    warn(
        f"The number of elements in the out tensor of shape {list(out.shape)} is {out.numel()} which does not match "
        f"the computed number of elements {count}. Note that this may occur as a result of rounding error. The out "
        f"tensor will be resized to a tensor of shape ({count},)."
    )


def arange(*args: Any, out: OptTensor = None, dtype: OptDtype = None, layout: OptLayout = None,
       device: DeviceLike = None, pin_memory: bool = False, requires_grad: bool = False,
       **named: Any) -> Tensor:  # fmt: skip
    """Numbers from ``start`` (0) to before ``end`` by ``step`` (1).

    The dtype is int64 for whole numbers, else the default one, unless given.

    >>> import torchlike as torch
    >>> torch.arange(1, 6, 2)
    tensor([1, 3, 5])
    """
    if layout is not None:
        demand_strided("arange", layout, out)
    start, end, step = _range_arguments(args, named)
    if state.dispatch_modes and out is None:
        return _seen_range(start, end, step, len(args) + len(named), dtype, device, requires_grad)
    plain = start.__class__ is end.__class__ is step.__class__ is int
    if plain and step > 0 and -_FEW < start <= end < _FEW and dtype is None and out is None:
        return finish(np.arange(start, end, step, dtype=np.int64), None, device, requires_grad)
    if not plain and any(map(is_symbolic_dim, (start, end, step))):
        value = symbolic_range(start, end, step, _range_kind("arange", dtype, (), out))
        return _filled(value, dtype, device, requires_grad, out)
    first, last, by = numbers = _range_numbers("arange", start, end, step)
    kind = _range_kind("arange", dtype, numbers, out)
    value = arange_values(first, last, by, kind)
    if out is not None and 0 != out.numel() != value.size:
        _warn_of_size(out, value.size)
    return _filled(value, dtype, device, requires_grad, out)


def _seen_range(
    start: Any, end: Any, step: Any, given: int, dtype: dtypes.dtype | None, device: DeviceLike, requires_grad: bool
) -> Tensor:
    """``arange`` shown to a mode: the overload has as many numbers as the call."""
    name, numbers = ("default", (end,)) if given == 1 else ("start", (start, end))
    if given == 3:
        name, numbers = "start_step", (start, end, step)
    return made(f"arange.{name}", *numbers, dtype=dtype, device=device, requires_grad=requires_grad)


def _range_arguments(args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, Any, Any]:
    """(start, end, step) of ``arange(end)``, ``arange(start, end)`` or ``arange(start, end, step)``."""
    extra = set(named) - {"start", "end", "step"}
    if extra:
        raise TypeError(f"arange() got an unexpected keyword argument '{sorted(extra)[0]}'")
    given = dict(
        zip(("end",) if len(args) == 1 and "end" not in named else ("start", "end", "step"), args, strict=False)
    )
    if (
        len(args) == 1
        and "end" not in named
        and "step" in named
        or len(args) > 3
        or set(given) & set(named)
        or ("end" not in {**given, **named})
    ):
        kinds = ", ".join([type(a).__name__ for a in args] + [f"{k}={type(v).__name__}" for k, v in named.items()])
        raise TypeError(
            f"arange() received an invalid combination of arguments - got ({kinds}), but expected one of:\n"
            " * (Number end, *, ...)\n * (Number start, Number end, *, ...)\n * (Number start, "
            "Number end, Number step = 1, *, ...)"
        )
    given |= named
    return given.get("start", 0), given["end"], given.get("step", 1)


def range(start: Any, end: Any, step: Any = 1, *, out: OptTensor = None, dtype: OptDtype = None,
       layout: OptLayout = None, device: DeviceLike = None, pin_memory: bool = False,
       requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Numbers from ``start`` to ``end``, both included, by ``step``; of the default dtype."""
    if layout is not None:
        demand_strided("range", layout, out)
    warn(
        "torch.range is deprecated and will be removed in a future release because its behavior is inconsistent with "
        "Python's range builtin. Instead, use torch.arange, which produces values in [start, end)."
    )
    first, last, by = numbers = _range_numbers("range", start, end, step)
    kind = _range_kind("range", dtype, numbers, out)
    count = int((last - first) / by) + 1 if elements("range", first, last, float(by)) else 1
    demand_countable((count,), kind.itemsize)
    wide = np.float64 if kind.is_floating_point else np.int64
    value = (first + np.arange(count, dtype=wide) * (by if kind.is_floating_point else int(by))).astype(kind.np)
    return _filled(value, dtype, device, requires_grad, out)


def _endpoints(
    function: str, start: Any, end: Any, steps: Any, dtype: dtypes.dtype | None, out: Tensor | None
) -> tuple[Any, ...]:
    """The two numbers, the count and the dtype of linspace and logspace."""
    for name, x in (("start", start), ("end", end)):
        if isinstance(x, Tensor) and x.ndim:
            raise RuntimeError(
                f"{function} only supports 0-dimensional start and end tensors, but got {name} with "
                f"{x.ndim} dimension(s)."
            )
    steps = arguments.as_int(function, "steps", steps)
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    ends = [x.detach() if isinstance(x, Tensor) else x for x in (start, end)]
    numbers = [number_of(function, n, v, i) for i, (n, v) in enumerate(zip(("start", "end"), ends, strict=True), 1)]
    complex_ = any(isinstance(n, complex) for n in numbers)
    default = dtypes.get_default_dtype().to_complex() if complex_ else dtypes.get_default_dtype()
    kind = out.dtype if out is not None else _dtype(function, dtype, default)
    if complex_ and out is None and not kind.is_complex:
        inferred = f"c10::complex<{'float' if default is dtypes.complex64 else 'double'}>"
        raise RuntimeError(
            f"torch.{function}(): inferred dtype {inferred} can't be safely cast to passed dtype {kind.scalar_name}"
        )
    if kind is dtypes.bool:
        raise NotImplementedError(f"\"{function}_cpu\" not implemented for 'Bool'")
    return (*numbers, steps, kind)


def _unread(start: Any, end: Any) -> bool:
    """Whether a number is a tensor inside of vmap, or of a captured function."""
    ends = [x for x in (start, end) if isinstance(x, Tensor) and not x.ndim]
    return any(mapped(x) or (state.capture and isinstance(value_of(x), immediate.Tracer)) for x in ends)


def _traced_ramp(
    function: str, start: Any, end: Any, steps: int, dtype: dtypes.dtype | None, requires_grad: bool, base: Any = None
) -> Tensor:
    """linspace, or with ``base`` logspace, between tensors inside of vmap or of a captured function."""
    first, last = [x.dtype.np.type(0).item() if isinstance(x, Tensor) and not x.ndim else x for x in (start, end)]
    *_, steps, kind = _endpoints(function, first, last, steps, dtype, None)
    ends = [x.detach() if isinstance(x, Tensor) else _number_tensor(x) for x in (start, end)]
    wide = promote_types(ends[0].dtype, ends[1].dtype)
    wide = wide if wide.is_floating_point or wide.is_complex else dtypes.get_default_dtype()
    first, last = (x.to(wide) for x in ends)
    by, i = (last - first) / max(steps - 1, 1), arange(steps)
    ramp = (first + by * i).where(i < max(steps // 2, steps == 1), last - by * (steps - 1 - i))
    mapped_alone = dtype is None and any(isinstance(x, Tensor) and mapped(x) for x in (start, end))
    out = (ramp if base is None else base**ramp).to(wide if mapped_alone else kind)
    return out.requires_grad_() if requires_grad else out


def _number_tensor(x: Number) -> Tensor:
    kind = dtypes.complex128 if isinstance(x, complex) else dtypes.float64 if isinstance(x, float) else dtypes.int64
    return tensor(x, dtype=kind)


def linspace(start: Any, end: Any, steps: int, *, out: OptTensor = None, dtype: OptDtype = None,
       layout: OptLayout = None, device: DeviceLike = None, pin_memory: bool = False,
       requires_grad: bool = False) -> Tensor:  # fmt: skip
    """``steps`` numbers spaced evenly from ``start`` to ``end``, both included.

    >>> import torchlike as torch
    >>> torch.linspace(0, 1, 5)
    tensor([0.0000, 0.2500, 0.5000, 0.7500, 1.0000])
    """
    if layout is not None:
        demand_strided("linspace", layout, out)
    if state.dispatch_modes and out is None:
        name = overload("linspace", start, end)
        return made(name, start, end, steps, dtype=dtype, device=device, requires_grad=requires_grad)
    if _unread(start, end) and out is None:
        return _traced_ramp("linspace", start, end, steps, dtype, requires_grad)
    first, last, steps, kind = _endpoints("linspace", start, end, steps, dtype, out)
    return _filled(linspace_values(first, last, steps, kind), dtype, device, requires_grad, out)


def logspace(start: Any, end: Any, steps: int, base: float = 10.0, *, out: OptTensor = None, dtype: OptDtype = None,
       layout: OptLayout = None, device: DeviceLike = None, pin_memory: bool = False,
       requires_grad: bool = False) -> Tensor:  # fmt: skip
    """``base`` to the powers of ``linspace(start, end, steps)``."""
    base = arguments.as_float("logspace", "base", base)
    if layout is not None:
        demand_strided("logspace", layout, out)
    if state.dispatch_modes and out is None:
        name = overload("logspace", start, end)
        return made(name, start, end, steps, base, dtype=dtype, device=device, requires_grad=requires_grad)
    if _unread(start, end) and out is None:
        return _traced_ramp("logspace", start, end, steps, dtype, requires_grad, base)
    first, last, steps, kind = _endpoints("logspace", start, end, steps, dtype, out)
    return _filled(logspace_values(first, last, steps, base, kind), dtype, device, requires_grad, out)


# -- matrices ------------------------------------------------------------------------------------


def eye(n: int, m: int = _SQUARE, *, out: OptTensor = None, dtype: OptDtype = None, layout: OptLayout = None,
       device: DeviceLike = None, pin_memory: bool = False, requires_grad: bool = False) -> Tensor:  # fmt: skip
    """The identity matrix, of ``n`` rows and ``m`` (default ``n``) columns."""
    if layout is not None:
        demand_strided("eye", layout, out)
    if state.dispatch_modes and out is None:
        name, sizes = ("default", (n,)) if m is _SQUARE else ("m", (n, m))
        return made(f"eye.{name}", *sizes, dtype=dtype, device=device, requires_grad=requires_grad)
    n = arguments.as_int("eye", "n", n)
    m = n if m is _SQUARE else arguments.as_int("eye", "m", m)
    if n < 0 or m < 0:
        raise RuntimeError(f"{'n' if n < 0 else 'm'} must be greater or equal to 0, got {n if n < 0 else m}")
    return finish(_identity(n, m, _dtype("eye", dtype).np)(), dtype, device, requires_grad, out)


def _triangle_indices(function: str, pick: Callable[..., Any], row: int, col: int, offset: int,
       dtype: dtypes.dtype | None, device: DeviceLike, requires_grad: bool = False) -> Tensor:  # fmt: skip
    kind = _dtype(function, dtype, dtypes.int64)
    if kind not in (dtypes.int64, dtypes.int32):
        raise NotImplementedError(f"\"{function}\" not implemented for '{kind.scalar_name}'")
    row, col, offset = [arguments.as_int(function, n, x) for n, x in (("row", row), ("col", col), ("offset", offset))]
    for name, n in (("row", row), ("col", col)):
        if n < 0:
            raise RuntimeError(f"{name} must be non-negative, got{n}")
    return finish(np.stack(pick(row, offset, col)).astype(kind.np), None, device, requires_grad)


def tril_indices(row: int, col: int, offset: int = 0, *, dtype: OptDtype = None, device: DeviceLike = None,
       layout: OptLayout = None, pin_memory: bool = False, requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Row and column numbers, a row of the result each, of the lower triangle of a matrix."""
    if layout is not None:
        demand_strided("tril_indices", layout)
    return _triangle_indices("tril_indices", np.tril_indices, row, col, offset, dtype, device, requires_grad)


def triu_indices(row: int, col: int, offset: int = 0, *, dtype: OptDtype = None, device: DeviceLike = None,
       layout: OptLayout = None, pin_memory: bool = False, requires_grad: bool = False) -> Tensor:  # fmt: skip
    """Row and column numbers, a row of the result each, of the upper triangle of a matrix."""
    if layout is not None:
        demand_strided("triu_indices", layout)
    return _triangle_indices("triu_indices", np.triu_indices, row, col, offset, dtype, device, requires_grad)


def scalar_tensor(s: Any, *, dtype: OptDtype = None, layout: OptLayout = None, device: DeviceLike = None,
       pin_memory: bool = False, requires_grad: bool = False) -> Tensor:  # fmt: skip
    """A tensor of no dimensions with one number, of the default dtype unless given."""
    if layout is not None:
        demand_strided("scalar_tensor", layout)
    if state.dispatch_modes:
        return made("scalar_tensor.default", s, dtype=dtype, device=device, requires_grad=requires_grad)
    return full((), s, dtype=_dtype("scalar_tensor", dtype), device=device, requires_grad=requires_grad)


__all__ = [
    "Tensor", "arange", "as_tensor", "empty", "empty_permuted", "empty_strided", "eye", "finish",
    "from_dlpack", "from_jax_array", "from_numpy", "full", "linspace", "logspace", "ones", "range",
    "scalar_tensor", "tensor", "tril_indices", "triu_indices", "zeros",
]  # fmt: skip
