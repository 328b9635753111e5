"""Wrapper subclasses: tensors with a shape, dtype and device, whose numbers are what their class makes of them."""

from typing import Any

import jax

import torchlike._base.device as devices
import torchlike._base.dtypes as dtypes
from torchlike._aten.python_dispatch import _disabled_torch_dispatch_impl, count, has_dispatch
from torchlike._aten.size_policy import ask
from torchlike._base.layout import Layout, contiguous_strides
from torchlike._base.state import state
from torchlike._core.autograd.fields import mark
from torchlike._core.conversion.factories import checked_size
from torchlike._core.tensor import arguments
from torchlike._core.tensor.storage import UNTRACKED, Outer, holding
from torchlike._core.tensor.tensor import Tensor
from torchlike._core.tensor.views import View
from torchlike._executor.immediate import Abstract


def _make_wrapper_subclass(
    cls: type, size: Any, strides: Any = None, storage_offset: Any = None, memory_format: Any = None, dtype: Any = None,
    layout: Any = None, device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
    dispatch_sizes_strides_policy: Any = None, dispatch_device: bool = False, dispatch_layout: bool = False,
    _extra_dispatch_keys: Any = None, storage_size: Any = None,
) -> Any:  # fmt: skip
    """A tensor of class ``cls`` without values: ``__torch_dispatch__`` of the class computes with what it wraps.

    Args:
        size, strides: the shape, and the strides it reports (default: contiguous). dtype: default: the default dtype.
        device: default: the default device. requires_grad: whether it is a leaf of autograd.
        dispatch_sizes_strides_policy: ``"strides"`` if ``__torch_dispatch__`` is asked for the strides that it reports,
            ``"sizes"`` if for sizes too. dispatch_device, dispatch_layout: whether it is asked for those, with
            ``torch.ops.prim.device`` and ``torch.ops.prim.layout``.

    Raises:
        TypeError: ``cls`` is no subclass of Tensor, or has no ``__torch_dispatch__``; ``size`` is no sequence of ints.
        RuntimeError: strides of another length than the size; requires_grad for a dtype without gradients.

    >>> import torchlike as torch
    >>> class Wrapper(torch.Tensor):
    ...     @classmethod
    ...     def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
    ...         return NotImplemented
    >>> torch.Tensor._make_wrapper_subclass(Wrapper, (2, 3)).shape
    torch.Size([2, 3])
    """
    if not isinstance(cls, type) or not issubclass(cls, Tensor):
        raise TypeError(
            "Creating a Tensor subclass from a class that does not inherit from Tensor is not possible. Make sure your "
            f"class inherits from Tensor: {cls!r} does not."
        )
    if not has_dispatch(cls):
        raise TypeError(f"{cls.__name__} must define __torch_dispatch__: a wrapper has no values of its own")
    if not isinstance(size, list | tuple):
        given = type(size).__name__
        raise TypeError(f"_make_wrapper_subclass(): argument 'size' (position 2) must be tuple of ints, not {given}")
    shape = checked_size("_make_wrapper_subclass", size)
    kind = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    t = object.__new__(cls)
    t._storage = t._vc = holding(_outer(shape, kind, device))
    t._rg = False
    t._view = t._cache = t._edge = t._grad = t._acc = t._diff = t._ex = None
    if state.inference:
        t._vc = UNTRACKED
    _lay_out(t, shape, strides, storage_offset)
    if requires_grad:
        mark(t, True)
    return count(ask(t, dispatch_sizes_strides_policy, dispatch_device, dispatch_layout))


def _outer(shape: tuple, kind: Any, device: Any) -> Any:
    device = devices.default_device() if device is None else devices.as_device(device)
    if device.type == "meta":
        return Abstract(shape, kind.np)
    return Outer(shape, kind.np, jax.sharding.SingleDeviceSharding(devices.jax_device(device)))


def _lay_out(t: Any, shape: tuple, strides: Any, offset: Any) -> None:
    """Give a wrapper the strides it reports."""
    if strides is None and not offset:
        return
    strides = (
        contiguous_strides(shape)
        if strides is None
        else arguments.as_ints("_make_wrapper_subclass", "strides", strides)
    )
    if len(strides) != len(shape):
        raise RuntimeError(
            f"dimensionality of sizes ({len(shape)}) must match dimensionality of strides ({len(strides)})"
        )
    if tuple(strides) != contiguous_strides(shape) or offset:
        t._storage.strides = tuple(strides)
        t._view = View((), (), Layout(shape, tuple(strides), offset or 0))


Tensor._make_wrapper_subclass = staticmethod(_make_wrapper_subclass)
Tensor.__torch_dispatch__ = _disabled_torch_dispatch_impl
