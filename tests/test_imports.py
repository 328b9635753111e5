"""Under ``install_as_torch()`` the imports of scripts and tests about autograd work, or say what is missing."""

import logging
import os
import subprocess
import sys

import pytest
import torch
from both import agree

import torchlike  # noqa: I001

NAMES = """
torch Tensor Size Generator dtype device no_grad enable_grad set_grad_enabled inference_mode is_grad_enabled
torch is_inference_mode_enabled is_inference is_anomaly_enabled is_anomaly_check_nan_enabled manual_seed is_tensor
torch get_rng_state set_rng_state get_default_dtype set_default_dtype float64 cdouble inf nan typename is_same_size
torch autograd nn optim utils testing cuda random backends linalg special version _C
torch.autograd Function Variable backward grad gradcheck gradgradcheck detect_anomaly set_detect_anomaly no_grad
torch.autograd enable_grad set_grad_enabled inference_mode function functional graph grad_mode anomaly_mode variable
torch.autograd profiler
torch.autograd.function Function FunctionCtx BackwardCFunction FunctionMeta InplaceFunction NestedIOFunction
torch.autograd.function once_differentiable
torch.autograd.variable Variable
torch.autograd.grad_mode no_grad enable_grad set_grad_enabled inference_mode set_multithreading_enabled
torch.autograd.grad_mode _force_original_view_tracking _unsafe_preserve_version_counter
torch.autograd.anomaly_mode detect_anomaly set_detect_anomaly
torch.autograd.graph Node GradientEdge get_gradient_edge saved_tensors_hooks save_on_cpu disable_saved_tensors_hooks
torch.autograd.graph register_multi_grad_hook allow_mutation_on_saved_tensors increment_version
torch.autograd.functional jacobian hessian vjp jvp vhp hvp
torch.autograd.gradcheck gradcheck gradgradcheck GradcheckError get_numerical_jacobian get_analytical_jacobian
torch.autograd.profiler record_function
torch.testing assert_close make_tensor
torch.types BoolLikeType Device FileLike FloatLikeType IntLikeType Number Size Storage Tensor _Number
torch.types _TensorOrOptionalTensors _TensorOrTensors _TensorOrTensorsOrGradEdge _bool _bytes _complex _device _dtype
torch.types _float _int _layout _size _str _symsize py_sym_types
torch.utils checkpoint hooks data _pytree
torch.utils.checkpoint checkpoint checkpoint_sequential CheckpointPolicy CheckpointError CheckpointFunction
torch.utils.checkpoint create_selective_checkpoint_contexts set_checkpoint_early_stop set_checkpoint_debug_enabled
torch.utils.checkpoint SelectiveCheckpointContext noop_context_fn check_backward_validity detach_variable
torch.utils.hooks RemovableHandle unserializable_hook warn_if_has_hooks
torch.utils._pytree tree_map tree_map_only tree_flatten tree_unflatten tree_leaves tree_any tree_all TreeSpec
torch.nn Module Parameter functional utils init Linear Sequential
torch.nn.functional relu linear dropout
torch.nn.parameter Parameter Buffer UninitializedParameter UninitializedTensorMixin is_lazy
torch.nn LazyLinear LazyConv2d LazyBatchNorm2d UninitializedParameter UninitializedBuffer
torch.nn FractionalMaxPool2d FractionalMaxPool3d AdaptiveLogSoftmaxWithLoss LinearCrossEntropyLoss factory_kwargs grad
torch.nn.functional fractional_max_pool2d fractional_max_pool3d_with_indices conv_tbc linear_cross_entropy
torch.nn.grad conv1d_input conv2d_weight conv3d_input
torch.nn.modules.lazy LazyModuleMixin
torch.nn.utils clip_grad_norm_ parameters_to_vector weight_norm remove_weight_norm spectral_norm remove_spectral_norm
torch.nn.utils parametrize parametrizations stateless skip_init fuse_conv_bn_eval fuse_linear_bn_weights
torch.nn.utils convert_conv2d_weight_memory_format convert_conv3d_weight_memory_format
torch.nn.utils.parametrize register_parametrization remove_parametrizations cached is_parametrized ParametrizationList
torch.nn.utils.parametrize type_before_parametrizations transfer_parametrizations_and_params
torch.nn.utils.parametrizations weight_norm spectral_norm orthogonal _Orthogonal _SpectralNorm
torch.nn.utils.prune BasePruningMethod PruningContainer L1Unstructured l1_unstructured global_unstructured is_pruned
torch.nn.utils.stateless functional_call
torch.func functional_call
torch.nn parallel DataParallel
torch.nn.parallel DataParallel DistributedDataParallel data_parallel gather parallel_apply replicate scatter comm
torch.nn.parallel.data_parallel DataParallel data_parallel
torch.nn.parallel.distributed DistributedDataParallel
torch.nn.parallel.parallel_apply parallel_apply get_a_var
torch.nn.parallel.replicate replicate
torch.nn.parallel.scatter_gather scatter gather scatter_kwargs is_namedtuple
torch.nn.parallel.comm broadcast broadcast_coalesced gather reduce_add reduce_add_coalesced scatter
torch distributed
torch.distributed init_process_group destroy_process_group is_available is_initialized get_rank get_world_size barrier
torch.distributed get_backend new_group group ReduceOp all_reduce all_gather broadcast ProcessGroup
torch.distributed.distributed_c10d ProcessGroup
torch.optim SGD Adam
torch._C _current_graph_task_id _current_autograd_node _will_engine_execute_node _current_graph_task_execution_order
torch jit futures ScriptModule ScriptFunction Future
torch.jit script trace trace_module script_if_tracing script_method ignore unused export is_scripting annotate
torch.jit is_tracing
torch.jit Final Attribute ScriptModule ScriptFunction RecursiveScriptModule TracedModule TopLevelTracedModule interface
torch.jit freeze optimize_for_inference fork wait isinstance _overload _overload_method strict_fusion save load Error
torch.jit onednn_fusion_enabled set_fusion_strategy enable_onednn_fusion TracerWarning ScriptWarning Future fuser
torch.jit optimized_execution run_frozen_optimizations _fork _wait _drop _isinstance _unwrap_optional _script_if_tracing
torch.jit.annotations List Dict Optional Tuple BroadcastingList2
torch._jit_internal boolean_dispatch _overload _overload_method BroadcastingList1 BroadcastingList2 BroadcastingList3
torch._jit_internal List Optional Tuple Dict Final Future is_scripting ignore unused export _copy_to_script_wrapper
torch._jit_internal FunctionModifiers _qualified_name _get_fn_overloads boolean_dispatched is_ignored_fn
torch accelerator xpu onnx fx hub multiprocessing distributions quasirandom
torch.quasirandom SobolEngine
torch legacy_contiguous_format TensorType DispatchKey DispatchKeySet FunctionSchema parse_schema fork wait
torch DisableTorchFunction DisableTorchFunctionSubclass Argument Block Graph Node Value set_anomaly_enabled
torch.distributed.algorithms Join Joinable JoinHook
torch.nn.functional has_torch_function has_torch_function_unary has_torch_function_variadic handle_torch_function
torch.nn.functional Tensor boolean_dispatch
torch.nn.modules.module _EXTRA_STATE_KEY_SUFFIX
torch.nn.init _no_grad_uniform_ _no_grad_normal_ _no_grad_trunc_normal_ _no_grad_fill_ _no_grad_zero_
torch.utils._pytree _is_leaf Context
torch._tensor_str printoptions
torch._higher_order_ops.associative_scan associative_scan
torch._higher_order_ops.cond cond
torch._higher_order_ops.map map
torch._higher_order_ops.scan scan
torch._higher_order_ops.while_loop while_loop
torch.utils.data IterDataPipe MapDataPipe functional_datapipe DataChunk
torch.utils.data.datapipes.iter IterableWrapper Mapper Filter Batcher Concater Zipper
torch.utils.data.datapipes.map SequenceWrapper Mapper
torch.utils.data._utils.collate collate_tensor_fn collate_numpy_array_fn collate_float_fn np_str_obj_array_pattern
torch.profiler.profiler _default_schedule_fn
torch._C _jit_set_profiling_mode _jit_set_profiling_executor _jit_set_texpr_fuser_enabled _jit_can_fuse_on_cpu
torch._C _jit_override_can_fuse_on_cpu _jit_override_can_fuse_on_gpu _jit_can_fuse_on_gpu _jit_set_nvfuser_enabled
torch.fx Proxy Tracer Graph Node GraphModule Interpreter Transformer symbolic_trace wrap replace_pattern map_arg
torch.fx.node Node map_arg map_aggregate has_side_effect Target Argument
torch.fx.graph Graph CodeGen PythonCode
torch.fx.graph_module GraphModule
torch.fx.interpreter Interpreter Transformer
torch.fx.operator_schemas normalize_function normalize_module
torch.fx.subgraph_rewriter replace_pattern replace_pattern_with_filters Match
torch.fx.passes.shape_prop ShapeProp TensorMetadata _extract_tensor_metadata
torch.fx.passes.split_module split_module
torch.fx.experimental.proxy_tensor make_fx get_proxy_mode ProxyTorchDispatchMode PythonKeyTracer
torch.fx.experimental.optimization fuse
torch.fx.experimental.const_fold FoldedGraphModule get_unique_attr_name_in_module split_const_subgraphs
torch.fx.experimental.rewriter AST_Rewriter RewritingTracer
torch.fx._compatibility compatibility
functorch make_fx
torch.fx.proxy GraphAppendingTracer Proxy TracerBase
torch.hub load_state_dict_from_url download_url_to_file get_dir set_dir load HASH_REGEX
torch.utils.model_zoo load_url
torch.multiprocessing spawn start_processes get_context Process Queue SimpleQueue set_sharing_strategy
torch.cuda Stream Event CUDAGraph graph stream current_stream StreamContext
torch.distributions Normal Categorical Independent kl_divergence constraints transforms
torch.futures Future collect_all wait_all
torch.nn.parameter _ParameterMeta _BufferMeta
torch._C _get_tracing_state _log_api_usage_once
torch._C _set_grad_enabled _InferenceMode _is_multithreading_enabled _functions _autograd
torch._C._autograd SavedTensor _push_saved_tensors_default_hooks _pop_saved_tensors_default_hooks
""".split("\n")[1:-1]

