"""Sums and other reductions of nested tensors."""

from __future__ import annotations

from typing import Any

from torchlike._base import dtypes
from torchlike._core.tensor.arguments import RETURN_TYPES
from torchlike._core.tensor.tensor import Tensor
from torchlike.nested._base import dim_of, plain
from torchlike.nested._rules import demand_whole, padded, rule, with_ragged

_LOWEST = frozenset({"amax", "max", "argmax", "logsumexp"})
_NEUTRAL = {"sum": 0, "nansum": 0, "mean": 0, "any": False, "count_nonzero": 0, "all": True, "prod": 1}


def _padding(name: str, dtype: dtypes.dtype) -> Any:
    """The number that changes nothing in a reduction."""
    if name in _NEUTRAL:
        return _NEUTRAL[name]
    if dtype is dtypes.bool:
        return name not in _LOWEST
    if dtype.is_floating_point:
        return float("-inf") if name in _LOWEST else float("inf")
    info = dtypes.iinfo(dtype)
    return info.min if name in _LOWEST else info.max


@rule("sum", "mean", "amax", "amin", "prod", "any", "all", "argmax", "argmin", "max", "min", "logsumexp", "nansum",
      "count_nonzero")  # fmt: skip
def _reduced(func: Any, input: Tensor, dim: Any = None, keepdim: bool = False, **kwargs: Any) -> Any:
    name = func.__name__
    if isinstance(dim, Tensor):
        raise NotImplementedError(f"{name}() of two tensors: torch.{name}imum for nested tensors")
    given = [] if dim is None else [dim] if isinstance(dim, int) else list(dim)
    dims = sorted({dim_of(input, d) for d in given})
    if not dims or {0, input._ragged_idx} & set(dims):
        demand_whole(name, input)
    if not dims:
        return func(plain(input), **kwargs)
    if keepdim:
        kwargs["keepdim"] = True
    if input._ragged_idx in dims and 0 not in dims:
        return _along_rows(func, input, dims, kwargs)
    return _within(func, input, dims, kwargs)


def _along_rows(func: Any, t: Tensor, dims: list[int], kwargs: dict[str, Any]) -> Any:
    """Along the ragged dimension: one result for each row."""
    name = func.__name__
    if len(dims) > 1:
        raise RuntimeError(
            f"{name}(): reducing along a ragged and non-batch dimension is not supported for nested tensors"
        )
    if name == "mean":
        total = padded(t, 0).sum(dims[0], **kwargs)
        lengths = t._ragged.offsets.diff()
        lengths = lengths.reshape(-1, *[1] * (total.dim() - 1)).to(total.dtype)
        return total / lengths
    return func(padded(t, _padding(name, t.dtype)), dims[0], **kwargs)


def _within(func: Any, t: Tensor, dims: list[int], kwargs: dict[str, Any]) -> Any:
    """Along others than the ragged one, or along that and the batch at once."""
    name, at = func.__name__, t._ragged_idx
    both = dims[:1] == [0]
    if both and at not in dims:
        raise RuntimeError(
            f"{name}(): reducing along the batch dimension but not the ragged dimension is not supported for nested "
            "tensors"
        )
    inner = [d - 1 for d in dims if d]
    out = func(plain(t), inner if len(inner) > 1 else inner[0], **kwargs)
    if both:
        return _with_batch(out) if kwargs.get("keepdim") else out
    moved = at if kwargs.get("keepdim") else at - sum([d < at for d in dims])
    if isinstance(out, Tensor):
        return with_ragged(out, t, moved)
    return RETURN_TYPES[name]([with_ragged(x, t, moved) for x in out])


def _with_batch(out: Any) -> Any:
    return out.unsqueeze(0) if isinstance(out, Tensor) else type(out)([x.unsqueeze(0) for x in out])
