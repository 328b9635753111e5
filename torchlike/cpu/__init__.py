"""torch.cpu: the CPU, by the names of torch.cuda."""

from torchlike.cpu._devices import current_device as current_device
from torchlike.cpu._devices import device_count as device_count
from torchlike.cpu._devices import is_available as is_available
from torchlike.cpu._devices import is_initialized as is_initialized
from torchlike.cpu._devices import set_device as set_device
from torchlike.cpu._devices import synchronize as synchronize
from torchlike.cpu._processor import _init_amx as _init_amx
from torchlike.cpu._processor import _is_amx_fp16_supported as _is_amx_fp16_supported
from torchlike.cpu._processor import _is_amx_tile_supported as _is_amx_tile_supported
from torchlike.cpu._processor import _is_avx2_supported as _is_avx2_supported
from torchlike.cpu._processor import _is_avx512_bf16_supported as _is_avx512_bf16_supported
from torchlike.cpu._processor import _is_avx512_supported as _is_avx512_supported
from torchlike.cpu._processor import _is_vnni_supported as _is_vnni_supported
from torchlike.cpu._streams import Event as Event
from torchlike.cpu._streams import Stream as Stream
from torchlike.cpu._streams import StreamContext as StreamContext
from torchlike.cpu._streams import current_stream as current_stream
from torchlike.cpu._streams import stream as stream
from torchlike.interop.lazy import on_first_use

__getattr__, __dir__ = on_first_use(__name__)
