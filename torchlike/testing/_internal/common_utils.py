"""``torch.testing._internal.common_utils``: the ``TestCase`` and the parametrization that packages' own tests take."""

import contextlib
import functools
import platform
import random
import sys
import unittest
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from torchlike import cuda
from torchlike._base.device import device
from torchlike._base.dtypes import dtype, get_default_dtype
from torchlike._core.conversion.factories import as_tensor
from torchlike._core.tensor.tensor import Tensor
from torchlike._decl.settings import set_default_dtype as change_default_dtype
from torchlike.autograd.gradcheck import gradcheck as gradcheck
from torchlike.autograd.gradcheck import gradgradcheck as gradgradcheck
from torchlike.interop.alias import missing_names
from torchlike.random import manual_seed
from torchlike.testing import _comparison as comparison
from torchlike.testing._comparison import Mismatch, Options, Pair
from torchlike.testing._creation import make_tensor as make_tensor
from torchlike.testing._utils import freeze_rng_state as freeze_rng_state

__getattr__ = missing_names(__name__)

SEED = 1234
IS_LINUX, IS_MACOS, IS_WINDOWS = (sys.platform == name for name in ("linux", "darwin", "win32"))
IS_ARM64 = platform.machine() in ("arm64", "aarch64")
IS_CI = IS_FBCODE = IS_SANDCASTLE = IS_JETSON = IS_PPC = IS_S390X = False
TEST_NUMPY = True
TEST_SCIPY = find_spec("scipy") is not None
TEST_CUDA = cuda.is_available()
TEST_MPS = TEST_XPU = TEST_WITH_ROCM = TEST_WITH_ASAN = TEST_WITH_SLOW = TEST_WITH_TORCHDYNAMO = False


def set_rng_seed(seed: int | None = None) -> None:
    """Seed the streams of Python, NumPy and torch, with 1234 if no number is given."""
    seed = SEED if seed is None else seed
    random.seed(seed)
    np.random.seed(seed)
    manual_seed(seed)


@contextlib.contextmanager
def set_default_dtype(d: dtype) -> Iterator[None]:
    """The default dtype is ``d`` within the block.

    >>> import torchlike as torch
    >>> with set_default_dtype(torch.float64):
    ...     torch.ones(1).dtype
    torch.float64
    """
    before = get_default_dtype()
    change_default_dtype(d)
    try:
        yield
    finally:
        change_default_dtype(before)


# -- Comparison --------------------------------------------------------------------------------------------
_NUMBER = (1.3e-6, 1e-5)  # (rtol, atol) of numbers that are not all ints, as of float32


def _number(x: Any) -> Any:
    """The number in ``x``, a number, or a tensor or array of one element; ValueError for one of more."""
    if isinstance(x, np.ndarray):
        x = as_tensor(x)
    if isinstance(x, Tensor):
        if x.numel() != 1:
            raise ValueError(
                f"Only single element tensor-likes can be compared against a number. Got {x.numel()} elements instead."
            )
        return x.item()
    return comparison.python(x)


def _numbers_close(actual: Any, expected: Any, options: Options, path: tuple) -> None:
    exact = isinstance(actual, int) and isinstance(expected, int)
    if options.rtol is None and not exact:
        options = options._replace(rtol=_NUMBER[0], atol=_NUMBER[1])
    comparison.compare_numbers(actual, expected, options._replace(check_dtype=False), path)


def _sets_equal(actual: Any, expected: Any, options: Options, path: tuple) -> None:
    parts = {"first set but not the second": actual - expected, "second set but not the first": expected - actual}
    if actual != expected:
        items = (f"Items in the {where}:\n" + "\n".join(map(repr, extra)) for where, extra in parts.items() if extra)
        raise Mismatch("Set comparison failed: " + "\n".join(items), path)


def _equal(kind: str, actual: Any, expected: Any, options: Options, path: tuple) -> None:
    if actual is not expected and not actual == expected:
        raise Mismatch(f"{kind} comparison failed: {actual!r} != {expected!r}", path)