IMPORTS = [f"from {module} import {name}" for module, *names in map(str.split, NAMES) for name in names]

MISSING = [
    "torch._six", "torch.testing._internal.common_utilities", "torch.autograd._no_such_module", "torch.no_module",
]  # fmt: skip


def run(code: str) -> subprocess.CompletedProcess:
    """Run ``code`` in an interpreter that finds this torchlike."""
    root = os.path.dirname(os.path.dirname(torchlike.__file__))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ["PYTHONPATH"]])}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)


def test_pytorch_has_these_names():
    for statement in IMPORTS:
        exec(statement, {})


def test_imports_of_names():
    code = [
        "import torchlike",
        "torchlike.install_as_torch()",
        *IMPORTS,
        "import torch",
        "import torch.nn.functional as F",
    ]
    done = run("\n".join([*code, "assert torch is torchlike and F is torchlike.nn.functional"]))
    assert done.returncode == 0, done.stderr


def test_what_is_missing_is_named():
    attempts = "\n".join(f"try:\n    import {name}\nexcept ImportError as error:\n    print(error)" for name in MISSING)
    done = run(f"import torchlike\ntorchlike.install_as_torch()\n{attempts}")
    lines = done.stdout.splitlines()
    assert len(lines) == len(MISSING), done.stdout + done.stderr
    for line, name in zip(lines, MISSING, strict=True):
        assert line.startswith("torchlike does not have the module torch.") and name.startswith(line.split()[6])


