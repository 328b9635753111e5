"""torch.cuda: GPUs as jax sees them."""

from torchlike.cuda._devices import current_device as current_device
from torchlike.cuda._devices import device_count as device_count
from torchlike.cuda._devices import empty_cache as empty_cache
from torchlike.cuda._devices import get_device_name as get_device_name
from torchlike.cuda._devices import is_available as is_available
from torchlike.cuda._devices import manual_seed as manual_seed
from torchlike.cuda._devices import manual_seed_all as manual_seed_all
from torchlike.cuda._devices import max_memory_allocated as max_memory_allocated
from torchlike.cuda._devices import memory_allocated as memory_allocated
from torchlike.cuda._devices import synchronize as synchronize
from torchlike.cuda.streams import CUDAGraph as CUDAGraph
from torchlike.cuda.streams import Event as Event
from torchlike.cuda.streams import Stream as Stream
from torchlike.cuda.streams import StreamContext as StreamContext
from torchlike.cuda.streams import current_stream as current_stream
from torchlike.cuda.streams import default_stream as default_stream
from torchlike.cuda.streams import graph as graph
from torchlike.cuda.streams import stream as stream
from torchlike.interop.lazy import on_first_use

__getattr__, __dir__ = on_first_use(__name__)
