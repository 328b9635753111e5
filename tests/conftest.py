"""The conditions that every test runs under. TORCHLIKE_CASES=10 tries ten times as many random cases."""

from __future__ import annotations

import atexit
import ctypes
import faulthandler
import gc
import itertools
import os
import random
import re
import sys
import time
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import hypothesis

# Most of the time goes into compiling small programs, which LLVM need not optimise: with TORCHLIKE_EVERY it does.
os.environ["XLA_FLAGS"] = " ".join([
    "--xla_backend_optimization_level=1" if os.environ.get("TORCHLIKE_EVERY", "0") != "0" else
    "--xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1"
    + metadata.version("jaxlib").startswith("0.10.") * " --xla_cpu_use_fusion_emitters=false",  # others lack it
    os.environ.get("XLA_FLAGS", ""),
])  # fmt: skip

# PyTorch asks addr2line about each frame of its errors, for minutes, or for ever beside other threads.
os.environ.setdefault("TORCH_DISABLE_ADDR2LINE", "1")

# PyTorch's threads wait for each other by spinning, in processes that tests start too, on processors that others need.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# Processes that tests start end quickly; so does this one, see below.
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(Path(__file__).parent / "ending"), *filter(None, [os.environ.get("PYTHONPATH")])]
)

import in_turns
import jax
import lowering_kit  # noqa: F401 (lowering takes less time)
import numpy as np
import pytest
import pytorchs
import torch
from _pytest.faulthandler import fault_handler_stderr_fd_key
from jax._src import traceback_util
from narrow_kit import leave_out, narrow_pytorch
from process_state import process_state
from sampling import left_out

import torchlike
from torchlike._base.bits import X64
from torchlike._base.rng import default_generator
from torchlike._executor.recorded import cut

CASES = 30
atexit.register(gc.freeze)

# Many tests call what must fail, and jax takes milliseconds for leaving its own frames out of each traceback; it looks
# through the whole stack, too, whether another of its functions will do that, before it asks what is set.
jax.config.update("jax_traceback_filtering", "off")
traceback_util._is_under_reraiser = lambda error: True

hypothesis.settings.register_profile(
    "torchlike",
    derandomize=True,  # the same cases in every run: what fails, fails again
    deadline=None,  # the first call of a kernel compiles it
    max_examples=max(1, round(CASES * float(os.environ.get("TORCHLIKE_CASES", "1")))),
    print_blob=False,
)
hypothesis.settings.load_profile("torchlike")

collect_ignore = ["typed_program.py"]  # mypy reads it

if not X64:
    narrow_pytorch()

# Tests run in several processes, and small tensors gain nothing from more threads.
torch.set_num_threads(1)


# Every test runs in both kinds of execution; TORCHLIKE_EXECUTION chooses one.
EXECUTIONS = [os.environ["TORCHLIKE_EXECUTION"]] if "TORCHLIKE_EXECUTION" in os.environ else ["immediate", "recorded"]
# These run once: they call no operator, or do so in other processes, which say how they execute, or a compiler takes
# their time: ours, PyTorch's or that of C++; or they choose; so do the tests of compiled functions.
ONCE = frozenset((
    "test_32_bits", "test_accelerator_places", "test_accelerator_programs", "test_aten", "test_benchmarks",
    "test_casts", "test_cpp_extension_build", "test_dcp",
    "test_declarations", "test_derive", "test_device", "test_distributed", "test_docs", "test_dtypes",
    "test_example_scripts", "test_faults", "test_first_use", "test_geometry", "test_identity", "test_imports",
    "test_kernel_store", "test_layers", "test_layout", "test_numpy_elements", "test_numpy_programs", "test_opcheck",
    "test_operators_page", "test_plan", "test_processes", "test_promotion", "test_run", "test_sampling", "test_schema",
    "test_second_cpu", "test_sharding", "test_site", "test_spanning", "test_stubs", "test_workers",
))  # fmt: skip

# These compare formulas, at many points and in programs of their own: once; with TORCHLIKE_EVERY in both executions.
FORMULAS = frozenset((
    "test_complex_autograd", "test_conv_lowering", "test_conventions", "test_conventions_laboratory",
    "test_distributions", "test_gradcheck",
    "test_gradcheck_forward", "test_gradcheck_large",
    "test_kinks", "test_kinks_2", "test_pass_through",
))  # fmt: skip
EVERY = os.environ.get("TORCHLIKE_EVERY", "0") != "0"
if not EVERY:
    ONCE |= FORMULAS


