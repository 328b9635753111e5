"""Methods and functions that few programs call: what they give, and how those that are refused say so."""

import copy
import importlib
import io

import pytest
import torch
from both import agree, agree_error
from story_kit import said, story, warned

import torchlike

REFUSED = "int_repr q_scale q_zero_point qscheme q_per_channel_scales q_per_channel_axis q_per_channel_zero_points"


@story
def test_dim_order(t):
    wide = t.ones(2, 3, 4, 5).contiguous(memory_format=t.channels_last)
    found = [t.ones(2, 3), t.ones(2, 3).t(), wide, t.ones(3).expand(2, 3), t.tensor(1.0), t.ones(0, 2), t.ones(1, 3, 1)]
    formats = [t.contiguous_format, t.channels_last]
    wrong = [(t.ones(1, 3, 1), True), (t.ones(2, 1, 3, 4), formats), (wide, 3), (t.eye(2).to_sparse(), False)]
    errors = [
        said(lambda x=x, c=c: x.dim_order(ambiguity_check=c), "unique|bool or a list|sparse type") for x, c in wrong
    ]
    return [x.dim_order() for x in found], wide.dim_order(ambiguity_check=formats), errors


@story
def test_ways_of_quantizing_are_constants(t):
    names = "per_tensor_affine per_channel_affine per_tensor_symmetric per_channel_symmetric".split()
    found = [getattr(t, name) for name in [*names, "per_channel_affine_float_qparams"]]
    file = io.BytesIO()
    t.save({"schemes": found}, file)
    file.seek(0)
    again = t.load(file)["schemes"]
    file.seek(0)
    assert torch.load(file)["schemes"][1] is torch.per_channel_affine
    return (
        list(map(str, found)), t.qscheme.__name__, [isinstance(q, t.qscheme) for q in found], len(set(found)),
        [a is b is copy.deepcopy(a) for a, b in zip(found, again, strict=True)], said(t.qscheme, "cannot create"),
    )  # fmt: skip


@story
def test_methods(t):
    x, base = t.ones(2, 3), t.arange(8.0)
    return (
        x.is_distributed(), x.is_vulkan, x.const_data_ptr() == x.data_ptr(), x.half().dequantize(), t.dequantize(x),
        base[2:4].slice_inverse(base, 0, 2, 4, 1), x.module_load(t.zeros(2, 3)), x, x.module_load(x + 1, assign=True),
        said(lambda: x.module_load(t.zeros(5)), "size of tensor"), said(lambda: x.record_stream(None), "parameter"),
        said(x.symeig, "removed"), said(x.eig, "removed"), said(lambda: x.solve(x), "removed"),
        said(lambda: x.lstsq(x), "removed"), said(x.xpu, "not compiled with XPU"), said(x.ipu, "not linked"),
        said(x.mtia, "not compiled with MTIA"),
    )  # fmt: skip


@story
def test_functions(t):
    rows, columns = t.eye(2).to_sparse_csr(), t.eye(2).to_sparse_csc()
    functional = t.nn.functional
    return (
        t.addmv_(t.ones(2), t.ones(2, 3), t.ones(3)), t.crow_indices_copy(rows), t.col_indices_copy(rows),
        t.ccol_indices_copy(columns), t.row_indices_copy(columns),
        t.embedding_renorm_(t.ones(2, 3) * 2, t.tensor([0]), 1.0, 2.0),
        functional.GRID_SAMPLE_INTERPOLATION_MODES, functional.GRID_SAMPLE_PADDING_MODES,
    )  # fmt: skip


@pytest.mark.parametrize("name", [*REFUSED.split(), "to_padded_tensor"])
def test_refused_methods(name):
    more = (0.0,) if name == "to_padded_tensor" else ()
    agree_error(lambda t: getattr(t.ones(2), name)(*more), name)


@pytest.mark.parametrize("name", "to_mkldnn chalf index".split())
def test_what_pytorch_has(name):
    with pytest.raises(NotImplementedError, match=r"oneDNN|complex32|first-class"):
        getattr(torchlike.ones(2), name)()


