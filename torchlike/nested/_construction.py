"""How nested tensors are made, and how they are padded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from torchlike._base.once import warn_once
from torchlike._core.conversion.convert import host
from torchlike._core.tensor.tensor import Tensor, jagged, strided
from torchlike._functions._install import FUNCTIONS as _F
from torchlike.nested import _strided
from torchlike.nested._base import Nested
from torchlike.nested._internal.nested_tensor import nested
from torchlike.nested._ragged import of_lengths, ragged_of


def nested_tensor(
    tensor_list: Sequence[Any], *, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A nested tensor with a copy of the given rows: a leaf, without their history.

    Args:
        tensor_list: tensors, or what :func:`torch.tensor` takes, of equally many dimensions.
        layout: ``torch.jagged``, of which one dimension of rows may differ, or the older ``torch.strided``, the
            default, of which all may.

    Raises:
        RuntimeError: rows whose numbers of dimensions differ, or, jagged, two lengths; another layout.

    >>> import torchlike as torch
    >>> x = torch.nested.nested_tensor([[1.0, 2.0], [3.0]], layout=torch.jagged)
    >>> x.values(), x.offsets()
    (tensor([1., 2., 3.]), tensor([0, 2, 3]))
    """
    rows = [_F["as_tensor"](row).detach() for row in tensor_list]
    new = _of_rows("nested_tensor", rows, dtype, device, layout)
    return new.requires_grad_(requires_grad)


def as_nested_tensor(
    ts: Tensor | Sequence[Tensor], dtype: Any = None, device: Any = None, layout: Any = None
) -> Tensor:
    """A nested tensor of the given rows, or of those of a tensor [batch, ...], with their history.

    Raises:
        RuntimeError: as :func:`nested_tensor`.

    >>> import torchlike as torch
    >>> a = torch.ones(2, 3, requires_grad=True)
    >>> torch.nested.as_nested_tensor([a, a[:1]], layout=torch.jagged).sum().backward()
    >>> a.grad
    tensor([[2., 2., 2.],
            [1., 1., 1.]])
    """
    if isinstance(ts, Tensor) and ts.is_nested:
        return ts.to(dtype=dtype or ts.dtype, device=device or ts.device)
    if not isinstance(ts, Tensor | list | tuple):
        raise TypeError("as_nested_tensor(): Expected first argument to be a tensor or a list / tuple of tensors")
    if isinstance(ts, Tensor):
        if ts.dim() < 2:
            raise RuntimeError("as_nested_tensor(): Expected tensor argument to have dim() > 1")
        if layout is not jagged:
            return _of_rows("as_nested_tensor", list(ts.unbind()), dtype, device, layout)
        t = ts.to(dtype=dtype or ts.dtype, device=device or ts.device)
        return nested(t.flatten(0, 1), of_lengths(np.full(len(t), t.shape[1]), t.device))
    return _of_rows("as_nested_tensor", list(ts), dtype, device, layout)


def _of_rows(name: str, rows: list[Any], dtype: Any, device: Any, layout: Any) -> Any:
    if layout not in (None, strided, jagged):
        raise RuntimeError(f"Specified layout is unsupported for nested tensors: {layout}")
    if any(not isinstance(row, Tensor) for row in rows):
        raise TypeError(f"{name}(): expected a list of tensors")
    if len({row.dim() for row in rows}) > 1:
        raise RuntimeError("When constructing a nested tensor, all tensors in list must have the same dim")
    if rows:
        kind, place = dtype or rows[0].dtype, device or rows[0].device
        rows = [row.to(dtype=kind, device=place) for row in rows]
    if layout is jagged:
        return _jagged(rows)
    warn_once(
        "Nested tensors of layout torch.strided are a prototype that PyTorch does not develop further: pass "
        "layout=torch.jagged, which works with more functions and with torch.compile"
    )
    return _strided.of_rows(rows)


def _jagged(rows: list[Tensor]) -> Any:
    if not rows:
        raise RuntimeError("Cannot construct a nested tensor from an empty tensor list")
    if rows[0].dim() == 0:
        raise RuntimeError("Cannot construct a nested tensor from a list of zero-dim tensors")
    shapes = np.array([row.shape for row in rows])
    differ = np.flatnonzero((shapes != shapes[0]).any(0))
    if len(differ) > 1:
        raise RuntimeError(
            "Cannot represent given tensor list as a nested tensor with the jagged layout. Note that the jagged layout "
            f"only allows for a single ragged dimension, but dimensions {[int(d) for d in differ]} of rows differ."
        )
    at = int(differ[0]) if len(differ) else 0
    values = _F["cat"](rows, at)
    return nested(values, of_lengths(shapes[:, at], values.device), at + 1)


