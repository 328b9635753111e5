"""Names of ``torch`` that modules have which are imported when one of them is used."""

CHECKS = (
    "SymBool", "SymFloat", "SymInt", "_assert", "_assert_async", "_assert_scalar", "_check", "_check_index",
    "_check_is_size", "_check_not_implemented", "_check_tensor_all", "_check_tensor_all_with", "_check_type",
    "_check_value", "_check_with", "sym_constrain_range", "sym_constrain_range_for_size", "sym_float", "sym_fresh_size",
    "sym_int", "sym_ite", "sym_max", "sym_min", "sym_not", "sym_sqrt", "sym_sum",
)  # fmt: skip
FORMERLY = (
    "dsmm", "eig", "has_lapack", "has_mkl", "has_openmp", "has_spectral", "is_vulkan_available",
    "lstsq", "matrix_rank", "set_flush_denormal", "solve", "symeig", "to_dlpack",
)  # fmt: skip
STORAGES = (
    "BFloat16Storage", "BoolStorage", "ByteStorage", "CharStorage", "ComplexDoubleStorage", "ComplexFloatStorage",
    "DoubleStorage", "FloatStorage", "HalfStorage", "IntStorage", "LongStorage", "QInt32Storage", "QInt8Storage",
    "QUInt2x4Storage", "QUInt4x2Storage", "QUInt8Storage", "ShortStorage", "Storage", "StorageBase", "TypedStorage",
    "UntypedStorage", "_storage_classes", "is_storage",
)  # fmt: skip
