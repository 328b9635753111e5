"""Modules on several devices: ``torch.nn.parallel``."""

from torchlike.interop.alias import missing_names
from torchlike.nn.parallel import comm as comm
from torchlike.nn.parallel import scatter_gather as scatter_gather
from torchlike.nn.parallel.data_parallel import DataParallel as DataParallel
from torchlike.nn.parallel.data_parallel import data_parallel as data_parallel
from torchlike.nn.parallel.distributed import DistributedDataParallel as DistributedDataParallel
from torchlike.nn.parallel.parallel_apply import parallel_apply as parallel_apply
from torchlike.nn.parallel.replicate import replicate as replicate
from torchlike.nn.parallel.scatter_gather import gather as gather
from torchlike.nn.parallel.scatter_gather import scatter as scatter

__all__ = [
    "DataParallel", "DistributedDataParallel", "data_parallel", "gather", "parallel_apply", "replicate", "scatter",
]  # fmt: skip

__getattr__ = missing_names(__name__)
