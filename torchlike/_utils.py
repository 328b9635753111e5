"""``torch._utils``: what pickles of tensors call, and helpers that programs import from there."""

import importlib
import io
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import ModuleType
from typing import Any, NoReturn

import jax
import numpy as np

import torchlike._base.device as devices
import torchlike._base.dtypes as dtypes
from torchlike._base.home import OURS
from torchlike._base.qschemes import NAMED as QSCHEMES
from torchlike._base.qschemes import per_tensor_affine
from torchlike._base.state import state
from torchlike._core.autograd.fields import mark
from torchlike._core.conversion.convert import place
from torchlike._core.conversion.loaded import bytes_of, loaded_bytes, over_storage
from torchlike._core.dispatch.bind import FUNCTIONS
from torchlike._core.quantized.quantize import channels
from torchlike._core.quantized.value import Affine, demand_kind, tensor_of
from torchlike._core.sparse.construction import from_compressed, from_coordinates
from torchlike._core.tensor.memory_order import restride
from torchlike._core.tensor.tensor import COMPRESSED, Tensor, alias, fresh, sparse_coo
from torchlike._core.tensor.untyped_storage import TypedStorage, UntypedStorage

STORAGES = {
    "DoubleStorage": dtypes.STORED["float64"],
    "FloatStorage": dtypes.float32,
    "HalfStorage": dtypes.float16,
    "BFloat16Storage": dtypes.bfloat16,
    "LongStorage": dtypes.STORED["int64"],
    "IntStorage": dtypes.int32,
    "ShortStorage": dtypes.int16,
    "CharStorage": dtypes.int8,
    "ByteStorage": dtypes.uint8,
    "BoolStorage": dtypes.bool,
    "ComplexFloatStorage": dtypes.complex64,
    "ComplexDoubleStorage": dtypes.STORED["complex128"],
    "QInt8Storage": dtypes.qint8,
    "QInt32Storage": dtypes.qint32,
    "QUInt8Storage": dtypes.quint8,
    "QUInt4x2Storage": dtypes.quint4x2,
    "QUInt2x4Storage": dtypes.quint2x4,
}
"""The element types of the storages of PyTorch's files; other types lie in an UntypedStorage."""


# -- what pickles call ---------------------------------------------------------------------------------
def _load_from_bytes(b: bytes) -> Any:
    """What the file of ``torch.save`` holds that these bytes are."""
    return sys.modules[OURS].load(io.BytesIO(b), weights_only=False)


def _reduce_storage(self: TypedStorage) -> tuple[Any, ...]:
    """Pickles of PyTorch hold a file of the format before 1.6, which has names for these element types alone."""
    if self.dtype not in STORAGES.values():
        return loaded_bytes, bytes_of(self)
    file = io.BytesIO()
    sys.modules[OURS].save(self, file, _use_new_zipfile_serialization=False)
    return _load_from_bytes, (file.getvalue(),)


def _reduce_bytes(self: UntypedStorage) -> tuple[Any, ...]:
    return TypedStorage.untyped, (loaded_bytes(*bytes_of(self)),)


# Not in the classes' bodies, which know of no files.
TypedStorage.__reduce__ = _reduce_storage  # type: ignore[method-assign,assignment]
UntypedStorage.__reduce__ = _reduce_bytes  # type: ignore[method-assign,assignment]


def _rebuild_tensor(storage: TypedStorage, storage_offset: int, size: Sequence[int], stride: Sequence[int]) -> Tensor:
    """A tensor over a part of a storage, in elements of its dtype."""
    return over_storage(storage, storage.dtype, storage_offset, size, stride)


def _rebuild_tensor_v2(
    storage: TypedStorage,
    storage_offset: int,
    size: Sequence[int],
    stride: Sequence[int],
    requires_grad: bool,
    backward_hooks: Any,
    metadata: dict[str, bool] | None = None,
) -> Tensor:
    """As :func:`_rebuild_tensor`; ``metadata`` says whether it is a conjugate or negative view."""
    return _rebuilt(storage, getattr(storage, "dtype", None), storage_offset, size, stride, requires_grad, metadata)


def _rebuild_tensor_v3(
    storage: UntypedStorage | TypedStorage,
    storage_offset: int,
    size: Sequence[int],
    stride: Sequence[int],
    requires_grad: bool,
    backward_hooks: Any,
    dtype: dtypes.dtype,
    metadata: dict[str, bool] | None = None,
) -> Tensor:
    """As :func:`_rebuild_tensor_v2`, over a storage of bytes."""
    return _rebuilt(storage, dtype, storage_offset, size, stride, requires_grad, metadata)


