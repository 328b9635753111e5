"""The scaler of losses for gradients of which each process has a part."""

from typing import Any

from torchlike._base import dtypes
from torchlike._core.conversion.factories import full
from torchlike._core.tensor.tensor import Tensor
from torchlike.amp.grad_scaler import GradScaler
from torchlike.distributed import ReduceOp, all_reduce, get_world_size

__all__ = ["ShardedGradScaler"]


class ShardedGradScaler(GradScaler):
    """:class:`torchlike.amp.GradScaler` whose processes skip a step together, where one of them finds an overflow.

    As PyTorch's, it divides gradients in float16 too, and what it scales keeps its dtype. Processes also agree before
    the steps of optimizers that are fused, where PyTorch's scales go apart, and a process without gradients takes part.

    Args:
        device, init_scale, backoff_factor, growth_factor, growth_interval, enabled: of the GradScaler.
        process_group: who must agree; all processes by default.

    >>> import torchlike as torch
    >>> from torchlike.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
    >>> torch.distributed.init_process_group(init_method="tcp://127.0.0.1:1", rank=0, world_size=1)
    >>> p = torch.nn.Parameter(torch.ones(1))
    >>> optimizer, scaler = torch.optim.SGD([p], lr=0.5), ShardedGradScaler("cpu", init_scale=4.0)
    >>> scaler.scale(p.sum() * float("inf")).backward()
    >>> scaler.step(optimizer)
    >>> scaler.update()
    >>> p.item(), scaler.get_scale()
    (1.0, 2.0)
    >>> torch.distributed.destroy_process_group()
    """

    _allows_fp16 = True

    def __init__(
        self, device: str = "cuda", init_scale: float = 2.0**16, backoff_factor: float = 0.5,
        growth_factor: float = 2.0, growth_interval: int = 2000, enabled: bool = True, process_group: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(device, init_scale, growth_factor, backoff_factor, growth_interval, enabled)
        if self._enabled:
            self.process_group = process_group

    def _times(self, output: Tensor, scale: Tensor) -> Tensor:
        return (output * scale).to(output.dtype)

    def _agreed(self, found: dict[Any, Tensor]) -> dict[Any, Tensor]:
        if get_world_size(self.process_group) == 1:
            return found
        none = full((), 0.0, dtype=dtypes.float32, device=self._scale.device)
        here = self._combined([none, *found.values()])
        all_reduce(here, ReduceOp.SUM, self.process_group)
        return {place: here.to(place) for place in found}
