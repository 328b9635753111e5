"""Nested tensors of layout ``torch.strided``: rows of any shapes, whose elements lie one after the other.

Functions of elements are applied to all of them at once, others to one row after the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from torchlike._base.dims import wrap_dim
from torchlike._core.tensor.size import Size
from torchlike._core.tensor.tensor import Tensor, carry, strided
from torchlike._functions._install import FUNCTIONS as _F
from torchlike.nested._base import (
    ELEMENTWISE,
    Nested,
    demand_no_out,
    dim_of,
    first,
    like,
    plain,
    registering,
    values_of,
)

RULES: dict[str, Any] = {}
rule = registering(RULES)
Shape = tuple[int, ...]


class StridedNestedTensor(Nested):
    """A nested tensor of layout ``torch.strided``, as ``torch.nested.nested_tensor`` makes by default.

    It is the elements [total] of its rows with their shapes.

    >>> import torchlike as torch
    >>> x = torch.nested.nested_tensor([torch.ones(1, 2), torch.zeros(3, 1)])
    >>> x.size(0), x.numel(), [row.shape for row in x.unbind()]
    (2, 5, [torch.Size([1, 2]), torch.Size([3, 1])])
    """

    _shapes: tuple[Shape, ...]
    _carried = ("_shapes",)
    _rules = RULES

    def values(self) -> Tensor:
        """The elements [total] of all rows: a view with the history of this tensor."""
        return values_of(self)

    def to_padded_tensor(self, padding: float, output_size: Any = None) -> Tensor:
        """The tensor [batch, *] of the longest lengths with ``padding`` behind the ends of rows."""
        return padded(self, padding, output_size)

    def _row_lengths(self) -> list[int]:
        return [shape[0] for shape in self._shapes]

    def _rows_of_padded(self, x: Tensor) -> Any:
        """The nested tensor with rows of these lengths that ``x`` [batch, longest, *] is with padding."""
        return of_rows([x[i, : shape[0]] for i, shape in enumerate(self._shapes)])

    def _nested_tensor_size(self) -> Tensor:
        """int64 [batch, dims]: the shapes of the rows."""
        return _F["tensor"]([list(shape) for shape in self._shapes])

    def size(self, dim: int | None = None) -> Any:
        """The length of a dimension along which all rows are equally long. RuntimeError of another one, or of all."""
        if dim is None:
            raise RuntimeError("a nested tensor of layout torch.strided has no shape: ask size(dim), or the rows")
        d = dim_of(self, dim)
        if d == 0:
            return len(self._shapes)
        found = {shape[d - 1] for shape in self._shapes}
        if len(found) != 1:
            raise RuntimeError(f"Given dimension {d} is irregular and does not have a size.")
        return found.pop()

    shape = property(lambda self: self.size())

    def stride(self, dim: int | None = None) -> Any:
        """RuntimeError: rows have strides of their own."""
        raise RuntimeError("a nested tensor of layout torch.strided has no strides: ask its rows")

    def dim(self) -> int:
        """The number of dimensions, that of the batch included."""
        return len(self._shapes[0]) + 1 if self._shapes else 1

    layout = property(lambda self: strided)

    def __len__(self) -> int:
        return len(self._shapes)

    def numel(self) -> int:
        """The number of elements of all rows."""
        return sum(map(math.prod, self._shapes))

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """True: elements lie row after row."""
        return True

    def __repr__(self, *, tensor_contents: str | None = None) -> str:
        rows = [row.detach().requires_grad_(self.requires_grad) for row in rows_of(self)]
        texts = ["  " + repr(row).replace("\n", "\n  ") for row in rows]
        node = self.grad_fn
        name = None if node is None else f"grad_fn=<{node.name()}>"
        tail = f", {name}" if name else ", requires_grad=True" if self.requires_grad else ""
        return "nested_tensor([\n" + ",\n".join(texts) + "\n]" + tail + ")"

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _rebuilt, (plain(self).detach(), self._shapes, self.requires_grad)


def _rebuilt(values: Tensor, shapes: tuple[Shape, ...], requires_grad: bool) -> Any:
    return over(values, shapes).requires_grad_(requires_grad)


def over(values: Tensor, shapes: Sequence[Sequence[int]]) -> Any:
    """A view of ``values`` [total] as a nested tensor with rows of these shapes."""
    new = values_of(values)
    carry(new, (StridedNestedTensor, ("_shapes", tuple([tuple(shape) for shape in shapes]))))
    return new


def of_rows(rows: Sequence[Tensor]) -> Any:
    """A nested tensor of a copy of the rows, with their history."""
    if not rows:
        return over(_F["empty"](0), ())
    return over(_F["cat"]([row.reshape(-1) for row in rows]), [row.shape for row in rows])


def rows_of(t: Any) -> list[Tensor]:
    """The rows, views with the history of ``t``."""
    shapes = t._shapes
    parts = plain(t).split([math.prod(shape) for shape in shapes]) if shapes else ()
    return [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]


def padded(t: Any, number: Any, shape: Sequence[int] | None = None) -> Tensor:
    """A tensor [batch, *] of the longest lengths, or of ``shape``, with ``number`` behind the ends of rows."""
    longest = [max(lengths) for lengths in zip(*t._shapes, strict=True)]
    if shape is not None:
        if len(shape) != t.dim() or any(n < m for n, m in zip(shape[1:], longest, strict=True)):
            raise RuntimeError(
                f"to_padded_tensor(): output_size {tuple(shape)} is less than the padded size "
                f"{(len(t), *longest)}. Truncation is not supported."
            )
        longest = list(shape[1:])
    pad = _F["constant_pad_nd"]
    rows = rows_of(t)
    return _F["stack"]([pad(row, _behind(row, longest), number) for row in rows])


def _behind(row: Tensor, lengths: Sequence[int]) -> list[int]:
    """How much ``constant_pad_nd`` is to add before and behind each dimension, the last one first."""
    pairs = zip(reversed(lengths), reversed(row.shape), strict=True)
    return [n for length, own in pairs for n in (0, length - own)]


@rule(ELEMENTWISE)
def _elementwise(func: Any, *args: Any, **kwargs: Any) -> Any:
    demand_no_out(func.__name__, kwargs)
    t = first((*args, *kwargs.values()))
    operands = [_against(func.__name__, t, x) for x in args]
    out = func(*operands, **{name: _against(func.__name__, t, x) for name, x in kwargs.items()})
    if not isinstance(out, Tensor):
        return out
    if args and out is operands[0]:
        return args[0]
    if out.dim() != 1 or len(out) != t.numel():
        raise NotImplementedError(f"{func.__name__}() of these arguments is not there for nested tensors")
    return like(out, t)


def _against(name: str, t: Any, x: Any) -> Any:
    if not isinstance(x, Tensor):
        return x
    if isinstance(x, StridedNestedTensor):
        if x._shapes != t._shapes:
            raise RuntimeError(f"{name} does not support broadcasting when given a NestedTensor")
        return plain(x)
    if isinstance(x, Nested) or x.dim() and x.numel() != 1:
        raise RuntimeError(f"{name}(): expected both to be nested tensors of layout torch.strided, or one a number")
    return x.reshape(())


def _inner(name: str, t: Any, dim: int, more: int = 0) -> int:
    """The dimension of rows that dimension ``dim`` is; RuntimeError of the first one."""
    d = wrap_dim(dim, t.dim() + more)
    if d == 0:
        raise RuntimeError(f"{name}(): not supported along dimension 0, over the rows of a nested tensor")
    return d - 1


def _each(t: Any, f: Callable[[Tensor], Tensor]) -> Any:
    return of_rows([f(row) for row in rows_of(t)])


@rule("linear", "embedding", "layer_norm", "rms_norm")
def _alone(func: Any, input: Any, *args: Any, **kwargs: Any) -> Any:
    if any(isinstance(x, Nested) for x in (*args, *kwargs.values())) or not isinstance(input, Nested):
        raise RuntimeError(f"{func.__name__}(): of the arguments only input may be a nested tensor")
    return _each(input, lambda row: func(row, *args, **kwargs))


@rule("matmul", "__matmul__", "bmm")
def _matmul(func: Any, left: Any, right: Any) -> Any:
    if (
        not isinstance(left, StridedNestedTensor)
        or not isinstance(right, StridedNestedTensor)
        or len(left) != len(right)
    ):
        raise RuntimeError(f"{func.__name__}(): expected both to be nested tensors with equally many rows")
    pairs = zip(rows_of(left), rows_of(right), strict=True)
    return of_rows([_F["matmul"](a, b) for a, b in pairs])


@rule("softmax", "log_softmax", "softmin", "cumsum", "cumprod", "select", "squeeze", "unflatten", "flip", "narrow")
def _along(func: Any, t: Any, dim: int, *args: Any, **kwargs: Any) -> Any:
    name = func.__name__
    if name in ("select", "narrow") and dim_of(t, dim) == 0:
        return rows_of(t)[args[0]] if name == "select" else of_rows(rows_of(t)[args[0] : args[0] + args[1]])
    d = _inner(name, t, dim)
    return _each(t, lambda row: func(row, d, *args, **kwargs))


@rule("unsqueeze")
def _unsqueezed(func: Any, t: Any, dim: int) -> Any:
    d = _inner("unsqueeze", t, dim, 1)
    return _each(t, lambda row: row.unsqueeze(d))


@rule("sum", "mean", "amax", "amin", "prod", "any", "all", "argmax", "argmin", "logsumexp", "max", "min")
def _reduced(func: Any, t: Any, dim: Any = None, keepdim: bool = False, **kwargs: Any) -> Any:
    if dim is None:
        return func(plain(t), **kwargs)
    dims = [_inner(func.__name__, t, d) for d in ([dim] if isinstance(dim, int) else dim)]
    if func.__name__ in ("max", "min"):
        raise NotImplementedError(f"{func.__name__}(dim) is not there for nested tensors: use a{func.__name__}(dim)")
    which = dims[0] if len(dims) == 1 else dims
    return _each(t, lambda row: func(row, which, keepdim=keepdim, **kwargs))


@rule("transpose", "swapaxes", "swapdims")
def _transposed(func: Any, t: Any, dim0: int, dim1: int) -> Any:
    a, b = _inner("transpose", t, dim0), _inner("transpose", t, dim1)
    return _each(t, lambda row: row.transpose(a, b))


@rule("permute")
def _permuted(func: Any, t: Any, *dims: Any) -> Any:
    order = list(dims[0]) if len(dims) == 1 and isinstance(dims[0], list | tuple) else list(dims)
    if dim_of(t, order[0]) != 0:
        raise RuntimeError("permute(): dimension 0 of a nested tensor stays in front")
    inside = [_inner("permute", t, d) for d in order[1:]]
    return _each(t, lambda row: row.permute(inside))


@rule("view", "reshape")
def _viewed(func: Any, t: Any, *sizes: Any) -> Any:
    given = list(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], list | tuple | Size) else list(sizes)
    if not given or given[0] not in (-1, len(t)):
        raise RuntimeError(f"{func.__name__}(): the first of the sizes {given} is to be that of the batch, {len(t)}")
    inside = given[1:]

    def seen(row: Tensor) -> Tensor:
        own = inside
        if inside.count(-1) > 1:  # each stands for what the row has there
            own = [row.shape[i] if n == -1 and i < row.dim() else n for i, n in enumerate(inside)]
        return row.reshape(own)

    return _each(t, seen)


@rule("flatten")
def _flattened(func: Any, t: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    start, end = _inner("flatten", t, start_dim), _inner("flatten", t, end_dim)
    return _each(t, lambda row: row.flatten(start, end))


@rule("chunk", "split", "split_with_sizes")
def _parted(func: Any, t: Any, sizes: Any, dim: int = 0) -> tuple[Any, ...]:
    d = _inner(func.__name__, t, dim)
    parts = [func(row, sizes, d) for row in rows_of(t)]
    return tuple([of_rows(same) for same in zip(*parts, strict=True)])


@rule("unbind", "__iter__")
def _unbound(func: Any, t: Any, dim: int = 0) -> Any:
    if dim_of(t, dim) != 0:
        raise RuntimeError("unbind(): only supported for NestedTensor on dim=0")
    rows = tuple(rows_of(t))
    return iter(rows) if func.__name__ == "__iter__" else rows


@rule("__getitem__")
def _item(func: Any, t: Any, index: Any) -> Any:
    at, *rest = index if isinstance(index, tuple) else (index,)
    if not isinstance(at, int):
        raise NotImplementedError("a nested tensor of layout torch.strided is indexed by the number of a row, first")
    if not -len(t) <= at < len(t):
        raise IndexError(f"index {at} is out of bounds for dimension 0 with size {len(t)}")
    row = rows_of(t)[at]
    return row[tuple(rest)] if rest else row


@rule("cat", "concat", "concatenate")
def _joined(func: Any, tensors: Any, dim: int = 0) -> Any:
    if dim != 0 or not all(isinstance(t, StridedNestedTensor) for t in tensors):
        raise RuntimeError("cat(): nested tensors of layout torch.strided are joined along dimension 0, and alone")
    return of_rows([row for t in tensors for row in rows_of(t)])


@rule("copy_")
def _copied(func: Any, t: Any, src: Any, non_blocking: bool = False) -> Any:
    if not isinstance(src, StridedNestedTensor) or src._shapes != t._shapes:
        raise RuntimeError("copy_(): expected a nested tensor with rows of the same shapes")
    func(plain(t), plain(src), non_blocking)
    return t


@rule("equal")
def _equal(func: Any, t: Any, other: Any) -> bool:
    both = isinstance(t, StridedNestedTensor) and isinstance(other, StridedNestedTensor)
    return both and t._shapes == other._shapes and func(plain(t), plain(other))


@rule("scaled_dot_product_attention")
def _attention(func: Any, query: Any, key: Any, value: Any, attn_mask: Any = None, *args: Any, **kwargs: Any) -> Any:
    if not all(isinstance(t, StridedNestedTensor) for t in (query, key, value)):
        raise ValueError("scaled_dot_product_attention(): expected query, key, and value to all be nested tensors")
    if attn_mask is not None:
        raise ValueError("scaled_dot_product_attention(): attn_mask is not supported for nested tensors")
    rows = zip(*map(rows_of, (query, key, value)), strict=True)
    return of_rows([func(q[None], k[None], v[None], None, *args, **kwargs)[0] for q, k, v in rows])
