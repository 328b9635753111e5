"""What functions do with nested tensors of layout ``torch.jagged``.

A function of elements is applied to the values; one along other dimensions than the batch's and the ragged one, too,
a dimension further to the left; one along the ragged dimension works on the padded tensor. Others refuse by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from torchlike._core.dispatch.kernels import kernel
from torchlike._core.sparse.value import put_on
from torchlike._core.tensor.size import Size
from torchlike._core.tensor.tensor import Tensor, carried, carry, jagged
from torchlike._functions._install import FUNCTIONS as _F
from torchlike.nested._base import (
    ELEMENTWISE,
    Nested,
    demand_no_out,
    dim_of,
    first,
    lengths_of,
    like,
    plain,
    registering,
)

if TYPE_CHECKING:
    from torchlike.nested._ragged import Ragged

RULES: dict[str, Any] = {}
rule = registering(RULES)


# -- values and dimensions -----------------------------------------------------------------------


def is_jagged(x: Any) -> bool:
    """Whether ``x`` is a nested tensor of layout ``torch.jagged``."""
    return isinstance(x, Nested) and x.layout is jagged


def with_ragged(values: Tensor, t: Tensor, ragged_idx: int) -> Any:
    """The new tensor ``values`` with the rows of ``t``, along another dimension."""
    new = like(values, t)
    new._ragged_idx = ragged_idx
    return new


def inner(name: str, t: Tensor, dim: int, beside: str = "") -> int:
    """The dimension of the values that dimension ``dim`` is; RuntimeError of the batch's and of the ragged one."""
    d = dim_of(t, dim)
    if d in (0, t._ragged_idx):
        which = "ragged dim" if d else "dim=0"
        raise RuntimeError(f"{name}(): not supported for NestedTensor on {which}{beside}")
    return d - 1


def demand_whole(name: str, t: Tensor) -> None:
    """RuntimeError where there are holes between the rows."""
    if t._ragged.lengths is not None:
        raise RuntimeError(f"{name}(): not supported for nested tensors with holes; call contiguous() before")


@kernel("nested", "ToPaddedTensorBackward")
def _padded(values: Any, places: Any, there: Any, number: Any) -> Any:
    """``values`` [total, *] at ``places`` [batch, width], and ``number`` where ``there`` is False."""
    shape = there.shape + (1,) * (values.ndim - 1)
    rows = values[places] if len(values) else jnp.zeros(there.shape + values.shape[1:], values.dtype)
    return jnp.where(there.reshape(shape), rows, number.astype(values.dtype))


@kernel("nested", "ToNestedBackward")
def _unpadded(rows: Any, places: Any) -> Any:
    """What stands at ``places`` of ``rows`` [batch, width, *], which are counted through."""
    return rows.reshape(-1, *rows.shape[2:])[places]


def padded(t: Tensor, number: Any, width: int | None = None) -> Tensor:
    """A tensor [batch, *, width, *] with ``number`` behind the ends of rows; by default as wide as the longest."""
    ragged, at = t._ragged, t._ragged_idx
    places, there = ragged.places(ragged.longest if width is None else width)
    values, filling = plain(t), put_on(np.asarray(number), t.device)
    if at == 1:
        return _padded(values, places, there, filling)
    return _padded(values.movedim(at - 1, 0), places, there, filling).movedim(1, at)


def padded_to(t: Tensor, number: Any, shape: Sequence[int] | None = None) -> Tensor:
    """:func:`padded`, as wide as ``shape`` says, of which nothing else counts; longer rows are cut."""
    demand_whole("to_padded_tensor", t)
    if shape is not None and len(shape) != t.dim():
        raise RuntimeError(f"to_padded_tensor(): output_size of {t.dim()} lengths expected, got {tuple(shape)}")
    return padded(t, number, None if shape is None else shape[t._ragged_idx])


