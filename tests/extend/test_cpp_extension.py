"""torch.utils.cpp_extension: C++ functions as operators."""

from __future__ import annotations

import copy
import importlib.util
import inspect
import pickle
import threading
from pathlib import Path

import jax
import numpy as np
import pytest
import torch as pytorch
from cpp_kit import FUNCTIONS, RESULTS, ROOT, again, extension, folder, needs_compiler, read, same

import torchlike as torch
import torchlike.library
from torchlike.utils._python_dispatch import TorchDispatchMode

pytestmark = pytest.mark.compilers


@pytest.fixture(scope="module")
def ext():
    return extension()


DTYPES = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float64 complex64 complex128".split()
X = np.array([[0.0, -1.5, np.nan], [np.inf, -0.0, 2.0]], np.float32)

# -- calls -----------------------------------------------------------------------------------------


@needs_compiler
@pytest.mark.parametrize("x", [X, X[0, 0], X[:0], X.T, X[::-1, 1:], np.zeros((3, 0), np.float32)])
def test_values(ext, x):
    t = torch.tensor(x.copy())
    same(ext.shifted(t), x + np.float32(1))
    same(ext.scaled(t, 3), x * np.float32(3))
    same(ext.copied(t), x)
    same(ext.Lowered(t), x - np.float32(0.5))


@needs_compiler
def test_views_are_read_in_their_own_order(ext):
    t = torch.from_numpy(X.copy())
    same(ext.shifted(t.t()), X.T + 1)
    same(ext.shifted(t[:, 1:]), X[:, 1:] + 1)
    same(ext.shifted(t.flip(0)), X[::-1] + 1)
    t.mul_(2)
    same(ext.shifted(t), 2 * X + 1)


@needs_compiler
@pytest.mark.parametrize("dtype", DTYPES)
def test_any_dtype(ext, dtype):
    t = torch.tensor([0, 1, 3]).to(getattr(torch, dtype))
    assert ext.copied(t).dtype is t.dtype
    assert ext.copied(t).tolist() == t.tolist()


@needs_compiler
def test_arguments_of_every_kind(ext):
    x = torch.zeros(2)
    same(ext.facts(x, 2, s="abc", dims=[1, 2], f=0.5), [2, 1, 3, 2, 0.5, 3, 0.0])
    same(ext.facts(x, torch.tensor(-2), False, s="", dims=(), f=1, big=2**40, more=[1, 2.5]),
         [-2, 0, 0, 0, 1, 2.0**40, 3.5])  # fmt: skip
    same(ext.shifted(x, np.float32(2)), np.full(2, 2, np.float32))
    same(ext.shifted(x, by=torch.tensor(3.0)), np.full(2, 3, np.float32))


@needs_compiler
def test_minus_zero_is_no_zero(ext):
    x = torch.zeros(1)
    for f in (0.0, -0.0, 0, np.float64(-0.0)):
        assert np.signbit(ext.facts(x, 0, s="", dims=[], f=f)[4].item()) == np.signbit(f)
        assert np.signbit(ext.facts(x, 0, s="", dims=[], f=1, more=[f, f])[6].item()) == np.signbit(f)


@needs_compiler
def test_several_results_and_arguments_by_position(ext):
    re, im = ext.split(torch.tensor([1 + 2j, 3 - 4j]))
    same(re, np.array([1, 3], np.float32))
    same(im, np.array([2, -4], np.float32))
    same(ext.outer(torch.ones(2).double(), torch.tensor([1.0, 2.0]).double()), [[1.0, 2], [1, 2]])


@needs_compiler
def test_a_number_in_a_buffer_compiles_once(ext):
    x = torch.ones(3)
    op = torch.ops.ext.scaled.default
    ext.scaled(x, 3.5)
    for by in (4.5, 5, True):
        same(op(x, by), np.full(3, by, np.float32))


@needs_compiler
def test_module(ext):
    assert ext.__name__ == "ext" and Path(ext.__file__).suffix == ".so"
    assert ext.outer.__doc__ == "The outer product of two vectors."
    assert ext.shifted.__doc__ == "ext::shifted(Tensor x, float by=1.) -> Tensor"
    assert ext.split.schema == "ext::split(Tensor arg0) -> (Tensor, Tensor)"
    assert ext.shifted.__name__ == "shifted" and ext.shifted.__module__ == "ext"
    assert str(inspect.signature(ext.shifted)) == "(x, by=1.0)"


