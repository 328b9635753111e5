"""torch.testing: what assert_close says, and what make_tensor makes."""

import array
import collections
import importlib
import re
import warnings
from collections import OrderedDict

import numpy as np
import pytest
import torch
from both import agree, agree_error, attempt

import torchlike
import torchlike.testing

NAN, INF = float("nan"), float("inf")
Pair = collections.namedtuple("Pair", "x y")


def said(script):
    """What the script returns, or type and text of its error, without what differs between the libraries."""

    def run(t):
        got = attempt(lambda: script(t))
        if not isinstance(got, Exception):
            return got
        text = re.sub(r"\btorchlike\b", "torch", str(got))
        return type(got).__name__, re.sub(r"torch\._core\.tensor\.tensor\.Tensor", "torch.Tensor", text)

    return run


def a(t):
    return t.tensor([1.0, 2.0, 3.0])


# name: (t -> (actual, expected), keywords)
TENSORS = {
    "equal": (lambda t: (a(t), a(t)), {}),
    "close": (lambda t: (a(t), a(t) + 1e-6), {}),
    "one element": (lambda t: (a(t), a(t) + t.tensor([0.0, 0.5, 0.0])), {}),
    "greatest at two places": (lambda t: (t.zeros(2, 3), t.tensor([[0, 0, 0], [0, 0.5, 1.0]])), {}),
    "a matrix of one": (lambda t: (t.tensor([[1.0]]), t.tensor([[2.0]])), {}),
    "0-dim": (lambda t: (t.tensor(1.0), t.tensor(2.0)), {}),
    "0-dim integers": (lambda t: (t.tensor(1), t.tensor(3)), {}),
    "0-dim bool": (lambda t: (t.tensor(True), t.tensor(False)), {}),
    "0-dim complex": (lambda t: (t.tensor(1j), t.tensor(2j)), {}),
    "0-dim and 1-dim": (lambda t: (t.tensor(1.0), t.tensor([1.0])), {}),
    "many": (lambda t: (t.zeros(30, 30), t.eye(30)), {}),
    "integers": (lambda t: (t.tensor([1, 2, 3]), t.tensor([1, 5, 4])), {}),
    "integers, close": (lambda t: (t.tensor([1, 2, 3]), t.tensor([1, 5, 4])), {"rtol": 0, "atol": 3}),
    "large integers": (lambda t: (t.tensor([2**53]), t.tensor([2**53 + 1])), {}),
    "uint8": (lambda t: (t.tensor([1, 200], dtype=t.uint8), t.tensor([2, 1], dtype=t.uint8)), {}),
    "uint8, close": (lambda t: (t.tensor([1], dtype=t.uint8), t.tensor([2], dtype=t.uint8)), {"rtol": 0, "atol": 1}),
    "bool": (lambda t: (t.tensor([True, False]), t.tensor([True, True])), {}),
    "float64": (lambda t: (a(t).double(), a(t).double() + 1e-5), {}),
    "complex": (lambda t: (t.tensor([1 + 1j, 2]), t.tensor([1 + 1j, 2 + 0.5j])), {}),
    "conjugate": (lambda t: (t.tensor([1j]).conj(), t.tensor([-1j])), {}),
    "NaN": (lambda t: (t.tensor([1.0, NAN]), t.tensor([1.0, NAN])), {}),
    "NaN equals NaN": (lambda t: (t.tensor([1.0, NAN]), t.tensor([1.0, NAN])), {"equal_nan": True}),
    "0-dim NaN": (lambda t: (t.tensor(NAN), t.tensor(NAN)), {}),
    "NaN and a number": (lambda t: (t.tensor([NAN, 1.0, 2.0]), t.tensor([1.0, 1.0, 3.0])), {"equal_nan": True}),
    "infinite": (lambda t: (t.tensor([1.0, INF]), t.tensor([1.0, INF])), {}),
    "infinite and a number": (lambda t: (t.tensor([1.0, INF]), t.tensor([1.0, 2.0])), {}),
    "two infinities": (lambda t: (t.tensor([1.0, INF]), t.tensor([1.0, -INF])), {}),
    "expected zero": (lambda t: (t.tensor([1.0, 2.0]), t.tensor([0.0, 2.0])), {}),
    "both zero": (lambda t: (t.tensor([0.0, 2.0, 5.0]), t.tensor([0.0, 2.0, 4.0])), {}),
    "empty": (lambda t: (t.ones(0, 2), t.ones(0, 2)), {}),
    "shape": (lambda t: (a(t), a(t)[:2].double()), {}),
    "shape without elements": (lambda t: (t.ones(0, 2), t.ones(0, 3)), {}),
    "dtype": (lambda t: (a(t), a(t).double()), {}),
    "dtype not checked": (lambda t: (a(t), a(t).double() + 1e-6), {"check_dtype": False}),
    "integers as floats": (lambda t: (a(t), t.tensor([1, 2, 4])), {"check_dtype": False}),
    "larger tolerance of two": (lambda t: (a(t), (a(t) + 0.002).half()), {"check_dtype": False}),
    "float64 as complex": (lambda t: (a(t).double(), a(t) * (1 + 0j)), {"check_dtype": False}),
    "strides": (lambda t: (t.ones(2, 3), t.ones(3, 2).t()), {}),
    "strides checked": (lambda t: (t.ones(2, 3), t.ones(3, 2).t().double()), {"check_stride": True}),
    "device": (lambda t: (a(t), a(t).double().to("meta")), {}),
    "device not checked": (lambda t: (a(t), a(t).to("meta")), {"check_device": False}),
    "without values": (lambda t: (a(t).to("meta"), a(t).to("meta")), {}),
    "requires grad": (lambda t: (a(t), a(t).requires_grad_()), {}),
    "parameter": (lambda t: (a(t), t.nn.Parameter(a(t))), {}),
    "parameter as such": (lambda t: (a(t), t.nn.Parameter(a(t))), {"allow_subclasses": False}),
    "tolerances": (lambda t: (a(t), a(t) + 0.5), {"rtol": 0, "atol": 1.0}),
    "no tolerance": (lambda t: (a(t), a(t) + 0.5), {"rtol": 0, "atol": 0}),
    "only relative": (lambda t: (t.tensor([1.0]), t.tensor([1.5])), {"rtol": 0.1, "atol": 0}),
    "rtol alone": (lambda t: (a(t), a(t)), {"rtol": 1.0}),
    "atol alone": (lambda t: (a(t), a(t)), {"atol": 1.0}),
    "message": (lambda t: (a(t), a(t) + 1), {"msg": "hello"}),
    "message of a shape": (lambda t: (a(t), a(t)[:2]), {"msg": "hello"}),
    "message made": (lambda t: ([a(t)], [a(t) + 1]), {"msg": lambda text: f"<{text}>"}),
    "message of a type error": (lambda t: ("a", 3), {"msg": lambda text: f"<{text}>"}),
}
OTHERS = {
    "numbers": lambda t: (1.0, 2.0), "integers": lambda t: (1, 2), "complex": lambda t: (1j, 2j),
    "close numbers": lambda t: (1.0, 1.0 + 1e-8), "equal integers": lambda t: (1, 1), "zero": lambda t: (1, 0),
    "integer and float": lambda t: (1, 1.0), "NaN": lambda t: (NAN, NAN), "infinite": lambda t: (INF, 1.0),
    "equal infinite": lambda t: (INF, INF), "bool": lambda t: (True, False), "equal bool": lambda t: (True, True),
    "numpy bool": lambda t: (np.bool_(True), False), "numpy number": lambda t: (np.float64(1), 2.0),
    "numpy single": lambda t: (np.float32(1), np.float32(1.5)), "numpy integer": lambda t: (np.int32(1), 1),
    "arrays": lambda t: (np.ones(2), np.ones(2)), "other arrays": lambda t: (np.ones(2), np.zeros(2)),
    "array dtypes": lambda t: (np.ones(2), np.ones(2, np.float32)), "array of text": lambda t: (np.array(["a"]),) * 2,
    "array and tensor": lambda t: (np.ones(3), a(t)), "tensor and number": lambda t: (t.tensor(1.0), 1.0),
    "tensor and list": lambda t: (a(t), [1.0, 2.0, 3.0]), "sizes": lambda t: (a(t).shape, a(t).shape),
    "None": lambda t: (None, None), "None and a number": lambda t: (None, 3), "number and None": lambda t: (3, None),
    "text": lambda t: ("a", "a"), "objects": lambda t: (object, object), "sets": lambda t: ({1}, {1}),
    "text within": lambda t: ([1, ["a"]], [2, ["a"]]), "iterators": lambda t: (iter([]),) * 2,
    "list": lambda t: ([a(t), a(t)], [a(t), a(t) + 1]), "lengths": lambda t: ([1, 2], [3]),
    "lengths within": lambda t: ([1, [2, 3]], [2, [2]]), "list and tuple": lambda t: ([a(t)], (a(t),)),
    "ranges": lambda t: (range(3), [0, 1, 2]), "nothing": lambda t: ([], ()), "deque": lambda t: (
        collections.deque([1]), collections.deque([2])), "bytes": lambda t: (b"a", b"a"),
    "array module": lambda t: (array.array("f", [1.0]),) * 2,
    "nested": lambda t: ([[1], {"k": (1, a(t))}], [[1], {"k": (1, a(t) + 1)}]),
    "keys": lambda t: ({"a": 1, "b": 1, "c": 2}, {"x": 1, "c": 3}), "no key": lambda t: ({"c": 2}, {"x": 1, "c": 3}),
    "keys within": lambda t: ([{"a": 1}], [{"b": 1}]), "mapping": lambda t: (OrderedDict(a=1), {"a": 1}),
    "mapping and list": lambda t: ({"a": 1}, [1]), "order of keys": lambda t: ({"b": 1, "a": 2}, {"a": 3, "b": 4}),
    "keys of other types": lambda t: ({(1, 2): 1}, {(1, 2): 2}), "named tuples": lambda t: (Pair(1, 2), Pair(1, 3)),
    "None within": lambda t: ([None], [1]),
}  # fmt: skip