def unpadded(x: Tensor, ragged: Ragged, ragged_idx: int = 1) -> Tensor:
    """The values of the nested tensor that ``x`` [batch, *, width, *] is with padding."""
    places = ragged.padded_places(x.shape[ragged_idx])
    if ragged_idx == 1:
        return _unpadded(x, places)
    return _unpadded(x.movedim(ragged_idx, 1), places).movedim(0, ragged_idx - 1)


# -- functions of elements -----------------------------------------------------------------------


@rule(ELEMENTWISE)
def _elementwise(func: Any, *args: Any, **kwargs: Any) -> Any:
    demand_no_out(func.__name__, kwargs)
    t = first((*args, *kwargs.values()))
    operands = [_against(func.__name__, t, x) for x in args]
    named = {name: _against(func.__name__, t, x) for name, x in kwargs.items()}
    out = func(*operands, **named)
    if not isinstance(out, Tensor):
        return out
    if args and out is operands[0]:  # changed in place, or nothing to do
        return args[0]
    at = t._ragged_idx - 1
    if out.dim() != t.dim() - 1 or out.shape[at] != lengths_of(t)[at]:
        raise NotImplementedError(f"{func.__name__}() of these arguments is not there for nested tensors")
    return _moved(out, t) if out.device != t.device else like(out, t)


def _moved(values: Tensor, t: Tensor) -> Tensor:
    """As :func:`like`, where ``values`` are on another device than ``t``: the offsets follow."""
    ragged = t._ragged
    lengths = None if ragged.lengths is None else ragged.lengths.to(values.device)
    carry(values, carried(t))
    values._ragged = type(ragged)(ragged.offsets.to(values.device), lengths)
    values._ragged.symbol = ragged.symbol
    return values


def _against(name: str, t: Tensor, x: Any) -> Any:
    """What goes with the values of ``t`` in place of the operand ``x`` of a function of elements."""
    if not isinstance(x, Tensor):
        return x
    if is_jagged(x):
        if x._ragged.symbol != t._ragged.symbol or x._ragged_idx != t._ragged_idx:
            raise _unfit(name, t, x)
        return plain(x)
    beside = t.dim() - x.dim()
    at = t._ragged_idx - beside  # of x, the dimension beside the ragged one
    if beside < 0 or beside > 0 and at >= 0 and x.shape[at] != 1:
        raise _unfit(name, t, x)
    if beside > 0:  # none beside the batch's
        return x
    if x.shape[0] == 1:
        if x.shape[at] != 1:
            raise _unfit(name, t, x)
        return x.squeeze(0)
    if x.shape[0] != len(t._ragged):
        raise _unfit(name, t, x)
    demand_whole(name, t)
    if x.shape[at] == 1:
        rows = x.squeeze(at).index_select(0, t._ragged.batch_numbers())
        return rows.movedim(0, at - 1)
    if x.shape[at] < t._ragged.longest:
        raise _unfit(name, t, x)
    return unpadded(x, t._ragged, at)


def _unfit(name: str, t: Tensor, x: Tensor) -> RuntimeError:
    return RuntimeError(
        f"cannot call binary pointwise function {name} with inputs of shapes {tuple(t.shape)} and {tuple(x.shape)}: "
        "ragged dimensions go together where the offsets are the same tensor"
    )


# -- copies and comparisons ----------------------------------------------------------------------


@rule("contiguous")
def _contiguous(func: Any, t: Tensor, *args: Any, **kwargs: Any) -> Any:
    if t._ragged.lengths is not None:
        return without_holes(t)
    values = plain(t)
    out = func(values, *args, **kwargs)
    return t if out is values else like(out, t)


def without_holes(t: Tensor) -> Tensor:
    """The rows of ``t``, one after the other."""
    ragged, at = t._ragged, t._ragged_idx - 1
    values = plain(t).index_select(at, ragged.own_places())
    offsets = _F["cat"]([ragged.offsets[:1] * 0, ragged.lengths.cumsum(0)])
    new = like(values, t)
    new._ragged = type(ragged)(offsets)
    return new


