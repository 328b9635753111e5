"""Conditions that programs state (``torch._check`` and its kin), and numbers that may be symbolic in PyTorch.

Here every size is a Python number: the functions of ``torch.sym_*`` compute with numbers, and the classes
``SymInt``, ``SymFloat`` and ``SymBool`` exist for ``isinstance`` and annotations.
"""

from __future__ import annotations

import builtins
import math
import warnings
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

import torchlike._base.dtypes as dtypes
from torchlike._core.overrides.torch_function import publish
from torchlike._core.tensor.tensor import Tensor

__all__ = [
    "SymBool", "SymFloat", "SymInt", "_assert", "_assert_async", "_assert_scalar", "_check", "_check_index",
    "_check_is_size", "_check_not_implemented", "_check_tensor_all", "_check_tensor_all_with", "_check_type",
    "_check_value", "_check_with", "sym_constrain_range", "sym_constrain_range_for_size", "sym_float", "sym_fresh_size",
    "sym_int", "sym_ite", "sym_max", "sym_min", "sym_not", "sym_sqrt", "sym_sum", "_sym_acos", "_sym_asin", "_sym_atan",
    "_sym_cos", "_sym_cosh", "_sym_log2", "_sym_sin", "_sym_sinh", "_sym_sqrt", "_sym_tan", "_sym_tanh",
]  # fmt: skip

_SAID = "Expected cond to be True, but got False."


def _assert(condition: Any, message: str) -> None:
    """AssertionError with ``message`` unless ``condition`` holds.

    >>> import torchlike as torch
    >>> torch._assert(torch.tensor(True), "never")
    """
    if not condition:
        raise AssertionError(message)


def _assert_async(input: Tensor, assert_msg: str | None = None) -> None:
    """RuntimeError unless a tensor of one element is not zero. Here at once."""
    if not bool(input):
        raise RuntimeError(assert_msg or "Expected Tensor with single nonzero value, but got zero")


def _assert_scalar(self: Any, assert_msg: str) -> None:
    """RuntimeError with ``assert_msg`` unless a number is not zero."""
    if not self:
        raise RuntimeError(assert_msg)


def _fail(error: type[Exception], message: Callable[[], Any] | None) -> NoReturn:
    if message is None:
        raise error(_SAID)
    if not callable(message):
        raise TypeError("message must be a callable")
    raise error(str(message()))


def _check_with(error_type: type[Exception], cond: bool, message: Callable[[], Any] | None) -> None:
    """Raise ``error_type`` with the text that ``message()`` gives unless ``cond`` holds.

    TypeError for a condition that is no bool, such as a tensor.
    """
    if not isinstance(cond, bool):
        tensor = "a Tensor. For tensor conditions, use torch._check_tensor_all() to assert that all elements are true."
        raise TypeError(f"cond must be a bool, but got {tensor if isinstance(cond, Tensor) else type(cond)}")
    if not cond:
        _fail(error_type, message)


def _check(cond: bool, message: Callable[[], Any] | None = None) -> None:
    """:func:`_check_with` RuntimeError.

    >>> import torchlike as torch
    >>> torch._check(2 > 1, lambda: "arithmetic")
    """
    _check_with(RuntimeError, cond, message)


def _check_index(cond: bool, message: Callable[[], Any] | None = None) -> None:
    """:func:`_check_with` IndexError."""
    _check_with(IndexError, cond, message)


def _check_value(cond: bool, message: Callable[[], Any] | None = None) -> None:
    """:func:`_check_with` ValueError."""
    _check_with(ValueError, cond, message)


def _check_type(cond: bool, message: Callable[[], Any] | None = None) -> None:
    """:func:`_check_with` TypeError."""
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond: bool, message: Callable[[], Any] | None = None) -> None:
    """:func:`_check_with` NotImplementedError."""
    _check_with(NotImplementedError, cond, message)


def _check_is_size(i: int, message: Callable[[], Any] | None = None, *, max: int | None = None) -> None:
    """:func:`_check` that a number is not negative, and at most ``max``. Deprecated, as in PyTorch."""
    warnings.warn(
        "_check_is_size will be removed in a future PyTorch release along with guard_size_oblivious.     "
        "Use _check(i >= 0) instead.",
        FutureWarning,
        stacklevel=2,
    )
    _check(i >= 0, message)
    if max is not None:
        _check(i <= max, message)


def _check_tensor_all_with(error_type: type[Exception], cond: Tensor, message: Callable[[], Any] | None = None) -> None:
    """:func:`_check_with` that all elements of a tensor of bools are True. TypeError for anything else."""
    if not isinstance(cond, Tensor):
        raise TypeError(f"cond must be a tensor, but got {type(cond)}")
    if cond.dtype is not dtypes.bool:
        raise TypeError(f"cond tensor must have dtype torch.bool, but got {cond.dtype}")
    _check_with(error_type, bool(cond.all()), message)