@pytest.mark.parametrize("name", "native_norm values_copy indices_copy hsmm saddmm".split())
def test_refused_functions(name):
    assert hasattr(torch, name)
    with pytest.raises(NotImplementedError, match=name):
        getattr(torchlike, name)(torchlike.ones(2))


class Handle:
    def __init__(self, calls):
        self.remove = lambda: calls.append("removed")


@story
def test_kernels_of_attention(t):
    a, calls = t.nn.attention, []
    a.register_flash_attention_impl("mine", register_fn=lambda: Handle(calls))
    a.register_flash_attention_impl("quiet", register_fn=lambda: calls.append("called"))
    a.activate_flash_attention_impl("mine")
    seen = [a.current_flash_attention_impl()]
    a.restore_flash_attention_impl()
    a.activate_flash_attention_impl("quiet")
    seen += [a.current_flash_attention_impl(), calls, a.list_flash_attention_impls()]
    return *seen, said(lambda: a.activate_flash_attention_impl("x"), "Unknown")


def test_kernels_of_pytorch():
    with pytest.raises(NotImplementedError, match="FA4"):
        torchlike.nn.attention.activate_flash_attention_impl("FA4")


UNBUILT = "nn.functional.scaled_grouped_mm sparse.to_sparse_semi_structured linalg.common_notes"


@pytest.mark.parametrize("name", UNBUILT.split())
def test_what_is_missing_is_told_from_what_is_misspelt(name):
    module = torchlike
    *path, last = name.split(".")
    for part in path:
        module = getattr(module, part)
    with pytest.raises(AttributeError, match=f"torchlike does not have torch.{name} yet"):
        getattr(module, last)
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        module.nonsense  # noqa: B018


def test_the_type_of_tensors_in_schemas():
    for m in (torchlike, torch):
        found = m.TensorType.get()
        assert (str(found), found.kind()) == ("Tensor", "TensorType")
        kinds = [isinstance(a.type, m.TensorType) for a in m.ops.aten.add.Tensor._schema.arguments]
        assert kinds == [True, True, False]
        with pytest.raises(TypeError, match="No constructor defined"):
            m.TensorType()


@story
def test_types_of_torchscript(t):
    whole, tensor = t.IntType.get(), t.TensorType.get()
    plain = (
        t.AnyType, t.BoolType, t.ComplexType, t.DeviceObjType, t.FloatType, t.IntType, t.NoneType, t.NumberType,
        t.PyObjectType, t.StreamObjType, t.StringType, t.TensorType,
    )  # fmt: skip
    made = [c.get() for c in plain]
    made += [c(whole) for c in (t.AwaitType, t.FutureType, t.ListType, t.OptionalType, t.RRefType)]
    made += [t.DictType(whole, t.ListType(tensor)), t.TupleType([whole, tensor]), t.OptionalType.ofTensor()]
    of = t.ListType
    made += [of.ofBools(), of.ofComplexDoubles(), of.ofFloats(), of.ofInts(), of.ofStrings(), of.ofTensors()]
    classes = [*plain, t.ListType, t.OptionalType, t.DictType, t.TupleType]
    argument = t.ops.aten.sum.dim_IntList._schema.arguments[1].type
    return [
        [(str(m), repr(m), m.kind(), m.annotation_str, [str(c) for c in m.containedTypes()]) for m in made],
        [[isinstance(m, c) for m in made] for c in classes], [m == made[5] for m in made],
        [str(made[17].getKeyType()), str(made[17].getValueType()), str(made[18].elements())],
        str(argument), isinstance(argument, t.OptionalType), isinstance(argument.getElementType(), t.ListType),
        [said(c, "No constructor defined") for c in plain], said(lambda: t.ListType(int), ""),
        said(lambda: whole.getElementType(), ""), said(lambda: t.ListType(whole).elements(), ""),
        [c.__module__.partition(".")[0].replace("like", "") for c in classes],
    ]  # fmt: skip


