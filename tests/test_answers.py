"""Questions that programs ask of the library and the machine: answered as PyTorch answers them without a GPU."""

import json
import time

import jax
import pytest
import torch
from both import agree, attempt

import torchlike

LIBRARIES = [torch, torchlike]
no_gpu = pytest.mark.skipif(jax.default_backend() != "cpu", reason="the answers are those of a machine without a GPU")


def answer(t, expression):
    """What an expression gives, or the type of its error."""
    try:
        value = eval(expression, {"torch": t})
    except Exception as error:
        return type(error).__name__
    return repr(value).replace("torchlike", "torch")


SAME = """
torch._assert(True, "m")
torch._assert(torch.tensor(False), "m")
torch._check(True)
torch._check(False, lambda: "said")
torch._check(1)
torch._check(torch.tensor(True))
torch._check(False, "text")
torch._check_index(False)
torch._check_value(False)
torch._check_type(False)
torch._check_not_implemented(False)
torch._check_with(ValueError, False)
torch._check_tensor_all(torch.tensor([True, True]))
torch._check_tensor_all(torch.tensor([True, False]))
torch._check_tensor_all(torch.ones(2))
torch._check_tensor_all(3)
torch._assert_async(torch.tensor(False))
torch._assert_async(torch.ones(2))
torch._assert_scalar(0, "said")
[torch._sym_cos(1), torch._sym_log2(8), torch._sym_sqrt is torch.sym_sqrt, torch.Tensor.true_divide_.__name__]
[torch.sym_int(-3.7), torch.sym_float(3), torch.sym_not(1), torch.sym_sqrt(4), torch.sym_sum([1, 2]), torch.sym_sum([])]
[torch.sym_max(2, 3.0), torch.sym_min(2, 3.0), torch.sym_max(2, 1), torch.sym_ite(False, 1, 2)]
torch.sym_ite(1, 1, 2)
torch.sym_ite(True, 1, 2.0)
torch.sym_constrain_range(5, min=7, max=9)
isinstance(3, (torch.SymInt, torch.SymFloat, torch.SymBool))
torch._shape_as_tensor(torch.ones(2, 3))
[torch.jagged, isinstance(torch.jagged, torch.layout), torch.ones(2).layout == torch.jagged]
torch.is_deterministic_algorithms_warn_only_enabled()
torch.get_deterministic_debug_mode()
torch.set_deterministic_debug_mode("loud")
torch.set_deterministic_debug_mode(7)
torch.set_num_interop_threads(0)
torch.compiled_with_cxx11_abi()
torch.Stream()
torch.Event(device="cpu").query()
torch.Event(device="cuda:0")
torch.Stream(device="cuda")
torch.nn.functional.native_channel_shuffle(torch.arange(8.0).view(1, 4, 2), 2)
torch.ones(1, 2, 3, 4).dim_order(ambiguity_check=True)
torch.ones(3).expand(2, 3).dim_order(ambiguity_check=True)
torch.get_device_module("cpu") is torch.cpu
torch.get_device_module("cuda") is torch.cuda
torch.get_device_module("nothing")
torch.classes.load_library("/no/such/file")
torch.classes.some.Class
torch.__future__.get_swap_module_params_on_conversion()
torch.ones(2).type(torch.DoubleTensor)
torch.ones(2).type("torch.LongTensor")
torch.ones(2).type("nonsense")
torch.ones(2).type(3)
torch.ones(2).type(torch.cuda.FloatTensor)
torch.cuda.FloatTensor(2)
(torch.FloatTensor.is_sparse, torch.LongTensor.layout, torch.cuda.FloatTensor.is_xpu)
torch.FloatTensor.add(torch.ones(1), 2)
torch.FloatTensor.nothing
setattr(torch.LongTensor, "nothing", 1)
torch._C._jit_get_emit_hooks()
torch._C._jit_set_emit_hooks(None, None)
torch._C._jit_clear_class_registry()
torch.jit._state._clear_class_state()
vars(torch.jit._recursive.ConcreteTypeStore())
isinstance(torch.ones(2), torch.FloatTensor)
isinstance(torch.ones(2), torch.cuda.FloatTensor)
torch.set_default_tensor_type("torch.IntTensor")
torch.set_default_tensor_type(3)
torch.set_default_tensor_type(torch.cuda.FloatTensor)
torch.ones(2).pin_memory()
torch.ones(2).is_pinned()
torch.ones(2).is_shared()
torch.FloatStorage([1, 2])
torch.FloatStorage(3).size()
torch.FloatStorage.dtype
torch.FloatStorage(torch.ones(2).untyped_storage())
torch.FloatStorage(wrap_storage=torch.ones(2).untyped_storage()).tolist()
torch.TypedStorage([1, 2], dtype=torch.int64)
torch.TypedStorage(3).dtype
torch.UntypedStorage([1, 2, 300])
torch.UntypedStorage("a")
torch.UntypedStorage.from_buffer(b"abcdefgh", dtype=torch.float32)
torch.UntypedStorage.from_buffer(b"abcdefgh", byte_order="big", dtype=torch.float32)
torch.UntypedStorage.from_buffer(b"abcdefgh", dtype=torch.uint8, count=3, offset=2)
torch.UntypedStorage.from_file("/no/such/file", False, 8)
torch.FloatStorage.from_buffer(b"abcdefgh", "little")
torch.is_storage(torch.ones(2).untyped_storage()), torch.is_storage(1)
torch.ones(2).untyped_storage().fill_(3)
torch.ones(2).untyped_storage().copy_(torch.zeros(2).untyped_storage())
torch.ones(2).untyped_storage().copy_(torch.zeros(3).untyped_storage())
torch.ones(2).untyped_storage()[100]
torch.ones(2).untyped_storage().type()
torch.ones(2).untyped_storage().filename
torch.ones(2).untyped_storage().pin_memory()
torch.tensor([]).set_(torch.UntypedStorage(0)).shape
torch.cuda.is_initialized(), torch.cuda.is_bf16_supported(), torch.cuda.is_tf32_supported()
torch.cuda.get_arch_list(), torch.cuda.get_gencode_flags(), torch.cuda.default_generators
torch.cuda.memory_allocated(), torch.cuda.max_memory_reserved(), torch.cuda.memory_stats()
torch.cuda.memory_stats_as_nested_dict(), torch.cuda.host_memory_stats()
torch.cuda.mem_get_info()
torch.cuda.get_device_capability()
torch.cuda.get_device_properties(0)
torch.cuda.get_device_name()
torch.cuda.current_device()
torch.cuda.synchronize()
torch.cuda.init()
torch.cuda.ipc_collect()
torch._C._get_accelerator()
torch._C._get_accelerator(True)
torch._C._has_cuda, torch._C._has_cudnn, torch._C._has_mps, torch._C._has_xpu, torch._C._has_magma
torch._C.has_lapack, torch._C.has_mkl, torch._C.has_openmp, torch._C.has_spectral, torch._C._has_cusparselt
[torch._C._is_alias_of(a, b) for a in [torch.ones(3)] for b in (a, a[1:], a.detach(), a.view(3, 1), a.clone())]
[torch._C._is_alias_of(a, a.view(0)) for a in [torch.empty(0)]], torch._C._is_alias_of(torch.empty(0), torch.empty(0))
torch._C._is_alias_of(torch.ones(1).to_sparse(), torch.ones(1)), torch._C._is_alias_of(*[torch.ones(1).to("meta")] * 2)
torch._C._is_alias_of(torch.ones(1))
torch._C._is_alias_of([torch.ones(1)], 3)
[torch._C._overlaps(a, b) for a in [torch.ones(3)] for b in (a, [a], {"x": a[1:]}, a.clone(), a[:0], 1, None, [])]
isinstance(torch.ones(1).untyped_storage(), torch.StorageBase), issubclass(torch.TypedStorage, torch._C.StorageBase)
issubclass(torch.UntypedStorage, torch.storage._StorageBase)
[getattr(torch, "_cast_" + n)(torch.tensor([1.5, -2.5])) for n in "Byte Char Short Int Long Half Float Double".split()]
torch._cast_Float(torch.ones(1), non_blocking=True).grad_fn, torch._cast_Int(3)
torch._cast_Double(torch.ones(1, requires_grad=True)).requires_grad
torch.accelerator.reset_peak_memory_stats()
torch.accelerator.reset_accumulated_memory_stats()
torch.accelerator.memory_reserved()
torch.accelerator.max_memory_reserved()
torch.accelerator.empty_host_cache()
[bool((f(torch.linspace(-9, 9, 65537)).abs() > 1).any()) for f in (torch.erf, torch.tanh, torch.sigmoid)]
bool((torch.nn.functional.gelu(torch.linspace(-9, -4, 65536)) > 0).any())
torch.erf(torch.tensor([torch.nan, torch.inf]))
bool(torch.log1p(-torch.distributions.Normal(0.0, 1.0).cdf(torch.linspace(-14, 14, 65537))).isnan().any())
[torch.nn.utils.stateless._reparametrize_module(m, {}).__enter__() for m in [torch.nn.Linear(1, 1)]]
torch.cuda.current_blas_handle()
torch.cuda.cudart()
torch.cuda.can_device_access_peer(0, 1)
torch.cuda.set_device(-1)
torch.cuda.set_device("cpu")
torch.cuda.device(-1).__enter__()
torch.cuda.device("cpu")
torch.cuda.device_of(torch.ones(1)).__enter__()
torch.cuda.get_rng_state()
torch.cuda.get_rng_state_all()
torch.cuda.set_rng_state(torch.ones(2))
torch.cuda.set_rng_state_all([])
torch.cuda.manual_seed_all(3)
torch.cuda.initial_seed()
torch.cuda.seed_all()
torch.cuda.empty_cache()
torch.cuda.set_per_process_memory_fraction(0.5)
torch.cuda.caching_allocator_alloc(3)
torch.cuda.set_stream(None)
torch.cuda.nvtx.range_push("a")
torch.cuda.nvtx.mark("a")
torch.cuda.nccl.is_available([])
torch.cuda.graphs.graph_pool_handle()
torch.cuda.make_graphed_callables(abs, ())
torch.cuda.FloatStorage(2)
issubclass(torch.cuda.OutOfMemoryError, RuntimeError), torch.cuda.OutOfMemoryError is torch.OutOfMemoryError
torch.xpu.is_available(), torch.xpu.device_count(), torch.xpu.is_bf16_supported(), torch.xpu.memory_allocated()
torch.xpu.current_device()
torch.xpu.empty_cache()
torch.xpu.manual_seed_all(0)
torch.mps.is_available(), torch.mps.device_count(), torch.mps.manual_seed(0)
torch.mps.empty_cache()
torch.mtia.is_available()
torch.accelerator.memory_allocated()
torch.accelerator.set_device_index(0)
torch.accelerator.current_stream()
torch.accelerator.empty_cache()
torch.cpu.Event().query()
torch.cpu.stream(None).__enter__()
torch.backends.cudnn.enabled, torch.backends.cudnn.benchmark, torch.backends.cudnn.is_available()
torch.backends.cudnn.version(), torch.backends.cudnn.is_acceptable(torch.ones(1)), torch.backends.cudnn.allow_tf32
torch.backends.cuda.is_built(), torch.backends.cuda.flash_sdp_enabled(), torch.backends.cuda.math_sdp_enabled()
torch.backends.cuda.matmul.allow_tf32, torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction
torch.backends.mkldnn.enabled, torch.backends.mkldnn.deterministic
torch.backends.mha.get_fastpath_enabled(), torch.backends.opt_einsum.enabled, torch.backends.opt_einsum.strategy
torch.backends.cusparselt.is_available(), torch.backends.kleidiai.is_available(), torch.backends.miopen.immediate
torch.backends.cpu.get_cpu_capability()
torch.profiler.schedule(wait=1, warmup=1, active=0)
torch.profiler.profile(activities=[])
[torch.profiler.schedule(wait=1, warmup=1, active=2, repeat=2, skip_first=1)(i).name for i in range(11)]
[torch.profiler.schedule(wait=2, warmup=0, active=1, skip_first_wait=1)(i).name for i in range(7)]
""".strip().split("\n")