@pytest.mark.parametrize("case", TENSORS)
def test_assert_close_of_tensors(case):
    values, keywords = TENSORS[case]
    agree(said(lambda t: t.testing.assert_close(*values(t), **keywords)))


@pytest.mark.parametrize("case", OTHERS)
def test_assert_close_of_other_things(case):
    agree(said(lambda t: t.testing.assert_close(*OTHERS[case](t))))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex64", "complex128", "int32"])
def test_default_tolerances(dtype):
    agree(said(lambda t: t.testing.assert_close(*(t.tensor([1, v], dtype=getattr(t, dtype)) for v in (2, 3)))))


def test_bool_and_number_differ_in_type():
    with pytest.raises(AssertionError, match="types do not match: <class 'bool'> != <class 'int'>"):
        torchlike.testing.assert_close(True, 1)


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_assert_close_of_one_byte(dtype):
    one, two = (torchlike.tensor([v]).to(getattr(torchlike, dtype)) for v in (1.0, 2.0))
    torchlike.testing.assert_close(one, one)
    with pytest.raises(AssertionError, match=r"not equal!\n\nMismatched elements: 1 / 1"):
        torchlike.testing.assert_close(one, two)


def quantized(t, number):
    return t.quantize_per_tensor(t.tensor([number, 1.0]), 1.0, 0, t.qint32)