def _check_tensor_all(cond: Tensor, message: Callable[[], Any] | None = None) -> None:
    """:func:`_check_tensor_all_with` RuntimeError."""
    _check_tensor_all_with(RuntimeError, cond, message)


class _Symbol:
    def __init__(self, node: Any) -> None:
        raise NotImplementedError(
            f"torch.{type(self).__name__}: torchlike's sizes are Python numbers, also while it traces; there are no "
            "symbolic ones to make"
        )


class SymInt(_Symbol):
    """PyTorch's symbolic integer, of which there is none here."""


class SymFloat(_Symbol):
    """PyTorch's symbolic float, of which there is none here."""


class SymBool(_Symbol):
    """PyTorch's symbolic truth value, of which there is none here."""


def sym_int(a: Any) -> int:
    """``a`` without its fraction, as an int."""
    return math.trunc(a)


def sym_float(a: Any) -> float:
    """``a`` as a float."""
    return float(a)


def sym_not(a: Any) -> bool:
    """Whether ``a`` is not true."""
    return not a


def _of_math(name: str) -> Callable[[Any], float]:
    """The function of Python's ``math`` as PyTorch has it for symbols."""
    compute = getattr(math, name)

    def function(a: Any) -> float:
        return compute(a)

    function.__name__ = function.__qualname__ = f"_sym_{name}"
    function.__doc__ = f"``math.{name}`` of a number."
    return function


_sym_acos = _of_math("acos")
_sym_asin = _of_math("asin")
_sym_atan = _of_math("atan")
_sym_cos = _of_math("cos")
_sym_cosh = _of_math("cosh")
_sym_log2 = _of_math("log2")
_sym_sin = _of_math("sin")
_sym_sinh = _of_math("sinh")
sym_sqrt = _of_math("sqrt")
_sym_tan = _of_math("tan")
_sym_tanh = _of_math("tanh")


def sym_ite(b: bool, t: Any, f: Any) -> Any:
    """``t`` if ``b``, else ``f``. AssertionError unless ``b`` is a bool and the others of one type."""
    if not isinstance(b, bool):
        raise AssertionError(f"expected SymBool or bool, got {type(b)}")
    if type(t) is not type(f):
        raise AssertionError(f"type mismatch: {type(t)} vs {type(f)}")
    return t if b else f


def _extreme(choose: Callable, a: Any, b: Any) -> Any:
    found = choose(a, b)
    return float(found) if isinstance(a, float) or isinstance(b, float) else found


def sym_max(a: Any, b: Any) -> Any:
    """The greater of two numbers, a float if one is.

    >>> import torchlike as torch
    >>> torch.sym_max(3, 2.0)
    3.0
    """
    return _extreme(builtins.max, a, b)


def sym_min(a: Any, b: Any) -> Any:
    """The lesser of two numbers, a float if one is."""
    return _extreme(builtins.min, a, b)


def sym_sum(args: Iterable[Any]) -> Any:
    """The sum of numbers."""
    return builtins.sum(args)


def sym_constrain_range(size: Any, *, min: int | None = None, max: int | None = None) -> None:
    """RuntimeError unless a number lies between two others."""
    low, high = -(1 << 63) if min is None else min, (1 << 63) - 1 if max is None else max
    if high < low:
        raise RuntimeError(f"Max must be greater than or equal to min. Got min={low} max={high}")
    if not low <= size <= high:
        raise RuntimeError(f"Invalid value range for {size} between [{low}, {high}].")


def sym_constrain_range_for_size(size: Any, *, min: int | None = None, max: int | None = None) -> None:
    """:func:`sym_constrain_range` from 0, to more than 2."""
    if max is not None and max <= 2:
        raise RuntimeError(f"Max value to constrain_range_for_size must be greater than 2. got: {max}")
    sym_constrain_range(size, min=0 if min is None else min, max=max)


def sym_fresh_size(expr: Any) -> NoReturn:
    """A new symbol; NotImplementedError, as there are none."""
    raise NotImplementedError("torch.sym_fresh_size: torchlike's sizes are Python numbers; there are no symbols")


_PLAIN = {"sym_constrain_range", "sym_constrain_range_for_size", "sym_fresh_size", "_sym_log2", "_sym_sqrt"}
_OVERRIDABLE = [name for name in __all__ if name.lstrip("_").startswith("sym_") and name not in _PLAIN]
globals().update(publish("torch", {name: globals()[name] for name in _OVERRIDABLE}))
_sym_sqrt = sym_sqrt
sym_sqrt.__name__ = sym_sqrt.__qualname__ = "_sym_sqrt"  # as PyTorch has it