def test_functions_hide_no_modules():
    """``torch.autograd.gradcheck`` is the function, as the module of that name is importable."""
    agree(lambda t: [callable(t.autograd.gradcheck), callable(t.utils.checkpoint.checkpoint)])


@pytest.mark.parametrize("t", [torch, torchlike], ids=["torch", "torchlike"])
def test_unserializable_hooks(t):
    x = t.ones(1, requires_grad=True)
    x.register_hook(t.utils.hooks.unserializable_hook(lambda g: g))
    t.utils.hooks.warn_if_has_hooks(x)
    x.register_hook(lambda g: g)
    with pytest.warns(UserWarning, match="on tensor will not be serialized"):
        t.utils.hooks.warn_if_has_hooks(x)


def test_record_function():
    def run(t):
        name = t.autograd.profiler.record_function

        @name("doubled")
        def doubled(x):
            return x * 2

        with name("outer", "with arguments"), name("inner"):
            x = t.ones(2, requires_grad=True)
            doubled(x).sum().backward()
        return x.grad, doubled.__name__

    agree(run)


def test_grad_mode_set_by_a_call():
    def run(t):
        try:
            t._C._set_grad_enabled(False)
            return t.is_grad_enabled(), (t.ones(1, requires_grad=True) * 2).requires_grad
        finally:
            t._C._set_grad_enabled(True)

    agree(run)


def test_inference_mode_of_the_internal_name():
    def run(t):
        with t._C._InferenceMode(True):
            x = t.ones(1)
        return x.is_inference(), t.is_inference_mode_enabled()

    agree(run)


@pytest.mark.parametrize(("level", "text", "shown"), [
    (logging.INFO, "Unable to initialize backend '%s': %s", False),
    (logging.WARNING, "Unable to initialize backend '%s': %s", True),
    (logging.INFO, "Remote TPU is not linked into jax", True),
])  # fmt: skip
def test_programs_that_log_hear_of_no_missing_accelerator(level, text, shown):
    record = logging.LogRecord("jax._src.xla_bridge", level, "", 0, text, ("tpu", ""), None)
    assert bool(logging.getLogger("jax._src.xla_bridge").filter(record)) == shown