def nested_tensor_from_jagged(
    values: Tensor, offsets: Tensor | None = None, lengths: Tensor | None = None, jagged_dim: int | None = None,
    min_seqlen: int | None = None, max_seqlen: int | None = None,
) -> Tensor:  # fmt: skip
    """A view of ``values`` [*, total, *], whose rows lie one after the other, as a nested tensor.

    Args:
        offsets: [batch + 1], where rows begin and the last one ends. lengths: [batch], which offsets follow from;
            with both, there may be holes between rows. jagged_dim: the ragged dimension of the result, 1 by default.
        min_seqlen, max_seqlen: accepted; the lengths of rows are read when they are needed.

    Tensors made with the same object ``offsets`` go together in functions of elements.

    Raises:
        RuntimeError: neither offsets nor lengths.

    >>> import torchlike as torch
    >>> x = torch.nested.nested_tensor_from_jagged(torch.arange(4.0), torch.tensor([0, 3, 4]))
    >>> x.sum(dim=1)
    tensor([3., 3.])
    """
    if offsets is None:
        if lengths is None:
            raise RuntimeError("nested_tensor_from_jagged(): At least one of offsets or lengths is required.")
        offsets, lengths = _F["cat"]([lengths.new_zeros(1), lengths.cumsum(0)]), None
    at = 1 if jagged_dim is None else jagged_dim
    if not 1 <= at <= values.dim():
        raise RuntimeError(
            f"nested_tensor_from_jagged(): jagged_dim {at} is none of a tensor of {values.dim() + 1} dims"
        )
    return nested(values, ragged_of(offsets, lengths), at)


def narrow(tensor: Tensor, dim: int, start: Any, length: Any, layout: Any = strided) -> Tensor:
    """The nested view of ``tensor`` [batch, length, *] with ``length`` steps from ``start`` on of each row.

    Args:
        dim: 1. start, length: ints, or int64 [batch], one of each row.
        layout: ``torch.jagged``; of a nested tensor of layout ``torch.strided``, the default, rows are taken, dim 0.

    Raises:
        RuntimeError: another dim or layout.

    >>> import torchlike as torch
    >>> x = torch.arange(8.0).reshape(2, 4)
    >>> torch.nested.narrow(x, 1, torch.tensor([0, 1]), torch.tensor([3, 2]), layout=torch.jagged).unbind()
    (tensor([0., 1., 2.]), tensor([5., 6.]))
    """
    if layout is strided:
        if isinstance(start, Tensor) or isinstance(length, Tensor):
            raise RuntimeError("start and length must be integers for the strided layout NT impl")
        if dim != 0:
            raise RuntimeError(f"narrow(): only dim=0 supported for nested tensors, but got: {dim}")
        given = tensor if isinstance(tensor, Nested) else as_nested_tensor(tensor)
        return given.narrow(dim, start, length)
    if layout is not jagged:
        raise RuntimeError(f"Specified layout is unsupported for nested narrow: {layout}")
    if dim != 1:
        raise RuntimeError(f"jagged layout only supports dim=1, but got dim={dim}")
    count, width = tensor.shape[:2]
    starts, lengths = [_for_each(x, count) for x in (start, length)]
    offsets = np.append(np.arange(count) * width + starts, count * width)
    put = [_F["tensor"](x, device=tensor.device) for x in (offsets, lengths)]
    return nested(tensor.flatten(0, 1), ragged_of(*put))


def _for_each(x: Any, count: int) -> np.ndarray:
    if isinstance(x, Tensor):
        return np.broadcast_to(np.asarray(host(x.detach())), (count,)).astype(np.int64)
    return np.full(count, int(x))


def masked_select(tensor: Tensor, mask: Tensor) -> Tensor:
    """The elements of ``tensor`` [batch, length] where ``mask`` is True, as a nested tensor of layout ``torch.jagged``.

    >>> import torchlike as torch
    >>> x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> torch.nested.masked_select(x, x != 2).unbind()
    (tensor([1.]), tensor([3., 4.]))
    """
    if tensor.layout is not strided:
        raise RuntimeError(f"torch.nested.masked_select requires a strided tensor, given {tensor.layout}")
    if mask.layout is not strided:
        raise RuntimeError(f"torch.nested.masked_select requires a strided mask, given: {mask.layout}")
    found = tensor.masked_select(mask)
    counts = mask.expand(tensor.shape).reshape(len(tensor), -1).sum(1)
    return nested(found, of_lengths(np.asarray(host(counts)), tensor.device))


def to_padded_tensor(
    input: Tensor, padding: float, output_size: Sequence[int] | None = None, out: Tensor | None = None
) -> Tensor:
    """The tensor [batch, *, longest, *] with ``padding`` behind the ends of rows.

    Args:
        output_size: its shape, where it shall be larger. Of jagged tensors the ragged length alone counts, and cuts
            rows that are longer.

    Raises:
        NotImplementedError: a tensor that is not nested.
        RuntimeError: holes between rows; strided, a size that is too small.

    >>> import torchlike as torch
    >>> x = torch.nested.nested_tensor([[1.0, 2.0], [3.0]], layout=torch.jagged)
    >>> torch.nested.to_padded_tensor(x, 0.0)
    tensor([[1., 2.],
            [3., 0.]])
    """
    if not isinstance(input, Nested):
        raise NotImplementedError("to_padded_tensor(): expected a nested tensor, got one that is not")
    if out is not None:
        raise NotImplementedError("to_padded_tensor(out=...) is not there: use the result")
    return input.to_padded_tensor(padding, output_size)