def by_channel(t):
    return t.quantize_per_channel(t.ones(2), t.ones(2), t.zeros(2, dtype=t.int64), 0, t.qint32)


SPECIAL = {
    "quantized and not": lambda t: (t.ones(2), quantized(t, 1.0)),
    "schemes": lambda t: (quantized(t, 1.0), by_channel(t)),
    "quantized": lambda t: (quantized(t, 3.0), quantized(t, 1.0)),
    "equal ones": lambda t: (by_channel(t), by_channel(t)),
    "dimensions that are sparse": lambda t: (t.ones(2, 2).to_sparse(), t.ones(2, 2).to_sparse(1)),
}


@pytest.mark.parametrize("case", SPECIAL)
def test_assert_close_of_special_tensors(case):
    agree(said(lambda t: t.testing.assert_close(*SPECIAL[case](t))))


def test_numbers_drawn_aside():
    def run(t):
        t.manual_seed(0)
        utils = importlib.import_module(f"{t.__name__}.testing._utils")
        with utils.freeze_rng_state():
            t.rand(2)
        return utils.wrapper_set_seed(t.rand, 2), t.rand(2)

    agree(run)


def test_negative_tolerance():
    agree_error(lambda t: t.testing.assert_close(a(t), a(t), rtol=0, atol=-1), "atol")


