"""Memory of tensors that other processes or devices could reach, and settings of old."""

import importlib
import warnings

import torchlike._base.device as devices
import torchlike._core.tensor.process_memory as process_memory
from torchlike._base.dtypes import TENSOR_TYPES
from torchlike._base.once import warn_once
from torchlike._base.volatile import volatile
from torchlike._core.tensor.host_memory import demand_accelerator
from torchlike._core.tensor.tensor import Tensor
from torchlike._core.tensor.untyped_storage import untyped_storage
from torchlike._decl.settings import set_default_dtype
from torchlike._functions._install import function, method


@method()
def share_memory_(self):
    """The tensor itself, its numbers in memory that processes share: what one of them writes, the others read.

    That is so for processes that are forked, and for those that it is sent to by ``multiprocessing``. Where memory
    cannot be shared (on Windows) they get copies, and a warning says so.

    >>> import torchlike as torch
    >>> torch.ones(2).share_memory_().is_shared()
    True
    """
    storage = untyped_storage(self).share_memory_()._storage
    if process_memory.file_of(storage) is None and self.device.type == "cpu" and self.numel():
        warn_once(
            "share_memory_(): other processes get copies of the tensor here; what one of them changes, the others do "
            "not see. Send results back through a queue instead.",
        )
    importlib.import_module("torchlike.multiprocessing")  # which says how tensors are sent, and loads slowly
    return self


@method()
@volatile
def is_shared(self):
    """Whether the tensor's memory is shared by :meth:`share_memory_`, or it is not on the CPU."""
    return self.device.type == "cuda" or untyped_storage(self).is_shared()


@method()
def pin_memory(self, device=None):
    """The tensor itself where there is an accelerator, for which jax stages copies by itself.

    RuntimeError where there is none, or the tensor is not on the CPU.
    """
    demand_accelerator()
    if self.device.type != "cpu":
        raise RuntimeError(f"cannot pin '{self.type()}' only dense CPU tensors can be pinned")
    untyped_storage(self)
    return self


@method()
def is_pinned(self, device=None):
    """False: jax stages its own copies."""
    return False


def _type_name(t):
    return t.tensor_type if isinstance(t, type) and hasattr(t, "tensor_type") else t


_tensor_type = {"device": "cpu"}


def tensor_type_device() -> str:
    """The device type of the default tensor type, which ``set_default_device`` leaves alone.

    >>> import torchlike as torch
    >>> torch._C._get_default_device()
    'cpu'
    """
    return _tensor_type["device"]


@function()
def set_default_tensor_type(t, /):
    """Set the default dtype, and the device of new tensors, from a tensor type such as ``torch.DoubleTensor``.

    Deprecated, as in PyTorch. TypeError for types that are not floating, and for those of an absent device.

    >>> import warnings, torchlike as torch
    >>> with warnings.catch_warnings(action="ignore"):
    ...     torch.set_default_tensor_type("torch.FloatTensor")
    """
    name = _type_name(t)
    parts = name.split(".") if isinstance(name, str) else []
    place = parts[1] if len(parts) == 3 else "cpu"
    dtype = TENSOR_TYPES.get(parts[-1]) if parts[:1] == ["torch"] else None
    if dtype is None:
        raise TypeError("invalid type object: only floating-point types are supported as the default type")
    if not dtype.is_floating_point:
        raise TypeError("only floating-point types are supported as the default type")
    if place != "cpu" and not devices.is_present(place):
        raise TypeError(
            f"type {name} not available. Torch not compiled with {place.upper()} enabled: jax has no such device here"
        )
    warnings.warn(
        "torch.set_default_tensor_type() is deprecated as of PyTorch 2.1, please use torch.set_default_dtype() and "
        "torch.set_default_device() as alternatives.",
        UserWarning,
        stacklevel=2,
    )
    set_default_dtype(dtype)
    devices.set_default_device(None if place == "cpu" else place)
    _tensor_type["device"] = place


Tensor.is_xla = property(lambda self: self.device.type in ("tpu", "xla"))
Tensor.is_ipu = Tensor.is_mtia = Tensor.is_maia = property(lambda self: False)
