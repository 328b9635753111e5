"""Settings that programs write: ``torch.compiler.config`` and those of ``_dynamo``, ``_inductor``, ``_functorch``.

Each is a module whose attributes are the settings. Only those that mean something here are read; the others
keep what they are given. A name that is none of them is an AttributeError, as in PyTorch: it may be misspelt.
"""

import contextlib
import sys
import types
from collections.abc import Callable
from typing import Any

DYNAMO: dict[str, Any] = {
    "recompile_limit": 8, "accumulated_recompile_limit": 256, "minimum_call_count": 1, "repro_level": 2,
    "repro_after": None, "repro_tolerance": 0.001, "numpy_default_float": "float64", "numpy_default_int": "int64",
    "numpy_default_complex": "complex128", "log_file_name": None, "dead_code_elimination": None,
    "debug_backend_override": "", "side_effect_replay_policy": "info", "automatic_dynamic_shapes_mark_as": "dynamic",
    "traceable_tensor_subclasses": set(), "reorderable_logging_functions": set(), "ignore_logging_functions": set(),
    **dict.fromkeys(
        "allow_empty_graphs allow_ignore_mark_dynamic allow_rnn allow_unspec_int_on_nn_module caching_precompile "
        "capture_dynamic_output_shape_ops capture_profiler_record_function capture_scalar_outputs compiled_autograd "
        "cprofile disable do_not_emit_runtime_asserts dont_skip_tracing enable_compiler_collectives error_on_recompile "
        "enable_p2p_compilation fail_on_recompile_limit_hit inline_invoke_subgraph install_free_tensors "
        "nested_graph_breaks only_allow_pt2_compliant_ops optimize_ddp_lazy_compile prepare_freezing "
        "replay_record_enabled repro_forward_only repro_ignore_non_fp skip_fwd_side_effects_in_bwd_under_checkpoint "
        "skip_guards_on_constant_func_defaults specialize_float specialize_int strict_precompile suppress_errors "
        "trace_autograd_ops use_graph_deduplication use_numpy_random_stream verbose verify_correctness "
        "wrap_top_frame".split(),
        False,
    ),
    **dict.fromkeys(
        "assume_dunder_attributes_remain_unchanged assume_static_by_default automatic_dynamic_shapes "
        "capture_autograd_function capture_func_transforms capture_sparse_compute dynamic_shapes enable_aot_compile "
        "enable_cpp_guard_manager enable_faithful_generator_behavior enable_trace_contextlib error_on_nested_fx_trace "
        "error_on_nested_jit_trace fake_tensor_cache_enabled force_nn_module_property_static_shapes "
        "force_parameter_static_shapes graph_break_on_nn_param_ctor guard_nn_modules guard_nn_modules_using_dict_tags "
        "inline_inbuilt_nn_modules log_compilation_metrics optimize_ddp raise_on_ctx_manager_usage "
        "record_runtime_overhead replay_side_effects report_guard_failures rewrite_assert_with_torch_assert "
        "run_gc_after_compile skip_fsdp_guards skip_nnmodule_hook_guards skip_no_tensor_aliasing_guards_on_parameters "
        "skip_tensor_guards_with_matching_dict_tags skip_torchrec trace_numpy use_lazy_graph_module".split(),
        True,
    ),
}  # fmt: skip

