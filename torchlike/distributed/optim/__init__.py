"""Optimizers whose state is spread over processes: ``torch.distributed.optim``."""

from torchlike.distributed.optim.apply_optimizer_in_backward import (
    _apply_optimizer_in_backward as _apply_optimizer_in_backward,
)
from torchlike.distributed.optim.apply_optimizer_in_backward import (
    _get_in_backward_optimizers as _get_in_backward_optimizers,
)
from torchlike.distributed.optim.post_localSGD_optimizer import PostLocalSGDOptimizer as PostLocalSGDOptimizer
from torchlike.distributed.optim.zero_redundancy_optimizer import ZeroRedundancyOptimizer as ZeroRedundancyOptimizer
from torchlike.interop.lazy import on_first_use
from torchlike.interop.refusing import refusing

__getattr__, __dir__ = on_first_use(__name__, missing=refusing(__name__, "not supported"))