def _as_tensor(x: Any, other: Any) -> Tensor:
    """``x``, which stands beside ``other``, as a tensor; lists get the dtype of a tensor."""
    if isinstance(x, (Tensor, np.ndarray)) or not isinstance(other, Tensor):
        return (x if isinstance(x, Tensor) else as_tensor(x)).detach()
    return as_tensor(x, dtype=other.dtype, device=other.device)


def _relaxed(actual: Any, expected: Any, path: tuple) -> Pair | None:
    """How ``TestCase.assertEqual`` compares what are not containers: numbers with tensors too, and any objects."""
    both = (actual, expected)

    def all_are(*types: type) -> bool:
        return all(isinstance(x, types) for x in both)

    arrays = [isinstance(x, (Tensor, np.ndarray)) for x in both]
    numeric = [comparison.is_number(x) for x in both]
    if actual is None or expected is None:
        return None
    if any(map(comparison.is_bool, both)) and all(n or a for n, a in zip(numeric, arrays, strict=True)):
        return Pair(comparison.compare_bools, bool(_number(actual)), bool(_number(expected)), path)
    if any(numeric) and all(n or a for n, a in zip(numeric, arrays, strict=True)):
        return Pair(_numbers_close, _number(actual), _number(expected), path)
    if any(isinstance(x, Tensor) for x in both) or all(arrays):
        return Pair(comparison.compare_tensors, _as_tensor(*both), _as_tensor(expected, actual), path)
    if all_are(set, frozenset):
        return Pair(_sets_equal, actual, expected, path)
    kind = "String" if all_are(str) else "Type" if all_are(type) else "Object"
    return Pair(functools.partial(_equal, kind), actual, expected, path)


# with assertExpectedInline and its kin where the package is there
_Base: Any = import_module("expecttest").TestCase if find_spec("expecttest") else unittest.TestCase


class TestCase(_Base):
    """``unittest.TestCase`` whose ``assertEqual`` compares tensors; each test starts from the same random numbers.

    >>> import torchlike as torch
    >>> case = TestCase()
    >>> case.assertEqual({"a": [torch.ones(1), 2]}, {"a": [torch.ones(1), 2.0]})
    >>> case.assertNotEqual(torch.ones(1), torch.zeros(1))
    """

    def setUp(self) -> None:
        """Seed the streams of random numbers."""
        super().setUp()
        set_rng_seed(SEED)

    def assertEqual(
        self, x: Any, y: Any, msg: str | Callable[[str], str] | None = None, *, atol: float | None = None,
        rtol: float | None = None, equal_nan: bool = True, exact_dtype: bool = True, exact_device: bool = False,
        exact_layout: bool = False, exact_stride: bool = False, exact_is_coalesced: bool = False,
    ) -> None:  # fmt: skip
        """Assert that the values are close, as :func:`torch.testing.assert_close` does, and more loosely.

        Numbers are compared with tensors of one element, lists with tensors, arrays with tensors, NaN with NaN, and
        any other objects by ``==``. ``msg`` stands behind the usual message, or is a function that makes it of that.

        Raises:
            AssertionError: they differ.
            ValueError: only one of ``rtol`` and ``atol``, or a number beside a tensor of several elements.
        """
        __tracebackhide__ = True
        comparison.check_tolerances(rtol, atol)
        options = Options(
            rtol=rtol, atol=atol, equal_nan=equal_nan, check_device=exact_device, check_dtype=exact_dtype,
            check_layout=exact_layout, check_stride=exact_stride, others=_relaxed,
        )  # fmt: skip
        text = msg if callable(msg) or msg is None else lambda usual: f"{usual}\n{msg}"
        comparison.compare(x, y, options, text)
        if exact_is_coalesced and isinstance(x, Tensor) and x.is_sparse:
            unittest.TestCase.assertEqual(self, x.is_coalesced(), y.is_coalesced(), msg)

    def assertNotEqual(
        self, x: Any, y: Any, msg: str | None = None, *, atol: float | None = None, rtol: float | None = None,
        **kwargs: Any,
    ) -> None:  # fmt: skip
        """Assert that :meth:`assertEqual` does not hold."""
        with self.assertRaises(AssertionError, msg=msg):
            self.assertEqual(x, y, msg, atol=atol, rtol=rtol, **kwargs)

    def assertEqualIgnoreType(self, *args: Any, **kwargs: Any) -> None:
        """:meth:`assertEqual` whatever the dtypes are."""
        self.assertEqual(*args, exact_dtype=False, **kwargs)