INDUCTOR: dict[str, Any] = {
    "compile_threads": 1, "max_autotune_gemm_backends": "ATEN,TRITON,CPP", "max_autotune_gemm_search_space": "DEFAULT",
    "coordinate_descent_search_radius": 1, "realize_reads_threshold": 4, "max_fusion_size": 64, "memory_pool":
    "intermediates", "max_autotune_conv_backends": "ATEN,TRITON", "cpu_backend": "cpp", "cuda_backend": "triton",
    "fx_graph_remote_cache": None, "autotune_remote_cache": None, "post_grad_custom_pre_pass": None,
    "post_grad_custom_post_pass": None, "joint_custom_pre_pass": None, "joint_custom_post_pass": None,
    "pre_grad_custom_pass": None, "cpp.threads": -1, "cpp.simdlen": None, "cpp.min_chunk_size": 512,
    "cpp.cxx": (None, "g++"), "cpp.max_horizontal_fusion_size": 16, "triton.multi_kernel": 0, "triton.max_tiles": None,
    "triton.cudagraph_dynamic_shape_warn_limit": 8, "triton.cudagraph_capture_sizes": None,
    "triton.descriptive_names": "original_aten", "triton.spill_threshold": 16, "aot_inductor.output_path": "",
    "aot_inductor.package_cpp_only": None, "cuda.arch": None, "cuda.version": None, "cuda.compile_opt_level": "-O1",
    "trace.debug_dir": None,
    **dict.fromkeys(
        "aggressive_fusion always_keep_tensor_constants aot_inductor.debug_compile aot_inductor.package "
        "aot_inductor.use_runtime_constant_folding b2b_gemm_pass benchmark_combo_kernel benchmark_fusion "
        "benchmark_kernel combo_kernels comment_origin conv_1x1_as_mm coordinate_descent_check_all_directions "
        "coordinate_descent_tuning cpp.enable_kernel_profile cpp.enable_unsafe_math_opt_flag cpp_wrapper "
        "cuda.enable_cuda_lto cuda.use_fast_math debug debug_fusion debug_index_asserts decompose_mem_bound_mm "
        "deterministic developer_warnings efficient_conv_bn_eval_fx_passes epilogue_fusion_first fallback_random "
        "force_fuse_int_mm_with_mul force_layout_optimization force_shape_pad freezing freezing_discard_parameters "
        "fx_wrapper generate_intermediate_hooks group_fusion max_autotune max_autotune_gemm max_autotune_pointwise "
        "memory_planning nan_asserts permute_fusion profile_bandwidth reorder_for_compute_comm_overlap save_args "
        "search_autotune_cache trace.enabled trace.graph_diagram "
        "triton.autotune_with_sample_inputs triton.cooperative_reductions triton.cudagraph_or_error triton.cudagraphs "
        "triton.debug_sync_graph triton.debug_sync_kernel triton.fast_path_cudagraph_asserts "
        "triton.force_cudagraph_sync triton.prefer_nd_tiling triton.skip_cudagraph_warmup "
        "triton.store_cubin use_fast_math verbose_progress".split(),
        False,
    ),
    **dict.fromkeys(
        "allow_buffer_reuse assert_indirect_indexing autotune_local_cache batch_fusion benchmark_harness "
        "bundle_triton_into_fx_graph_cache comprehensive_padding constant_and_index_propagation cpp.weight_prepack "
        "disable_padding_cpu disable_progress epilogue_fusion fx_graph_cache graph_partition implicit_fallbacks "
        "inplace_buffers inplace_padding joint_graph_constant_folding keep_output_stride layout_optimization "
        "pattern_matcher pick_loop_orders prologue_fusion reorder_for_locality reorder_for_peak_memory shape_padding "
        "size_asserts split_cat_fx_passes split_reductions static_weight_shapes triton.autotune_cublasLt "
        "triton.autotune_pointwise triton.cudagraph_support_input_mutation triton.cudagraph_trees "
        "triton.divisible_by_16 triton.persistent_reductions triton.slow_path_cudagraph_asserts "
        "triton.unique_kernel_names use_mixed_mm use_static_cuda_launcher".split(),
        True,
    ),
}  # fmt: skip

FUNCTORCH: dict[str, Any] = {
    "activation_memory_budget": 1.0, "activation_memory_budget_runtime_estimator": "flops",
    "activation_memory_budget_solver": "dp", "activation_offload_cpu_gpu_bw": 50.0,
    "backward_pass_autocast": "same_as_forward", "custom_op_default_layout_constraint": "needs_exact_strides",
    "enable_remote_autograd_cache": None, "fake_tensor_prefer_device_type": None, "joint_custom_pass": None,
    "max_dist_from_bw": 1000, "memory_budget_pareto_dir": None, "saved_tensors_hooks_filtering_mode": "donated",
    "torch_compile_graph_format": "svg",
    **dict.fromkeys(
        "_sync_decision_cross_ranks activation_offload_separate_stream activation_offload_sink_wait "
        "activation_reload_prefetch aggressive_recomputation autograd_cache_allow_custom_autograd_functions "
        "bundled_autograd_cache bypass_autograd_cache_key debug_assert debug_partitioner "
        "disable_guess_zero_tangent_for_mutated_input_subclass enable_activation_offloading enable_complex_wrapper "
        "error_on_custom_op_aliasing fake_tensor_crossref fake_tensor_propagate_real_tensors force_autograd_cache "
        "force_non_lazy_backward_lowering functionalize_rng_ops generate_fake_kernels_from_real_mismatches "
        "is_non_builtin_to_include recompute_views selective_decompose strict_autograd_cache unlift_effect_tokens "
        "unsafe_allow_optimization_of_collectives unsafe_treat_script_objects_as_zero_size "
        "visualize_memory_budget_pareto".split(),
        False,
    ),
    **dict.fromkeys(
        "_test_disable_functionalization autograd_cache_normalize_inputs ban_recompute_long_fusible_chains "
        "ban_recompute_materialized_backward ban_recompute_not_in_allowlist ban_recompute_reductions "
        "ban_recompute_used_far_apart check_custom_op_aliasing cse decompose_custom_triton_ops donated_buffer "
        "enable_autograd_cache fake_tensor_allow_meta fake_tensor_allow_unsafe_data_ptr_access "
        "graphsafe_rng_functionalization guess_tangent_strides_as_outputs remat_using_tags_for_fwd_loss_bwd_graph "
        "static_weight_shapes treat_parameters_as_free_to_save view_replay_for_aliased_outputs".split(),
        True,
    ),
}  # fmt: skip