@needs_compiler
def test_ops(ext):
    assert str(torch.ops.ext.shifted.default._schema) == "ext::shifted(Tensor x, float by=1.) -> Tensor"
    assert torch.ops.ext.shifted.default.name() == "ext::shifted"
    same(torch.ops.ext.shifted(torch.zeros(2), 2.0), np.full(2, 2, np.float32))


# -- everywhere else -------------------------------------------------------------------------------


@needs_compiler
def test_meta_tensors(ext):
    meta = torch.empty(3, 4, device="meta")
    assert ext.shifted(meta).device.type == "meta" and ext.shifted(meta).shape == (3, 4)
    d = torch.empty(3, dtype=torch.float64, device="meta")
    assert ext.outer(d, d).shape == (3, 3) and ext.outer(d, d).dtype is torch.float64


@needs_compiler
def test_compile_and_jit(ext):
    x = torch.arange(4.0)
    expected = (x + 3) * 2

    def f(x):
        return ext.shifted(x, 3) * 2

    assert torch.equal(torch.compile(f, fullgraph=True)(x), expected)
    jitted = jax.jit(lambda v: f(torch.from_jax_array(v)).jax())
    np.testing.assert_array_equal(jitted(x.jax()), expected.numpy())


@needs_compiler
def test_recorded_execution(ext):
    before = torch.get_execution()
    torch.set_execution("recorded")
    try:
        same(ext.outer(*[torch.tensor([1.0, 2], dtype=torch.float64) + 1] * 2) * 2, [[8.0, 12], [12, 18]])
        with pytest.raises(RuntimeError, match="five is too many"):
            (ext.outer(*[torch.ones(5, dtype=torch.float64)] * 2) + 1).tolist()
    finally:
        torch.set_execution(before)


@needs_compiler
def test_what_failed_does_not_keep_others_from_being_compiled(ext):
    kept = []
    with pytest.raises(RuntimeError, match="five is too many"):
        kept.append(ext.outer(*[torch.ones(5, dtype=torch.float64)] * 2))
        read(kept[0])
    assert torch.compile(lambda x: x + 1, fullgraph=True)(torch.ones(1)).tolist() == [2.0]
    for t in kept:  # there in recorded execution alone
        with pytest.raises(RuntimeError, match="five is too many"):
            torch.compile(lambda: t + 1, fullgraph=True)()  # noqa: B023


@needs_compiler
def test_vmap(ext):
    x = np.arange(6, dtype=np.float32).reshape(3, 2)

    def counted(module):
        return jax.vmap(lambda v: module.count(torch.from_jax_array(v)).jax())(x).tolist()

    assert counted(ext) == [2, 2, 2]  # an example at a time
    whole = again(vmap_method={"count": "broadcast_all"})
    assert counted(whole) == [6, 6, 6]
    assert counted(ext) == [2, 2, 2]


@needs_compiler
def test_no_derivative_of_its_own(ext):
    x = torch.ones(3, requires_grad=True)
    y = ext.shifted(x)
    assert y.requires_grad
    with pytest.raises(RuntimeError, match=r"shifted\(\): .*no derivative.*autograd.Function"):
        y.sum().backward()
    assert x.grad is None
    with pytest.raises(RuntimeError, match=r"shifted\(\): .*no derivative"):
        jax.jvp(lambda v: ext.shifted(torch.from_jax_array(v)).jax(), (x.detach().jax(),), (x.detach().jax(),))
    assert not ext.count(x).requires_grad
    with torch.no_grad():
        assert not ext.shifted(x).requires_grad


@needs_compiler
def test_threads(ext):
    found = []

    def work(n):
        found.append((n, ext.shifted(torch.full((8,), float(n)), n).tolist()))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(found) == [(n, [2.0 * n] * 8) for n in range(4)]


@pytest.fixture
def fresh():
    """The extension with functions of its own, to register things with."""
    yield again(results=RESULTS | {"shifted": lambda x, by: torch.empty_like(x)})
    again()


