"""Dispatch keys: the names under which kernels are registered, and those that stand for devices."""

from collections.abc import Sequence

_DEVICES = {
    "cpu": "CPU", "cuda": "CUDA", "xla": "XLA", "tpu": "XLA", "meta": "Meta", "mps": "MPS", "xpu": "XPU", "hpu": "HPU",
    "ipu": "IPU", "ve": "VE", "lazy": "Lazy", "mtia": "MTIA", "maia": "MAIA", "vulkan": "Vulkan", "fpga": "FPGA",
    "privateuseone": "PrivateUse1", "hip": "HIP", "mkldnn": "MkldnnCPU", "opengl": "OpenGL", "opencl": "OpenCL",
    "ideep": "IDEEP",
}  # fmt: skip

EXPLICIT, IMPLICIT = "CompositeExplicitAutograd", "CompositeImplicitAutograd"
_AUTOGRAD = {"Autograd", "AutogradOther", *(f"Autograd{k}" for k in _DEVICES.values())}
_USED = {*_DEVICES.values(), EXPLICIT, IMPLICIT, *_AUTOGRAD, "CompositeExplicitAutogradNonFunctional"}
# Layers that have no counterpart here, or whose kernels do not come through a Library.
_UNUSED = {
    "ADInplaceOrView", "BackendSelect", "Python", "PythonDispatcher", "PreDispatch", "PythonTLSSnapshot",
    "Functionalize", "Conjugate", "Negative", "ZeroTensor", "Tracer", "FuncTorchBatched", "FuncTorchGradWrapper",
    "FuncTorchVmapMode", "FuncTorchBatchedDecomposition", "Batched", "VmapMode", "BatchedNestedTensor",
    "AutogradFunctionality", "FuncTorchDynamicLayerFrontMode", "FuncTorchDynamicLayerBackMode", "AutogradNestedTensor",
    "NestedTensor", "NestedTensorCPU", "NestedTensorCUDA", "Dense", "Quantized", "QuantizedCPU", "QuantizedCUDA",
    "Sparse", "SparseCPU", "SparseCUDA", "SparseCsrCPU", "SparseCsrCUDA", "CustomRNGKeyId", "Named", "Undefined",
    "TESTING_ONLY_GenericWrapper", "TESTING_ONLY_GenericMode", "CompositeImplicitAutogradNestedTensor",
    *(f"Autocast{k}" for k in _DEVICES.values()),
}  # fmt: skip
KNOWN = frozenset(_USED | _UNUSED)


def of_device(device_type: str) -> str:
    """The key of a type of device; RuntimeError for a name that is none."""
    found = _DEVICES.get(device_type)
    if found is None:
        names = ", ".join(name for name in _DEVICES)
        raise RuntimeError(f"Expected one of {names} device type at start of device string: {device_type}")
    return found


def parsed(name: str) -> str:
    """``name`` if it is a key; RuntimeError else."""
    if name not in KNOWN:
        raise RuntimeError(
            f"could not parse dispatch key: {name} (a device's is spelt CPU, CUDA or Meta; see also Autograd)"
        )
    return name


def demand_used(name: str, operator: str) -> None:
    """NotImplementedError for a key whose layer torchlike does not let kernels be registered with."""
    if name in _UNUSED:
        hint = ""
        if name.startswith("Autocast"):
            hint = "; autocast is a later addition"
        elif name == "FuncTorchBatched":
            hint = "; use torch.library.register_vmap()"
        elif name == "Python":
            hint = "; use torch.library.register_torch_dispatch()"
        raise NotImplementedError(f"{operator}: kernels for the dispatch key {name} are not supported{hint}")


def names(types: str | Sequence[str]) -> list[str]:
    """The keys of device types; ``default`` stands for all."""
    chosen = [types] if isinstance(types, str) else list(types)
    return [EXPLICIT if t == "default" else t if t in KNOWN else of_device(t) for t in chosen]
