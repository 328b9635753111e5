"""Conversions: the part of Module that changes the dtype or the device of all its tensors."""

import warnings
from collections.abc import Callable
from typing import Any

from torchlike.__future__ import get_overwrite_module_params_on_conversion, get_swap_module_params_on_conversion
from torchlike._base.device import device as Device
from torchlike._base.state import no_grad
from torchlike._core.tensor.tensor import Tensor
from torchlike._functions.to_forms import parse_to
from torchlike.nn.parameter import Parameter
from torchlike.utils._swap import swap_tensors


class ConvertMethods:
    """The part of Module that converts its tensors.

    Requires ``_parameters``, ``_buffers`` and ``children()``.
    """

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True):
        """Replace each parameter, gradient and buffer by ``fn`` of it.

        A parameter and its gradient stay the objects that they are, unless their data goes to or comes from the device
        "meta", changes its layout, or ``torch.__future__.set_overwrite_module_params_on_conversion`` asks for others.
        ``torch.__future__.set_swap_module_params_on_conversion`` keeps them in all cases, and a parameter that wraps
        tensors, as a DTensor does, stays too.
        """
        if recurse:
            for module in self.children():
                module._apply(fn)
        for name, parameter in self._parameters.items():
            if parameter is not None:
                swaps = get_swap_module_params_on_conversion() or _wraps(parameter)
                self._parameters[name] = _swapped(self, name, fn) if swaps else _converted(parameter, fn)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def to(self, *args, **kwargs):
        """Move and cast the parameters and buffers, in place.

        Args (PyTorch's three forms, plus keyword ``memory_format`` for 4- and 5-dimensional tensors):
            device: where to; None leaves them.
            dtype: a floating point or complex dtype; integer tensors keep theirs.
            tensor: one whose dtype and device are taken.
            non_blocking: accepted; transfers are always asynchronous.

        Raises:
            TypeError: the dtype is an integer dtype or bool, or the arguments fit no form.

        >>> import torchlike as torch
        >>> torch.nn.Linear(1, 1).to(torch.float64).weight.dtype
        torch.float64
        """
        device, dtype, non_blocking, copy, memory_format = parse_to(args, kwargs)
        if copy:
            raise RuntimeError(".to() does not accept copy argument")
        if dtype is not None:
            if not (dtype.is_floating_point or dtype.is_complex):
                raise TypeError(
                    f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}"
                )
            if dtype.is_complex:
                warnings.warn(
                    "Complex modules are a new feature: some modules might not work as expected with complex tensors "
                    "as parameters or buffers.",
                    stacklevel=2,
                )

        def convert(t: Tensor) -> Tensor:
            wanted = dtype if t.is_floating_point() or t.is_complex() else None
            restride = memory_format is not None and t.dim() in (4, 5)
            extra = {"memory_format": memory_format} if restride else {}
            if device is None:
                return t.to(dtype=wanted, non_blocking=non_blocking, **extra)
            if t.is_meta and device.type != "meta":
                raise NotImplementedError(
                    "Cannot copy out of meta tensor; no data! Please use torch.nn.Module.to_empty() instead "
                    "of torch.nn.Module.to() when moving module from meta to a different device."
                )
            return t.to(device=device, dtype=wanted, non_blocking=non_blocking, **extra)

        return self._apply(convert)

    def to_empty(self, *, device, recurse: bool = True):
        """Give every tensor uninitialised storage on ``device``, without copying values."""
        return self._apply(lambda t: t.new_empty(t.shape, dtype=t.dtype, device=device), recurse=recurse)

    def type(self, dst_type):
        """Cast every parameter and buffer, integer ones too, to ``dst_type`` (a dtype or a tensor type)."""
        return self._apply(lambda t: t.type(dst_type))

    def float(self):
        """Cast the floating point parameters and buffers to float32."""
        return self._apply(lambda t: t.float() if t.is_floating_point() else t)

    def double(self):
        """Cast the floating point parameters and buffers to float64."""
        return self._apply(lambda t: t.double() if t.is_floating_point() else t)

    def half(self):
        """Cast the floating point parameters and buffers to float16."""
        return self._apply(lambda t: t.half() if t.is_floating_point() else t)

    def bfloat16(self):
        """Cast the floating point parameters and buffers to bfloat16."""
        return self._apply(lambda t: t.bfloat16() if t.is_floating_point() else t)

    def cpu(self):
        """Move the parameters and buffers to the CPU."""
        return self._apply(lambda t: t.cpu())

    def cuda(self, device: int | Device | None = None):
        """Move the parameters and buffers to a GPU."""
        return self._apply(lambda t: t.cuda(device))

    def xpu(self, device: int | Device | None = None):
        """Move the parameters and buffers to an XPU."""
        return self._to_kind("xpu", device)

    def ipu(self, device: int | Device | None = None):
        """Move the parameters and buffers to an IPU."""
        return self._to_kind("ipu", device)

    def mtia(self, device: int | Device | None = None):
        """Move the parameters and buffers to an MTIA device."""
        return self._to_kind("mtia", device)

    def _to_kind(self, kind: str, device):
        if device is None or isinstance(device, int):
            device = Device(kind) if device is None else Device(kind, device)
        return self._apply(lambda t: t.to(device))

    def share_memory(self):
        """Move parameters and buffers to memory that processes share, see :meth:`Tensor.share_memory_`. Returns self.

        RuntimeError for a lazy module that has not been called yet.
        """
        for held in (*self.parameters(), *self.buffers()):
            held.share_memory_()
        return self