@rule("copy_")
def _copied(func: Any, t: Tensor, src: Any, non_blocking: bool = False) -> Tensor:
    if not is_jagged(src) or not src._ragged.fits(t._ragged) or src._ragged_idx != t._ragged_idx:
        raise RuntimeError(f"copy_(): expected a nested tensor of shape {tuple(t.shape)} with rows of the same lengths")
    func(plain(t), plain(src), non_blocking)
    return t


@rule("is_same_size")
def _same_size(func: Any, t: Any, other: Any) -> bool:
    return is_jagged(t) and is_jagged(other) and t.shape == other.shape


@rule("equal")
def _equal(func: Any, t: Any, other: Any) -> bool:
    alike = is_jagged(t) and is_jagged(other) and t.shape == other.shape
    return alike and func(plain(t), plain(other))


# -- products ------------------------------------------------------------------------------------


@rule("linear")
def _linear(func: Any, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    if not is_jagged(input) or is_jagged(weight):
        raise RuntimeError("linear(): of the arguments only input may be a nested tensor")
    inner("linear", input, -1)
    return like(func(plain(input), weight, bias), input)


@rule("matmul", "__matmul__", "bmm", "__rmatmul__")
def _matmul(func: Any, left: Any, right: Any, *args: Any) -> Tensor:
    if func.__name__ == "__rmatmul__":
        left, right = right, left
    if is_jagged(left) and not is_jagged(right):
        if left._ragged_idx == left.dim() - 1:  # ragged along what is summed
            raise _no_product(left, right)
        if right.dim() == 2:
            return like(_F["matmul"](plain(left), right), left)
        if left._ragged_idx == left.dim() - 2 or right.shape[-3] == 1:
            return _of_rows(left, right)
    elif is_jagged(left) and left._ragged.symbol == right._ragged.symbol:
        if left._ragged_idx == left.dim() - 1 and right._ragged_idx == right.dim() - 2:
            return _F["matmul"](padded(left, 0), padded(right, 0))
    raise _no_product(left, right)


def _of_rows(left: Tensor, right: Tensor) -> Tensor:
    """The product of each row with the matrix of its place in the batch."""
    out = _F["matmul"](padded(left, 0), right)
    return like(unpadded(out, left._ragged, left._ragged_idx), left)


def _no_product(left: Any, right: Any) -> RuntimeError:
    return RuntimeError(
        f"matmul(): not supported between inputs of shapes {tuple(left.shape)} and {tuple(right.shape)}"
    )


@rule("layer_norm", "rms_norm")
def _normalised(func: Any, input: Tensor, normalized_shape: Any, *args: Any, **kwargs: Any) -> Tensor:
    count = len(normalized_shape)
    if input.dim() - count <= input._ragged_idx:
        raise RuntimeError(f"{func.__name__}(): not supported over the ragged dimension of a NestedTensor")
    return like(func(plain(input), normalized_shape, *args, **kwargs), input)


@rule("embedding")
def _embedded(func: Any, input: Tensor, weight: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    if not is_jagged(input):
        raise RuntimeError("embedding(): of the arguments only input may be a nested tensor")
    return like(func(plain(input), weight, *args, **kwargs), input)


@rule("softmax", "log_softmax", "softmin")
def _softmax(func: Any, input: Tensor, dim: int | None = None, *args: Any, **kwargs: Any) -> Tensor:
    kwargs.pop("_stacklevel", None)
    if dim is None:
        raise RuntimeError(f"{func.__name__}(): a nested tensor needs dim")
    d = dim_of(input, dim)
    if d == input._ragged_idx:
        demand_whole(func.__name__, input)
        low = float("inf") if func.__name__ == "softmin" else float("-inf")
        out = func(padded(input, low), d, *args, **kwargs)
        return like(unpadded(out, input._ragged, d), input)
    return like(func(plain(input), inner(func.__name__, input, d), *args, **kwargs), input)


def int_list(args: tuple[Any, ...]) -> list[Any]:
    """Sizes or dimensions that were given one by one, or as one list."""
    return list(args[0]) if len(args) == 1 and isinstance(args[0], list | tuple | Size) else list(args)