def pytest_configure(config: pytest.Config) -> None:
    if in_turns.QUEUE in os.environ:
        config.pluginmanager.register(in_turns.Turns(os.environ.pop(in_turns.QUEUE)), "in_turns")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if any("execution" in mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")):
        return  # the test chooses
    once = metafunc.definition.path.stem in ONCE or metafunc.definition.path.parent.name == "compile"
    once = once or not EVERY and metafunc.definition.get_closest_marker("once") is not None
    metafunc.parametrize("execution", EXECUTIONS[:1] if once else EXECUTIONS, indirect=True)


@pytest.fixture(autouse=True)
def execution(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How eager calls of the test are executed, in threads and processes that it starts too."""
    torchlike.set_execution(request.param)
    monkeypatch.setenv("TORCHLIKE_EXECUTION", request.param)
    return request.param


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Both runs of a test follow each other, in one process mostly, so that the second finds its kernels compiled."""
    if not EVERY and config.pluginmanager.has_plugin("in_turns"):
        left = [item for item in items if left_out(item.nodeid)]
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if not left_out(item.nodeid)]
    places: dict[str, int] = {}
    names = [re.sub(r"\[(immediate|recorded)-?", "[", item.nodeid) for item in items]
    order = {item: places.setdefault(name, len(places)) for item, name in zip(items, names, strict=True)}
    items.sort(key=order.__getitem__)
    if not X64:
        leave_out(items)


def pytest_collection_finish() -> None:
    """The garbage collector need not look at the tests and libraries again and again, nor at each trace of jax's."""
    gc.set_threshold(20_000, 20, 20)
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def seeded(execution: str) -> Iterator[None]:
    """Every test starts from the same state of every global random generator, and ends with nothing to compute."""
    random.seed(0)
    np.random.seed(0)
    torch.default_generator.manual_seed(0)  # torch.manual_seed notes its caller's whole stack, for accelerators
    default_generator.manual_seed(0)
    yield
    cut()


@pytest.fixture(autouse=True, scope="module")
def neighbourly() -> Iterator[None]:
    """A file leaves its process as it found it, since any other may come after it."""
    before = process_state()
    yield
    after = process_state()
    left = {key: (value, after.get(key)) for key, value in before.items() if value != after.get(key)}
    assert not left, f"this file leaves (found, left): {left}"


HANGS = 300  # seconds after which a test that hangs ends its process, with the stack of every thread
_alarm = {"set": -float(HANGS)}


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Set the alarm, if it has not been set lately: it is a thread that is ended and started."""
    now = time.monotonic()
    if now - _alarm["set"] > HANGS / 30:
        faulthandler.dump_traceback_later(HANGS, exit=True, file=item.config.stash[fault_handler_stderr_fd_key])
        _alarm["set"] = now


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if pytorchs.asked:
        names = ", ".join(pytorchs.asked)
        terminalreporter.write_line(
            f"PyTorch was run, which takes long, for {names}: `make answers` notes what it gives."
        )


def pytest_unconfigure() -> None:
    faulthandler.cancel_dump_traceback_later()


MAPS = 40_000  # mappings of memory from which compiled kernels are forgotten; Linux gives a process 65,530
_memory = {"most": 3 << 30}  # bytes from which they are, unless that has not helped before
_maps = {"next": 0}  # the test after which mappings are counted again: that takes a millisecond for each thousand
_done = itertools.count(1)


def pytest_runtest_teardown() -> None:
    """Compiled kernels take memory and mappings of it, without which XLA crashes."""
    done = next(_done)
    if not done % 100:
        pytest_collection_finish()
    if done % 50 or not sys.platform.startswith("linux"):
        return
    full = _resident() > _memory["most"] and _given_back() > _memory["most"]
    if done >= _maps["next"]:
        count = Path("/proc/self/maps").read_bytes().count(b"\n")
        full |= count > MAPS
        _maps["next"] = done + max(MAPS - count, 0) // 200
    if full:
        jax.clear_caches()
        gc.collect()
        _memory["most"] = max(_memory["most"], _given_back() + (1 << 30))


def _given_back() -> int:
    """The memory left when what is free was given back to the system; it is kept else, see torchlike._setup."""
    ctypes.CDLL(None).malloc_trim(0)
    return _resident()


def _resident() -> int:
    """The bytes of memory that the process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