@no_gpu
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("expression", SAME)
def test_answers(expression):
    assert answer(torchlike, expression) == answer(torch, expression)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("t", LIBRARIES)
def test_storages_change_their_tensors(t):
    x = t.zeros(2, 2)
    x.storage()[1] = 5.0
    x.untyped_storage()[0:4] = 0
    y = t.ones(3)
    y.storage().fill_(2.0)
    assert x.tolist() == [[0, 5], [0, 0]] and y.tolist() == [2, 2, 2]
    assert isinstance(y.storage(), t.FloatStorage) and not isinstance(y.storage(), t.DoubleStorage)
    assert y.storage().double().tolist() == [2.0] * 3 and y.storage().type() == "torch.FloatStorage"
    assert y.storage_type() is t.FloatStorage and t.FloatTensor(t.FloatStorage([1, 2])).tolist() == [1, 2]


def test_the_default_tensor_type():
    with pytest.warns(UserWarning, match="set_default_tensor_type.. is deprecated"):
        torchlike.set_default_tensor_type(torchlike.DoubleTensor)
    try:
        assert torchlike.ones(1).dtype is torchlike.float64
    finally:
        torchlike.set_default_dtype(torchlike.float32)


def test_precision_of_products():
    matmul = torchlike.backends.cuda.matmul
    try:
        matmul.allow_tf32 = True
        assert torchlike.get_float32_matmul_precision() == "high" and matmul.fp32_precision == "tf32"
        torchlike.set_float32_matmul_precision("highest")
        assert not matmul.allow_tf32
    finally:
        matmul.allow_tf32 = False
    for t in LIBRARIES:
        with pytest.raises(AttributeError, match="Unknown attribute"):
            t.backends.cuda.matmul.nonsense = 1


