"""What reductions under a mask say of themselves: the mask of their input and result, the number that they ignore.

PyTorch's own tests and libraries around ``torch.masked`` ask for them under these private names.
"""

import math
from collections.abc import Callable
from typing import Any

from torchlike._base.dtypes import get_default_dtype
from torchlike._core.tensor.tensor import Tensor
from torchlike._functions._install import FUNCTIONS as _F
from torchlike.masked import _ops

_LEAST = {"amax": True, "argmax": True, "logaddexp": True, "logsumexp": True, "amin": False, "argmin": False}
_CONSTANT = {"sum": 0, "cumsum": 0, "prod": 1, "cumprod": 1}
_REDUCTIONS = {"sum", "prod", "amax", "amin", "argmax", "argmin", "mean", "median", "norm", "var", "std", "logsumexp"}
_KEEPING = {"softmax", "log_softmax", "softmin", "normalize", "cumsum", "cumprod"}


def _reduction_identity(op_name: str, input: Tensor, *args: Any) -> Tensor | None:
    """The number, a tensor of no dimensions, that a reduction of ``input`` ignores; None where there is none.

    NotImplementedError for functions that are no reductions, and for bools that have no order.

    >>> import torchlike as torch
    >>> torch.masked._reduction_identity("amax", torch.ones(2))
    tensor(-inf)
    """
    name = op_name.rsplit(".", 1)[-1]
    dtype = input.dtype
    if name in _CONSTANT:
        number: Any = _CONSTANT[name]
    elif name == "logsumexp" and dtype.is_complex:
        number = -math.inf
    elif name in _LEAST:
        number = _ops._limit(name, input, _LEAST[name])
    elif name in ("mean", "var", "std"):
        return None
    elif name == "median":
        number, dtype = math.nan, dtype if dtype.is_floating_point else get_default_dtype()
    elif name == "norm":
        number = math.inf if args and args[0] == -math.inf else 0
        if number and not dtype.is_floating_point:
            raise AssertionError(f"input must be floating point, got {dtype}")
    else:
        raise NotImplementedError(f"identity of {op_name} on {dtype} input")
    return _F["full"]((), number, dtype=dtype, device=input.device)


def _canonical_dim(dim: int | tuple[int, ...] | None, ndim: int) -> tuple[int, ...]:
    """The dimensions that ``dim`` means, from 0 on; all for None and ()."""
    dims = (dim,) if isinstance(dim, int) else tuple(dim or range(ndim))
    for d in dims:
        if not -max(ndim, 1) <= d < max(ndim, 1):
            raise IndexError(f"Dimension out of range (expected to be in range of [{-ndim}, {ndim - 1}], but got {d})")
    found = [d % max(ndim, 1) for d in dims]
    if len(set(found)) < len(found):
        raise RuntimeError(f"dim={[*dims]} appears multiple times in the list of dims")
    return tuple(sorted(found)) if ndim else ()


def _input_mask(input: Tensor, *args: Any, mask: Tensor | None = None, **kwargs: Any) -> Tensor:
    """The mask, of the shape of ``input``."""
    if mask is None:
        raise ValueError("_input_mask requires explicit mask")
    return _ops._expanded(input, mask)


def _output_mask(op: Callable, input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Where the result of ``op``, a function of ``torch.masked``, has elements that count.

    >>> import torchlike as torch
    >>> x, mask = torch.ones(2, 2), torch.tensor([[True, False], [False, False]])
    >>> torch.masked._output_mask(torch.masked.sum, x, dim=1, mask=mask)
    tensor([ True, False])
    """
    name = op.__name__
    mask = _input_mask(input, mask=kwargs.get("mask"))
    if name in _KEEPING:
        return mask
    if name not in _REDUCTIONS:
        raise ValueError(f"_output_mask expected masked operation (got {name})")
    at = 1 if name == "norm" else 0
    dims = _canonical_dim(args[at] if len(args) > at else kwargs.get("dim"), input.ndim)
    for d in reversed(dims):
        mask = mask.any(d, keepdim=bool(kwargs.get("keepdim")))
    return mask


def _where(mask: Tensor, input: Tensor, fill_value: Tensor) -> Tensor:
    """``input`` where the mask is True, else ``fill_value``."""
    return _F["where"](mask, input, fill_value)
