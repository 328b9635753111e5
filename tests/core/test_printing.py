"""The text of tensors, character by character against torch."""

import math
import threading
from contextlib import contextmanager

import jax
import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._tensor_str import get_printoptions as torch_options
from torch._tensor_str import printoptions as torch_printoptions

import torchlike
from torchlike._base import dtypes
from torchlike._core.tensor.printing import (
    get_printoptions,
    level_str,
    parameter_str,
    printoptions,
    prints_as_tensor,
    set_printoptions,
    tensor_str,
)

inf, nan = math.inf, math.nan

INTEGERS = ["uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
DTYPES = INTEGERS + [
    "bool", "float16", "bfloat16", "float32", "float64", "complex64", "complex128", "float8_e4m3fn",
    "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu",
]  # fmt: skip


# ----- helpers


@prints_as_tensor
class StandIn:
    """What printing needs of a tensor, around a numpy array."""

    _is_param = False

    def __init__(self, values, dtype, like):
        self._values, self.dtype = values, dtype
        self.shape, self.device, self.requires_grad = like.shape, like.device, like.requires_grad
        self._like = like

    grad_fn = property(lambda self: self._like.grad_fn)

    def _host(self):
        return np.asarray(self._values)

    def __repr__(self):
        return tensor_str(self)


def raw(t):
    """The values of a torch tensor as numpy; a type that numpy lacks as integers of its size."""
    t = t.detach().resolve_conj()
    name = str(t.dtype).removeprefix("torch.")
    if not hasattr(ml_dtypes, name):
        return t.numpy()
    return t.view(torch.int16 if t.itemsize == 2 else torch.uint8).numpy()


def as_stand_in(t, cls=StandIn):
    dtype = dtypes.ALIASES[str(t.dtype).removeprefix("torch.")]
    values = None if t.is_meta else raw(t)
    if values is not None and values.dtype != dtype.np:
        values = values.view(dtype.np)
    return cls(values, dtype, t)


def as_torchlike(t):
    dtype = getattr(torchlike, str(t.dtype).removeprefix("torch."))
    if t.is_meta:
        return torchlike.empty(tuple(t.shape), dtype=dtype, device="meta")
    values = torchlike.from_numpy(raw(t).copy())
    return values if values.dtype is dtype else values.view(dtype)


COMPLETE = hasattr(torchlike, "from_numpy")
MAKERS = [as_stand_in, as_torchlike] if COMPLETE else [as_stand_in]


@contextmanager
def options(**kwargs):
    with torch_printoptions(**kwargs), printoptions(**kwargs):
        yield


@contextmanager
def default_dtype(name):
    torch.set_default_dtype(getattr(torch, name))
    dtypes.set_default_dtype(dtypes.ALIASES[name])
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)
        dtypes.set_default_dtype(dtypes.float32)


def check(t, **kwargs):
    with options(**kwargs):
        for make in MAKERS:
            assert repr(make(t)) == repr(t)


def check_stand_in(t, **kwargs):
    with options(**kwargs):
        assert repr(as_stand_in(t)) == repr(t)


def bits(numbers, name):
    return torch.tensor(numbers, dtype=torch.uint8).view(getattr(torch, name))


@pytest.fixture(autouse=True)
def fresh_options():
    yield
    torch.set_printoptions(profile="default")
    set_printoptions(profile="default")


# ----- values

