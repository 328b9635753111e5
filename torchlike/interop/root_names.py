"""Names of ``torch`` that modules have which are imported when one of them is used."""

CHECKS = (
    "SymBool", "SymFloat", "SymInt", "_assert", "_assert_async", "_assert_scalar", "_check", "_check_index",
    "_check_is_size", "_check_not_implemented", "_check_tensor_all", "_check_tensor_all_with", "_check_type",
    "_check_value", "_check_with", "sym_constrain_range", "sym_constrain_range_for_size", "sym_float", "sym_fresh_size",
    "sym_int", "sym_ite", "sym_max", "sym_min", "sym_not", "sym_sqrt", "sym_sum", "_sym_acos", "_sym_asin", "_sym_atan",
    "_sym_cos", "_sym_cosh", "_sym_log2", "_sym_sin", "_sym_sinh", "_sym_sqrt", "_sym_tan", "_sym_tanh",
)  # fmt: skip
FORMERLY = (
    "dsmm", "eig", "has_lapack", "has_mkl", "has_openmp", "has_spectral", "is_vulkan_available",
    "lstsq", "matrix_rank", "set_flush_denormal", "set_vital", "solve", "symeig",
    "to_dlpack",
)  # fmt: skip
STORAGES = (
    "BFloat16Storage", "BoolStorage", "ByteStorage", "CharStorage", "ComplexDoubleStorage", "ComplexFloatStorage",
    "DoubleStorage", "FloatStorage", "HalfStorage", "IntStorage", "LongStorage", "QInt32Storage", "QInt8Storage",
    "QUInt2x4Storage", "QUInt4x2Storage", "QUInt8Storage", "ShortStorage", "Storage", "StorageBase", "TypedStorage",
    "UntypedStorage", "_storage_classes", "is_storage",
)  # fmt: skip
ATEN_PRIVATES = (
    "_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "_add_relu_", "_addmm_activation", "_batch_norm_impl_index",
    "_choose_qparams_per_tensor", "_coalesce", "_compute_linear_combination", "_conj_copy", "_conj_physical",
    "_ctc_loss", "_cummax_helper", "_cummin_helper", "_dim_arange", "_efficientzerotensor", "_euclidean_dist",
    "_fake_quantize_learnable_per_channel_affine", "_fake_quantize_learnable_per_tensor_affine",
    "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams", "_functional_assert_async",
    "_functional_assert_scalar", "_functional_sym_constrain_range", "_functional_sym_constrain_range_for_size",
    "_fused_rms_norm", "_histogramdd_bin_edges", "_histogramdd_from_bin_cts", "_histogramdd_from_bin_tensors",
    "_index_put_impl_", "_is_zerotensor", "_lazy_clone", "_linalg_check_errors", "_linalg_det", "_linalg_eigh",
    "_linalg_slogdet", "_linalg_solve_ex", "_linalg_svd", "_logcumsumexp", "_lu_with_info", "_make_dep_token",
    "_native_multi_head_attention",
    "_neg_view_copy", "_pack_padded_sequence", "_pad_packed_sequence", "_pin_memory", "_prelu_kernel",
    "_reshape_alias_copy", "_reshape_from_tensor", "_rowwise_prune", "_saturate_weight_to_fp16",
    "_scaled_dot_product_efficient_attention", "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_flash_attention_for_cpu", "_sparse_broadcast_to", "_sparse_csr_prod", "_sparse_csr_sum",
    "_sparse_log_softmax_backward_data", "_sparse_softmax_backward_data", "_sparse_sparse_matmul", "_sparse_sum",
    "_to_cpu", "_transform_bias_rescale_qkv", "_trilinear", "_unique", "_unique2", "_unsafe_index",
    "_unsafe_index_put", "_validate_compressed_sparse_indices", "_validate_sparse_bsc_tensor_args",
    "_validate_sparse_bsr_tensor_args", "_validate_sparse_compressed_tensor_args", "_validate_sparse_coo_tensor_args",
    "_validate_sparse_csc_tensor_args", "_validate_sparse_csr_tensor_args", "_weight_int8pack_mm",
)  # fmt: skip
C = (
    "AnyType", "Argument", "AwaitType", "Block", "BoolType", "ComplexType", "DeviceObjType", "DictType",
    "DisableTorchFunction", "DisableTorchFunctionSubclass", "DispatchKey", "DispatchKeySet", "FloatType",
    "FunctionSchema", "FutureType", "Graph", "IntType", "ListType", "Node", "NoneType", "NumberType", "OptionalType",
    "PyObjectType", "RRefType", "StreamObjType", "StringType", "TensorType", "TupleType", "Value", "parse_schema",
    "set_anomaly_enabled",
)  # fmt: skip
