"""Running statistics: tensors that layers change beside what they compute."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchlike._base.state import no_grad
from torchlike._core.tensor.mutation import write, write_silently
from torchlike._core.tensor.tensor import value_of
from torchlike._executor.level import LevelValue

if TYPE_CHECKING:
    from torchlike._core.tensor.tensor import Tensor


def move_statistic(running: Tensor | None, new: Tensor, silent: bool) -> None:
    """Write a running statistic; as in PyTorch that of a batch (``silent``) does not count as a change of version."""
    if running is None:
        return
    if isinstance(running._storage.form, LevelValue):
        with no_grad():
            running.copy_(new)
        return
    if isinstance(value_of(new), LevelValue):
        raise RuntimeError(
            "Batch norm got a batched tensor as input while the running_mean or running_var, which will be updated "
            "in place, were not batched: inside of vmap use track_running_stats=False, or eval mode"
        )
    (write_silently if silent else write)(running, value_of(new))
