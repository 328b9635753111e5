"""The names of dispatch keys."""

from __future__ import annotations

import enum

DEVICES = {
    "cpu": "CPU", "cuda": "CUDA", "xla": "XLA", "tpu": "XLA", "meta": "Meta", "mps": "MPS", "xpu": "XPU", "hpu": "HPU",
    "ipu": "IPU", "ve": "VE", "lazy": "Lazy", "mtia": "MTIA", "maia": "MAIA", "vulkan": "Vulkan", "fpga": "FPGA",
    "privateuseone": "PrivateUse1", "hip": "HIP", "mkldnn": "MkldnnCPU", "opengl": "OpenGL", "opencl": "OpenCL",
    "ideep": "IDEEP",
}  # fmt: skip

EXPLICIT, IMPLICIT = "CompositeExplicitAutograd", "CompositeImplicitAutograd"
AUTOGRAD = {"Autograd", "AutogradOther", *(f"Autograd{k}" for k in DEVICES.values())}
AUTOCAST = {f"Autocast{k}" for k in DEVICES.values()}
USED = {
    *DEVICES.values(), EXPLICIT, IMPLICIT, *AUTOGRAD, *AUTOCAST, "CompositeExplicitAutogradNonFunctional", "ZeroTensor",
}  # fmt: skip
# Layers that have no counterpart here, or whose kernels do not come through a Library.
UNUSED = {
    "ADInplaceOrView", "BackendSelect", "Python", "PythonDispatcher", "PreDispatch", "PythonTLSSnapshot",
    "Functionalize", "Conjugate", "Negative", "Tracer", "FuncTorchBatched", "FuncTorchGradWrapper",
    "FuncTorchVmapMode", "FuncTorchBatchedDecomposition", "Batched", "VmapMode", "BatchedNestedTensor",
    "AutogradFunctionality", "FuncTorchDynamicLayerFrontMode", "FuncTorchDynamicLayerBackMode", "AutogradNestedTensor",
    "NestedTensor", "NestedTensorCPU", "NestedTensorCUDA", "Dense", "Quantized", "QuantizedCPU", "QuantizedCUDA",
    "Sparse", "SparseCPU", "SparseCUDA", "SparseCsrCPU", "SparseCsrCUDA", "CustomRNGKeyId", "Named", "Undefined",
    "TESTING_ONLY_GenericWrapper", "TESTING_ONLY_GenericMode", "CompositeImplicitAutogradNestedTensor",
}  # fmt: skip
KNOWN = frozenset(USED | UNUSED)

DispatchKey = enum.Enum("DispatchKey", sorted(KNOWN), module="torch._C")


class DispatchKeySet:
    """Dispatch keys, without order.

    >>> import torchlike as torch
    >>> keys, key = torch._C.DispatchKeySet, torch._C.DispatchKey
    >>> keys(key.AutocastCPU) | keys(key.AutocastCUDA)
    DispatchKeySet(AutocastCPU, AutocastCUDA)
    """

    __slots__ = ("keys",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, *keys: enum.Enum) -> None:
        self.keys = frozenset(keys)

    def __or__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(*self.keys | other.keys)

    def __and__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(*self.keys & other.keys)

    def __sub__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(*self.keys - other.keys)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DispatchKeySet) and self.keys == other.keys

    def has(self, key: enum.Enum) -> bool:
        """Whether ``key`` is one of these."""
        return key in self.keys

    def add(self, key: enum.Enum) -> DispatchKeySet:
        """These and ``key``."""
        return DispatchKeySet(*self.keys, key)

    def remove(self, key: enum.Enum) -> DispatchKeySet:
        """These without ``key``."""
        return DispatchKeySet(*self.keys - {key})

    def __repr__(self) -> str:
        return f"DispatchKeySet({', '.join(sorted(k.name for k in self.keys))})"
