"""torch.distributed.tensor.parallel: plans of tensor parallelism."""

from torchlike.distributed.tensor.parallel.api import parallelize_module as parallelize_module
from torchlike.distributed.tensor.parallel.loss import loss_parallel as loss_parallel
from torchlike.distributed.tensor.parallel.style import ColwiseParallel as ColwiseParallel
from torchlike.distributed.tensor.parallel.style import ParallelStyle as ParallelStyle
from torchlike.distributed.tensor.parallel.style import PrepareModuleInput as PrepareModuleInput
from torchlike.distributed.tensor.parallel.style import PrepareModuleInputOutput as PrepareModuleInputOutput
from torchlike.distributed.tensor.parallel.style import PrepareModuleOutput as PrepareModuleOutput
from torchlike.distributed.tensor.parallel.style import RowwiseParallel as RowwiseParallel
from torchlike.distributed.tensor.parallel.style import SequenceParallel as SequenceParallel
from torchlike.interop.refusing import refusing

__getattr__ = refusing(__name__, "torchlike has no such plan; XLA shards a loss over sharded logits by itself")