def _rebuild_sparse_tensor(layout: Any, data: tuple[Any, ...], *, check: bool = True) -> Tensor:
    """A sparse tensor of its parts: indices, values and size, or those of a compressed one; they are checked."""
    if layout is sparse_coo:
        indices, values, size, *rest = data
        coalesced = bool(rest and rest[0])
        return from_coordinates(indices, values, size, None, None, False, check, coalesced)
    if layout not in COMPRESSED:
        raise NotImplementedError(f"a file holds a tensor of layout {layout}, which is not supported")
    compressed, plain, values, size = data
    return from_compressed(layout, compressed, plain, values, size, None, None, False, check)


def _rebuild_qtensor(
    storage: Any, storage_offset: int, size: Any, stride: Any, quantizer_params: Any, requires_grad: bool,
    backward_hooks: Any,
) -> Tensor:  # fmt: skip
    """A quantized tensor over a storage of its integers, by (scheme, scale, zero point) and the axis, if any."""
    scheme, scale, zero_point, *axis = quantizer_params
    if not isinstance(storage, TypedStorage) or scheme not in QSCHEMES.values():
        raise RuntimeError("a file holds a quantized tensor whose storage or scheme is not one")
    codes = over_storage(storage, demand_kind("_rebuild_qtensor", storage.dtype), storage_offset, size, stride)
    if scheme is per_tensor_affine:
        return tensor_of(codes, Affine(float(scale), int(zero_point)))
    return tensor_of(codes, channels("_rebuild_qtensor", scale, zero_point, axis[0], codes.shape))


def _rebuilt(
    storage: Any, dtype: Any, offset: Any, size: Any, stride: Any, requires_grad: Any, marks: dict[str, bool] | None
) -> Tensor:
    if not isinstance(storage, TypedStorage | UntypedStorage):
        raise TypeError(f"a tensor needs a storage, not {type(storage).__name__}")
    if not isinstance(storage, TypedStorage | UntypedStorage):
        raise TypeError(f"a tensor needs a storage, not {type(storage).__name__}")
    t = over_storage(storage, dtype, offset, size, stride)
    if marks and marks.get("conj"):
        t = alias(t.conj())
    if marks and marks.get("neg"):
        t = alias(t._neg_view())
    if state.dispatch_modes:
        t = _told(t)
    return mark(t, True) if requires_grad else t


def _told(t: Tensor) -> Tensor:
    """``t``, or the fake tensor that a mode wants in its place."""
    for mode in reversed(state.dispatch_modes):
        if getattr(mode, "draws_nothing", False):
            return mode.from_tensor(t)
    return t


def _rebuild_meta_tensor_no_storage(
    dtype: dtypes.dtype, size: Sequence[int], stride: Sequence[int], requires_grad: bool
) -> Tensor:
    """A tensor on meta."""
    t = fresh(place(np.broadcast_to(np.zeros((), dtype.np), tuple(size)), devices.META))
    if t.stride() != tuple(stride):
        restride(t, tuple(stride))
    return mark(t, True) if requires_grad else t


_PLACE: ContextVar[Any] = ContextVar("place", default=None)


@contextmanager
def placing(place: Callable[[UntypedStorage, str], UntypedStorage]) -> Iterator[None]:
    """A context in which wrappers are rebuilt where ``place`` puts a storage that was saved where they were."""
    token = _PLACE.set(place)
    try:
        yield
    finally:
        _PLACE.reset(token)


def _rebuild_wrapper_subclass(
    cls: Any, dtype: dtypes.dtype, size: Sequence[int], stride: Sequence[int], storage_offset: int, layout: Any,
    device: Any, requires_grad: bool,
) -> Tensor:  # fmt: skip
    """A tensor of ``cls`` without values, as ``_make_wrapper_subclass`` makes it; what it wraps is its state."""
    place = _PLACE.get()
    if place is not None:
        device = place(UntypedStorage(0), str(device)).device
    return cls._make_wrapper_subclass(
        cls, tuple(size), strides=tuple(stride), storage_offset=storage_offset, layout=layout, dtype=dtype,
        device=device, requires_grad=requires_grad,
    )  # fmt: skip


def _parameter_class() -> Any:
    return importlib.import_module("torchlike.nn.parameter").Parameter  # which is above this module


def _rebuild_parameter(data: Tensor, requires_grad: bool, backward_hooks: Any) -> Tensor:
    """A Parameter over ``data``."""
    return _parameter_class()(data, bool(requires_grad))


def _rebuild_parameter_with_state(data: Tensor, requires_grad: bool, backward_hooks: Any, state: Any) -> Tensor:
    """A Parameter over ``data``, with attributes."""
    return _set_obj_state(_parameter_class()(data, bool(requires_grad)), state)


def _set_obj_state(obj: Any, state: Any) -> Any:
    """Set attributes (a dict), or attributes and slots (a pair of dicts or None), of ``obj``."""
    attributes, slots = state if isinstance(state, tuple) else (state, None)
    if isinstance(state, tuple) and len(state) != 2:
        raise RuntimeError(f"the state of a {type(obj).__name__} is a dict or a pair of dicts, not {state!r}")
    for name, value in (attributes or {}).items():
        setattr(obj, name, value)
    for name, value in (slots or {}).items():
        setattr(obj, name, value)
    return obj


