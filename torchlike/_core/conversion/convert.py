"""The host boundary: Python data, numpy, DLPack and jax arrays in and out of tensors."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

import torchlike._base.device as devices
import torchlike._base.dtypes as dtypes
from torchlike._base import float8
from torchlike._base.frames import warn
from torchlike._base.layout import Layout, contiguous_strides, is_dense
from torchlike._base.once import warn_once
from torchlike._base.state import state
from torchlike._base.tracing import UnknownValueError
from torchlike._core.conversion import dlpack_codes
from torchlike._core.conversion.at_hand import at_hand
from torchlike._core.conversion.python_data import checked, host_array, nested
from torchlike._core.conversion.storages import of_storage
from torchlike._core.dispatch.observers import redispatch, subclassed, watched
from torchlike._core.dispatch.view_calls import call_view
from torchlike._core.overrides.torch_function import DOORS, unseen
from torchlike._core.tensor.arguments import bools, bools_or_none
from torchlike._core.tensor.memory_order import restride
from torchlike._core.tensor.shared_memory import adopt, array_over, has_gaps, over
from torchlike._core.tensor.storage import CAPTURES
from torchlike._core.tensor.tensor import Tensor, alias, array_of, device_of, fresh, value_of
from torchlike._core.tensor.untyped_storage import TypedStorage, UntypedStorage
from torchlike._executor.immediate import Abstract, uploaded
from torchlike._executor.level import LevelValue
from torchlike._executor.pending import NUMPYS, Pending, as_numpy, settled
from torchlike._executor.references import lent
from torchlike._executor.sparse import SparseValue
from torchlike._executor.spread import in_order, layout_of, noted
from torchlike._ops.view import as_strided, is_conj, is_neg

if TYPE_CHECKING:
    from torchlike._base.device import device as Device
    from torchlike._base.dtypes import dtype
    from torchlike._core.typed import DeviceLike


_CPU = devices.device("cpu")


def place(value: Any, device: Device | None) -> Any:
    """``value`` (a numpy or jax array) as a jax array on ``device``; abstract on meta."""
    if device is None:
        device = devices.default_device()
    if device.type == "meta":
        return Abstract(value.shape, value.dtype)
    if state.capture is not None and devices.stays():
        _demand_at_home(state.capture, value, device)
    if isinstance(value, jax.core.Tracer):
        return value
    target = devices.jax_device(device)
    anchor = devices.anchor(target)
    if isinstance(value, jax.Array | Pending):
        there = value.devices() == {target} and (anchor is None or isinstance(value, Pending) or value.committed)
        return value if there else jax.device_put(lent(settled(value)), target)
    return uploaded(value, anchor)


def _demand_at_home(capture: Any, value: Any, device: Device) -> None:
    """A program computes on one device: refuse it for a function that makes or moves more than a number elsewhere."""
    if capture.place is None:
        capture.place = device
    elif capture.home != device.type and value.ndim:
        capture.refuse(f"makes a tensor on {device}, or moves one there, beside those on {capture.place}")


def _finished(value: Any, device: DeviceLike, requires_grad: bool, stays: bool = False) -> Tensor:
    """A new tensor; an array of jax that ``stays`` is where it was, on several devices maybe."""
    t = fresh(value if stays else place(value, devices.as_device(device) if device is not None else None))
    if state.dispatch_modes:
        t = redispatch("lift_fresh.default", t)
    return t if requires_grad is False else requiring(t, requires_grad)


def requiring(t: Tensor, flag: Any = True) -> Tensor:
    """A new tensor, which shall require grad if ``flag`` says so; RuntimeError for a dtype that has no gradients."""
    bools_or_none("new tensor", requires_grad=flag)
    if not flag:
        return t
    if not (t.dtype.is_floating_point or t.dtype.is_complex):
        raise RuntimeError(f"Only Tensors of floating point and complex dtype can require gradients, not {t.dtype}")
    t.requires_grad = True
    return t


def tensor(
    data: Any,
    *,
    dtype: dtype | None = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A new tensor with a copy of ``data`` (numbers, nested sequences, numpy arrays, tensors).

    Raises:
        ValueError: sequences of unequal length. TypeError: data that are not numbers.

    >>> import torchlike as torch
    >>> torch.tensor([[1, 2], [3, 4]])
    tensor([[1, 2],
            [3, 4]])
    """
    if requires_grad is not False or pin_memory is not False:
        bools("tensor", requires_grad=requires_grad, pin_memory=pin_memory)
    warn_of_copy(data, "torch.tensor")
    return new_tensor(data, dtype, device, requires_grad)


