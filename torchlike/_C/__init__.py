"""torch._C: those of PyTorch's internal names that have a meaning here."""

from torchlike.__config__ import show as _show_config
from torchlike._aten.python_dispatch import DisableTorchDispatch as _DisableTorchDispatch
from torchlike._aten.python_dispatch import _disabled_torch_dispatch_impl as _disabled_torch_dispatch_impl
from torchlike._aten.tags import Tag as Tag
from torchlike._base.device import device as device
from torchlike._base.dtypes import dtype as dtype
from torchlike._base.state import inference_mode as _InferenceMode
from torchlike._base.state import is_grad_enabled as is_grad_enabled
from torchlike._base.state import is_inference_mode_enabled as is_inference_mode_enabled
from torchlike._base.state import is_multithreading_enabled as _is_multithreading_enabled
from torchlike._C import _autograd as _autograd
from torchlike._C import _cpu as _cpu
from torchlike._C import _distributed_rpc as _distributed_rpc
from torchlike._C import _functions as _functions
from torchlike._C import _functorch as _functorch
from torchlike._C import _nn as _nn
from torchlike._C._convolutions import _ConvBackend as _ConvBackend
from torchlike._C._convolutions import _select_conv_backend as _select_conv_backend
from torchlike._C._rare import Block as Block
from torchlike._C._rare import ScriptObject as ScriptObject
from torchlike._C._rare import _are_functorch_transforms_active as _are_functorch_transforms_active
from torchlike._C._rare import _cuda_clearCublasWorkspaces as _cuda_clearCublasWorkspaces
from torchlike._C._rare import (
    _debug_only_are_vmap_fallback_warnings_enabled as _debug_only_are_vmap_fallback_warnings_enabled,
)
from torchlike._C._rare import _debug_only_display_vmap_fallback_warnings as _debug_only_display_vmap_fallback_warnings
from torchlike._C._rare import _DisableFuncTorch as _DisableFuncTorch
from torchlike._C._rare import _DisablePythonDispatcher as _DisablePythonDispatcher
from torchlike._C._rare import _dispatch_isTensorSubclassLike as _dispatch_isTensorSubclassLike
from torchlike._C._rare import _EnablePythonDispatcher as _EnablePythonDispatcher
from torchlike._C._rare import _get_accelerator as _get_accelerator
from torchlike._C._rare import _get_cudnn_enabled as _get_cudnn_enabled
from torchlike._C._rare import _get_privateuse1_backend_name as _get_privateuse1_backend_name
from torchlike._C._rare import _infer_size as _infer_size
from torchlike._C._rare import _is_alias_of as _is_alias_of
from torchlike._C._rare import _overlaps as _overlaps
from torchlike._C._rare import _TensorMeta as _TensorMeta
from torchlike._C._references import _WeakTensorRef as _WeakTensorRef
from torchlike._C._switches import _ExcludeDispatchKeyGuard as _ExcludeDispatchKeyGuard
from torchlike._C._switches import _jit_can_fuse_on_cpu as _jit_can_fuse_on_cpu
from torchlike._C._switches import _jit_can_fuse_on_gpu as _jit_can_fuse_on_gpu
from torchlike._C._switches import _jit_clear_class_registry as _jit_clear_class_registry
from torchlike._C._switches import _jit_get_emit_hooks as _jit_get_emit_hooks
from torchlike._C._switches import _jit_override_can_fuse_on_cpu as _jit_override_can_fuse_on_cpu
from torchlike._C._switches import _jit_override_can_fuse_on_gpu as _jit_override_can_fuse_on_gpu
from torchlike._C._switches import _jit_set_autocast_mode as _jit_set_autocast_mode
from torchlike._C._switches import _jit_set_emit_hooks as _jit_set_emit_hooks
from torchlike._C._switches import _jit_set_nvfuser_enabled as _jit_set_nvfuser_enabled
from torchlike._C._switches import _jit_set_nvfuser_guard_mode as _jit_set_nvfuser_guard_mode
from torchlike._C._switches import _jit_set_profiling_executor as _jit_set_profiling_executor
from torchlike._C._switches import _jit_set_profiling_mode as _jit_set_profiling_mode
from torchlike._C._switches import _jit_set_texpr_fuser_enabled as _jit_set_texpr_fuser_enabled
from torchlike._C._switches import _set_grad_enabled as _set_grad_enabled
from torchlike._C._switches import _set_multithreading_enabled as _set_multithreading_enabled
from torchlike._C._torch_function import *  # noqa: F403
from torchlike._C._torch_function import __all__ as _torch_function_names
from torchlike._C._tracing import _get_tracing_state as _get_tracing_state
from torchlike._C._tracing import _is_tracing as _is_tracing
from torchlike._C._tracing import _log_api_usage_once as _log_api_usage_once
from torchlike._C._types import *  # noqa: F403
from torchlike._C._types import __all__ as _type_names
from torchlike._core.autocast.settings import autocast_decrement_nesting as autocast_decrement_nesting
from torchlike._core.autocast.settings import autocast_increment_nesting as autocast_increment_nesting
from torchlike._core.autocast.settings import clear_autocast_cache as clear_autocast_cache
from torchlike._core.autocast.settings import get_autocast_dtype as get_autocast_dtype
from torchlike._core.autocast.settings import is_any_enabled as _is_any_autocast_enabled
from torchlike._core.autocast.settings import is_autocast_available as _is_autocast_available
from torchlike._core.autocast.settings import is_autocast_cache_enabled as is_autocast_cache_enabled
from torchlike._core.autocast.settings import is_autocast_enabled as is_autocast_enabled
from torchlike._core.autocast.settings import set_autocast_cache_enabled as set_autocast_cache_enabled
from torchlike._core.autocast.settings import set_autocast_dtype as set_autocast_dtype
from torchlike._core.autocast.settings import set_autocast_enabled as set_autocast_enabled
from torchlike._core.autocast.settings import supported_devices as _autocast_supported_devices
from torchlike._core.autograd.anomaly import is_anomaly_check_nan_enabled as is_anomaly_check_nan_enabled
from torchlike._core.autograd.anomaly import is_anomaly_enabled as is_anomaly_enabled
from torchlike._core.autograd.anomaly import set_anomaly_enabled as set_anomaly_enabled
from torchlike._core.autograd.graph_task import _current_autograd_node as _current_autograd_node
from torchlike._core.autograd.graph_task import (
    _current_graph_task_execution_order as _current_graph_task_execution_order,
)
from torchlike._core.autograd.graph_task import _current_graph_task_id as _current_graph_task_id
from torchlike._core.autograd.graph_task import _will_engine_execute_node as _will_engine_execute_node
from torchlike._core.dispatch.dispatch_keys import DispatchKey as DispatchKey
from torchlike._core.dispatch.dispatch_keys import DispatchKeySet as DispatchKeySet
from torchlike._core.tensor.size import Size as Size
from torchlike._core.tensor.storage_arguments import StorageBase as StorageBase
from torchlike._core.tensor.tensor import Tensor as TensorBase
from torchlike._decl.function_schema import Argument as Argument
from torchlike._decl.function_schema import FunctionSchema as FunctionSchema
from torchlike._decl.function_schema import parse_schema as parse_schema
from torchlike._functions.generator import Generator as Generator
from torchlike._functions.memory import tensor_type_device as _get_default_device
from torchlike._library.excluded_keys import AutoDispatchBelowAutograd as _AutoDispatchBelowAutograd
from torchlike._ops._square import _LinAlgError as _LinAlgError
from torchlike.interop.checkpoints.records import PyTorchFileReader as PyTorchFileReader
from torchlike.interop.checkpoints.records import PyTorchFileWriter as PyTorchFileWriter
from torchlike.interop.lazy import on_first_use
from torchlike.jit._graph import Graph as Graph
from torchlike.jit._graph import Node as Node
from torchlike.jit._graph import Value as Value