@pytest.mark.parametrize("t", LIBRARIES)
def test_flags_of_libraries(t):
    with t.backends.cudnn.flags(enabled=False, deterministic=True):
        assert (t.backends.cudnn.enabled, t.backends.cudnn.deterministic) == (False, True)
    assert t.backends.cudnn.enabled
    t.backends.cuda.enable_flash_sdp(False)
    assert not t.backends.cuda.flash_sdp_enabled()
    t.backends.cuda.enable_flash_sdp(True)


# -- profiles ------------------------------------------------------------------------------------------


def profiled(t):
    module, x = t.nn.Linear(3, 2), t.ones(4, 3)
    with t.profiler.profile(record_shapes=True) as prof:
        with t.profiler.record_function("forward"):
            loss = module(x).relu().sum()
        loss.backward()
    return prof


@pytest.mark.filterwarnings("ignore")
def test_operators_that_ran():
    """Each operator that runs, as often as PyTorch runs it."""
    seen = []
    for t in LIBRARIES:
        counts = {event.key: event.count for event in profiled(t).key_averages()}
        seen.append({name: counts.get(name) for name in ("aten::addmm", "aten::relu", "aten::mm", "forward")})
    assert seen[0] == seen[1] == {"aten::addmm": 1, "aten::relu": 1, "aten::mm": 1, "forward": 1}


