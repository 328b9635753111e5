"""Private names of PyTorch's that published programs use."""

from datetime import timedelta
from typing import Any

from torchlike._base.frames import warn
from torchlike._core.tensor.tensor import Tensor
from torchlike.distributed import _collectives
from torchlike.distributed.distributed_c10d import ProcessGroup, found

__all__ = ["_all_gather_base", "_reduce_scatter_base", "_set_pg_timeout"]


def _is_private(name: str, instead: str) -> None:
    warn(
        f"`torch.distributed.{name}` is a private function and will be deprecated. Please use "
        f"`torch.distributed.{instead}` instead.",
        FutureWarning,
    )


def _all_gather_base(output_tensor: Tensor, input_tensor: Tensor, group: Any = None, async_op: bool = False) -> Any:
    """``all_gather_single``, with a FutureWarning."""
    _is_private("_all_gather_base", "all_gather_single")
    return _collectives.all_gather_single(output_tensor, input_tensor, group, async_op)


def _reduce_scatter_base(
    output: Tensor, input: Tensor, op: Any = _collectives.ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Any:
    """``reduce_scatter_single``, with a FutureWarning."""
    _is_private("_reduce_scatter_base", "reduce_scatter_single")
    return _collectives.reduce_scatter_single(output, input, op, group, async_op)


def _set_pg_timeout(timeout: timedelta, group: Any = None) -> None:
    """Let what a group begins from now on wait so long."""
    if group is not None and not isinstance(group, ProcessGroup):
        raise AssertionError(f"Expected ProcessGroup, got {type(group)}")
    if not isinstance(timeout, timedelta):
        kind = type(timeout).__name__
        raise TypeError(f"_set_default_timeout(): incompatible function arguments: timeout is a timedelta, not {kind}")
    found(group).timeout = timeout