COMPILER: dict[str, Any] = {"job_id": None, "cache_key_tag": "", "force_disable_caches": False, "dynamic_sources": ""}


class Settings(types.ModuleType):
    """A module of settings; ``install`` makes one of a module that is being imported."""

    _values: dict[str, Any]
    _aliases: dict[str, str]
    _changed: Callable[[], None]
    _deleted: set[str]
    _groups: dict[str, "Group"]

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        if name.startswith("__") or "_values" not in own:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        if (found := self._aliases.get(name, name)) in self._values and found not in self._deleted:
            return self._values[found]
        if any(known.startswith(f"{name}.") for known in self._values):
            return self._groups.setdefault(name, Group(self, name))
        raise AttributeError(f"{self._public_name()}.{name} does not exist", name=name, obj=self)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("__"):
            super().__setattr__(name, value)
            return
        name = self._aliases.get(name, name)
        if name not in self._values:
            raise AttributeError(f"{self._public_name()}.{name} does not exist", name=name, obj=self)
        self._values[name] = value
        self._deleted.discard(name)
        self._changed()

    def __delattr__(self, name: str) -> None:
        """Hide a setting until it is set again, as ``unittest.mock.patch`` does when it puts a value back."""
        getattr(self, name)
        self._deleted.add(self._aliases.get(name, name))

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._aliases, *(name.split(".")[0] for name in self._values)})

    def _public_name(self) -> str:
        return "torch." + self.__name__.partition(".")[2]

    def patch(self, arg1: Any = None, arg2: Any = None, **kwargs: Any) -> "Patch":
        """A context, or decorator, in which settings have other values: ``patch(name=value)``, ``patch({...})``."""
        if arg1 is None:
            changes = kwargs
        elif isinstance(arg1, str):
            changes = {arg1: arg2}
        elif isinstance(arg1, dict):
            changes = arg1
        else:
            raise AssertionError("first argument must be a dict when passing a single positional arg to patch")
        return Patch(self, changes)

    def get_config_copy(self) -> dict[str, Any]:
        """{name: value} of all settings."""
        return dict(self._values)

    shallow_copy_dict = get_config_copy

    def load_config(self, maybe_pickled_config: dict[str, Any]) -> None:
        """Set those of a dict that ``get_config_copy`` gave."""
        for name, value in maybe_pickled_config.items():
            setattr(self, name, value)


class Group:
    """The settings below a name: ``torch._inductor.config.triton``."""

    def __init__(self, settings: Settings, name: str) -> None:
        self.__dict__.update(_settings=settings, _name=name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._settings, f"{self._name}.{name}")

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._settings, f"{self._name}.{name}", value)


class Patch(contextlib.ContextDecorator):
    """Settings with other values for a while."""

    def __init__(self, settings: Settings, changes: dict[str, Any]) -> None:
        self.settings, self.changes = settings, changes
        self.before: list[dict[str, Any]] = []

    def __enter__(self) -> None:
        self.before.append({name: getattr(self.settings, name) for name in self.changes})
        self.settings.load_config(self.changes)

    def __exit__(self, *exc: object) -> None:
        self.settings.load_config(self.before.pop())


def install(
    module: str,
    values: dict[str, Any],
    aliases: dict[str, str] | None = None,
    changed: Callable[[], None] | None = None,
) -> None:
    """Make the module of this name one of settings; ``changed`` is called after each change."""
    here = sys.modules[module]
    here.__dict__.update(_values=values, _aliases=aliases or {}, _changed=changed or (lambda: None))
    here.__dict__.update(_deleted=set(), _groups={})
    here.__class__ = Settings