ALLCLOSE = {
    "float16": lambda t: (t.ones(2).half(), t.zeros(2).half()),
    "float32": lambda t: (t.ones(2), t.zeros(2)),
    "float64": lambda t: (t.ones(2).double(), t.zeros(2).double()),
    "integers": lambda t: (t.tensor([1]), t.tensor([0])),
    "two dtypes": lambda t: (t.ones(2), t.zeros(2).double()),
    "numbers": lambda t: (1.0, 2.0),
    "list": lambda t: (a(t), [1.0, 2.0, 3.0]),
    "NaN": lambda t: (t.tensor(NAN), t.tensor(NAN)),
    "shape": lambda t: (a(t), 1.0),
}


@pytest.mark.parametrize("case", ALLCLOSE)
def test_assert_allclose(case):
    agree(said(lambda t: t.testing.assert_allclose(*ALLCLOSE[case](t))))


def test_assert_allclose_keywords():
    agree(said(lambda t: t.testing.assert_allclose(a(t), a(t) + 1, msg="hello")))
    agree(said(lambda t: t.testing.assert_allclose(a(t), a(t) * 1.001, rtol=1e-2, atol=0)))
    agree(said(lambda t: t.testing.assert_allclose(a(t), a(t), rtol=1e-2)))
    with pytest.warns(FutureWarning, match=r"assert_allclose\(\)` is deprecated"):
        torchlike.testing.assert_allclose(1, 1)


# -- make_tensor -------------------------------------------------------------------------------------------
DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"]


def made(*size, dtype="float32", **keywords):
    """The numbers of a tensor of each library, which must be alike in all else."""
    seen = []
    for t in (torchlike, torch):
        x = t.testing.make_tensor(*size, dtype=getattr(t, dtype), device="cpu", **keywords)
        seen.append((str(x.dtype), tuple(x.shape), x.stride(), x.requires_grad, x.is_leaf, str(x.device)))
    assert seen[0] == seen[1]
    x = torchlike.testing.make_tensor(*size, dtype=getattr(torchlike, dtype), device="cpu", **keywords).detach()
    return x.numpy() if x.is_complex() else x.double().numpy()


@pytest.mark.parametrize("dtype", DTYPES)
def test_default_intervals(dtype):
    numbers = made(2000, dtype=dtype)
    lowest = {"bool": 0, "uint8": 0}.get(dtype, -9)
    assert lowest <= numbers.min() < lowest + 0.1 and (1 if dtype == "bool" else 8.8) <= numbers.max() <= 9
    assert (len(np.unique(numbers)) > 100) is ("float" in dtype)


@pytest.mark.parametrize(("dtype", "low", "high", "least", "most"), [
    ("float32", 2, None, 2, 9), ("float32", None, 2, -9, 2), ("float64", 2, 5, 2, 5),
    ("float16", -1e6, 1e6, -65504, 65504), ("int64", 2, 4, 2, 3), ("int64", 2.5, 4.5, 3, 4), ("int64", 0, 1, 0, 0),
    ("float32", -INF, INF, -3.41e38, 3.41e38), ("uint8", -5, None, 0, 9), ("uint8", 0, 1000, 0, 255),
    ("bool", 1, None, 1, 1), ("bool", 0, 2, 0, 1),
])  # fmt: skip
def test_intervals(dtype, low, high, least, most):
    numbers = made(3000, dtype=dtype, low=low, high=high)
    assert np.isfinite(numbers).all()
    slack = (most - least) * (0.05 if "float" in dtype else 0)
    assert least <= numbers.min() <= least + slack and most - slack <= numbers.max() <= most