FLOATS = [
    [1.0, 2.0, 3.0], [1.0, 2.5, -0.0], [-0.0], [0.0], [0.0, 0.0], [nan], [nan, 1.0], [nan, 1.5], [inf, -inf],
    [0.0, inf], [-0.0, 1.0], [-0.0, 0.0, nan, 100.0], [-0.0, -inf, 100.0], [1e8], [1e8, 1.0], [1e8 + 8],
    [1e9],
    [1.5e9], [1e-5], [1e-4], [1e-4, 0.1], [1e-4, 0.11], [1.0, 1000.0], [1.0, 1001.0], [1.0, 1000.5],
    [1.0, 1001.5],
    [0.0, 1001.5], [0.99999, 0.999999], [9.99999, 0.999999], [99999.99999, 1000.999999], [1e7 + 0.5],
    [123456789.0],
    [1e-40], [5e-324, 1e308], [1e-310], [-1.5, 1000.25], [0.5, 1.5, 2.5], [1e300, 1e-300, nan, inf],
    [1 / 3, 2 / 3],
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("values", FLOATS, ids=str)
def test_floats(values, dtype):
    t = torch.tensor(values, dtype=torch.float64).to(getattr(torch, dtype))
    check(t)
    check(t[0])
    check(t, precision=2)
    check(t, precision=0)
    check(t, precision=12, sci_mode=False)
    check(t, sci_mode=True)


COMPLEX = [
    [1 + 2j], [1.5 + 2j, 1e9 - 3j], [1.5 + 2j, complex(nan, 0)],
    [complex(-0.0, -0.0), complex(1e-9, 3), complex(inf, -nan)],
    [1 + 2j, 1 + 300j], [1000 + 2j, -1 + 3j], [1.5 + 2.5j, -1 - 300j], [1.5 + 2.5j, -1 - 300000j],
    [1.5 + 2.5j, -1.25e6 - 300000j], [complex(nan, inf), complex(-inf, -nan), 1 + 1j], [complex(nan, -inf)],
    [0j, 0j],
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("values", COMPLEX, ids=str)
def test_complex(values, dtype):
    t = torch.tensor(values, dtype=getattr(torch, dtype))
    check(t)
    check(t[0])
    check(t.reshape(-1, 1))
    check(t, precision=1)
    check(t, sci_mode=True)


def test_complex_rows_wrap():
    t = torch.arange(30)
    for step in (1 + 1j, 1.5 + 1j, 1.5 + 1.5j, 1j):
        check(t * step)
        check((t * step).conj())
        check(torch.arange(2000) * step)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers(dtype):
    info = torch.iinfo(getattr(torch, dtype))
    t = torch.tensor([0, 1, info.min, info.max], dtype=getattr(torch, dtype))
    for shown in (t, t[0], t[3], t[:2], t[:0], t.reshape(2, 2), t.reshape(2, 2).t()):
        check(shown)
        check(shown, sci_mode=True, precision=1)


def test_four_bit_integers():
    values = np.array([-8, 7], ml_dtypes.int4)
    assert repr(StandIn(values, dtypes.int4, torch.ones(2))) == "tensor([-8,  7], dtype=torch.int4)"


def test_bools():
    for t in (torch.tensor(True), torch.tensor([True, False]), torch.ones(100, dtype=torch.bool)):
        check(t)
        check(t.reshape(-1, 1))


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"])
def test_float8(dtype):
    for numbers in (range(256), [0], [1], [56, 60], [0, 0x80], [0x7F, 0xFF, 0, 0x80, 1], [0x7C, 0xFC], []):
        t = bits(list(numbers), dtype)
        check(t)
        check(t, sci_mode=False)
        if len(t):
            check(t[0])


def test_float8_without_a_zero():
    for numbers in (
        range(256), [0], [0, 0], [0, 1], [1], [1, 2], [255], [255, 255], [0, 255], [1, 127, 255], [0, 127],
        [0, 200],
        [127, 128], [127, 126], [127, 126, 255], [255, 127], [127, 137], [127, 138], [127, 200], [156], [],
    ):  # fmt: skip
        check(bits(list(numbers), "float8_e8m0fnu"))
        check(bits(list(numbers), "float8_e8m0fnu"), sci_mode=True)


# ----- shapes

SHAPES = [
    (), (0,), (1,), (0, 3), (3, 0), (1, 0), (2, 0, 3), (1001, 0), (1, 9), (18,), (19,), (100,), (1000,),
    (1001,), (2, 3),
    (3, 4, 5), (1, 2, 3, 4, 5), (3, 1, 2, 4, 1), (1, 1, 1, 20), (20, 100), (20, 20, 20), (7, 1000), (6, 1000),
    (1001, 1),
    (1, 1001, 1), (1, 1, 1001), (1, 2, 1001), (4, 7, 6, 8), (2, 1, 1, 2, 1, 2), (40, 30),
]  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["int64", "float32", "float64", "bool", "complex64", "int32", "complex128"])
def test_shapes(shape, dtype):
    t = torch.arange(math.prod(shape)).reshape(shape).to(getattr(torch, dtype))
    check(t)
    check(t * 0.25 if t.is_floating_point() else t, edgeitems=1, threshold=4, linewidth=40)
    check_stand_in(t.to("meta"))


def test_strided():
    t = torch.arange(24.0).reshape(2, 3, 4)
    for view in (t.mT, t.permute(2, 0, 1), t[:, ::2], t[0, :1].expand(3, 4), t[..., 1], t.flip(0)):
        check(view)


def test_only_what_is_shown_decides_the_notation():
    check(torch.cat([torch.arange(500.0) + 0.5, torch.tensor([1e10]), torch.arange(600.0)]))
    check(torch.cat([torch.arange(1000.0), torch.tensor([1e10])]))


def test_examples_of_the_documentation():
    for t in (
        torch.tensor([[0.1, 1.2], [2.2, 3.1], [4.9, 5.2]]), torch.tensor([0, 1]), torch.tensor(3.14159),
        torch.tensor([[0.11111, 0.222222, 0.3333333]], dtype=torch.float64), torch.tensor([]), torch.eye(3),
        torch.linspace(3, 10, steps=5), torch.linspace(-10, 10, steps=5), torch.logspace(-10, 10, steps=5),
        torch.logspace(0.1, 1.0, steps=5), torch.arange(1, 2.5, 0.5), torch.full((2, 3), 3.141592),
        torch.zeros(2, 3),
        torch.complex(torch.tensor([1.0, 2]), torch.tensor([3.0, 4])), torch.zeros((2, 3), dtype=torch.int32),
        torch.polar(torch.tensor([1.0, 2]), torch.tensor([np.pi / 2, 5 * np.pi / 4]).float()),
    ):  # fmt: skip
        check(t)
    check(torch.tensor([1.12345]), precision=2)
    check(torch.arange(10), threshold=5)


# ----- suffixes


@pytest.mark.parametrize("default", ["float16", "bfloat16", "float32", "float64"])
def test_dtype_is_shown_unless_clear(default):
    with default_dtype(default):
        for name in DTYPES:
            for shape in ((2,), (), (0,), (0, 2)):
                t = torch.ones(shape, dtype=getattr(torch, name))
                check(t)
                check_stand_in(t.to("meta"))


def test_suffixes_wrap_where_torch_wraps_them():
    x = torch.ones(2, 2, requires_grad=True)
    tensors = (
        x, x * 2, x.double() * 2, x.double()[0], x.double()[0, 0] * 2, torch.arange(5, dtype=torch.int32),
        torch.ones((), dtype=torch.float64), torch.ones(0, 3, dtype=torch.float64, requires_grad=True),
        (x * 2).to("meta"),
        torch.ones(1, 2, dtype=torch.float64, device="meta", requires_grad=True),
    )  # fmt: skip
    for linewidth in range(1, 100):
        for t in tensors:
            check_stand_in(t, linewidth=linewidth)


@pytest.mark.parametrize("grad", ["requires_grad", "grad_fn"])
def test_grad_suffix_at_every_length(grad):
    for n in range(40):
        x = torch.arange(float(n), requires_grad=True)
        check_stand_in(x if grad == "requires_grad" else x * 2)


class Foo(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


def test_grad_fn():
    x = torch.arange(4.0, requires_grad=True)
    y = torch.zeros(4)
    y[0] = x[0]
    for t in (Foo.apply(x), x.relu(), x.sum(), x.view(2, 2), y, (x * 2).detach(), x.as_strided((2,), (1,))):
        check_stand_in(t)


def test_grad_fn_that_raises():
    x = torch.arange(4.0, requires_grad=True)
    base = x * 1
    view, _ = base.split(2)
    base.add_(1)
    assert "Invalid" in repr(view)
    check_stand_in(view)


def test_device():
    t = as_stand_in(torch.ones(2))
    t.device = torch.device("cuda:1")
    assert repr(t) == "tensor([1., 1.], device='cuda:1')"
    t.device = torch.device("cpu:0")
    assert repr(t) == repr(torch.ones(2, device="cpu:0"))


# torch's own forward mode warns when it is first used
@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")
def test_tangent():
    t = as_stand_in(torch.ones(2, 3, dtype=torch.float64))
    tangent = torch.zeros(2, 3, dtype=torch.float64)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(torch.ones(2, 3, dtype=torch.float64), tangent)
        assert tensor_str(t, tangent=repr(tangent)) == repr(dual)
        scalar = torch.autograd.forward_ad.make_dual(torch.tensor(1.0), torch.tensor(2.0))
        assert tensor_str(as_stand_in(torch.tensor(1.0)), tangent=torch.tensor(2.0)) == repr(scalar)


@pytest.mark.parametrize("contents", ["abc", "a\nbc"])
def test_contents(contents):
    for shape in ((2,), (), (0,), (2, 0)):
        for dtype in (torch.int64, torch.float32, torch.float64):
            for device in ("cpu", "meta"):
                t = torch.ones(shape, dtype=dtype, device=device)
                for edgeitems in (3, 0):
                    with options(edgeitems=edgeitems):
                        ours = tensor_str(as_stand_in(t), contents=contents)
                        assert ours == t.__repr__(tensor_contents=contents)


EXPRESSIONS = [
    "torch.ones(2, requires_grad=True)", "torch.ones(2, requires_grad=True) + 1",
    "torch.ones(2, device='meta')",
    "torch.ones(30, requires_grad=True).double() * 2", "(torch.ones(2, requires_grad=True) * 2).detach()",
    "torch.nn.Parameter(torch.ones(2, 2))", "torch.nn.Parameter(torch.ones(()), requires_grad=False)",
    "torch.ones(2).as_subclass(type('Sub', (torch.Tensor,), {}))", "str(torch.ones(2)), f'{torch.ones(2)}'",
    "f'{torch.tensor(1.5)}', f'{torch.tensor(2.5):.3f}', f'{torch.tensor(3):5d}'",
]  # fmt: skip


def test_expressions_print_the_same_in_both():
    for code in EXPRESSIONS if COMPLETE else ():
        assert repr(eval(code, {"torch": torchlike})) == repr(eval(code, {"torch": torch}))


# ----- classes


def classes(name):
    return type(name, (StandIn,), {}), type(name, (torch.Tensor,), {})


@pytest.mark.parametrize("name", ["Sub", "ALongNameOfASubclass", "Tensor"])
def test_subclasses_print_their_name(name):
    ours, theirs = classes(name)
    wide = torch.ones(20, dtype=torch.float64)
    for t in (torch.ones(2, 2), wide, torch.ones(2, 0), torch.ones(3, device="meta")):
        assert repr(as_stand_in(t, ours)) == repr(t.as_subclass(theirs))


def test_parameters():
    for t in (torch.ones(2), torch.ones(2, 2), torch.ones(30), torch.ones(2, device="meta"), torch.ones(())):
        for requires_grad in (True, False):
            p = torch.nn.Parameter(t, requires_grad)
            assert parameter_str(as_stand_in(p)) == repr(p)


def test_parameters_of_a_subclass():
    ours, theirs = classes("Sub")
    p = torch.nn.Parameter(torch.ones(2, 2).as_subclass(theirs))
    mine = as_stand_in(p, ours)
    mine._is_param = True
    assert repr(mine) == repr(p)

    class Weight(torch.nn.Parameter):
        pass

    ours, _ = classes("Weight")
    mine = as_stand_in(Weight(torch.ones(2, 2)), ours)
    mine._is_param = True
    assert parameter_str(mine) == repr(Weight(torch.ones(2, 2)))


def test_levels():
    shown = []

    def f(x):
        shown.append(repr(x))
        return x.sum()

    x = torch.ones(2, 3)
    torch.func.vmap(f, in_dims=1)(x)
    torch.func.grad(f)(x)
    torch.func.vmap(torch.func.grad(f))(x)
    text = repr(as_stand_in(x))
    batched = level_str("BatchedTensor", text, lvl=1, bdim=0)
    assert shown == [
        level_str("BatchedTensor", text, lvl=1, bdim=1),
        level_str("GradTrackingTensor", text, lvl=1),
        level_str("GradTrackingTensor", batched, lvl=2),
    ]


def test_traced():
    shown = []

    @jax.jit
    def f(x):
        t = as_stand_in(torch.ones(2, 3))
        t._values = x
        shown.append(repr(t))
        shown.append(tensor_str(as_stand_in(torch.ones(2, 0))))
        return x

    f(np.ones((2, 3), np.float32))
    assert shown == ["tensor(<traced>, size=(2, 3), dtype=torch.float32)", "tensor([], size=(2, 0))"]


# ----- options


def test_set_and_get():
    for kwargs in (
        {}, {"precision": 2}, {"threshold": 5}, {"profile": "short"}, {"profile": "full", "precision": 7},
        {"linewidth": 40, "edgeitems": 1, "sci_mode": True}, {"precision": 3}, {"sci_mode": False},
        {"sci_mode": None},
        {"profile": "Short"}, {"profile": "nonsense", "precision": 1}, {"profile": 3}, {"sci_mode": "yes"},
        {"profile": ["full"]}, {"profile": "default"}, {"threshold": inf}, {"linewidth": 79.5},
    ):  # fmt: skip
        torch.set_printoptions(**kwargs)
        set_printoptions(**kwargs)
        assert get_printoptions() == torch_options()
    torch.set_printoptions(3, 4, 5, 6, "default", True)
    set_printoptions(3, 4, 5, 6, "default", True)
    assert get_printoptions() == torch_options()


def test_get_gives_a_copy():
    get_printoptions()["precision"] = 9
    assert get_printoptions()["precision"] == 4


def test_context_manager_restores():
    set_printoptions(precision=2, sci_mode=True)
    with pytest.raises(ZeroDivisionError), printoptions(profile="full", precision=1) as value:
        assert value is None
        assert get_printoptions()["threshold"] == inf and get_printoptions()["sci_mode"] is None
        set_printoptions(precision=8)
        1 / 0  # noqa: B018
    assert get_printoptions()["precision"] == 2 and get_printoptions()["sci_mode"] is True


def test_options_are_shared_by_threads():
    set_printoptions(precision=1)
    seen = []
    thread = threading.Thread(target=lambda: seen.append(get_printoptions()["precision"]))
    thread.start()
    thread.join()
    assert seen == [1]


@pytest.mark.parametrize(
    "kwargs, error, message",
    [
        ({"precision": "a"}, TypeError, r"set_printoptions\(\): precision must be an integer >= 0, got 'a'"),
        ({"precision": 2.5}, TypeError, "precision must be an integer >= 0, got 2.5"),
        ({"precision": -1}, ValueError, "precision must be an integer >= 0, got -1"),
        ({"edgeitems": 1.5}, TypeError, "edgeitems must be an integer >= 0, got 1.5"),
        ({"edgeitems": -1}, ValueError, "edgeitems must be an integer >= 0, got -1"),
        ({"threshold": "a"}, TypeError, "threshold must be a number, got 'a'"),
        ({"linewidth": "a"}, TypeError, "linewidth must be a number, got 'a'"),
        ({"linewidth": inf}, OverflowError, "linewidth must be a number, got inf"),
        ({"linewidth": nan}, ValueError, "linewidth must be a number, got nan"),
        ({"width": 3}, TypeError, "width"),
    ],
    ids=str,
)
def test_bad_options_change_nothing(kwargs, error, message):
    before = get_printoptions()
    with pytest.raises(error, match=message):
        set_printoptions(**{"profile": "short", "sci_mode": True, **kwargs})
    with pytest.raises(error, match=message), printoptions(**kwargs):
        pass
    assert get_printoptions() == before


def test_numpy_numbers_are_options():
    check(
        torch.arange(30) * 0.5,
        linewidth=np.int64(40), precision=np.int64(2), threshold=np.float32(5), edgeitems=np.int64(2),
    )  # fmt: skip
    check(torch.arange(30), threshold=nan)


@pytest.mark.parametrize("linewidth", [-5, 0, 1, 9, 20, 33, 79.5, 80.0, 200])
def test_linewidth(linewidth):
    t = torch.arange(20)
    for shown in (t, t.double(), t.reshape(4, 5).int(), t * 1j):
        check(shown, linewidth=linewidth)


@pytest.mark.parametrize("threshold", [-1, 0, 3, 2.5, 1000, inf])
@pytest.mark.parametrize("edgeitems", [0, 1, 2, 50])
def test_summaries(threshold, edgeitems):
    for shape in ((), (0,), (0, 3), (3,), (4,), (5,), (10,), (1, 4), (2, 4), (3, 1), (3, 2, 4), (5, 1, 3)):
        for dtype in (torch.int64, torch.float64, torch.complex64):
            t = torch.ones(shape, dtype=dtype)
            check(t, threshold=threshold, edgeitems=edgeitems)
            check_stand_in(t.to("meta"), threshold=threshold, edgeitems=edgeitems)


def test_a_summary_of_nothing_reads_no_values():
    t = as_stand_in(torch.ones(5))
    t._host = None
    with printoptions(edgeitems=0, threshold=3):
        assert repr(t) == "tensor([...], size=(5,))"


# ----- anything

REALS = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, nan, inf, -inf, 1e8, 1e-4, 1000.0]),
    st.integers(-2000, 2000).map(float),
    st.floats(-10, 10),
    st.builds(lambda m, e: m * 10.0**e, st.floats(-10, 10), st.integers(-12, 12)),
    st.floats(),
)
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "precision": st.integers(0, 9),
        "threshold": st.integers(-1, 60),
        "edgeitems": st.integers(0, 4),
        "linewidth": st.integers(1, 120),
        "sci_mode": st.sampled_from([None, True, False]),
        "profile": st.sampled_from(["default", "short", "full"]),
    },
)


