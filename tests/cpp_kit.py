"""A C++ extension to test with: built once for a run, by whichever test asks first."""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import torchlike as torch
from torchlike.utils.cpp_extension import load_inline

COMPILER = next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), None)
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler here")
ROOT = Path(__file__).resolve().parents[1]

SOURCE = r"""
namespace {
ffi::Error shifted(ffi::Buffer<ffi::F32> x, double by, ffi::ResultBuffer<ffi::F32> y) {
  for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = x.typed_data()[i] + by;
  return ffi::Error::Success();
}
void outer(const ffi::Buffer<ffi::F64, 1>& x, ffi::Buffer<ffi::F64, 1> y, ffi::ResultBuffer<ffi::F64, 2> z) {
  size_t n = y.element_count();
  if (x.element_count() == 5) throw std::runtime_error("five is too many");
  for (size_t i = 0; i < x.element_count(); ++i)
    for (size_t j = 0; j < n; ++j) z->typed_data()[i * n + j] = x.typed_data()[i] * y.typed_data()[j];
}
void facts(ffi::AnyBuffer x, int n, bool flag, std::string_view s, ffi::Span<const int64_t> dims, float f,
           long long big, ffi::Span<const double> more, ffi::ResultBuffer<ffi::F64> z) {
  double found[] = {double(n), double(flag), double(s.size()), double(dims.size()), f, double(big), -0.0};
  for (double d : more) found[6] += d;
  std::copy(found, found + 7, z->typed_data());
}
void scaled(ffi::Buffer<ffi::F32> x, ffi::BufferR0<ffi::F32> by, ffi::ResultBuffer<ffi::F32> y) {
  for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = x.typed_data()[i] * by.typed_data()[0];
}
void copied(ffi::AnyBuffer x, ffi::ScratchAllocator, ffi::Result<ffi::AnyBuffer> y) {
  std::memcpy(y->untyped_data(), x.untyped_data(), x.size_bytes());
}
void count(ffi::AnyBuffer x, ffi::ResultBuffer<ffi::S64> y) {
  std::fill(y->typed_data(), y->typed_data() + y->element_count(), int64_t(x.element_count()));
}
void split(ffi::Buffer<ffi::C64> z, ffi::ResultBuffer<ffi::F32> re, ffi::ResultBuffer<ffi::F32> im) {
  for (size_t i = 0; i < z.element_count(); ++i) {
    re->typed_data()[i] = z.typed_data()[i].real();
    im->typed_data()[i] = z.typed_data()[i].imag();
  }
}
}  // namespace
static ffi::Error Implementation(double eps, ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y) {
  if (eps < 0) return ffi::Error::InvalidArgument("eps is negative");
  for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = x.typed_data()[i] - eps;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    Lowered, Implementation,
    ffi::Ffi::Bind().Attr<double>("eps").Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>());
"""
FUNCTIONS = {
    "shifted": "(Tensor x, float by=1.0) -> Tensor",
    "outer": "The outer product of two vectors.",
    "facts": "facts(Tensor x, int n, bool flag=True, *, str s, int[] dims, float f, int big=3, float[] more=[])"
    " -> Tensor",
    "scaled": "(Tensor x, float by=2.) -> Tensor",
    "copied": "(Tensor x) -> Tensor",
    "count": "ext::count(Tensor x) -> Tensor",
    "split": "",
    "Lowered": "(Tensor x, *, float eps=0.5) -> Tensor",
}
RESULTS = {
    "outer": lambda a, b: torch.empty(a.shape[0], b.shape[0], dtype=a.dtype, device="meta"),
    "facts": lambda x, *rest: x.new_empty(7, dtype=torch.float64),
    "count": lambda x: x.new_empty((), dtype=torch.int64),
}


@functools.cache
def folder() -> Path:
    """A folder for builds that goes when the run ends."""
    made = tempfile.mkdtemp(prefix="extensions")
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return Path(made)


def again(**changes: Any) -> ModuleType:
    """The extension, loaded with other arguments."""
    arguments = {"functions": FUNCTIONS, "results": RESULTS, "build_directory": folder()} | changes
    return load_inline("ext", SOURCE, **arguments)


@functools.cache
def extension() -> ModuleType:
    """The extension ``ext``."""
    return again()


def same(ours: torch.Tensor, expected: Any) -> None:
    """Dtype, shape and numbers of a tensor."""
    expected = np.asarray(expected)
    got = ours.numpy()
    assert got.dtype == expected.dtype and got.shape == expected.shape, (got, expected)
    np.testing.assert_array_equal(got, expected)


def read(out: Any) -> Any:
    """The numbers of a result: recorded execution reports there what went wrong."""
    return [read(t) for t in out] if isinstance(out, tuple) else out.tolist()
