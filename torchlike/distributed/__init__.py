"""Processes that work together: ``torch.distributed``. As yet a group is one process."""

from torchlike.distributed import distributed_c10d as distributed_c10d
from torchlike.distributed._collectives import ReduceOp as ReduceOp
from torchlike.distributed._collectives import all_gather as all_gather
from torchlike.distributed._collectives import all_gather_object as all_gather_object
from torchlike.distributed._collectives import all_reduce as all_reduce
from torchlike.distributed._collectives import broadcast as broadcast
from torchlike.distributed._collectives import broadcast_object_list as broadcast_object_list
from torchlike.distributed._collectives import reduce as reduce
from torchlike.distributed.distributed_c10d import GroupMember as GroupMember
from torchlike.distributed.distributed_c10d import ProcessGroup as ProcessGroup
from torchlike.distributed.distributed_c10d import Work as Work
from torchlike.distributed.distributed_c10d import barrier as barrier
from torchlike.distributed.distributed_c10d import destroy_process_group as destroy_process_group
from torchlike.distributed.distributed_c10d import get_backend as get_backend
from torchlike.distributed.distributed_c10d import get_process_group_ranks as get_process_group_ranks
from torchlike.distributed.distributed_c10d import get_rank as get_rank
from torchlike.distributed.distributed_c10d import get_world_size as get_world_size
from torchlike.distributed.distributed_c10d import group as group
from torchlike.distributed.distributed_c10d import init_process_group as init_process_group
from torchlike.distributed.distributed_c10d import is_available as is_available
from torchlike.distributed.distributed_c10d import is_initialized as is_initialized
from torchlike.distributed.distributed_c10d import is_torchelastic_launched as is_torchelastic_launched
from torchlike.distributed.distributed_c10d import monitored_barrier as monitored_barrier
from torchlike.distributed.distributed_c10d import new_group as new_group
from torchlike.interop.lazy import on_first_use

__getattr__, __dir__ = on_first_use(__name__)
