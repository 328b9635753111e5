"""What stands in for torch looks like torch: pickles, copies, names of what is public; modules that are not built."""

import json
import subprocess
import sys

import pytest
from story_kit import said, story

import torchlike as tl

SWEEP = """
import copy, importlib, inspect, pickle, types
import torch
places = '''torch torch.linalg torch.fft torch.special torch.nn torch.nn.functional torch.nn.init torch.optim torch.func
torch.autograd torch.amp torch.utils.checkpoint torch.utils.data torch.utils._pytree torch.library torch.random
torch.distributions torch.jit torch.fx torch.compiler torch.overrides torch.cuda torch.sparse torch.masked'''.split()
known = {"torch.autograd.variable": "a function in PyTorch, here the module of that name",
         "torch.library.jax_op": "not PyTorch's"}
for place in places:
    module = importlib.import_module(place)
    assert repr(module).startswith(f"<module '{place}' from"), module
    for name in module.__all__ if hasattr(module, "__all__") else dir(module):
        value, full = getattr(module, name, None), f"{place}.{name}"
        if name.startswith("_") or full in known or isinstance(value, types.ModuleType):
            continue
        if not (inspect.isroutine(value) or isinstance(value, type)):
            continue
        if not str(value.__module__).startswith(("torch.", "torchlike")) and value.__module__ != "torch":
            continue
        try:
            text = pickle.dumps(value)
        except Exception as error:
            raise AssertionError(full) from error
        assert pickle.loads(text) is value and copy.deepcopy(value) is value, full
        assert b"torchlike" not in text and "torchlike" not in repr(value), (full, text)
"""
UNBUILT = """
import sys
import torch
from torch.package import PackageExporter
from torch._prims_common import NumberType, SomeError
from torch._inductor.runtime.cache_dir_utils import cache_dir
from torch.package import Directory
from torch.xpu.memory import memory_allocated
from torch.masked.maskedtensor import MaskedTensor
assert memory_allocated is torch.xpu.memory_allocated
assert not isinstance(1, MaskedTensor) and hasattr(torch, "package") and issubclass(SomeError, Exception)
for use in (PackageExporter, cache_dir, Directory.has_file, torch._prims_common.ALL_OF_THEM.__bool__):
    try:
        use()
    except NotImplementedError as error:
        assert "not in torchlike yet" in str(error) and str(error).startswith("torch."), error
    else:
        raise AssertionError(use)
try:
    if torch._prims_common.FLAG:
        raise AssertionError
except NotImplementedError as error:
    assert "torch._prims_common.FLAG" in str(error)
for missing in ("torch._six", "torch.Tensor", "torch.multiprocessing.spawn"):
    try:
        __import__(missing)
    except ImportError as error:
        assert missing in str(error)
    else:
        raise AssertionError(missing)
assert callable(torch.multiprocessing.spawn) and torch.Tensor.__or__
import torch.hub, torchlike.hub  # once, though they have two names
assert torch.hub is torchlike.hub is sys.modules["torch.hub"] is sys.modules["torchlike.hub"]
"""


@pytest.mark.parametrize("program", [SWEEP, UNBUILT], ids=["sweep", "unbuilt"])
def test_in_the_place_of_torch(program):
    preamble = "import torchlike; torchlike.install_as_torch()\n"
    run = subprocess.run([sys.executable, "-c", preamble + program], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


NAMES = """
import json, torch, torch.distributed
places = [torch, torch.functional, torch.nn.functional, torch.fft, torch.special, torch.linalg]
places += [torch.distributed.distributed_c10d]
functions = {f"{place.__name__}.{name}": getattr(place, name) for place in places for name in dir(place)}
listed = {f for f in torch.overrides.get_testing_overrides() if not torch.overrides.is_tensor_method_or_property(f)}
print(json.dumps({name: (f.__module__, f.__name__) for name, f in functions.items() if callable(f) and f in listed}))
print(json.dumps([n for n in dir(torch) if getattr(torch.nn.functional, n, 0) is getattr(torch, n)]))
"""
# PyTorch has these in modules of their own; graphs of torch.fx name them as users do.
APART = {"torch.dsmm", "torch.lobpcg", "torch.pca_lowrank", "torch.svd_lowrank"}
APART |= {f"torch.functional.{name}" for name in ("pca_lowrank", "svd_lowrank")}


def test_names_of_functions():
    alias = "import torchlike; torchlike.install_as_torch()\n"
    texts = [subprocess.run([sys.executable, "-c", p + NAMES], capture_output=True, text=True) for p in ("", alias)]
    assert not texts[1].returncode, texts[1].stderr
    (theirs, shared), (ours, ours_shared) = ([json.loads(x) for x in t.stdout.splitlines()] for t in texts)
    both = set(theirs) & set(ours) - APART
    wrong = {name: (theirs[name], ours[name]) for name in both if theirs[name] != ours[name]}
    assert len(both) > 650 and not wrong
    assert {name for name in shared if f"torch.{name}" in theirs} - set(ours_shared) <= {"norm"}


@story
def test_names_of_earlier_versions(t):
    a = t.eye(2)
    b = t.tensor([[1.0, 2.0], [3.0, 4.0]])
    names = ("solve", "symeig", "eig", "lstsq", "matrix_rank")
    removed = [said(lambda n=n: getattr(t, n)(a, a), "removed") for n in names]
    handle = t.ops.profiler._record_function_enter_new("x")
    return [
        removed, t.dsmm(b.to_sparse(), a), t.dsmm(a, b), t.is_distributed(a), t.is_vulkan_available(), t.has_mkl,
        t.has_lapack, t.has_openmp, t.ops.profiler._record_function_exit(handle),
    ]  # fmt: skip


@story
def test_switches_that_change_nothing_here(t):
    from importlib import import_module

    python, triton = import_module(f"{t.__name__}._dispatch.python"), import_module(f"{t.__name__}.utils._triton")
    with python.enable_python_dispatcher(), python.no_python_dispatcher():
        return [t.ones(2) + 1, triton.has_triton(), triton.has_triton_package(), triton.get_triton_version()]


def test_wrong_calls():
    with pytest.raises(TypeError, match="set_flush_denormal expects a bool, but got int"):
        tl.set_flush_denormal(1)
    with pytest.raises(RuntimeError, match="expects what _record_function_enter gave"):
        tl.ops.profiler._record_function_exit(3)
    with pytest.raises(NotImplementedError, match="torch.onnx.ONNXProgram: no ONNX files"):
        tl.onnx.ONNXProgram()
