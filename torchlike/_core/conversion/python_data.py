"""Python data into numpy arrays: the shape of nested sequences, the dtype PyTorch infers, overflow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from jax.export import is_symbolic_dim

import torchlike._base.dtypes as dtypes
from torchlike._base import float8
from torchlike._base.promotion import promote_types
from torchlike._base.state import state
from torchlike._core.tensor.tensor import Tensor

if TYPE_CHECKING:
    from torchlike._core.typed import Shape

_NUMBERS = frozenset((bool, int, float, complex))
_REAL = frozenset((int, float))


def host_array(data: Any, dtype: dtypes.dtype | None) -> Any:
    """A numpy array of any accepted ``data``, of the inferred dtype unless one is given; what jax traces of symbols.

    Raises:
        ValueError: sequences of unequal length, integers beyond 64 bits. TypeError: what is no number.
        RuntimeError: numbers that the given dtype cannot hold.
    """
    usual = _usual(data, dtype)
    if usual is not None:
        return usual
    if isinstance(data, np.ndarray | np.generic):
        array = checked(np.asarray(data))
        if dtype is None:
            return array
        if isinstance(data, np.generic) and dtype.np.kind in "iu" and array.dtype.kind in "iufc":  # as Python's number
            return _filled([data.item()], {type(data.item())}, dtype).reshape(())
        return _cast(array, dtype)
    if isinstance(data, str | bytes):
        raise TypeError(f"new(): invalid data type '{type(data).__name__}'")
    stacked = _stacked(data)
    if stacked is not None:
        return stacked if dtype is None else _cast(stacked, dtype)
    shape, leaves = _flatten(data, 0)
    if state.capture is not None and state.capture.symbolic and any(map(is_symbolic_dim, leaves)):
        found = _numbers([0 if is_symbolic_dim(x) else x for x in leaves], dtype)[1]
        return jnp.stack(list(map(jnp.asarray, leaves))).reshape(shape).astype((dtype or _common(found)).np)
    leaves, found = _numbers(leaves, dtype)
    return _filled(leaves, {type(x) for x in leaves}, dtype or _common(found)).reshape(shape)


def _usual(data: Any, dtype: dtypes.dtype | None) -> np.ndarray | None:
    """A Python number, or a sequence of them, as floats or int64; None for all else and what does not fit."""
    kinds = set(map(type, data)) if data.__class__ in (list, tuple) else {data.__class__}
    if not kinds or not kinds <= _REAL:
        return None
    if dtype is None:
        dtype = dtypes.get_default_dtype() if float in kinds else dtypes.int64
    try:
        if data.__class__ is float and dtype is dtypes.float32 and -1e38 < data < 1e38:
            return np.array(data, np.float32)
        if dtype.is_floating_point:
            return _cast(np.array(data, np.float64), dtype)
        whole = dtype is dtypes.int64 and dtype.np == np.int64 and float not in kinds  # not while jax has 32 bits
        return np.array(data, np.int64) if whole else None
    except OverflowError:
        return None


def nested(items: list[Any], shape: Shape) -> list[Any]:
    """The items, in order, as the nested lists of this shape."""
    for at in range(len(shape) - 1, 0, -1):
        n = shape[at]
        items = [items[i * n : (i + 1) * n] for i in range(math.prod(shape[:at]))]
    return items


def checked(array: np.ndarray) -> np.ndarray:
    """The numpy array, if PyTorch takes one like it."""
    if any(s < 0 for s in array.strides):
        raise ValueError(
            "At least one stride in the given numpy array is negative, and tensors with negative strides are not "
            "supported. (You can work around this by making a copy of your array with array.copy().)"
        )
    if array.dtype.kind not in "biufcV":
        raise TypeError(f"can't convert np.ndarray of type {array.dtype}: only numbers and bools have a torch.dtype")
    dtypes.from_np(array.dtype)
    return array


def _cast(array: np.ndarray, dtype: dtypes.dtype) -> np.ndarray:
    if array.dtype.kind == "c" and not dtype.is_complex and dtype is not dtypes.bool:
        array = array.real
    with np.errstate(all="ignore"):
        return float8.converted(array, dtype.np)


def _stacked(data: Any) -> np.ndarray | None:
    """The usual list of equal numpy arrays, taken at once; else None."""
    if type(data) not in (list, tuple) or not data or not all(isinstance(x, np.ndarray) for x in data):
        return None
    first = data[0]
    same = first.ndim and all(x.shape == first.shape and x.dtype == first.dtype for x in data)
    return checked(np.stack(data)) if same else None


def _is_sequence(x: Any) -> bool:
    if isinstance(x, list | tuple | np.ndarray):
        return True
    return hasattr(x, "__getitem__") and hasattr(x, "__len__") and not isinstance(x, Tensor | dict | np.generic)


_DEEPEST = 128  # so that lists that hold themselves end


def _flatten(data: Any, depth: int, leads: bool = True) -> tuple[Shape, Sequence[Any]]:
    """(shape, leaves) of nested sequences; ``leads``: all of them up to here are the first of their sequence."""
    if not _is_sequence(data):
        return (), [data]
    if isinstance(data, str | bytes):
        if depth and isinstance(data, str):
            raise ValueError("too many dimensions 'str'")
        raise TypeError(f"new(): invalid data type '{type(data).__name__}'")
    if depth >= _DEEPEST:
        raise ValueError(f"too many dimensions '{type(data).__name__}': more than {_DEEPEST} sequences in each other")
    items = _items(data)
    if set(map(type, items)) <= _NUMBERS:
        return (len(items),), items
    shape, leaves = None, []
    for i, item in enumerate(items):
        if i and item is data:  # as the first it is found by its depth
            raise TypeError("new(): self-referential lists are incompatible")
        if isinstance(item, np.ndarray) and not item.ndim:
            if leads and not i:
                raise TypeError("len() of unsized object: the first element is a numpy array of no dimensions")
            item = item[()]
        if shape == () and _is_sequence(item):
            _refuse_sequence(item, i, depth)
        inner, found = _flatten(item, depth + 1, leads and not i)
        if shape is None:
            shape = inner
        elif shape != inner:
            _refuse_ragged(shape, inner, i, depth)
        leaves += found
    return (len(items), *(shape or ())), leaves


def _items(data: Any) -> Any:
    if isinstance(data, list | tuple | np.ndarray):
        return data
    try:
        return list(data)
    except Exception:
        raise ValueError(f"could not determine the shape of object type '{type(data).__name__}'") from None


def _refuse_ragged(shape: Shape, inner: Shape, i: int, depth: int) -> None:
    for dim, (wanted, got) in enumerate(zip(shape, inner, strict=False), depth + 1):
        if wanted != got:
            raise ValueError(f"expected sequence of length {wanted} at dim {dim} (got {got})")
    what = "must be real numbers, not sequences" if len(inner) > len(shape) else "not a sequence"
    raise TypeError(f"{what}: the innermost of element {i} at dim {depth}, unlike those of the first")


def _refuse_sequence(item: Any, i: int, depth: int) -> None:
    if isinstance(item, str | bytes):
        raise TypeError(f"new(): invalid data type '{type(item).__name__}'")
    raise TypeError(f"must be a number, not {type(item).__name__}: element {i} at dim {depth}, as the first is one")


def _refuse_object(x: Any, dtype: dtypes.dtype | None) -> None:
    """PyTorch's error for an element that is no number, which ``dtype`` decides."""
    name = type(x).__name__
    if dtype is None:
        raise RuntimeError(f"Could not infer dtype of {name}")
    if dtype.is_floating_point or dtype.is_complex:
        raise TypeError(f"must be real number, not {name}")
    raise TypeError(f"{name!r} object cannot be interpreted as an integer")