def test_what_a_profile_tells(tmp_path):
    prof = profiled(torchlike)
    [outer] = [event for event in prof.events() if event.name == "forward"]
    inner = {event.name for event in outer.cpu_children}
    assert {"aten::linear", "aten::relu", "aten::sum"} <= inner and outer.self_cpu_time_total <= outer.cpu_time_total
    [product] = [event for event in prof.events() if event.name == "aten::addmm"]
    assert product.input_shapes == [[2], [4, 3], [3, 2]]
    kernels = [event for event in prof.events() if event.category == "kernel"]
    assert {event.name for event in kernels} >= {"kernel aten::addmm"}
    table = prof.key_averages().table(sort_by="cpu_time_total", row_limit=3)
    assert "Self CPU time total" in table and "forward" in table and table.count("\n") == 8
    with pytest.raises(ValueError, match="cannot sort by 'beauty'"):
        prof.key_averages().table(sort_by="beauty")
    prof.export_chrome_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert {"cpu_op", "user_annotation", "kernel"} <= {event["cat"] for event in events}


def test_events_come_as_they_began():
    def f(t):
        x, P = t.ones(3), t.autograd.profiler
        with P.profile() as prof, P.record_function("outer"):
            y = x * 2
            with P.record_function("inner"):
                y - x
        names = [event.name for event in prof.function_events]
        return [name for name in names if name in ("outer", "inner", "aten::mul", "aten::sub")]

    agree(f)


