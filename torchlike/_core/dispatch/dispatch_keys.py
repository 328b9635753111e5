"""The names of dispatch keys."""

import enum

DEVICES = {
    "cpu": "CPU", "cuda": "CUDA", "xla": "XLA", "tpu": "XLA", "meta": "Meta", "mps": "MPS", "xpu": "XPU", "hpu": "HPU",
    "ipu": "IPU", "ve": "VE", "lazy": "Lazy", "mtia": "MTIA", "maia": "MAIA", "vulkan": "Vulkan", "fpga": "FPGA",
    "privateuseone": "PrivateUse1", "hip": "HIP", "mkldnn": "MkldnnCPU", "opengl": "OpenGL", "opencl": "OpenCL",
    "ideep": "IDEEP",
}  # fmt: skip

EXPLICIT, IMPLICIT = "CompositeExplicitAutograd", "CompositeImplicitAutograd"
AUTOGRAD = {"Autograd", "AutogradOther", *(f"Autograd{k}" for k in DEVICES.values())}
USED = {*DEVICES.values(), EXPLICIT, IMPLICIT, *AUTOGRAD, "CompositeExplicitAutogradNonFunctional"}
# Layers that have no counterpart here, or whose kernels do not come through a Library.
UNUSED = {
    "ADInplaceOrView", "BackendSelect", "Python", "PythonDispatcher", "PreDispatch", "PythonTLSSnapshot",
    "Functionalize", "Conjugate", "Negative", "ZeroTensor", "Tracer", "FuncTorchBatched", "FuncTorchGradWrapper",
    "FuncTorchVmapMode", "FuncTorchBatchedDecomposition", "Batched", "VmapMode", "BatchedNestedTensor",
    "AutogradFunctionality", "FuncTorchDynamicLayerFrontMode", "FuncTorchDynamicLayerBackMode", "AutogradNestedTensor",
    "NestedTensor", "NestedTensorCPU", "NestedTensorCUDA", "Dense", "Quantized", "QuantizedCPU", "QuantizedCUDA",
    "Sparse", "SparseCPU", "SparseCUDA", "SparseCsrCPU", "SparseCsrCUDA", "CustomRNGKeyId", "Named", "Undefined",
    "TESTING_ONLY_GenericWrapper", "TESTING_ONLY_GenericMode", "CompositeImplicitAutogradNestedTensor",
    *(f"Autocast{k}" for k in DEVICES.values()),
}  # fmt: skip
KNOWN = frozenset(USED | UNUSED)

DispatchKey = enum.Enum("DispatchKey", sorted(KNOWN), module="torch._C")