# -- helpers -------------------------------------------------------------------------------------------
def _element_size(dtype: dtypes.dtype) -> int:
    """The bytes of an element."""
    if not isinstance(dtype, dtypes.dtype):
        raise RuntimeError(f"expected torch.dtype, but got {type(dtype)}")
    return dtype.itemsize


def _import_dotted_name(name: str) -> Any:
    """What a dotted name says."""
    first, *parts = name.split(".")
    found: Any = importlib.import_module(first)
    for part in parts:
        found = getattr(found, part)
    return found


def _flatten_dense_tensors(tensors: Sequence[Tensor]) -> Tensor:
    """One tensor of one dimension with the elements of all."""
    flat = [t.contiguous().view(-1) for t in tensors]
    return flat[0] if len(flat) == 1 else FUNCTIONS["cat"](flat)


def _unflatten_dense_tensors(flat: Tensor, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Views of ``flat`` with the shapes of ``tensors``, in their order."""
    parts, start = [], 0
    for t in tensors:
        parts.append(flat.narrow(0, start, t.numel()).view(t.shape))
        start += t.numel()
    return tuple(parts)


def _take_tensors(tensors: Iterable[Tensor], size_limit: int) -> Iterator[list[Tensor]]:
    """Groups of tensors of one type, each of at most ``size_limit`` bytes, a tensor that is larger alone.

    A group comes when the next tensor of its type would not fit; those that are left come last.

    >>> import torchlike as torch
    >>> [len(group) for group in torch._utils._take_tensors([torch.ones(2)] * 3, 16)]
    [2, 1]
    """
    groups: dict[str, tuple[list[Tensor], int]] = {}
    for t in tensors:
        group, size = groups.get(t.type(), ([], 0))
        nbytes = t.numel() * t.element_size()
        if size and size + nbytes > size_limit:
            yield group
            group, size = [], 0
        groups[t.type()] = [*group, t], size + nbytes
    yield from (group for group, _ in groups.values() if group)


def _get_available_device_type() -> str | None:
    """cuda or tpu where jax has a GPU or TPU, else None."""
    return next((kind for kind in ("cuda", "tpu") if devices.is_present(kind)), None)


def _get_device_module(device_type: str) -> ModuleType:
    """The module of a type of devices, such as ``torch.cuda``; RuntimeError where it has none."""
    if device_type not in ("cpu", "cuda", "mps", "mtia", "xpu"):
        raise RuntimeError(
            f"Device '{device_type}' does not have a corresponding module registered as 'torch.{device_type}'."
        )
    return importlib.import_module(f"{__name__.partition('.')[0]}.{device_type}")


def _get_all_device_indices() -> list[int] | None:
    """The indices of the accelerators; None without one."""
    kind = _get_available_device_type()
    return None if kind is None else list(range(jax.local_device_count()))


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    """The index of an accelerator, given as a number, a name, a device, or (if ``optional``) None.

    ValueError for the CPU, unless ``allow_cpu``: then -1.
    """
    if isinstance(device, int):
        return device
    if device is None:
        if optional:
            return 0
        raise ValueError(f"Expected a torch.device with a specified index or an integer, but got: {device}")
    found = devices.as_device(device)
    if found.type == "cpu":
        if allow_cpu:
            return -1
        raise ValueError(f"Expected a non cpu device, but got: {found}")
    if found.index is None and not optional:
        raise ValueError(f"Expected a torch.device with a specified index or an integer, but got: {device}")
    return found.index or 0


# -- exceptions of other processes and threads -------------------------------------------------------------
class KeyErrorMessage(str):
    """A text whose repr, which a KeyError shows, has lines."""

    def __repr__(self) -> str:
        return str(self)


class ExceptionWrapper:
    """An exception on its way to where it is raised again: its type, and a message with its traceback.

    Args:
        exc_info: as ``sys.exc_info()`` gives it, which is asked by default. where: what the message says of the place.
    """

    def __init__(self, exc_info: Any = None, where: str = "in background") -> None:
        exc_info = sys.exc_info() if exc_info is None else exc_info
        self.exc_type: Any = exc_info[0]
        self.exc_msg = "".join(traceback.format_exception(*exc_info))
        self.where = where

    def reraise(self) -> NoReturn:
        """Raise an exception of that type; a RuntimeError where it cannot be made of a message."""
        message = f"Caught {self.exc_type.__name__} {self.where}.\nOriginal {self.exc_msg}"
        if self.exc_type is KeyError:
            message = KeyErrorMessage(message)
        elif getattr(self.exc_type, "message", None):
            raise self.exc_type(message=message)
        try:
            error = self.exc_type(message)
        except Exception:
            raise RuntimeError(message) from None
        raise error