def test_compilations_are_told_apart():
    size = 100_000 + time.time_ns() % 99_991  # a shape that no other test or run has compiled
    with torchlike.profiler.profile() as prof:
        torchlike.ones(size).sin().cosh()
    assert [event for event in prof.events() if event.category == "compilation"]


def followed(t, tmp_path):
    ready = []

    def on_trace_ready(prof):
        names = [event.name for event in prof.events()]
        ready.append((prof.step_num, sorted(name for name in names if name.startswith("ProfilerStep"))))
        t.profiler.tensorboard_trace_handler(tmp_path / t.__name__, "me")(prof)

    plan = t.profiler.schedule(wait=1, warmup=1, active=2, repeat=2)
    with t.profiler.profile(schedule=plan, on_trace_ready=on_trace_ready) as prof:
        for _ in range(10):
            t.ones(2) + 1
            prof.step()
    files = [file.name for file in (tmp_path / t.__name__).iterdir()]
    return ready, len(files), all(name.startswith("me.") and name.endswith(".pt.trace.json") for name in files)


@pytest.mark.filterwarnings("ignore")
def test_a_schedule(tmp_path):
    assert followed(torchlike, tmp_path) == followed(torch, tmp_path)


def test_nothing_is_recorded_outside():
    assert not torchlike._core.dispatch.observers.state.dispatch_modes
    with torchlike.autograd.profiler.profile(enabled=False):
        assert not torchlike._core.dispatch.observers.state.dispatch_modes
    with torchlike.autograd.profiler.profile() as prof:
        torchlike.ones(2)
    torchlike.ones(2).exp()
    assert not [event for event in prof.function_events if event.name == "aten::exp"]
    assert attempt(lambda: torchlike.autograd.profiler.profile().function_events) is not None


@pytest.mark.parametrize("name", ["emit_nvtx", "emit_itt"])
def test_marks_that_nobody_hears(name):
    with pytest.warns(UserWarning, match=f"{name}: .* is told nothing"), getattr(torchlike.autograd.profiler, name)():
        pass


def test_wishes_that_are_not_fulfilled():
    with pytest.warns(UserWarning, match="profile_memory, with_stack: not recorded"):
        torchlike.profiler.profile(profile_memory=True, with_stack=True)
    with pytest.raises(NotImplementedError, match="ExecutionTraceObserver"):
        torchlike.profiler.ExecutionTraceObserver()
    with pytest.raises(NotImplementedError, match=r"torch\.SymInt: .* no symbolic ones"):
        torchlike.SymInt(3)


@pytest.mark.parametrize("t", LIBRARIES)
def test_one_class_of_kernels_of_attention(t):
    assert t.backends.cuda.SDPBackend is t.nn.attention.SDPBackend
    assert [int(b) for b in (t.nn.attention.SDPBackend.MATH, t.nn.attention.SDPBackend.FLASH_ATTENTION)] == [0, 1]