_BUILT = (
    "_has_cuda", "_has_cudnn", "_has_cusparselt", "_has_eigen_sparse", "_has_kleidiai", "_has_magma", "_has_mkldnn",
    "_has_mkldnn_acl", "_has_mps", "_has_xpu", "has_lapack", "has_mkl", "has_openmp", "has_spectral",
)  # fmt: skip
__getattr__, __dir__ = on_first_use(
    __name__, {**dict.fromkeys(_BUILT, "_built"), "_VariableFunctionsClass": "_VariableFunctions"}
)

__all__ = [
    *_type_names,
    "Argument", "DispatchKey", "DispatchKeySet", "FunctionSchema", "Generator", "Size", "TensorBase",
    "_AutoDispatchBelowAutograd", "_DisableTorchDispatch", "_ExcludeDispatchKeyGuard", "_InferenceMode",
    "_WeakTensorRef", "_autocast_supported_devices", "_autograd",
    "_current_autograd_node", "_current_graph_task_execution_order", "_current_graph_task_id",
    "_disabled_torch_dispatch_impl", "_functions", "_get_default_device", "_get_tracing_state",
    "_is_any_autocast_enabled",
    "_is_autocast_available",
    "_is_multithreading_enabled", "_log_api_usage_once", "_set_grad_enabled", "_set_multithreading_enabled",
    "_show_config",
    "_will_engine_execute_node",
    "autocast_decrement_nesting", "autocast_increment_nesting", "clear_autocast_cache", "device", "dtype",
    "get_autocast_dtype", "is_anomaly_check_nan_enabled", "is_anomaly_enabled", "is_autocast_cache_enabled",
    "is_autocast_enabled", "is_grad_enabled", "is_inference_mode_enabled", "parse_schema", "set_anomaly_enabled",
    "set_autocast_cache_enabled", "set_autocast_dtype", "set_autocast_enabled", *_torch_function_names,
]  # fmt: skip
