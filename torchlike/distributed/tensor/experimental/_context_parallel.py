"""torch.distributed.tensor.experimental._context_parallel: PyTorch's newer place of ``_attention``."""

from torchlike.distributed.tensor.experimental._attention import _cp_options as _cp_options
from torchlike.distributed.tensor.experimental._attention import _RotateMethod as _RotateMethod
from torchlike.distributed.tensor.experimental._attention import context_parallel as context_parallel
from torchlike.distributed.tensor.experimental._attention import context_parallel_unshard as context_parallel_unshard
from torchlike.distributed.tensor.experimental._attention import set_rotate_method as set_rotate_method
from torchlike.interop.refusing import refusing

__all__ = ["context_parallel", "context_parallel_unshard", "set_rotate_method"]

__getattr__ = refusing(__name__, "torchlike has no such part of context parallelism; there is context_parallel")