def warn_of_copy(data: Any, name: str) -> None:
    """Warn that a tensor is copied by a function meant for other data."""
    if isinstance(data, Tensor):
        warn(
            "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
            f"sourceTensor.detach().clone().requires_grad_(True), rather than {name}(sourceTensor).",
            UserWarning,
        )


def new_tensor(data: Any, dtype: Any = None, device: DeviceLike = None, requires_grad: bool = False) -> Tensor:
    """A new tensor with a copy of ``data``."""
    dtype = None if dtype is None else dtypes.as_dtype(dtype)
    if isinstance(data, Tensor) and state.dispatch_modes:
        detached = data.detach()
        options = {"dtype": dtype or data.dtype, "device": data.device if device is None else devices.as_device(device)}
        t = redispatch("_to_copy.default", detached, **options)
        return t if requires_grad is False else requiring(t, requires_grad)
    if isinstance(data, Tensor | jax.Array):
        value = array_of(data) if isinstance(data, Tensor) else in_order(data)
        if device is None and isinstance(data, Tensor):
            device = device_of(data)
        if dtype is not None:
            parts = dtype.is_complex or dtype is dtypes.bool  # an imaginary number is true
            value = value.real if value.dtype.kind == "c" and not parts else value
            value = float8.converted(value, dtype.np, np if isinstance(value, np.ndarray) else jnp)
        stays = device is None and isinstance(value, jax.Array) and devices.default_device().type == "cpu"
        if stays:
            value = settle_down(value)
        return _finished(value, device, requires_grad, stays)
    if isinstance(data, TypedStorage | UntypedStorage):
        source: Any = data
        t = of_storage(source, dtype or (source.dtype if isinstance(source, TypedStorage) else dtypes.int64))
        t = t if device is None else t.to(device)
        return t.requires_grad_() if requires_grad else t
    return _finished(host_array(data, dtype), device, requires_grad)


@unseen
def as_tensor(data: Any, dtype: dtype | None = None, device: DeviceLike = None) -> Tensor:
    """``data`` as a tensor: itself, or over the memory of an array, where nothing changes, else as :func:`tensor`.

    >>> import torchlike as torch
    >>> x = torch.ones(2)
    >>> torch.as_tensor(x) is x
    True
    """
    if isinstance(data, Tensor):
        return data.to(device=device or data.device, dtype=dtype or data.dtype)
    if isinstance(data, np.ndarray):
        return of_array(data, None if dtype is None else dtypes.as_dtype(dtype), device)
    return new_tensor(data, dtype, device)


def of_array(array: np.ndarray, dtype: dtype | None, device: DeviceLike) -> Tensor:
    """A tensor of the numbers of an array, over its memory where neither dtype nor device ask for another."""
    place = devices.default_device() if device is None else devices.as_device(device)
    checked(array)
    if place.type != "cpu" or place.index or (dtype is not None and dtypes.from_np(array.dtype) is not dtype):
        return new_tensor(array, dtype, device)
    return from_numpy(array)


def from_numpy(array: np.ndarray) -> Tensor:
    """A tensor over the memory of a numpy array: what either of them writes, the other one reads.

    An array that is not writable is read, and warned of; the first change of the tensor gives it memory of its own.
    Inside of functions that jax traces, and of vmap and grad, the array is copied.

    >>> import numpy, torchlike as torch
    >>> a = numpy.zeros(3)
    >>> t = torch.from_numpy(a)
    >>> a[0] = 1
    >>> t += 1
    >>> t, a
    (tensor([2., 1., 1.], dtype=torch.float64), array([2., 1., 1.]))
    """
    if not isinstance(array, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(array).__name__})")
    warn_of_read_only(array)
    t = over_array(array)
    return redispatch("lift_fresh.default", t) if state.dispatch_modes else t


