"""Tensor and storage types of GPUs, and errors."""

from typing import Any, NoReturn

from torchlike._base.exhausted import OutOfMemoryError as OutOfMemoryError
from torchlike._functions.legacy import tensor_types
from torchlike._utils import STORAGES
from torchlike.cuda._devices import demand
from torchlike.storage import TypedStorage


class AcceleratorError(RuntimeError):
    """A device failed."""


class CudaError(RuntimeError):
    """A call of CUDA failed."""


class DeferredCudaCallError(Exception):
    """A call that waited for CUDA failed."""


TENSORS = tensor_types("torch.cuda", "cuda")
globals().update(TENSORS)


class _StorageMeta(type):
    dtype: Any

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, TypedStorage) and x.dtype is cls.dtype and x.is_cuda

    def __call__(cls, *args: Any, **kwargs: Any) -> TypedStorage:
        demand()
        return TypedStorage(*args, dtype=cls.dtype, device="cuda", **kwargs)


def _not_on_gpus(name: str) -> Any:
    def refused(cls: Any, *args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(f"{name}: Not available for CUDA storage")

    return classmethod(refused)


_BODY = {name: _not_on_gpus(name) for name in ("from_buffer", "_new_with_weak_ptr", "_new_shared_filename")}
STORAGE_TYPES = {
    name: _StorageMeta(
        name, (TypedStorage,), {**_BODY, "dtype": kind, "__module__": "torch.cuda", "__doc__": f"{kind} on a GPU."}
    )
    for name, kind in STORAGES.items()
}
globals().update(STORAGE_TYPES)

has_half = True
has_magma = False
default_generators: tuple = ()


def _without(name: str) -> Any:
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        demand()
        raise NotImplementedError(f"torch.cuda.{name}: XLA keeps it to itself")

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = "AssertionError without a GPU, NotImplementedError with one."
    return refuse


for _name in ("cudart", "current_blas_handle", "current_solver_handle", "get_stream_from_external", "ExternalStream",
              "check_error"):  # fmt: skip
    globals()[_name] = _without(_name)

NAMES = [
    *TENSORS, *STORAGE_TYPES, "AcceleratorError", "CudaError", "DeferredCudaCallError", "ExternalStream",
    "OutOfMemoryError", "check_error", "cudart", "current_blas_handle", "current_solver_handle",
    "default_generators", "get_stream_from_external", "has_half", "has_magma",
]  # fmt: skip
