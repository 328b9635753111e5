"""torch.testing._internal.common_utils: TestCase and parametrization, with the answers that PyTorch 2.13 gave."""

import random
import unittest
from collections import OrderedDict

import numpy as np
import pytest

import torchlike as t
from torchlike._dynamo.testing import CompileCounter, CompileCounterWithBackend, EagerAndRecordGraphs
from torchlike.testing._internal.common_utils import TestCase, instantiate_parametrized_tests, parametrize, subtest

NAN = float("nan")


class Same:
    def __eq__(self, other):
        return isinstance(other, Same)


def f(*values, **keywords):
    return t.tensor(values[0] if len(values) == 1 else list(values), **keywords)


# what it says of two values: how the text of its error starts, None if they are equal
CASES = {
    "tensors": (lambda: (f(1.0, 2.0), f(1.0, 2.0 + 1e-6)), {}, None),
    "NaN": (lambda: (f(NAN), f(NAN)), {}, None),
    "NaN, told apart": (lambda: (f(NAN), f(NAN)), {"equal_nan": False}, "Scalars are not close!"),
    "tensors that differ": (lambda: (f(1.0, 2.0), f(1.0, 3.0)), {}, "Tensor-likes are not close!\n\nMismatched elem"),
    "dtypes": (lambda: (f(1), f(1.0)), {}, "The values for attribute 'dtype' do not match: torch.int64 != torch.flo"),
    "dtypes, any": (lambda: (f(1), f(1.0)), {"exact_dtype": False}, None),
    "shapes": (lambda: (t.ones(2), t.ones(1)), {}, "The values for attribute 'shape' do not match"),
    "strides": (lambda: (t.ones(2, 3), t.ones(3, 2).t()), {}, None),
    "strides, told apart": (lambda: (t.ones(2, 3), t.ones(3, 2).t()), {"exact_stride": True}, "The values for attr"),
    "layouts": (lambda: (t.ones(2), t.ones(2).to_sparse()), {}, None),
    "layouts, told apart": (lambda: (t.ones(2), t.ones(2).to_sparse()), {"exact_layout": True}, "The values for attr"),
    "a number and a tensor": (lambda: (1.0, t.ones(1)), {}, None),
    "a tensor and an int": (lambda: (f(10**9), 10**9 + 1), {}, "Scalars are not equal!\n\nExpected 1000000001 but"),
    "a tensor and a float": (lambda: (f(1e5), 1e5 + 1), {}, "Scalars are not close!\n\nExpected 100001.0 but"),
    "a float nearby": (lambda: (1.0, 1.0 + 2e-6), {}, None),
    "a float further": (lambda: (1.0, 1.0 + 5e-5), {}, "Scalars are not close!"),
    "a float with tolerances": (lambda: (1.0, 1.1), {"atol": 0.5, "rtol": 0}, None),
    "ints": (lambda: (10**7, 10**7 + 1), {}, "Scalars are not equal!"),
    "an int and a float": (lambda: (1, 1.0), {}, None),
    "a bool and an int": (lambda: (True, 1), {}, None),
    "a bool and another": (lambda: (True, 0), {}, "Booleans mismatch: True is not False"),
    "a bool and a tensor": (lambda: (f(1.0), True), {}, None),
    "NumPy's numbers": (lambda: (np.float64(1), 1.0), {}, None),
    "a list and a tensor": (lambda: ([1, 2], f(1.0, 2.0)), {}, None),
    "a list of tensors and a tensor": (lambda: ([f(1.0)], t.ones(1)), {}, None),
    "an array and a tensor": (lambda: (np.ones(2), f(1.0, 1.0, dtype=t.float64)), {}, None),
    "an array of another dtype": (lambda: (np.ones(2), f(1.0, 1.0)), {}, "The values for attribute 'dtype' do not"),
    "an array and a number": (lambda: (np.ones(1), 1), {}, None),
    "lists": (lambda: ([1, f(2.0)], (1, f(2.0))), {}, None),
    "lists of other lengths": (lambda: ([1], [1, 2]), {}, "The length of the sequences mismatch: 1 != 2"),
    "dictionaries": (lambda: (OrderedDict(a=1, b="x", c=None), {"a": 1.0, "b": "x", "c": None}), {}, None),
    "keys": (lambda: ({"a": 1}, {"b": 1}), {}, "The keys of the mappings do not match:"),
    "a place": (lambda: ({"a": [1]}, {"a": [2]}), {}, "Scalars are not equal!\n\nExpected 2 but got 1.\nAbsolute diff"),
    "a list and a dictionary": (lambda: ([], {}), {}, "Object comparison failed: [] != {}"),
    "sets": (lambda: (frozenset([1]), {1}), {}, None),
    "sets that differ": (
        lambda: ({1}, {2}), {},
        "Set comparison failed: Items in the first set but not the second:\n1\nItems in the second set but",
    ),
    "strings": (lambda: ("ab", "ac"), {}, "String comparison failed: 'ab' != 'ac'"),
    "a string and a number": (lambda: (1, "1"), {}, "Object comparison failed: 1 != '1'"),
    "types": (lambda: (int, float), {}, "Type comparison failed: <class 'int'> != <class 'float'>"),
    "torch's dtypes": (lambda: (t.int8, t.int16), {}, "Object comparison failed: torch.int8 != torch.int16"),
    "objects": (lambda: (Same(), Same()), {}, None),
    "None": (lambda: (None, None), {}, None),
    "None and a number": (lambda: (None, 1), {}, "None mismatch: None is not 1"),
    "a message": (lambda: (1, 2), {"msg": lambda text: "mine: " + text}, "mine: Scalars are not equal!"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_assert_equal(name):
    values, keywords, text = CASES[name]
    case = TestCase()
    if text is None:
        case.assertEqual(*values(), **keywords)
        with pytest.raises(AssertionError, match="AssertionError not raised"):
            case.assertNotEqual(*values(), **keywords)
        return
    with pytest.raises(AssertionError) as error:
        case.assertEqual(*values(), **keywords)
    assert str(error.value).startswith(text)
    case.assertNotEqual(*values(), **{k: v for k, v in keywords.items() if k != "msg"})


def test_what_cannot_be_compared_is_an_error():
    with pytest.raises(ValueError, match="Got 2 elements instead"):
        TestCase().assertEqual(t.ones(2), 1.0)
    with pytest.raises(ValueError, match="but got no rtol"):
        TestCase().assertEqual(1.0, 1.0, atol=1.0)


def test_a_message_stands_behind_the_usual_one():
    with pytest.raises(AssertionError, match="\\[0\\]\nhello$"):
        TestCase().assertEqual([1], [2], "hello")


def run(cls):
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(cls).run(result)
    return result


def test_each_test_starts_from_the_same_random_numbers():
    seen = []

    class Drawing(TestCase):
        def test_a(self):
            seen.append((t.rand(1).item(), random.random(), np.random.rand()))

        test_b = test_a

    assert run(Drawing).wasSuccessful()
    assert seen == [(0.028979241847991943, 0.9664535356921388, 0.1915194503788923)] * 2


VALUES = [True, 2.5, "q", t.float32, t.device("cpu"), int, None, -1, subtest(3, name="n"), subtest((4,)), 1e-5, 1j]
NAMES = "x_True x_2_5 x_q float32 cpu x5 x6 x_-1 n x9 x_1e-05 x11".split()


def test_parametrized_tests_have_pytorchs_names_and_values():
    seen = []

    @instantiate_parametrized_tests
    class Tests(TestCase):
        @parametrize("x", VALUES)
        def test_a(self, x):
            seen.append(x)

        @parametrize("x", [1, 2])
        @parametrize("y,z", [(3, 4), subtest((5, 6), name="s")])
        def test_b(self, x, y, z):
            seen.append((x, y, z))

        @parametrize("x", [7, subtest(8, decorators=[unittest.skip("not now")])], name_fn=lambda x: f"v{x}")
        def test_c(self, x):
            seen.append(x)

    tests = [f"test_a_{n}" for n in NAMES] + [f"test_b_x_{x}_{yz}" for x in (1, 2) for yz in ("y_3_z_4", "s")]
    assert {name for name in dir(Tests) if name.startswith("test_")} == {*tests, "test_c_v7", "test_c_v8"}
    result = run(Tests)
    assert result.wasSuccessful() and len(result.skipped) == 1
    values = [v.arg_values if isinstance(v, subtest) else v for v in VALUES]
    values += [7, *((x, *yz) for x in (1, 2) for yz in ((3, 4), (5, 6)))]
    assert sorted(map(str, seen)) == sorted(map(str, values))
    with pytest.raises(ValueError, match="empty arg_values"):
        parametrize("x", [])(lambda self, x: None)


@pytest.mark.parametrize("make", [CompileCounter, lambda: CompileCounterWithBackend("eager"), EagerAndRecordGraphs])
def test_backends_that_count(make):
    backend = make()
    compiled = t.compile(lambda x: (x * 2).sin() + x, backend=backend)
    for x in (t.ones(2), t.zeros(2), t.ones(2, dtype=t.float64)):
        t.testing.assert_close(compiled(x), (x * 2).sin() + x)
    if not isinstance(backend, EagerAndRecordGraphs):
        assert (backend.frame_count, backend.op_count) == (2, 6)
        backend.clear()
        assert (backend.frame_count, backend.op_count) == (0, 0)
    else:
        assert len(backend.graphs) == 2
