"""torch.compiler: compilation of functions, and control over it."""

from torchlike.compiler._compile import OptimizedModule as OptimizedModule
from torchlike.compiler._compile import compile as compile
from torchlike.compiler._compile import cudagraph_mark_step_begin as cudagraph_mark_step_begin
from torchlike.compiler._compile import disable as disable
from torchlike.compiler._compile import is_compiling as is_compiling
from torchlike.compiler._compile import is_compiling as is_dynamo_compiling
from torchlike.compiler._compile import reset as reset
from torchlike.compiler._compile import set_stance as set_stance
from torchlike.interop.alias import missing_names

__getattr__ = missing_names(__name__)

__all__ = [
    "OptimizedModule",
    "compile",
    "cudagraph_mark_step_begin",
    "disable",
    "is_compiling",
    "is_dynamo_compiling",
    "reset",
    "set_stance",
]
