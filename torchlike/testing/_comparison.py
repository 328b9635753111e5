"""``assert_close``: tensors, numbers and containers of them, compared with tolerances."""

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from numbers import Number
from typing import Any, NamedTuple

import numpy as np

from torchlike._base import dtypes
from torchlike._base.promotion import promote_types
from torchlike._core.conversion.factories import as_tensor
from torchlike._core.dispatch.bind import FUNCTIONS
from torchlike._core.sparse.value import value
from torchlike._core.tensor.tensor import Tensor, sparse_coo, strided

# (relative, absolute) tolerances of tensors by dtype; nothing for the others
# (wide types first: in 32-bit mode they are the same object as the narrow ones, whose tolerances then count)
_TOLERANCES = {
    dtypes.float64: (1e-7, 1e-7),
    dtypes.complex128: (1e-7, 1e-7),
    dtypes.float16: (1e-3, 1e-5),
    dtypes.bfloat16: (1.6e-2, 1e-5),
    dtypes.float32: (1.3e-6, 1e-5),
    dtypes.complex32: (1e-3, 1e-5),
    dtypes.complex64: (1.3e-6, 1e-5),
}
_OLD_TOLERANCES = {dtypes.float16: (1e-3, 1e-3), dtypes.float64: (1e-5, 1e-8), dtypes.float32: (1e-4, 1e-5)}
_NUMBER = (1e-7, 1e-7)  # of Python's floats and complex numbers


class Options(NamedTuple):
    """The keywords of assert_close that a comparison reads."""

    allow_subclasses: bool = True
    rtol: float | None = None
    atol: float | None = None
    equal_nan: bool = False
    check_device: bool = True
    check_dtype: bool = True
    check_layout: bool = True
    check_stride: bool = False
    others: Callable | None = None  # makes the Pair of what is no container, before this file's own kinds


class Mismatch(AssertionError):
    """Two values differ; ``path``: where in the containers they are."""

    def __init__(self, text: str, path: tuple = ()):
        super().__init__(text + _where(path))


def _where(path: tuple) -> str:
    return "\n\nThe failure occurred for item " + "".join(f"[{key!r}]" for key in path) if path else ""