def warn_of_read_only(array: np.ndarray) -> None:
    """Say once that changes of a tensor will not be seen in an array that is not writable."""
    if not array.flags.writeable:
        warn_once(
            "The given NumPy array is non-writable. The tensor reads its memory, but a change of the tensor will not "
            "be seen there; copy the array if that is not meant.",
        )


def over_array(array: np.ndarray) -> Tensor:
    """A tensor over the memory of an array, or of a copy where memory cannot be shared."""
    checked(array)
    if any([s % array.itemsize for s in array.strides]):
        raise ValueError(
            "given numpy array strides not a multiple of the element byte size. Copy the numpy array to reallocate the "
            "memory."
        )
    found = over(array)
    if found is None:
        t = copied_array(array)
        if state.capture is not None and array.flags.writeable:
            state.capture.copies.append((t._storage, t._storage.value))
        return t
    stand, memory, layout = found
    t = fresh(stand)
    adopt(t._storage, memory)
    if stand.shape != layout.shape:
        return alias(call_view(as_strided, (t,), layout))
    if layout.strides != contiguous_strides(layout.shape):
        restride(t, layout.strides)
    return t


def copied_array(array: np.ndarray) -> Tensor:
    """A tensor with a copy of an array, of its strides where its elements fill a block of memory."""
    t = fresh(place(checked(array), _CPU))
    strides = tuple([s // array.itemsize for s in array.strides])
    if array.size and not array.flags.c_contiguous and is_dense(Layout(array.shape, strides, 0)):
        restride(t, strides)
    return t


def from_jax_array(array: jax.Array) -> Tensor:
    """A tensor over a ``jax.Array`` (or tracer), without a copy.

    >>> import jax.numpy as jnp, torchlike as torch
    >>> torch.from_jax_array(jnp.zeros(2, jnp.float32))
    tensor([0., 0.])
    """
    if not isinstance(array, jax.Array):
        raise TypeError(f"expected jax.Array (got {type(array).__name__}); use torch.as_tensor for other data")
    if jax.dtypes.issubdtype(array.dtype, jax.dtypes.extended):
        raise TypeError(f"jax arrays of dtype {array.dtype} have no torch dtype")
    layout = layout_of(array)
    if layout is not None:
        noted(layout)
    return fresh(settle_down(jax.lax.convert_element_type(in_order(array), array.dtype)))


def settle_down(array: jax.Array) -> jax.Array:
    """An array of jax; one of an accelerator stays there, see ``devices.stays``."""
    if isinstance(array, jax.core.Tracer) or not devices.stays() or array.committed:
        return array
    return jax.device_put(array, array.sharding)


def from_dlpack(ext_tensor: Any, *, device: DeviceLike = None, copy: bool | None = None) -> Tensor:
    """A tensor from any object with ``__dlpack__``, over the same memory if that is the CPU's.

    Arrays of jax, and those of other devices, never change. ``copy``: True for memory of its own, False to refuse what
    needs that (ValueError). ``device``: where it shall be.
    """
    t = _of_dlpack(ext_tensor)
    if device is not None and devices.as_device(device) != t.device:
        if copy is False:
            raise ValueError(f"cannot move (i.e. copy) a tensor from {t.device} to {devices.as_device(device)}")
        return t.to(devices.as_device(device))
    return t.clone() if copy else t


def _of_dlpack(x: Any) -> Tensor:
    if isinstance(x, Tensor):
        _demand_exportable(x)
        return x.detach()
    if isinstance(x, np.ndarray):
        return over_array(x)
    if type(x).__name__ == "PyCapsule":
        x = _OfCapsule(x)
    if isinstance(x, jax.Array) or not hasattr(x, "__dlpack_device__") or x.__dlpack_device__()[0] != 1:
        return from_jax_array(jnp.from_dlpack(x))
    try:
        array = np.from_dlpack(x)
    except (TypeError, BufferError, RuntimeError):  # of a dtype that numpy lacks
        capsule = x.__dlpack__()
        kind = dlpack_codes.taken_as_integers(capsule)
        if kind is None:
            return from_jax_array(jnp.array(jnp.from_dlpack(x)))
        return over_array(_writable(np.from_dlpack(_OfCapsule(capsule))).view(kind))
    return over_array(_writable(array))


class _Lasting:
    """The memory of an array that an older protocol cannot tell to be writable; it lasts as long as this."""

    def __init__(self, array: np.ndarray) -> None:
        facts = array.__array_interface__
        self.array, self.__array_interface__ = array, facts | {"data": (facts["data"][0], False)}


def _writable(array: np.ndarray) -> np.ndarray:
    return array if array.flags.writeable or not array.size else np.asarray(_Lasting(array))


class _OfCapsule:
    """The object with ``__dlpack__`` that a bare capsule of CPU memory came from; a capsule is taken once."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0  # the CPU; the capsule itself says so too, which numpy checks


def _no_numbers(t: Tensor) -> NoReturn:
    raise NotImplementedError(
        f"Cannot copy out of meta tensor; no data! (a tensor of shape {list(t.shape)} on device 'meta')"
    )


def _known(t: Tensor) -> Any:
    """The value of ``t``, whose numbers or place are asked for."""
    return value_of(t) if state.capture is None else state.capture.numbers(t)


def host(t: Tensor) -> np.ndarray:
    """The tensor's value as a read-only numpy array."""
    if (found := at_hand(t)) is not None:
        return found
    if CAPTURES and state.trace is not None:
        state.trace.read(t)
    value = _known(t)
    if isinstance(value, Abstract):
        _no_numbers(t)
    try:
        return as_numpy(value)
    except jax.errors.TracerArrayConversionError:
        raise UnknownValueError(value) from None


def _demand_memory(t: Tensor) -> None:
    """Refuse a tensor with a tangent, or a graph's that is made: what reads its memory would lose that."""
    if state.trace is not None:
        state.trace.read(t)
    if any([level.hides(t._storage) for level in state.levels]):
        raise RuntimeError(
            "Cannot access data pointer of Tensor that doesn't have storage: inside of jvp() use .tolist() instead"
        )


def _demand_exportable(t: Tensor) -> None:
    _demand_memory(t)
    if t.requires_grad:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    if is_conj(t):
        raise BufferError("Can't export tensors with the conjugate bit set; use tensor.resolve_conj()")


def _dlpack(t: Tensor, *, stream: int | None = None, **kwargs: Any) -> Any:
    _demand_exportable(t)
    if stream is not None and type(stream) is not int:
        raise TypeError(f"stream must be ``int`` or ``none``, not {type(stream).__name__}")
    if t.device.type == "cpu":
        if stream not in (None, -1):
            raise AssertionError(f"stream should be None on cpu, but got {stream}")
        shared = array_over(t)
        if shared is not None and shared.flags.writeable:
            return dlpack_codes.lent(shared, **kwargs)
        stream = None
    value: Any = array_of(t)
    return value.__dlpack__(stream=stream, **kwargs)


def numpy(t: Tensor, *, force: bool = False) -> np.ndarray:
    """A numpy array over the memory of the tensor: what either of them writes, the other one reads.

    ``force`` also detaches and moves to the CPU; what is moved, conjugated or negated for that is a copy, as is what a
    function that jax traces, vmap or grad is given, and a tensor that lies on several devices.

    >>> import torchlike as torch
    >>> t = torch.zeros(2)
    >>> t.numpy()[0] = 1
    >>> t
    tensor([1., 0.])
    """
    if subclassed(t):
        raise RuntimeError(".numpy() is not supported for tensor subclasses, whose __torch_dispatch__ has the values.")
    if isinstance(t._storage.form, SparseValue):
        if t.is_quantized:
            raise TypeError(f"Got unsupported ScalarType {t.dtype.scalar_name}: use .dequantize() or .int_repr() first")
        raise TypeError(f"can't convert {t.layout} layout tensor to numpy. Use Tensor.to_dense() first.")
    if t._storage.stands and not t._storage.level.dead:
        raise RuntimeError(
            "Cannot access data pointer of Tensor that doesn't have storage: inside of grad() use .tolist() instead"
        )
    _demand_memory(t)
    if t.requires_grad and state.grad and not force:
        raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
    if is_conj(t) and not force:
        raise RuntimeError(
            "Can't call numpy() on Tensor that has conjugate bit set. Use tensor.resolve_conj().numpy() instead."
        )
    if is_neg(t) and not force:
        raise RuntimeError(
            "Can't call numpy() on Tensor that has negative bit set. Use tensor.resolve_neg().numpy() instead."
        )
    if t.device.type != "cpu" and not (force and t.device.type != "meta"):
        raise TypeError(
            f"can't convert {t.device} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host "
            f"memory first."
        )
    if t.dtype.np.kind == "V":
        raise TypeError(f"Got unsupported ScalarType {t.dtype.scalar_name}")
    if LENDING.note is None:
        shared = array_over(t)
        if shared is not None:
            return shared
    array = np.array(host(t))
    copied = t._storage.copied or (isinstance(t._storage.form, jax.Array | Pending) and has_gaps(t))
    if LENDING.note is None and copied:
        array.flags.writeable = False  # it is a copy: what is written there would be lost
    if LENDING.note is not None:
        LENDING.note(t, array)
    return array


class _Lending(threading.local):
    """``note(tensor, array)``: who in this thread wants to know of arrays that may be written to, or None."""

    note: Callable | None = None


LENDING = _Lending()


def item(t: Tensor) -> Any:
    """The Python number in a tensor with one element.

    >>> import torchlike as torch
    >>> torch.tensor([2.5]).item()
    2.5
    """
    found = at_hand(t, 1)
    if found is not None and found.size == 1:
        return found.item()
    if t.numel() != 1:
        raise RuntimeError(f"a Tensor with {t.numel()} elements cannot be converted to Scalar")
    if watched(t):
        return redispatch("_local_scalar_dense.default", t)
    if isinstance(t._storage.form, LevelValue):
        return t._storage.value.item()
    if t.is_quantized:
        return t.dequantize().item()
    if t.is_meta:
        raise RuntimeError("Tensor.item() cannot be called on meta tensors: they have no numbers")
    found = None if t._view is None or CAPTURES else _element(t)
    if found is None:
        found = host(t if t.ndim <= NUMPYS else t.reshape(()))
    return found.reshape(()).item()


def _element(t: Tensor) -> np.ndarray | None:
    """The one element of a view, out of its base's memory; None where the view has been read, or that is not the CPU's.

    Programs ask for the elements of a tensor one after the other: a kernel for each takes a hundred times as long.
    """
    storage, view = t._storage, t._view
    if view is None or view.dtype is not None or storage.strides is not None or storage.shared:
        return None
    if t._cache is not None and t._cache[0] == storage.epoch or is_conj(t) or is_neg(t):
        return None
    value = settled(storage.value) if isinstance(storage.value, Pending) else storage.value
    if not isinstance(value, jax.Array) or isinstance(value, jax.core.Tracer) or layout_of(value) is not None:
        return None
    if device_of(t) != _CPU:
        return None
    at = view.layout.offset
    return as_numpy(value).reshape(-1)[at : at + 1]


def tolist(t: Tensor) -> Any:
    """Nested lists of Python numbers (a number for a 0-dim tensor)."""
    if subclassed(t):
        raise RuntimeError(f".tolist() is not supported for tensor subclasses, got {type(t).__name__}")
    if t.is_quantized:
        raise RuntimeError(f"tolist(): it is not supported for {t.dtype}: use .dequantize() first")
    held = host(t if t.ndim <= NUMPYS else t.reshape(-1))
    items = held.tolist() if t.dtype.np.kind != "V" else held.astype(np.float64).tolist()
    return items if t.ndim <= NUMPYS else nested(items, tuple(t.shape))


def to_array(t: Tensor, dtype: Any = None, copy: Any = None) -> np.ndarray:
    """``numpy.asarray(tensor)``."""
    array = numpy(t)
    if dtype is None or array.dtype == dtype:
        return array.copy() if copy else array
    if copy is False:
        raise ValueError(f"Unable to avoid copy: a tensor of {t.dtype} is asked for as an array of {np.dtype(dtype)}")
    return array.astype(dtype)


def truth(t: Tensor) -> bool:
    if t.numel() != 1:
        what = "no values" if not t.numel() else "more than one value"
        raise RuntimeError(f"Boolean value of Tensor with {what} is ambiguous")
    return bool(t._storage.value if isinstance(t._storage.form, LevelValue) else item(t))


def index(t: Tensor) -> int:
    if t.numel() != 1 or t.dtype.is_floating_point or t.dtype.is_complex:
        raise TypeError("only integer tensors of a single element can be converted to an index")
    return int(item(t))


def _warn_of_grad(t: Tensor) -> None:
    if t.requires_grad and state.grad:
        warn_once(
            "Converting a tensor with requires_grad=True to a scalar may lead to unexpected behavior.\n"
            "Consider using tensor.detach() first.",
        )


def _python_number(t: Tensor, kind: type) -> Any:
    """``int(t)`` and ``float(t)``; a complex number must have no imaginary part."""
    if kind is float:
        _warn_of_grad(t)
    if t.numel() != 1:
        raise ValueError(f"only one element tensors can be converted to Python scalars, not {t.numel()} elements")
    number = item(t)
    if isinstance(number, complex):
        if number.imag:
            name = "int64_t" if kind is int else "double"
            raise RuntimeError(f"value cannot be converted to type {name} without overflow: it is {number}")
        number = number.real
    return kind(number)


def to_complex(t: Tensor) -> complex:
    _warn_of_grad(t)
    if t.numel() != 1:
        raise ValueError(f"only one element tensors can be converted to Python scalars, not {t.numel()} elements")
    return complex(item(t))


def formatted(t: Tensor, spec: str) -> str:
    """``format(t, spec)``: of a 0-dim tensor, its number's."""
    if t.ndim or t.is_meta or type(t) is not Tensor:
        return object.__format__(t, spec)
    return format(item(t), spec)


def from_ufunc(t: Tensor, array: Any, context: Any = None, return_scalar: bool = False) -> Tensor:
    """The result of a numpy function on a tensor, as a tensor (PyTorch's has no bools)."""
    array = np.asarray(array)
    return fresh(place(array.astype(np.uint8) if array.dtype == bool else array, None))


def jax_array(t: Tensor) -> jax.Array:
    """The value as a ``jax.Array``, without a copy (later in-place changes of the tensor do not reach it)."""
    if isinstance(t._storage.form, SparseValue):
        raise TypeError(f"jax() is not supported for tensors of layout {t.layout}; use .to_dense().jax()")
    if state.trace is not None:
        state.trace.read(t)
    return lent(array_of(t))


def _of_jax(x: Any) -> Any:
    return from_jax_array(x) if isinstance(x, jax.Array) else NotImplemented


def install() -> None:
    """Give Tensor its conversions."""
    Tensor.numpy, Tensor.item, Tensor.tolist, Tensor.jax = numpy, item, tolist, jax_array
    Tensor._host, Tensor.__array__ = host, to_array
    DOORS.foreign = _of_jax  # type: ignore[method-assign]
    Tensor.__bool__, Tensor.__index__ = truth, index
    Tensor.__nonzero__, Tensor.__long__ = lambda t: truth(t), lambda t: _python_number(t, int)  # type: ignore[attr-defined]
    Tensor.__float__ = lambda t: _python_number(t, float)  # type: ignore[arg-type]
    Tensor.__int__ = lambda t: _python_number(t, int)  # type: ignore[arg-type]
    Tensor.__complex__, Tensor.__array_wrap__ = to_complex, from_ufunc
    Tensor.__format__ = formatted  # type: ignore[assignment]
    Tensor.__dlpack__ = _dlpack
    Tensor.__dlpack_device__ = lambda t: settled(_known(t)).__dlpack_device__()  # type: ignore[arg-type]
    Tensor.__array_priority__ = 1000