@needs_compiler
def test_a_registered_derivative(fresh):
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x, None

    torch.library.register_autograd(
        "ext::shifted", backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0])
    )
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    for call in (fresh.shifted, torch.ops.ext.shifted, torch.compile(fresh.shifted, fullgraph=True)):
        (g,) = torch.autograd.grad(call(x, 2.0).sum(), x)
        same(g, np.array([1, 2], np.float32))
    (g,) = torch.autograd.grad(fresh.shifted(x).sum(), x, create_graph=True)
    same(torch.autograd.grad(g.sum(), x)[0], np.ones(2, np.float32))
    with pytest.raises(TypeError, match=r"shifted\(\): argument 'by' must be Number, not str"):
        fresh.shifted(x, "a")


@needs_compiler
def test_a_kernel_of_ones_own(fresh):
    fresh.shifted.register_kernel("meta")(lambda x, by=1.0: x.new_empty(7))
    assert torch.ops.ext.shifted(torch.empty(2, device="meta")).shape == (7,)


@needs_compiler
def test_opcheck(ext):
    x = torch.randn(3)
    for op, args in (
        (ext.shifted, (x, 2.0)), (ext.copied, (x.int(),)), (ext.outer, (x.double(), x.double())), (ext.Lowered, (x,))
    ):  # fmt: skip
        assert set(torch.library.opcheck(op, args).values()) == {"SUCCESS"}


@needs_compiler
def test_modes_see_it(ext):
    seen = []

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append((str(func), args[1:], kwargs))
            return func(*args, **(kwargs or {}))

    x = torch.zeros(2)
    with Mode():
        same(ext.shifted(x, 2), np.full(2, 2, np.float32))
        ext.shifted(x)
        ext.Lowered(x, eps=1)
    assert seen == [
        ("ext.shifted.default", (2.0,), {}), ("ext.shifted.default", (), {}), ("ext.Lowered.default", (), {"eps": 1.0}),
    ]  # fmt: skip


@needs_compiler
def test_copies_and_pickles(ext):
    assert copy.deepcopy(ext.shifted) is ext.shifted is pickle.loads(pickle.dumps(ext.shifted))
    assert repr(ext.shifted) == "<CppFunction(ext::shifted)>"
    written = pickle.dumps(ext.shifted).replace(b"ext::shifted", b"ext::missing")
    with pytest.raises(RuntimeError, match="load the extension 'ext', which has 'missing', before"):
        pickle.loads(written)


@needs_compiler
def test_beside_an_accelerator(ext, monkeypatch):
    monkeypatch.setattr(ext.shifted, "_on_cpu", False)
    same(ext.shifted(torch.zeros(2)), np.ones(2, np.float32))
    with pytest.raises(TypeError, match=r"shifted\(\): argument 'x' must be Tensor, not float"):
        ext.shifted(1.0)


@needs_compiler
def test_export_refuses(ext):
    with pytest.raises(NotImplementedError, match="torch.export: .*custom calls whose targets have no compatibility"):
        torch.export(ext.shifted, (torch.ones(3),))


@needs_compiler
def test_subclasses(ext):
    seen = []

    class Seen(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func)
            return super().__torch_function__(func, types, args, kwargs or {})

    x = torch.zeros(2).as_subclass(Seen)
    assert type(ext.shifted(x, by=2)) is Seen and type(torch.ops.ext.shifted(x)) is Seen
    assert seen[:2] == [torch.ops.ext.shifted.default] * 2


@needs_compiler
@pytest.mark.parametrize("method", ["sequential", "broadcast_all"])
def test_torch_vmap(ext, method):
    module = again(vmap_method={"shifted": method, "count": method})
    x = torch.from_numpy(X[:, 1:].copy())
    for dims in (0, 1, -1):
        same(torch.vmap(module.shifted, in_dims=dims)(x), (X[:, 1:] if dims == 0 else X[:, 1:].T) + 1)
    same(torch.vmap(lambda v: module.shifted(v, 3.0) * 2)(x), (X[:, 1:] + 3) * 2)
    assert torch.vmap(module.count)(x).tolist() == ([2, 2] if method == "sequential" else [4, 4])
    a, b = torch.randn(3, 2).double(), torch.randn(4).double()
    torch.testing.assert_close(torch.vmap(ext.outer, in_dims=(0, None))(a, b), a[:, :, None] * b)
    again()


@needs_compiler
def test_the_latest_of_a_name_is_in_ops(ext):
    again()
    before = torch.ops.ext.shifted.default
    other = again(results=RESULTS | {"shifted": "x"})
    assert torch.ops.ext.shifted.default is not before
    assert again().shifted is ext.shifted is not other.shifted
    assert torch.ops.ext.shifted.default is before