def test_complex_parts():
    numbers = made(1000, dtype="complex64", low=2, high=3)
    for part in (numbers.real, numbers.imag):
        assert 2 <= part.min() < 2.1 and 2.9 < part.max() <= 3
    assert (numbers.real != numbers.imag).all()


@pytest.mark.parametrize(("size", "keywords"), [
    ((), {}), ((3, 4), {}), (((3, 4),), {}), (([3, 4],), {}), ((0, 3), {}), ((3, 4), {"noncontiguous": True}),
    ((3,), {"noncontiguous": True, "requires_grad": True}), ((1,), {"noncontiguous": True}),
    (((),), {"noncontiguous": True}), ((0, 3), {"noncontiguous": True}), ((3,), {"requires_grad": True}),
])  # fmt: skip
def test_shapes_and_strides(size, keywords):
    made(*size, **keywords)


@pytest.mark.parametrize("dtype", [*DTYPES, "complex64", "complex128"])
@pytest.mark.parametrize(
    "keywords", [{}, {"noncontiguous": True}, {"low": 0, "high": 3, "exclude_zero": True}], ids=str
)
def test_the_numbers_are_pytorchs(dtype, keywords):
    def numbers(t):
        t.manual_seed(4)
        x = t.testing.make_tensor((2, 3), dtype=getattr(t, dtype), device="cpu", **keywords)
        return x.tolist(), x.storage_offset(), x._base is None or x._base.shape

    agree(numbers)


def test_memory_format():
    agree(lambda t: t.testing.make_tensor(
        2, 3, 4, 5, dtype=t.float32, device="cpu", memory_format=t.channels_last).stride())  # fmt: skip


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float32", "complex64"])
def test_exclude_zero(dtype):
    high = 2 if dtype in ("bool", "uint8", "int64") else 1e-44
    assert (made(300, dtype=dtype, low=0, high=high, exclude_zero=True) != 0).all()


def test_equal_bounds():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert made(3, low=2, high=2).tolist() == [2, 2, 2]
    with pytest.warns(FutureWarning, match="Passing `low==high`"):
        torchlike.testing.make_tensor(3, dtype=torchlike.float32, device="cpu", low=2, high=2)


def test_the_seed_decides():
    def numbers(seed):
        torchlike.manual_seed(seed)
        return torchlike.testing.make_tensor(3, dtype=torchlike.float32, device="cpu").tolist()

    assert numbers(1) == numbers(1) != numbers(2)


BAD = {
    "order": ({"low": 5, "high": 2}, "`low` must be less than `high`, but got 5 >= 2"),
    "equal integers": ({"low": 2, "high": 2, "dtype": "int64"}, "`low` must be less than `high`, but got 2 >= 2"),
    "above the default": ({"low": 300, "dtype": "uint8"}, "but got 300 >= 10"),
    "not in the dtype": ({"low": 3, "high": 5, "dtype": "bool"}, r"is \[3, 5\), but torch.bool only supports \[0, 2\)"),
    "NaN": ({"low": NAN}, "cannot be NaN, but got low=nan and high=9"),
    "integers with grad": ({"requires_grad": True, "dtype": "int64"}, "not supported for boolean and integral dtypes"),
    "two layouts": ({"noncontiguous": True, "memory_format": "channels_last"}, "mutually exclusive"),
    "no such dtype": ({"dtype": "strided"}, "The requested dtype .* is not supported by torch.testing.make_tensor"),
}


@pytest.mark.parametrize("case", BAD)
def test_refused_arguments(case):
    keywords, match = BAD[case]

    def run(t):
        own = {k: getattr(t, v) if isinstance(v, str) else v for k, v in {"dtype": "float32", **keywords}.items()}
        t.testing.make_tensor(3, device="cpu", **own)

    agree_error(run, match)


def test_refused_sizes():
    agree_error(lambda t: t.testing.make_tensor(-1, dtype=t.float32, device="cpu"), "negative dimension -1")
    agree_error(lambda t: t.testing.make_tensor((1,), (2,), dtype=t.float32, device="cpu"), "argument 'size'")
    agree_error(lambda t: t.testing.make_tensor(3, device="cpu"), "dtype")