def test_groups_of_tensors():
    for m in (torchlike, torch):
        group = importlib.import_module(f"{m.__name__}.utils._foreach_utils")._group_tensors_by_device_and_dtype
        a, b, c = m.ones(1), m.ones(2, dtype=m.float64), m.ones(3)
        found = group([[a, b, c], [None, None, None], [c, a, b], []], with_indices=True)
        lists, numbers = found[a.device, m.float32]
        assert [x is y for x, y in zip(lists[0], [a, c], strict=True)] == [True, True]
        assert lists[1:] == [[None, None], lists[2], []] and lists[2][0] is c and numbers == [0, 2]
        assert len(found) == 2 and found[b.device, m.float64][1] == [1]
        assert group([[a, b]])[a.device, m.float32][1] == []
        for wrong, words in ([], "to be true"), ([[a], [a, b]], "to be true"), ([[None]], "the 0-th Tensor is not"):
            with pytest.raises(RuntimeError, match=words):
                group(wrong)


@story
def test_functions_of_the_c_code(t):
    vf, x, h = t._VF, t.arange(6.0).reshape(2, 3), t.zeros(1, 1, 2)
    weights = [w.fill_(0.5) for w in (t.ones(8, 3), t.ones(8, 2), t.ones(8), t.ones(8))]
    return (
        t._C._VariableFunctions.add is t.add, vf.relu(-x), vf.atleast_2d(x[0]), vf.block_diag([x, x]),
        vf.broadcast_tensors([x, x[0]])[1], vf.cartesian_prod([x[0], x[1]]), vf.cdist(x, x, 2.0, None),
        vf.chain_matmul([x, x.T]), vf.einsum("ij,kj->ik", [x, x]), vf.meshgrid([x[0], x[0]])[1], vf.norm(x, 2),
        vf.split(x, [1, 1])[0], vf.tensordot(x, x, [0], [0]), hasattr(vf, "nn"),
        vf.lstm(x[:, None], (h, h), weights, True, 1, 0.0, False, False, False),
    )  # fmt: skip


@story
def test_a_tensor_of_a_tensor_is_a_view(t):
    class Mine(t.Tensor):
        pass

    def of(x, make):
        y = make(x)
        return type(y).__name__, y._is_view(), y._base is x, y.requires_grad, y.data_ptr() == x.data_ptr()

    p = t.ones(2, requires_grad=True)
    (t.Tensor(p) * Mine(p) * 3).sum().backward()
    makers = (Mine, t.Tensor, t.FloatTensor, lambda x: x.new(x))
    return [of(x, make) for x in (p, t.ones(2)) for make in makers], p.grad


@story
def test_new(t):
    x, whole = t.ones(3), t.IntTensor([1, 2])
    return (
        x.new(size=(3, 4)).shape, x.new(x.untyped_storage()), x.new([1, 2]), x.new(2, device="cpu").shape, x.new(),
        said(lambda: x.new(whole), ""), said(lambda: x.new(size=3), "invalid combination"),
        said(lambda: x.new(x, x), ""), said(lambda: x.set_(whole.storage()), "Expected a Storage of type"),
        [t.ones(n).storage().__sizeof__() - t.ones(0).storage().__sizeof__() for n in (1, 10)],
    )  # fmt: skip


@story
def test_bernoulli_into_another_dtype(t):
    p = t.tensor([0.0, 1.0, 1.0])
    empty = lambda dtype, n=3: t.empty(n, dtype=dtype)  # noqa: E731
    t.manual_seed(0)
    return (
        [t.bernoulli(p, out=empty(d)) for d in (t.int32, t.bool, t.uint8, t.float64)],
        t.bernoulli(p, out=empty(t.int8, 5)), t.bernoulli(t.full((9,), 0.5), out=empty(t.int64, 9)),
        said(lambda: t.bernoulli(p, out=empty(t.complex64)), "bernoulli_tensor_cpu_self_"),
        said(lambda: t.bernoulli(p + 1, out=empty(t.int8)), "p_in"),
    )  # fmt: skip