# -- the worked example ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def example():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCH_EXTENSIONS_DIR", str(folder()))
        spec = importlib.util.spec_from_file_location("extension_example", ROOT / "examples" / "extension.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    assert list((folder() / "rms_norm").glob("rms_norm_*.so"))
    return module


@needs_compiler
def test_example(example):
    example.check()
    theirs = trained_by_pytorch()
    assert theirs[1] < theirs[0] / 2
    assert example.train(compiled=False) == pytest.approx(theirs, rel=1e-3)
    assert example.train(compiled=True) == pytest.approx(theirs, rel=1e-3)


def trained_by_pytorch():
    """The example's losses with PyTorch's own layer."""
    pytorch.manual_seed(0)
    layer = pytorch.nn.RMSNorm(32, eps=1e-6)
    model = pytorch.nn.Sequential(pytorch.nn.Linear(8, 32), layer, pytorch.nn.Tanh(), pytorch.nn.Linear(32, 1))
    optimizer = pytorch.optim.SGD(model.parameters(), lr=0.05)
    x = pytorch.randn(64, 8)
    y = (x[:, :1] * x[:, 1:2]).sin()
    losses = []
    for _ in range(300):
        optimizer.zero_grad()
        losses.append(pytorch.nn.functional.mse_loss(model(x), y))
        losses[-1].backward()
        optimizer.step()
    return losses[0].item(), losses[-1].item()


@needs_compiler
def test_example_against_pytorch(example):
    x, weight, grad = np.random.RandomState(0).randn(3, 4, 5).astype(np.float32)[:, :4]
    weight = weight[0]
    mine = [torch.tensor(a, requires_grad=True) for a in (x, weight)]
    real = [pytorch.tensor(a, requires_grad=True) for a in (x, weight)]
    y = example.RMSNormFunction.apply(*mine, 1e-6)
    z = pytorch.nn.functional.rms_norm(real[0], (5,), real[1], 1e-6)
    y.backward(torch.tensor(grad))
    z.backward(pytorch.tensor(grad))
    np.testing.assert_allclose(y.detach().numpy(), z.detach().numpy(), rtol=1e-5, atol=1e-6)
    for a, b in zip(mine, real, strict=True):
        np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-4, atol=1e-5)


@needs_compiler
def test_example_refuses(example):
    apply = example.RMSNormFunction.apply
    with pytest.raises(RuntimeError, match=r"weight must have the shape \[3\], not \[2\]"):
        apply(torch.ones(2, 3), torch.ones(2), 1e-6)
    with pytest.raises(RuntimeError, match="expected float32 or float64"):
        read(apply(torch.ones(2, 3).half(), torch.ones(3).half(), 1e-6))
    with pytest.raises(RuntimeError, match="shapes do not belong together"):
        read(example.extension.rms_norm_backward(torch.ones(2, 2), torch.ones(2, 3), torch.ones(3), torch.ones(2)))


# -- errors of calls -------------------------------------------------------------------------------


@needs_compiler
@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda e, x: e.shifted(), TypeError, r"shifted\(\) missing 1 required positional argument: 'x'"),
        (lambda e, x: e.shifted(x, nope=1), TypeError, r"shifted\(\) got an unexpected keyword argument 'nope'"),
        (lambda e, x: e.shifted(x, "a"), TypeError, r"shifted\(\): argument 'by' must be Number, not str"),
        (lambda e, x: e.shifted(2.0), TypeError, r"shifted\(\): argument 'x' \(position 1\) must be Tensor, not float"),
        (lambda e, x: e.shifted(x.numpy()), TypeError, r"shifted\(\): argument 'x' must be Tensor, not nd"),
        (lambda e, x: e.facts(x, 1.5, s="", dims=[], f=1), TypeError, r"argument 'n' must be int, not float"),
        (lambda e, x: e.facts(x, 1, s=3, dims=[], f=1), TypeError, r"facts\(\): argument 's' must be str, not int"),
        (lambda e, x: e.facts(x, 1, s="", dims=[0.5], f=1), TypeError, r"facts\(\): argument 'dims' must be int"),
        (lambda e, x: e.facts(x, 2**40, s="", dims=[], f=1), RuntimeError, r"'n' cannot be converted to int32 without"),
        (lambda e, x: e.shifted(x.double()), RuntimeError, r"expected scalar type Float but found Double: .*'x'"),
        (lambda e, x: e.Lowered(x.double()), RuntimeError, "Wrong buffer dtype: expected F32 but got F64"),
        (lambda e, x: e.Lowered(x, eps=-1), RuntimeError, "eps is negative"),
        (lambda e, x: e.outer(x.double(), x.double()[None]), RuntimeError, r"'arg1' must have 1 dimensions.*\[1, 3\]"),
        (lambda e, x: e.outer(*[torch.ones(5).double()] * 2), RuntimeError, "five is too many"),
    ],
)  # fmt: skip
def test_wrong_calls(ext, call, error, match):
    x = torch.zeros(3)
    with pytest.raises(error, match=match):
        read(call(ext, x))
    same(x, np.zeros(3, np.float32))
    assert x._version == 0
    same(ext.shifted(x), np.ones(3, np.float32))