@st.composite
def tensors(draw):
    """A few values of any size, scattered over a tensor of any shape."""
    name = draw(st.sampled_from(DTYPES))
    dtype = getattr(torch, name)
    shape = draw(st.lists(st.integers(0, 9), max_size=4).filter(lambda s: math.prod(s) <= 600))
    order = np.random.default_rng(draw(st.integers(0, 99)))
    if name.startswith("float8"):
        palette = bits(draw(st.lists(st.integers(0, 255), min_size=1, max_size=5)), name)
    elif dtype.is_floating_point:
        palette = torch.tensor(draw(st.lists(REALS, min_size=1, max_size=5)), dtype=torch.float64).to(dtype)
    elif dtype.is_complex:
        parts = draw(st.lists(st.builds(complex, REALS, REALS), min_size=1, max_size=5))
        palette = torch.tensor(parts, dtype=torch.complex128).to(dtype)
    else:
        low, high = (0, 1) if name == "bool" else (torch.iinfo(dtype).min, torch.iinfo(dtype).max)
        numbers = st.one_of(st.integers(max(low, -20), min(high, 20)), st.integers(low, high))
        palette = torch.tensor(draw(st.lists(numbers, min_size=1, max_size=5)), dtype=dtype)
    chosen = order.integers(0, len(palette), math.prod(shape))
    data = palette.view(torch.uint8).reshape(len(palette), -1)[torch.from_numpy(chosen)]
    return data.reshape(-1).view(dtype).reshape(shape)


@settings(deadline=None)
@given(tensors(), OPTIONS)
def test_any_tensor(t, kwargs):
    check(t, **kwargs)