def run_tests(argv: list[str] | None = None) -> None:
    """Run the tests of the script, as ``unittest.main`` does, and leave."""
    unittest.main(argv=sys.argv if argv is None else argv)


# -- Parametrization ---------------------------------------------------------------------------------------
class subtest(NamedTuple):
    """One parameter, or tuple of them, of :func:`parametrize` with a name and decorators of its own."""

    arg_values: Any
    name: str | None = None
    decorators: Iterable = ()


class _Case(NamedTuple):
    name: str
    values: dict
    decorators: tuple


class parametrize:
    """A decorator of tests: one test for each of ``arg_values``, once the class is instantiated.

    Args:
        arg_str: the parameter's name, or several with commas between.
        arg_values: values, tuples of them where there are several names, or :class:`subtest` of these.
        name_fn: makes a test's name of the values; otherwise names are made of parameters and values.

    >>> @instantiate_parametrized_tests
    ... class Tests(TestCase):
    ...     @parametrize("n", [1, 2])
    ...     def test_even(self, n): ...
    >>> [name for name in dir(Tests) if name.startswith("test_")]
    ['test_even_n_1', 'test_even_n_2']
    """

    def __init__(self, arg_str: str, arg_values: Iterable, name_fn: Callable | None = None):
        self.names = [name.strip() for name in arg_str.split(",") if name.strip()]
        self.values, self.name_fn = arg_values, name_fn

    def __call__(self, function: Callable) -> Callable:
        cases = [self._case(i, given) for i, given in enumerate(self.values)]
        if not cases:
            raise ValueError(f"{function}: An empty arg_values was passed to @parametrize.")
        inner = getattr(function, "_cases", [_Case("", {}, ())])
        function._cases = [  # type: ignore[attr-defined]
            _Case("_".join(filter(None, (a.name, b.name))), {**a.values, **b.values}, (*b.decorators, *a.decorators))
            for a in cases
            for b in inner
        ]
        return function

    def _case(self, i: int, given: Any) -> _Case:
        given = given if isinstance(given, subtest) else subtest(given)
        values = [given.arg_values] if len(self.names) == 1 else list(given.arg_values)
        if len(values) != len(self.names):
            raise RuntimeError(f"Expected # values == # parameters, but got: {len(values)} and {len(self.names)}")
        return _Case(self._name(i, given, values), dict(zip(self.names, values, strict=True)), tuple(given.decorators))

    def _name(self, i: int, given: subtest, values: list) -> str:
        if given.name is not None:
            return given.name
        if self.name_fn is not None:
            return self.name_fn(*values)
        return "_".join(_part(i, name, value) for name, value in zip(self.names, values, strict=True))


def _part(i: int, name: str, value: Any) -> str:
    """What a test's name says of one parameter."""
    if isinstance(value, (dtype, device)):
        return str(value).removeprefix("torch.").replace(":", "_")
    return f"{name}_{value}".replace(".", "_") if isinstance(value, (bool, int, float, str)) else f"{name}{i}"


def instantiate_parametrized_tests(cls: type) -> type:
    """The class, with tests in place of those that :func:`parametrize` decorates: one for each case."""
    for name, function in list(vars(cls).items()):
        cases = getattr(function, "_cases", None)
        if cases is None:
            continue
        delattr(cls, name)
        for case in cases:
            setattr(cls, f"{name}_{case.name}", _made(function, case))
    return cls


def _made(function: Callable, case: _Case) -> Callable:
    @functools.wraps(function)
    def test(self: Any, *args: Any, **kwargs: Any) -> Any:
        return function(self, *args, **case.values, **kwargs)

    del test._cases, test.__wrapped__  # type: ignore[attr-defined]
    for decorate in case.decorators:
        test = decorate(test)
    return test