def _numbers(leaves: Sequence[Any], dtype: dtypes.dtype | None) -> tuple[Sequence[Any], set[dtypes.dtype]]:
    """The leaves as Python numbers, and the dtypes that they speak for; ``dtype``: what they are to become."""
    kinds = set(map(type, leaves))
    if kinds <= _NUMBERS:
        return leaves, {_OF_NUMBERS[kind]() for kind in kinds}
    whole = dtype is not None and not (dtype.is_floating_point or dtype.is_complex)
    numbers, found = [], set()
    for x in leaves:
        if isinstance(x, Tensor):
            if x.numel() != 1:
                raise ValueError("only one element tensors can be converted to Python scalars")
            if whole and (x.dtype.is_floating_point or x.dtype.is_complex):
                raise TypeError(
                    f"only integer tensors of a single element can be converted to an index: an element of {x.dtype} "
                    f"was given for {dtype}"
                )
            found.add(x.dtype)
            numbers.append(x.item())
        elif isinstance(x, np.generic):
            found.add(dtypes.from_np(x.dtype))
            numbers.append(x.item())
        else:
            kind = next((k for k in (bool, int, float, complex) if isinstance(x, k)), None)
            if kind is None:
                _refuse_object(x, dtype)
            found.add(_OF_NUMBERS[kind]())
            numbers.append(kind(x))
    return numbers, found