class Pair(NamedTuple):
    """Two values to compare, what they are called, and where they stand."""

    compare: Callable
    actual: Any
    expected: Any
    path: tuple


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Assert that ``|actual - expected| <= atol + rtol * |expected|`` for all elements.

    It compares tensors, what :func:`torch.as_tensor` takes for one (such as numpy arrays), numbers, None, and
    sequences and mappings of these.

    Args:
        allow_subclasses: let the type of one value be a subclass of the other's.
        rtol, atol: both or none. Defaults, rtol and atol: float16 1e-3, 1e-5; bfloat16 1.6e-2, 1e-5; float32 and
            complex64 1.3e-6, 1e-5; float64, complex128 and Python's numbers 1e-7, 1e-7; else 0. For two dtypes the
            larger.
        equal_nan: whether NaN is close to NaN.
        check_device, check_dtype, check_layout, check_stride: whether these must be equal.
        msg: the message of the error, or a function that makes it of the usual one.

    Raises:
        AssertionError: the values differ: how many elements, and where most.
        TypeError: types that cannot be compared.
        ValueError: only one of ``rtol`` and ``atol``.

    >>> import torchlike as torch
    >>> torch.testing.assert_close(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.0 + 1e-7]))
    >>> torch.testing.assert_close(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.5]))
    Traceback (most recent call last):
    AssertionError: Tensor-likes are not close!
    <BLANKLINE>
    Mismatched elements: 1 / 2 (50.0%)
    Greatest absolute difference: 0.5 at index (1,) (up to 1e-05 allowed)
    Greatest relative difference: 0.20000000298023224 at index (1,) (up to 1.3e-06 allowed)
    """
    __tracebackhide__ = True
    check_tolerances(rtol, atol)
    options = Options(allow_subclasses, rtol, atol, equal_nan, check_device, check_dtype, check_layout, check_stride)
    compare(actual, expected, options, msg)


def check_tolerances(rtol: float | None, atol: float | None) -> None:
    """ValueError if only one of them is given."""
    if (rtol is None) != (atol is None):
        missing = "rtol" if rtol is None else "atol"
        raise ValueError(f"Both 'rtol' and 'atol' must be either specified or omitted, but got no {missing}.")


def compare(actual: Any, expected: Any, options: Options, msg: str | Callable[[str], str] | None) -> None:
    """AssertionError, with ``msg`` as in :func:`assert_close`, unless the values agree."""
    __tracebackhide__ = True
    try:
        for pair in list(_pairs(actual, expected, options, ())):  # all must be comparable before the first is compared
            pair.compare(pair.actual, pair.expected, options, pair.path)
    except Mismatch as found:
        text = str(found)
        text = msg(text) if callable(msg) else msg if isinstance(msg, str) and msg else text
        raise AssertionError(text) from None


# -- What is compared with what --------------------------------------------------------------------------
def _pairs(actual: Any, expected: Any, options: Options, path: tuple) -> Iterator[Pair]:
    if isinstance(actual, Sequence) and isinstance(expected, Sequence) and not isinstance(actual, str):
        yield from _items(actual, expected, options, path)
    elif isinstance(actual, Mapping) and isinstance(expected, Mapping):
        yield from _values(actual, expected, options, path)
    elif options.others is not None and (pair := options.others(actual, expected, path)) is not None:
        yield pair
    elif actual is None or expected is None:
        yield Pair(_compare_none, actual, expected, path)
    elif is_bool(actual) and is_bool(expected):
        yield Pair(compare_bools, bool(actual), bool(expected), path)
    elif is_number(actual) and is_number(expected):
        yield Pair(compare_numbers, python(actual), python(expected), path)
    else:
        yield Pair(compare_tensors, *_tensors(actual, expected, options, path), path)


def _items(actual: Sequence, expected: Sequence, options: Options, path: tuple) -> Iterator[Pair]:
    if len(actual) != len(expected):
        raise Mismatch(f"The length of the sequences mismatch: {len(actual)} != {len(expected)}", path)
    for i, (a, e) in enumerate(zip(actual, expected, strict=True)):
        yield from _pairs(a, e, options, (*path, i))


def _values(actual: Mapping, expected: Mapping, options: Options, path: tuple) -> Iterator[Pair]:
    if set(actual) != set(expected):
        raise Mismatch(
            "The keys of the mappings do not match:\n"
            f"Missing keys in the actual mapping: {_ordered(set(expected) - set(actual))}\n"
            f"Additional keys in the actual mapping: {_ordered(set(actual) - set(expected))}",
            path,
        )
    for key in _ordered(expected):
        yield from _pairs(actual[key], expected[key], options, (*path, key))


def _ordered(keys: Any) -> list:
    """Sorted, where that is possible."""
    try:
        return sorted(keys)
    except TypeError:
        return list(keys)


def is_bool(x: Any) -> bool:
    return isinstance(x, (bool, np.bool_))


def is_number(x: Any) -> bool:
    return isinstance(x, Number) and not isinstance(x, Tensor)


def python(x: Any) -> Any:
    return x.item() if isinstance(x, np.generic) else x


def _tensors(actual: Any, expected: Any, options: Options, path: tuple) -> tuple[Tensor, Tensor]:
    """Both as tensors."""
    related = type(actual) is type(expected)
    if options.allow_subclasses:
        related = isinstance(actual, type(expected)) or isinstance(expected, type(actual))
    try:
        if related and not isinstance(actual, str):
            return _tensor(actual), _tensor(expected)
    except (TypeError, ValueError, RuntimeError):
        pass  # not like a tensor
    raise TypeError(
        f"No comparison pair was able to handle inputs of type {type(actual)} and {type(expected)}." + _where(path)
    )


def _tensor(x: Any) -> Tensor:
    return x.detach() if isinstance(x, Tensor) else as_tensor(x)


# -- Comparisons -----------------------------------------------------------------------------------------
def _compare_none(actual: Any, expected: Any, options: Options, path: tuple) -> None:
    if actual is not expected:
        raise Mismatch(f"None mismatch: {actual} is not {expected}", path)


def compare_bools(actual: bool, expected: bool, options: Options, path: tuple) -> None:
    if actual is not expected:
        raise Mismatch(f"Booleans mismatch: {actual} is not {expected}", path)


def compare_numbers(actual: Any, expected: Any, options: Options, path: tuple) -> None:
    if options.check_dtype and type(actual) is not type(expected):
        raise Mismatch(f"The (d)types do not match: {type(actual)} != {type(expected)}.", path)
    rtol, atol = options.rtol, options.atol
    if rtol is None or atol is None:
        rtol, atol = (0.0, 0.0) if isinstance(actual, int) and isinstance(expected, int) else _NUMBER
    if not _number_close(actual, expected, rtol, atol, options.equal_nan):
        raise Mismatch(_of_numbers(actual, expected, rtol, atol), path)


def _number_close(actual: Any, expected: Any, rtol: float, atol: float, equal_nan: bool) -> bool:
    if actual != actual and expected != expected:
        return equal_nan
    difference = abs(actual - expected)
    return bool(actual == expected or (math.isfinite(difference) and difference <= atol + rtol * abs(expected)))


def compare_tensors(actual: Tensor, expected: Tensor, options: Options, path: tuple) -> None:
    _compare_attributes(actual, expected, options, path)
    if actual.layout is not strided or expected.layout is not strided:
        _compare_sparse(actual, expected, options, path)
        return
    if actual.is_meta or expected.is_meta:
        return
    what = "Tensor-likes"
    if actual.is_quantized:
        actual, expected, what = actual.dequantize(), expected.dequantize(), "Quantized tensor-likes"
    rtol, atol = options.rtol, options.atol
    if rtol is None or atol is None:
        rtol, atol = _largest(_TOLERANCES, actual, expected)
    if actual.device != expected.device:
        actual, expected = actual.cpu(), expected.cpu()
    if actual.dtype is not expected.dtype:
        kind = promote_types(actual.dtype, expected.dtype)
        actual, expected = actual.to(kind), expected.to(kind)
    matches = _matches(actual, expected, rtol, atol, options.equal_nan)
    if bool(matches.all()):
        return
    if not actual.ndim:
        raise Mismatch(_of_numbers(actual.item(), expected.item(), rtol, atol), path)
    raise Mismatch(_of_elements(what, actual, expected, matches, rtol, atol), path)


def _compare_sparse(actual: Tensor, expected: Tensor, options: Options, path: tuple) -> None:
    """Tensors one of which is sparse at least: part by part if they are of one layout, else in full."""
    if actual.layout is not expected.layout:
        compare_tensors(actual.to_dense(), expected.to_dense(), options, path)
        return
    kind = "COO" if actual.layout is sparse_coo else repr(actual.layout).removeprefix("torch.sparse_").upper()
    counts = [("specified values", actual._nnz(), expected._nnz())]
    if kind == "COO":
        counts.insert(0, ("sparse dimensions", actual.sparse_dim(), expected.sparse_dim()))
    for what, a, e in counts:
        if a != e:
            raise Mismatch(f"The number of {what} in sparse {kind} tensors does not match: {a} != {e}", path)
    exact = options._replace(rtol=0.0, atol=0.0, check_dtype=False, check_stride=False)
    for name in _INDICES[kind]:
        try:
            compare_tensors(getattr(actual, name)(), getattr(expected, name)(), exact, path)
        except Mismatch as error:
            raise Mismatch(f"Sparse {kind} {name.lstrip('_')}: {error}", path) from None
    try:
        compare_tensors(value(actual).values, value(expected).values, options, path)
    except Mismatch as error:
        raise Mismatch(f"Sparse {kind} values: {error}", path) from None


_INDICES = {"COO": ("_indices",), "CSR": ("crow_indices", "col_indices"), "CSC": ("ccol_indices", "row_indices")}
_INDICES |= {"BSR": _INDICES["CSR"], "BSC": _INDICES["CSC"]}


def _compare_attributes(actual: Tensor, expected: Tensor, options: Options, path: tuple) -> None:
    pairs = [
        (True, "shape", actual.shape, expected.shape),
        (options.check_layout, "layout", actual.layout, expected.layout),
        (True, "is_quantized", actual.is_quantized, expected.is_quantized),
        (options.check_device, "device", actual.device, expected.device),
        *([(True, "stride()", actual.stride(), expected.stride())] if options.check_stride else []),
        (options.check_dtype, "dtype", actual.dtype, expected.dtype),
    ]
    if actual.is_quantized and expected.is_quantized:
        pairs.insert(3, (True, "qscheme()", actual.qscheme(), expected.qscheme()))
    for wanted, name, a, e in pairs:
        if wanted and a != e:
            raise Mismatch(f"The values for attribute '{name}' do not match: {a} != {e}.", path)


def _largest(tolerances: dict, actual: Tensor, expected: Tensor) -> tuple[float, float]:
    """The larger of the tolerances of two dtypes."""
    a, e = (tolerances.get(t.dtype, (0.0, 0.0)) for t in (actual, expected))
    return max(a[0], e[0]), max(a[1], e[1])


def _matches(actual: Tensor, expected: Tensor, rtol: float, atol: float, equal_nan: bool) -> Tensor:
    dtype = actual.dtype
    if not (dtype.is_floating_point or dtype.is_complex):
        if rtol == atol == 0:
            return actual.eq(expected)
        actual, expected = actual.to(dtypes.int64), expected.to(dtypes.int64)  # differences of unsigned ones wrap
    elif dtype.itemsize == 1:  # without arithmetic of its own
        actual, expected = actual.float(), expected.float()
    return FUNCTIONS["isclose"](actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan)


# -- Messages --------------------------------------------------------------------------------------------
def _title(what: str, rtol: float, atol: float) -> str:
    return f"{what} are not {'equal' if rtol == atol == 0 else 'close'}!\n\n"


def _allowed(rtol: float, atol: float) -> tuple[str, str]:
    """What is said of the relative and of the absolute tolerance."""
    return ("", "") if rtol == atol == 0 else (f" (up to {rtol} allowed)", f" (up to {atol} allowed)")


def _of_numbers(actual: Any, expected: Any, rtol: float, atol: float) -> str:
    difference = abs(actual - expected)
    relative = difference / abs(expected) if expected != 0 else float("inf")
    up_to = _allowed(rtol, atol)
    return (
        _title("Scalars", rtol, atol) + f"Expected {expected} but got {actual}.\n"
        f"Absolute difference: {difference}{up_to[1]}\nRelative difference: {relative}{up_to[0]}"
    )


def _of_elements(what: str, actual: Tensor, expected: Tensor, matches: Tensor, rtol: float, atol: float) -> str:
    same = matches._host()
    a, e = _arithmetic(actual), _arithmetic(expected)
    with np.errstate(all="ignore"):
        difference = np.abs(a - e)
        relative = _ratio(difference, np.abs(e))
    difference, relative = (np.where(same, np.zeros_like(d), d) for d in (difference, relative))
    wrong, up_to = int((~same).sum()), _allowed(rtol, atol)
    return (
        _title(what, rtol, atol) + f"Mismatched elements: {wrong} / {same.size} ({wrong / same.size:.1%})\n"
        f"Greatest absolute difference: {_greatest(difference)}{up_to[1]}\n"
        f"Greatest relative difference: {_greatest(relative)}{up_to[0]}"
    )


def _arithmetic(t: Tensor) -> np.ndarray:
    """The values in a dtype whose differences do not overflow."""
    values = t._host()
    if values.dtype.kind in "biu" and values.dtype != np.uint64:
        return values.astype(np.int64)
    return values.astype(object) if values.dtype == np.uint64 else values


def _ratio(difference: np.ndarray, size: np.ndarray) -> np.ndarray:
    if difference.dtype.kind in "iO":
        difference, size = difference.astype(np.float32), size.astype(np.float32)
    return difference / size


def _greatest(values: np.ndarray) -> str:
    """The largest element, NaN before all, and the index where it first is."""
    wide = values.astype(np.float64)
    at = int(np.argmax(wide))
    index = tuple(int(i) for i in np.unravel_index(at, values.shape))
    largest = values[index]
    return f"{largest.item() if isinstance(largest, np.generic) else largest} at index {index}"


def assert_allclose(
    actual: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str = "",
) -> None:
    """Deprecated: :func:`assert_close` of tensors made of both, with larger tolerances and NaN equal to NaN."""
    __tracebackhide__ = True
    warnings.warn(
        "`torch.testing.assert_allclose()` is deprecated since 1.12 and will be removed in a future release. Please "
        "use `torch.testing.assert_close()` instead, which has tighter tolerances and compares dtypes.",
        FutureWarning,
        stacklevel=2,
    )
    actual = actual if isinstance(actual, Tensor) else as_tensor(actual)
    expected = expected if isinstance(expected, Tensor) else as_tensor(expected)
    if rtol is None and atol is None:
        rtol, atol = _largest(_OLD_TOLERANCES, actual, expected)
    assert_close(actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=False, msg=msg or None)
