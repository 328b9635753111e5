"""Tests in 32-bit mode (``JAX_ENABLE_X64=0``, ``make test-32``): PyTorch narrowed alike, and what is not run."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch

from torchlike._base import bits
from torchlike._base.bits import X64

_KINDS = {"float64": "float32", "double": "float32", "complex128": "complex64", "cdouble": "complex64"}
_WIDE = {name: getattr(torch, name) for name in _KINDS}
_WORDS = {"int64": "int32", "float64": "float32", "complex128": "complex64", "Long": "Int", "Double": "Float"}


def narrow_pytorch() -> None:
    """Have PyTorch's names of wide floating types mean what they mean in torchlike, in this process."""
    # PyTorch keeps these tables from their first use, which is otherwise some test's.
    torch.storage._dtype_to_storage_type_map()
    torch.storage._storage_type_to_dtype_map()
    for wide, kind in _KINDS.items():
        setattr(torch, wide, getattr(torch, kind))
    torch.Tensor.double, torch.Tensor.cdouble = torch.Tensor.float, torch.Tensor.cfloat
    for name in ("tensor", "as_tensor", "asarray", "from_numpy"):
        setattr(torch, name, _of_narrow_arrays(getattr(torch, name)))


def _of_narrow_arrays(make: Callable) -> Callable:
    """``make``, a function of PyTorch's that makes tensors, for which numpy's wide floating numbers are narrow ones."""

    @functools.wraps(make)
    def made(data: Any, *args: Any, **kwargs: Any) -> Any:
        wide = isinstance(data, np.ndarray | np.generic) and data.dtype.name in _KINDS
        wide = wide and min(data.strides, default=0) >= 0  # others are refused, as a copy would not be
        return make(bits.narrowed(np.asarray(data)) if wide else data, *args, **kwargs)

    return made


@contextmanager
def wide_pytorch() -> Iterator[None]:
    """PyTorch's names as they were."""
    narrow = {name: getattr(torch, name) for name in _WIDE}
    for name, kind in _WIDE.items():
        setattr(torch, name, kind)
    yield
    for name, kind in narrow.items():
        setattr(torch, name, kind)


def narrowed(text: str) -> str:
    """What PyTorch says, with the names of 32-bit types."""
    return text if X64 else re.sub("|".join(_WORDS), lambda m: _WORDS[m.group()], text)


# Tests by a pattern of their names, and why 32-bit mode does not run them.
NOT_RUN = {
    r"test_gradcheck(_forward|_large)?\.py": "differences of single precision are too coarse for its tolerances",
    r"test_printing.py::(test_shapes|test_integers|test_any_tensor)\[.*int|"
    r"test_printing.py::(test_summaries|test_contents|test_linewidth|test_suffixes|test_examples|test_numpy_numbers)|"
    r"test_printing.py::test_any_tensor|"
    r"test_storages.py::(test_tensors_of_storages|test_files)|"
    r"test_printing.py::test_dtype_is_shown": "made of the bytes of PyTorch's int64, which prints as the default",
    r"test_printing.py::test_floats": "PyTorch computes the digits in torch.float64",
    r"test_convert.py::(test_numbers_out|test_tensor\[.*-numbers|test_tensor_of_a_given_dtype\[.*-uint64)|"
    r"test_dlpack_with_pytorch\[.*int64": "integers of 64 bits, which 32-bit mode refuses",
    r"test_memory_that_nothing_was_written_to\[.*-(empty|resized)": "memory of types of 64 bits",
    r"-other dtype\]|test_other_dtype_view|test_names_of_nodes\[.*-cast\]|test_errors\[.*hook of another dtype|"
    r"test_wrong_result_of_a_tensor_hook\[.*-dtype|map_: expected|test_what_the_check_says\[.*-single precision":
        "needs two types, float32 and float64",
    r"test_saved_values_that_were_changed|test_errors\[.*-complex scalar|test_assignment\[.*-integers":
        "the message names the 64-bit type",
    r"test_what_the_check_says\[.*-(complex|double)": "the message names the 64-bit type",
    r"test_empty_tensors_as_other_dtypes": "sizes follow from those of 64-bit types",
    r"test_the_bytes_are_there\[.*-ints": "PyTorch's bytes are those of int64",
    r"test_tracing.py::(test_vmap_of|test_jvp_and|test_eager_tensors)|test_vmap.py::test_inside_of_jax_jit":
        "compares with numpy's float64",
    # Files that `make test-32` runs when given more places than tests/core.
    r"(test_index_ops|test_loss|test_random|test_indexing|test_norm)\.py::test_(class_|fill_)?(errors|refuses)\["
    r".*(Long|Double|int64|long tensor|same dtype|dtype to be equal|mixed|integers)":
        "the message names the 64-bit type, or tells it from that of 32 bits",
    r"test_random.py::test_random_covers_the_dtype|test_factories.py::test_defaults": "is about types of 64 bits",
    r"test_reduce.py::test_(means_are_computed_in_the_floats_of_out|out_of_another_dtype)":
        "needs two types, float32 and float64",
    r"test_scan_sort.py::test_(long_products|running_sums_of_float32)_are_rounded_once": "sums are made in 64 bits",
    r"test_optimizers.py::test_(steps_and_state|dtypes|continues_from|lbfgs|radam_beyond)":
        "1 - beta of single precision is too coarse for its tolerances",
    r"test_func.py::test_(transforms_nest\[.*tape around a hessian|per_sample_gradients|a_step_of_a_step)|"
    r"test_func.py::test_(products_with_a_hessian|running_statistics_among)|test_vmap.py::test_(operators\[.*solve|modules)|"
    r"test_norm.py::test_statistics_with_tangents\[.*True|test_loss.py::test_modules":
        "single precision is too coarse for what it compares",
}  # fmt: skip


def leave_out(items: list[pytest.Item]) -> None:
    """Skip what is about 64 bits."""
    for item in items:
        for pattern, reason in NOT_RUN.items():
            if re.search(pattern, item.nodeid):
                item.add_marker(pytest.mark.skip(reason=f"32-bit mode: {reason}"))
                break
