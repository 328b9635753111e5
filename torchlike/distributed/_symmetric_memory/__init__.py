"""torch.distributed._symmetric_memory: memory of GPUs that all processes see, which there is not."""

from torchlike.distributed._symmetric_memory._asked import is_nvshmem_available as is_nvshmem_available
from torchlike.distributed._symmetric_memory._asked import (
    is_symm_mem_enabled_for_group as is_symm_mem_enabled_for_group,
)
from torchlike.interop.refusing import refusing

__getattr__ = refusing(
    __name__,
    "there is no symmetric memory; collectives of torch.distributed are XLA's, which fuses them within compiled steps",
)