@needs_compiler
@pytest.mark.parametrize(
    ("rule", "error", "match"),
    [
        (None, RuntimeError, r"outer\(\): the shape of the result is not known.*\[\[2\], \[3\]\]; .*results="),
        ("arg0", RuntimeError, r"outer\(\): result 0 must have 2 dimensions.*\[2\]"),
        ("nope", TypeError, r"results='nope': .*one of \['arg0', 'arg1'\]"),
        (("arg0", "arg1"), TypeError, r"for each of the 1 results"),
        (lambda a, b: 3, TypeError, r"returned \(int\); expected 1 tensors"),
        (lambda a, b: torch.empty(2, 3), RuntimeError, r"result 0 is torch.float32 by .*torch.float64 in its C\+\+"),
        (lambda a, b: a.new_empty(6), RuntimeError, r"result 0 must have 2 dimensions"),
        (lambda a, b: a @ b, RuntimeError, "size|shape"),
    ],
)  # fmt: skip
def test_wrong_results(rule, error, match):
    with pytest.raises(error, match=match):
        module = again(results=RESULTS | {"outer": rule})
        module.outer(torch.ones(2).double(), torch.ones(3).double())


@needs_compiler
@pytest.mark.parametrize(
    ("schema", "error", "match"),
    [
        ("(Tensor x) -> Tensor", TypeError, r"shifted: the schema has 1 arguments and 1 results, but the C\+\+ "
         r"function takes \(buffer of float32, float64 scalar\) and fills \(result of float32\)"),
        ("(Tensor x, int by) -> Tensor", TypeError, r"argument 'by' is int in the schema, but the C\+\+ function"),
        ("(Tensor x, Tensor by) -> Tensor", TypeError, r"argument 'by' is Tensor in the schema"),
        ("(Tensor x, float by) -> (Tensor, Tensor)", TypeError, r"2 results"),
        ("(Tensor(a!) x, float by) -> Tensor", NotImplementedError, r"'x' of type Tensor\(a!\).*Tensor.copy_"),
        ("(Tensor[] x, float by) -> Tensor", NotImplementedError, r"'x' of type Tensor\[\].*one by one"),
        ("(Tensor? x, float by) -> Tensor", NotImplementedError, r"'x' of type Tensor\?.*empty tensor"),
        ("(Tensor x, float by) -> float", NotImplementedError, r"returns float; expected Tensor"),
        ("(Tensor x, float by) -> ()", NotImplementedError, r"returns \(\); expected Tensor"),
        ("(Tensor x, float lambda) -> Tensor", TypeError, r"'lambda' cannot be the name"),
        ("(Tensor x, float) -> Tensor", TypeError, r"float"),
    ],
)  # fmt: skip
def test_wrong_schemas(schema, error, match):
    with pytest.raises(error, match=match):
        again(functions=FUNCTIONS | {"shifted": schema})


@needs_compiler
def test_a_handler_needs_a_schema():
    with pytest.raises(TypeError, match=r"Lowered: a handler does not tell its arguments; state them, as in "):
        again(functions=FUNCTIONS | {"Lowered": ""})


@needs_compiler
def test_unknown_names():
    match = r"extension 'ext': \w+ for \['nope'\], which it does not export; .*'split'"
    for wrong in ({"results": {"nope": "x"}}, {"vmap_method": {"nope": "sequential"}}):
        with pytest.raises(ValueError, match=match):
            again(**wrong)
    with pytest.raises(ValueError, match="vmap_method 'fast'; expected one of sequential"):
        again(vmap_method="fast")
