"""torch._inductor: its settings, which are accepted; XLA compiles."""

from torchlike._inductor import config as config
from torchlike._inductor._options import list_mode_options as list_mode_options
from torchlike.compiler._controls import cudagraph_mark_step_begin as cudagraph_mark_step_begin
from torchlike.interop.lazy import on_first_use

__getattr__, __dir__ = on_first_use(__name__)