_OF_NUMBERS = {
    bool: lambda: dtypes.bool,
    int: lambda: dtypes.int64,
    float: dtypes.get_default_dtype,
    complex: lambda: dtypes.get_default_dtype().to_complex(),
}


def _common(found: set[dtypes.dtype]) -> dtypes.dtype:
    if not found:
        return dtypes.get_default_dtype()
    first, *others = sorted(found, key=str)
    for dtype in others:
        first = promote_types(first, dtype)
    return first


def _filled(leaves: Sequence[Any], kinds: set[type], dtype: dtypes.dtype) -> np.ndarray:
    """A flat array of Python numbers as ``dtype``, with PyTorch's refusals."""
    if dtype.is_complex or dtype is dtypes.bool:
        array = np.array(leaves, np.complex128 if complex in kinds or dtype.is_complex else None)
        return (array != 0) if dtype is dtypes.bool else _cast(array, dtype)
    if complex in kinds:
        wanted = "must be real number, not complex" if dtype.is_floating_point else (
            "'complex' object cannot be interpreted as an integer")  # fmt: skip
        raise TypeError(f"{wanted} (tensor() was given dtype={dtype})")
    if dtype.is_floating_point:
        return _cast(np.array(leaves, np.float64), dtype)
    return _whole(leaves, kinds, dtype)


def _whole(leaves: Sequence[Any], kinds: set[type], dtype: dtypes.dtype) -> np.ndarray:
    info = np.iinfo(dtype.np)
    if float in kinds:
        numbers = np.array(leaves, np.float64)
        _demand(np.all((numbers >= info.min) & (numbers <= info.max)), dtype)
        if not kinds <= {float}:
            return _whole([int(x) for x in leaves], {int}, dtype)
        return numbers.astype(dtype.np)
    if info.max > np.iinfo(np.int64).max:
        if any(x < 0 for x in leaves):
            raise OverflowError("can't convert negative int to unsigned")
        return np.array(leaves, dtype.np)
    try:
        numbers = np.array(leaves, np.int64)
    except OverflowError:
        raise ValueError("Overflow when unpacking long long") from None
    low = info.min or -info.max  # a negative number wraps around into an unsigned dtype
    _demand(np.all((numbers >= low) & (numbers <= info.max)), dtype)
    return numbers.astype(dtype.np)


def _demand(fits: Any, dtype: dtypes.dtype) -> None:
    if not fits:
        raise RuntimeError(f"value cannot be converted to type {dtype.name} without overflow")