@story
def test_overrides_are_on_while_their_guard_lives(t):
    class Mine(t.Tensor):
        pass

    x, seen = Mine([1.0]), []
    with t._C.DisableTorchFunctionSubclass():
        guard = t._C._EnableTorchFunction()
        seen.append(type(x + 1).__name__)
        del guard
        seen.append(type(x + 1).__name__)
    return seen


@story
def test_a_mode_sees_how_to_reads_its_arguments(t):
    class Mode(t.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append((func.__name__, args, kwargs or {}))
            return func(*args, **(kwargs or {}))

    seen: list = []
    with Mode():
        found = t._C._nn._parse_to("cpu"), t._C._nn._parse_to(device="cpu", non_blocking=True)
    return [str(x) for x in (*seen, *found)]


@story
def test_old_names_of_conversions(t):
    class Noting(t.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func.__name__

    x = Noting([1.0])
    return (
        x.__long__(), x.__nonzero__(), t.tensor(3.7).__long__(), t.tensor(0.0).__nonzero__(),
        said(lambda: t.ones(2).__nonzero__(), "ambiguous"), t.overrides.resolve_name(t.istft),
        t.overrides.get_testing_overrides()[t.segment_reduce](1, 2),
    )  # fmt: skip


@story
def test_add_relu(t):
    add, x, y = t._VF._add_relu, t.tensor([1.0, -3.0]), t.tensor([1.0, 1.0])
    whole = t.tensor([1, -3])
    names = "float16 bfloat16 complex64 bool uint8".split()
    wrong = [said(lambda n=n: add(x.to(getattr(t, n)), y.to(getattr(t, n))), "Unsupported datatype") for n in names]
    return (
        add(x, y), add(x, 2), add(x, y, alpha=2), add(whole, 1), add(whole, 2.5), add(whole, y), add(x[:, None], y),
        add(whole.to(t.int8), whole.to(t.int8)), add(x, y, out=t.zeros(2)), t.ops.aten._add_relu(x, y), wrong,
        said(lambda: add(1, y), "_add_relu"),
        said(lambda: add(x.requires_grad_(), y).sum().backward(), "derivative for aten::_add_relu is not implemented"),
    )  # fmt: skip


@story
def test_plain_grid_sampler(t):
    x = t.arange(12.0).reshape(1, 1, 3, 4).requires_grad_()
    grid = t.linspace(-1.3, 1.2, 12).reshape(1, 2, 3, 2).requires_grad_()
    found = []
    for mode, padding, corners in ((0, 0, True), (1, 1, False), (0, 1, False)):
        y = t._grid_sampler_2d_cpu_fallback(x, grid, mode, padding, corners)
        found.append((y.detach(), y.grad_fn.name(), t.autograd.grad(y.sum(), (x, grid))))
    return found


def test_the_module_of_process_groups_has_stores_and_work():
    ours, theirs = torchlike.distributed, torch.distributed
    for name in ("PrefixStore", "ReduceOp", "Store", "Work"):
        assert getattr(ours.distributed_c10d, name) is getattr(ours, name)
        assert getattr(theirs.distributed_c10d, name) is getattr(theirs, name)
    for module in (ours, theirs):
        with pytest.warns(FutureWarning, match="reduce_op` is deprecated"):
            assert module.distributed_c10d.reduce_op.MAX == module.ReduceOp.MAX
    with pytest.raises(AttributeError, match="FOO"):
        ours.reduce_op.FOO  # noqa: B018


@story
def test_switches_and_questions(t):
    flags = [t._C._jit_set_autocast_mode(flag) for flag in (True, False, True, True)]
    traced = []
    t.jit.trace(lambda x: traced.append(t._C._is_tracing()) or x + 1, t.ones(2), check_trace=False)
    with t.autograd.profiler.profile():
        inside = t.autograd._profiler_enabled()
    t.set_default_device("meta")
    device = t._C._get_default_device()
    t.set_default_device(None)
    return (
        flags, t._C._is_tracing(), traced, t.autograd._profiler_enabled(), inside, device,
        t._C._show_config() == t.__config__.show(), t.distributed._rank_not_in_group(None),
        t.serialization.normalize_storage_type(t.FloatStorage).__name__,
        t.distributions.transforms._clipped_sigmoid(t.tensor([-1e3, 0.0, 1e3])),
    )  # fmt: skip


@story
def test_texts_of_tensors(t):
    texts, x = importlib.import_module(f"{t.__name__}._tensor_str"), t.ones(2, requires_grad=True)
    return (
        texts._str_intern(t.nn.Parameter(t.ones(2))), texts._str(x), texts._str(x * 2, tensor_contents="..."),
        texts._str_intern(t.ones(2).to_sparse()),
    )  # fmt: skip


@story
def test_groups_of_tensors_by_size(t):
    def groups(sizes, limit):
        tensors = [t.ones(abs(n), dtype=t.float32 if n >= 0 else t.int32) for n in sizes]
        return [[(str(x.dtype), len(x)) for x in group] for group in t._utils._take_tensors(tensors, limit)]

    cases = ([3, -1, 4, -2, 2, -9], 16), ([1, 1, 1, -1, -3, 1], 8), ([8, 1], 16), ([], 3), ([0, 0, 4], 4)
    return [groups(*case) for case in cases]


@story
def test_steps_of_functional_derivatives(t):
    steps, x = importlib.import_module(f"{t.__name__}.autograd.functional"), t.ones(2, requires_grad=True)
    pairs = ((1, 2), (3, 4))
    told = [
        [(p.requires_grad, p.grad_fn and p.grad_fn.name()) for p in steps._grad_preprocess((each,), *flags)]
        for each in (x, t.ones(2)) for flags in ((True, True), (True, False), (False, True), (False, False))
        if each is x or flags[1]
    ]  # fmt: skip
    return (
        steps._as_tuple(x), steps._as_tuple([x]), steps._as_tuple(x, "a", "f"), steps._as_tuple((x,), "a", "f"),
        said(lambda: steps._as_tuple(3, "a", "f")), said(lambda: steps._as_tuple((3,), "a", "f")), told,
        [steps._tuple_postprocess(pairs, (outer, inner)) for outer in (True, False) for inner in (True, False)],
        steps._tuple_postprocess((1, 2), True), steps._tuple_postprocess((1, 2), False),
        steps._grad_postprocess(((x * 2,), (x * 3,)), False), steps._grad_postprocess((x * 2,), True),
    )  # fmt: skip


@story
def test_line_search_of_lbfgs(t):
    search, seen = importlib.import_module(f"{t.__name__}.optim.lbfgs"), []

    def fourth_powers(x, step, d):
        seen.append(round(float(step), 8))
        at = x + step * d
        return (at**4).sum().item(), 4 * at**3

    at, along, slopes, slope = (t.tensor(v, dtype=t.float64) for v in ([1.0, 2.0], [-1.0, -3.0], [4.0, 32.0], -100.0))
    found, tight = [], dict(c1=0.3, c2=0.1)
    for first, more in ((1.0, {}), (3.0, {}), (0.01, tight), *((0.01, tight | {"max_ls": n}) for n in (1, 2, 3, 4, 5))):
        loss, grad, step, count = search._strong_wolfe(fourth_powers, at, first, along, 17.0, slopes, slope, **more)
        found.append((t.tensor(loss), grad, t.tensor(float(step)), count))
    points = (0.0, 1.0, t.tensor(-2.0), 1.0, 0.5, t.tensor(2.0))
    cubic = [search._cubic_interpolate(*p, **k) for p, k in (
        (points, {}), ((*points[3:], *points[:3]), {}), (points, dict(bounds=(0.2, 0.3))),
        ((0.0, 1.0, t.tensor(2.0), 1.0, 0.5, t.tensor(2.0)), {}),
        ((0.0, 1.0, t.tensor(0.1), 1.0, 3.0, t.tensor(9.0)), {}),
    )]  # fmt: skip
    return found, seen, t.tensor([float(c) for c in cubic])


@story
def test_tensors_of_a_level_of_grad(t):
    steps = importlib.import_module(f"{t.__name__}._functorch.eager_transforms")
    outside = t.ones(2)
    with steps.grad_increment_nesting() as level:
        x = steps._wrap_tensor_for_grad(outside, level)
        return t._C._functorch.is_gradtrackingtensor(x), x.shape, steps._wrap_tensor_for_grad("a", level)


@story
def test_a_result_that_may_be_waited_for(t):
    late = importlib.import_module(f"{t.__name__}.distributed._functional_collectives").AsyncCollectiveTensor
    x = late(t.arange(6.0).reshape(2, 3))
    views = [type(y).__name__ for y in (x, x.view(-1), x.t(), x[0], x.detach(), *x.unbind(), x.mul_(2))]
    plain = [type(y).__name__ for y in (x + 1, x.clone(), x.sum(), x.wait(), x.elem, t.cat([x, x]), t.zeros_like(x))]
    x.wait().add_(1)
    other = type("Other", (t.Tensor,), {})
    return views, plain, repr(x), x.wait(), isinstance(x, t.Tensor), type(x + t.ones(3).as_subclass(other)).__name__


@pytest.mark.once
def test_a_warning_once_and_compilations_without_a_limit():
    utils, text = torchlike._dynamo.utils, f"a warning of this test alone, {torchlike.get_execution()}"
    with pytest.warns(UserWarning, match=text) as caught:
        [utils.warn_once(text) for _ in range(3)]
    assert len(caught) == 1
    before = torchlike._dynamo.config.recompile_limit
    with utils.disable_cache_limit():
        assert torchlike._dynamo.config.cache_size_limit > 10**6
    assert torchlike._dynamo.config.recompile_limit == before


@story
def test_kinds_of_values(t):
    one = t.ones(2, 2)
    kinds = [
        one, one.int(), one.to("meta"), one.to_sparse(), one.to_sparse_csr(), one.to_sparse_csc(), t.nn.Parameter(one),
        t.quantize_per_tensor(one, 1.0, 0, t.qint8), t.ones(2, dtype=t.complex64).conj(),
    ]  # fmt: skip
    asked = t._has_compatible_shallow_copy_type, t.ops.aten._has_compatible_shallow_copy_type.default
    return [[[f(a, b) for b in kinds] for a in kinds] for f in asked]


@story
def test_dtypes_as_defaults_of_schemas(t):
    names = [name for name in dir(torch) if isinstance(getattr(torch, name), torch.dtype)]
    schemas = [t._C.parse_schema(f"f(Tensor x, ScalarType d={name}) -> Tensor") for name in names]

    @t.library.custom_op(f"{t.__name__}_defaults::given", mutates_args=())
    def given(x: t.Tensor, d: t.dtype = t.float8_e4m3fn) -> t.Tensor:
        seen.append(str(d))
        return x.clone()

    seen: list = []
    given(t.ones(1))
    return names, [s.arguments[1].default_value for s in schemas], seen


def test_decompositions_for_a_compiler_leave_functions_as_they_are():
    for t in (torchlike, torch):
        register = importlib.import_module(f"{t.__name__}._inductor.decomposition").register_decomposition
        with t.library._scoped_library("decomposed", "FRAGMENT") as lib:
            lib.define(f"of_{t.__name__}(Tensor x) -> Tensor")
            assert register([getattr(t.ops.decomposed, f"of_{t.__name__}").default])(said) is said


@story
def test_ranges_that_exported_programs_check(t):
    aten = t.ops.aten
    ranges = [(3, 0, 5), (7, 0, 5), (-3, None, None), (1, 3, None), (2, 4, 3), (1, 0, 1), (0, None, 9)]
    constrain = [aten.sym_constrain_range.default, aten.sym_constrain_range_for_size.default]
    asked = [said(lambda f=f, r=r: f(r[0], min=r[1], max=r[2])) for f in constrain for r in ranges]
    return asked, [said(lambda v=v: aten._assert_scalar.default(v, "zero")) for v in (0, 1, False, 2.5)]


@story
def test_names_that_programs_ask_before_they_use_them(t):
    shard = importlib.import_module(f"{t.__name__}.distributed.tensor.placement_types").Shard(0)
    parts = [shard.local_shard_size_and_offset(n, k, r) for n in (0, 3, 5, 8) for k in (1, 3, 4) for r in range(k)]
    modes = importlib.import_module(f"{t.__name__}._inductor").list_mode_options
    with t.backends.cudnn.flags(enabled=False):
        off = t._C._get_cudnn_enabled()
    reducer = importlib.import_module(f"{t.__name__}._C._distributed_c10d").Reducer.__name__
    graph_module = importlib.import_module(f"{t.__name__}.fx.graph_module")
    return (
        [tuple(part) for part in parts], modes(), modes("lite"), said(lambda: modes("fast")), off,
        t._C._get_privateuse1_backend_name(), list(t.ByteStorage._from_buffer(b"abc")), reducer,
        isinstance(t.add, t._ops.HigherOrderOperator), graph_module._USER_PRESERVED_ATTRIBUTES_KEY,
        len(t.distributed.distributed_c10d._pg_map), t.distributed.distributed_c10d.group.WORLD,
    )  # fmt: skip


@story
def test_names_of_older_programs(t):
    x = t.ones(2, requires_grad=True)
    seen = []
    y = x * 2
    y.register_hook(lambda g: seen.append(t.autograd._is_checkpoint_valid()))
    t.autograd.grad(y.sum(), x, retain_graph=True)
    y.sum().backward()
    with getattr(t.backends, "__allow_nonbracketed_mutation")():
        t.backends.cudnn.benchmark = False
    return seen, t.autograd._is_checkpoint_valid(), callable(t.backends.disable_global_flags)


def test_a_profile_is_ended_from_outside():
    with torchlike.profiler.profile() as profile:
        torchlike.ones(2).sin()
        torchlike.autograd._disable_profiler()
        assert not torchlike.autograd._profiler_enabled()
        torchlike.ones(2).cos()
    names = {event.name for event in profile.events()}
    assert "aten::sin" in names and "aten::cos" not in names


def test_operators_over_functions_are_not_made():
    with pytest.raises(NotImplementedError, match="HigherOrderOperator"):
        torchlike._ops.HigherOrderOperator("mine")


@story
def test_functions_that_a_class_holds(t):
    f = t.nn.functional

    class Holder:
        act, conv, cat, linear, zeros, erf = t.tanh, t.conv2d, t.cat, f.linear, t.zeros, t.special.erf
        relu = f.relu  # of Python in PyTorch: a method of the class

    x = t.ones(1, 1, 3, 3)

    def asked(held):
        results = [
            held.act(x), held.conv(x, weight=t.ones(1, 1, 2, 2), padding=1), held.cat([x, x], dim=1), held.zeros(2),
            held.linear(x, t.ones(2, 3)), held.erf(x),
        ]  # fmt: skip
        return results, said(held.act, ""), said(lambda: held.relu(x), ""), said(lambda: t.tanh(Holder()), "")

    with t.device("cpu"):
        under_a_mode = asked(Holder())
    return asked(Holder()), under_a_mode, asked(type("Net", (Holder, t.nn.Module), {})())


@story
def test_fake_modes_are_detected(t):
    guards = importlib.import_module(f"{t.__name__}._guards")
    kind = importlib.import_module(f"{t.__name__}._subclasses.fake_tensor").FakeTensorMode
    made, found = [], [guards.active_fake_mode(), guards.detect_fake_mode(t.ones(2))]
    for mode in (kind(), kind()):
        with mode:
            found += [guards.active_fake_mode() is mode, guards.detect_fake_mode() is mode]
            made.append(t.ones(2))
        found.append(guards.detect_fake_mode([1, {"a": made[-1]}]) is mode)
    return found, said(lambda: guards.detect_fake_mode(made), "from fake tensor input 0 doesn't match mode")


@story
def test_whether_calls_may_do_other_than_compute(t):
    like, seen = t._C._dispatch_isTensorSubclassLike, []
    t.func.vmap(lambda x: (seen.append(like(x)), x)[1])(t.ones(2, 2))
    plain = t.ones(2).as_subclass(type("Plain", (t.Tensor,), {}))
    with t._C._EnablePythonDispatcher(), t._C._DisablePythonDispatcher():
        return seen, [like(x) for x in (t.ones(2), plain, t.ones(2, device="meta"), t.ones(2).to_sparse())]


@story
def test_strides_like_a_memory_format(t):
    shapes = (2, 3, 4, 5), (2, 1, 4, 5), (2, 3, 4, 5, 6), (2, 2)
    formats = {4: t.channels_last, 5: t.channels_last_3d}
    found = [t.ones(s).contiguous(memory_format=formats.get(len(s), t.contiguous_format)) for s in shapes]
    asked = [*formats.values(), t.contiguous_format]
    return [t.ops.aten.is_strides_like_format.default(x, f) for x in (*found, t.ones(2, 3, 4, 5)) for f in asked]


@pytest.mark.parametrize("asked", [(), (True, False), (False, True)])
def test_unique_as_the_c_code_has_it(asked):
    def told(t):
        x, aten = t.tensor([[1, 2], [1, 2], [0, 3]]), t.ops.aten
        return [
            t._VF.unique_dim(x, 0, True, *asked), aten.unique_dim(x, 1, True, *asked),
            t._VF.unique_consecutive(x, *asked), t._VF.unique_consecutive(x, *asked, dim=0),
            aten.unique_dim_consecutive(x, 0, *asked),
        ]  # fmt: skip

    agree(told)


@pytest.mark.parametrize("name", ["_softmax_backward_data", "_log_softmax_backward_data"])
def test_backward_of_softmax(name):
    def named(t):
        return getattr(t.ops.aten, name)(grad_output=t.ones(2), output=t.ones(2) / 2, dim=0, input_dtype=t.float32)

    agree(lambda t: (getattr(t, name)(t.ones(2, 3), t.ones(2, 3) / 3, -1, t.float32), named(t)))
    for grad, match in ("float32", "expected scalar type Float but found Double"), ("int32", "implemented for 'Int'"):

        def wrong(t, grad=grad):
            return getattr(t, name)(t.ones(2, dtype=getattr(t, grad)), t.ones(2, dtype=t.float64), 0, t.float32)

        agree_error(wrong, match)
    for shape in (3,), (3, 2), (1, 3):
        with pytest.raises(RuntimeError, match=r"'grad' to have same size as .*; but \[2, 3\] does not equal"):
            getattr(torchlike, name)(torchlike.ones(2, 3), torchlike.ones(shape), 0, torchlike.float32)


def test_the_older_aminmax_warns():
    torchlike.set_warn_always(True)
    try:
        assert warned(lambda: torchlike._aminmax(torchlike.ones(2)), "_aminmax is deprecated") == [
            "UserWarning: _aminmax is deprecated"
        ]
    finally:
        torchlike.set_warn_always(False)


def test_gradients_that_are_none():
    def f(t):
        seen = []

        class Told(t.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.set_materialize_grads(False)
                return x.clone()

            @staticmethod
            def backward(ctx, grad):
                seen.append(grad)
                return grad

        x = t.ones(1, requires_grad=True)
        t._C._functions.UndefinedGrad()(Told.apply(x)).backward()
        return seen, x.grad, t.onnx.producer_name, t.onnx.producer_version

    agree(f)


def test_the_processor_has_no_kernels_to_choose():
    names = [n for n in dir(torch.cpu) if n.startswith("_is_") and n.endswith("_supported")]
    assert names and not any([getattr(torchlike.cpu, n)() for n in names])
    assert [hasattr(t._C._cpu, "_is_vnni_supported") for t in (torch, torchlike)] == [False, False]


def test_a_class_of_convolutions_of_old():
    def f(t):
        mixin = importlib.import_module(f"{t.__name__}.nn.modules.conv")._ConvTransposeMixin
        arguments = (1, 1, (1,), (1,), (0,), (1,), True, (0,), 1, True, "zeros")
        return warned(lambda: mixin(*arguments) is None), issubclass(mixin, t.nn.Conv1d.__base__)

    agree(f)
