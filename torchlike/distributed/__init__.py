"""Processes that work together: ``torch.distributed``, on the collectives of XLA."""

from torchlike.distributed import _group_calls as _group_calls
from torchlike.distributed import _older as _older
from torchlike.distributed import _programs as _programs
from torchlike.distributed import _world as _world
from torchlike.distributed import distributed_c10d as distributed_c10d
from torchlike.distributed._barriers import barrier as barrier
from torchlike.distributed._barriers import monitored_barrier as monitored_barrier
from torchlike.distributed._buckets import BuiltinCommHookType as BuiltinCommHookType
from torchlike.distributed._buckets import GradBucket as GradBucket
from torchlike.distributed._calls import Work as Work
from torchlike.distributed._collectives import ReduceOp as ReduceOp
from torchlike.distributed._collectives import _broadcast_coalesced as _broadcast_coalesced
from torchlike.distributed._collectives import all_gather as all_gather
from torchlike.distributed._collectives import all_gather_coalesced as all_gather_coalesced
from torchlike.distributed._collectives import all_gather_into_tensor as all_gather_into_tensor
from torchlike.distributed._collectives import all_gather_single as all_gather_single
from torchlike.distributed._collectives import all_reduce as all_reduce
from torchlike.distributed._collectives import all_reduce_coalesced as all_reduce_coalesced
from torchlike.distributed._collectives import all_to_all as all_to_all
from torchlike.distributed._collectives import all_to_all_single as all_to_all_single
from torchlike.distributed._collectives import broadcast as broadcast
from torchlike.distributed._collectives import gather as gather
from torchlike.distributed._collectives import reduce as reduce
from torchlike.distributed._collectives import reduce_op as reduce_op
from torchlike.distributed._collectives import reduce_scatter as reduce_scatter
from torchlike.distributed._collectives import reduce_scatter_single as reduce_scatter_single
from torchlike.distributed._collectives import reduce_scatter_tensor as reduce_scatter_tensor
from torchlike.distributed._collectives import scatter as scatter
from torchlike.distributed._collectives import supports_complex as supports_complex
from torchlike.distributed._messages import P2POp as P2POp
from torchlike.distributed._messages import all_gather_object as all_gather_object
from torchlike.distributed._messages import batch_isend_irecv as batch_isend_irecv
from torchlike.distributed._messages import broadcast_object_list as broadcast_object_list
from torchlike.distributed._messages import gather_object as gather_object
from torchlike.distributed._messages import irecv as irecv
from torchlike.distributed._messages import isend as isend
from torchlike.distributed._messages import recv as recv
from torchlike.distributed._messages import recv_object_list as recv_object_list
from torchlike.distributed._messages import scatter_object_list as scatter_object_list
from torchlike.distributed._messages import send as send
from torchlike.distributed._messages import send_object_list as send_object_list
from torchlike.distributed._older import _all_gather_base as _all_gather_base
from torchlike.distributed._older import _reduce_scatter_base as _reduce_scatter_base
from torchlike.distributed._older import _set_pg_timeout as _set_pg_timeout
from torchlike.distributed._options import AllreduceCoalescedOptions as AllreduceCoalescedOptions
from torchlike.distributed._options import AllreduceOptions as AllreduceOptions
from torchlike.distributed._options import AllToAllOptions as AllToAllOptions
from torchlike.distributed._options import BarrierOptions as BarrierOptions
from torchlike.distributed._options import BroadcastOptions as BroadcastOptions
from torchlike.distributed._options import GatherOptions as GatherOptions
from torchlike.distributed._options import ReduceOptions as ReduceOptions
from torchlike.distributed._options import ReduceScatterOptions as ReduceScatterOptions
from torchlike.distributed._options import ScatterOptions as ScatterOptions
from torchlike.distributed._runtime import QueueEmptyError as QueueEmptyError
from torchlike.distributed._stores import FileStore as FileStore
from torchlike.distributed._stores import HashStore as HashStore
from torchlike.distributed._stores import PrefixStore as PrefixStore
from torchlike.distributed._stores import Store as Store
from torchlike.distributed._stores import TCPStore as TCPStore
from torchlike.distributed.distributed_c10d import Backend as Backend
from torchlike.distributed.distributed_c10d import DebugLevel as DebugLevel
from torchlike.distributed.distributed_c10d import DistBackendError as DistBackendError
from torchlike.distributed.distributed_c10d import DistError as DistError
from torchlike.distributed.distributed_c10d import DistNetworkError as DistNetworkError
from torchlike.distributed.distributed_c10d import DistStoreError as DistStoreError
from torchlike.distributed.distributed_c10d import GroupMember as GroupMember
from torchlike.distributed.distributed_c10d import ProcessGroup as ProcessGroup
from torchlike.distributed.distributed_c10d import _coalescing_manager as _coalescing_manager
from torchlike.distributed.distributed_c10d import _CoalescingManager as _CoalescingManager
from torchlike.distributed.distributed_c10d import _rank_not_in_group as _rank_not_in_group
from torchlike.distributed.distributed_c10d import default_pg_timeout as default_pg_timeout
from torchlike.distributed.distributed_c10d import destroy_process_group as destroy_process_group
from torchlike.distributed.distributed_c10d import get_backend as get_backend
from torchlike.distributed.distributed_c10d import get_backend_config as get_backend_config
from torchlike.distributed.distributed_c10d import get_debug_level as get_debug_level
from torchlike.distributed.distributed_c10d import get_default_backend_for_device as get_default_backend_for_device
from torchlike.distributed.distributed_c10d import get_global_rank as get_global_rank
from torchlike.distributed.distributed_c10d import get_group_rank as get_group_rank
from torchlike.distributed.distributed_c10d import get_node_local_rank as get_node_local_rank
from torchlike.distributed.distributed_c10d import get_pg_count as get_pg_count
from torchlike.distributed.distributed_c10d import get_process_group_ranks as get_process_group_ranks
from torchlike.distributed.distributed_c10d import get_rank as get_rank
from torchlike.distributed.distributed_c10d import get_world_size as get_world_size
from torchlike.distributed.distributed_c10d import group as group
from torchlike.distributed.distributed_c10d import init_process_group as init_process_group
from torchlike.distributed.distributed_c10d import is_available as is_available
from torchlike.distributed.distributed_c10d import is_backend_available as is_backend_available
from torchlike.distributed.distributed_c10d import is_gloo_available as is_gloo_available
from torchlike.distributed.distributed_c10d import is_initialized as is_initialized
from torchlike.distributed.distributed_c10d import is_mpi_available as is_mpi_available
from torchlike.distributed.distributed_c10d import is_nccl_available as is_nccl_available
from torchlike.distributed.distributed_c10d import is_torchelastic_launched as is_torchelastic_launched
from torchlike.distributed.distributed_c10d import is_ucc_available as is_ucc_available
from torchlike.distributed.distributed_c10d import is_xccl_available as is_xccl_available
from torchlike.distributed.distributed_c10d import new_group as new_group
from torchlike.distributed.distributed_c10d import new_subgroups as new_subgroups
from torchlike.distributed.distributed_c10d import new_subgroups_by_enumeration as new_subgroups_by_enumeration
from torchlike.distributed.distributed_c10d import set_debug_level as set_debug_level
from torchlike.distributed.distributed_c10d import set_debug_level_from_env as set_debug_level_from_env
from torchlike.distributed.distributed_c10d import split_group as split_group
from torchlike.distributed.rendezvous import register_rendezvous_handler as register_rendezvous_handler
from torchlike.distributed.rendezvous import rendezvous as rendezvous
from torchlike.interop.lazy import on_first_use

__getattr__, __dir__ = on_first_use(__name__, {"DeviceMesh": "device_mesh", "init_device_mesh": "device_mesh"})

# PyTorch has its collectives, stores and work in the module of its process groups.
_HOMES = ("_barriers", "_collectives", "_messages", "_older", "_options", "_world")
for _home in _HOMES:
    vars(distributed_c10d).update({name: getattr(globals()[_home], name) for name in globals()[_home].__all__})
_AS_THEIRS = ["PrefixStore", "ReduceOp", "Store", "Work", "reduce_op"]
vars(distributed_c10d).update({name: globals()[name] for name in _AS_THEIRS})
