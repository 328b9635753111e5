"""torch.cuda: GPUs as jax sees them."""

from torchlike.cuda._devices import _is_compiled as _is_compiled
from torchlike.cuda._devices import _is_in_bad_fork as _is_in_bad_fork
from torchlike.cuda._devices import _lazy_call as _lazy_call
from torchlike.cuda._devices import _lazy_init as _lazy_init
from torchlike.cuda._devices import can_device_access_peer as can_device_access_peer
from torchlike.cuda._devices import current_device as current_device
from torchlike.cuda._devices import device as device
from torchlike.cuda._devices import device_count as device_count
from torchlike.cuda._devices import device_of as device_of
from torchlike.cuda._devices import empty_cache as empty_cache
from torchlike.cuda._devices import get_arch_list as get_arch_list
from torchlike.cuda._devices import get_device_capability as get_device_capability
from torchlike.cuda._devices import get_device_name as get_device_name
from torchlike.cuda._devices import get_device_properties as get_device_properties
from torchlike.cuda._devices import get_gencode_flags as get_gencode_flags
from torchlike.cuda._devices import get_sync_debug_mode as get_sync_debug_mode
from torchlike.cuda._devices import init as init
from torchlike.cuda._devices import ipc_collect as ipc_collect
from torchlike.cuda._devices import is_available as is_available
from torchlike.cuda._devices import is_bf16_supported as is_bf16_supported
from torchlike.cuda._devices import is_initialized as is_initialized
from torchlike.cuda._devices import is_tf32_supported as is_tf32_supported
from torchlike.cuda._devices import set_device as set_device
from torchlike.cuda._devices import set_sync_debug_mode as set_sync_debug_mode
from torchlike.cuda._devices import synchronize as synchronize
from torchlike.cuda._devices import with_state as _with_state
from torchlike.cuda._types import NAMES as _TYPES
from torchlike.cuda.graphs import graph_pool_handle as graph_pool_handle
from torchlike.cuda.graphs import is_current_stream_capturing as is_current_stream_capturing
from torchlike.cuda.graphs import make_graphed_callables as make_graphed_callables
from torchlike.cuda.memory import host_memory_stats as host_memory_stats
from torchlike.cuda.memory import host_memory_stats_as_nested_dict as host_memory_stats_as_nested_dict
from torchlike.cuda.memory import list_gpu_processes as list_gpu_processes
from torchlike.cuda.memory import max_memory_allocated as max_memory_allocated
from torchlike.cuda.memory import max_memory_cached as max_memory_cached
from torchlike.cuda.memory import max_memory_reserved as max_memory_reserved
from torchlike.cuda.memory import mem_get_info as mem_get_info
from torchlike.cuda.memory import memory_allocated as memory_allocated
from torchlike.cuda.memory import memory_cached as memory_cached
from torchlike.cuda.memory import memory_reserved as memory_reserved
from torchlike.cuda.memory import memory_stats as memory_stats
from torchlike.cuda.memory import memory_stats_as_nested_dict as memory_stats_as_nested_dict
from torchlike.cuda.memory import memory_summary as memory_summary
from torchlike.cuda.random import get_rng_state as get_rng_state
from torchlike.cuda.random import get_rng_state_all as get_rng_state_all
from torchlike.cuda.random import initial_seed as initial_seed
from torchlike.cuda.random import manual_seed as manual_seed
from torchlike.cuda.random import manual_seed_all as manual_seed_all
from torchlike.cuda.random import seed as seed
from torchlike.cuda.random import seed_all as seed_all
from torchlike.cuda.random import set_rng_state as set_rng_state
from torchlike.cuda.random import set_rng_state_all as set_rng_state_all
from torchlike.cuda.streams import CUDAGraph as CUDAGraph
from torchlike.cuda.streams import Event as Event
from torchlike.cuda.streams import Stream as Stream
from torchlike.cuda.streams import StreamContext as StreamContext
from torchlike.cuda.streams import current_stream as current_stream
from torchlike.cuda.streams import default_stream as default_stream
from torchlike.cuda.streams import graph as graph
from torchlike.cuda.streams import set_stream as set_stream
from torchlike.cuda.streams import stream as stream
from torchlike.interop.lazy import on_first_use

_MEMORY = (
    "CUDAPluggableAllocator", "MemPool", "caching_allocator_alloc", "caching_allocator_delete",
    "caching_allocator_enable", "change_current_allocator", "clock_rate", "device_memory_used",
    "get_allocator_backend", "get_per_process_memory_fraction", "memory_snapshot", "memory_usage",
    "power_draw", "reset_accumulated_host_memory_stats", "reset_accumulated_memory_stats",
    "reset_max_memory_allocated", "reset_max_memory_cached", "reset_peak_host_memory_stats",
    "reset_peak_memory_stats", "set_per_process_memory_fraction", "temperature", "use_mem_pool",
    "utilization",
)  # fmt: skip
__getattr__, __dir__ = on_first_use(__name__, {**dict.fromkeys(_TYPES, "_types"), **dict.fromkeys(_MEMORY, "memory")})
__getattr__ = _with_state(__getattr__)