def _converted(parameter: Parameter, fn: Callable) -> Parameter:
    """``parameter`` with what ``fn`` makes of its data, or another parameter where its data cannot become that."""
    old = parameter.grad
    with no_grad():
        new = fn(parameter)
        if parameter.requires_grad and not (new.is_floating_point() or new.is_complex()):
            raise RuntimeError(
                "data set to a tensor that requires gradients must be floating point or complex dtype, "
                f"not {new.dtype}: call requires_grad_(False) first"
            )
        grad = None if old is None else fn(old)
    if not _takes(parameter, new):
        parameter = Parameter(new, parameter.requires_grad)
    elif new is not parameter:
        parameter.grad = None  # before its dtype or device stops matching
        parameter.data = new
    if grad is not None:
        parameter.grad = _converted_grad(old, grad)
    return parameter


def _wraps(t: Tensor) -> bool:
    """Whether a tensor consists of others."""
    return hasattr(t, "_device_mesh") or hasattr(t, "__tensor_flatten__")


def _swapped(module: Any, name: str, fn: Callable) -> Parameter:
    """The parameter, which has become what ``fn`` makes of it, as has its gradient; RuntimeError where it is held."""
    parameter = module._parameters[name]
    old = parameter.grad
    with no_grad():
        made = Parameter(fn(parameter).detach(), parameter.requires_grad)
        grad = None if old is None else fn(old).detach()
    parameter.grad = None
    try:
        swap_tensors(parameter, made)
    except RuntimeError as error:
        parameter.grad = old
        raise RuntimeError(f"_apply(): Couldn't swap {type(module).__name__}.{name}") from error
    if grad is not None:
        swap_tensors(old, grad)
        parameter.grad = old
    return parameter


def _converted_grad(old: Tensor, new: Tensor) -> Tensor:
    if not _takes(old, new):
        return new.requires_grad_(old.requires_grad)
    if new is not old:
        old.data = new
    return old


def _takes(old: Tensor, new: Tensor) -> bool:
    """Whether ``new`` becomes the data of ``old``; else another tensor takes the place of ``old``."""
    alike = new.is_meta == old.is_meta and new.layout == old.layout
    return alike and not get_overwrite_module_params_on_conversion()
