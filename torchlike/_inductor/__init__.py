"""torch._inductor: its settings, which are accepted; XLA compiles."""

from torchlike._inductor import config as config
from torchlike.compiler._controls import cudagraph_mark_step_begin as cudagraph_mark_step_begin
from torchlike.interop.alias import missing_names

__getattr__ = missing_names(__name__)
