"""torch.compiler: compilation of functions, and control over it."""

from torchlike.compiler import config as config
from torchlike.compiler._backends import get_default_backend as get_default_backend
from torchlike.compiler._backends import list_backends as list_backends
from torchlike.compiler._backends import set_default_backend as set_default_backend
from torchlike.compiler._compile import compile as compile
from torchlike.compiler._controls import allow_in_graph as allow_in_graph
from torchlike.compiler._controls import assume_constant_result as assume_constant_result
from torchlike.compiler._controls import cudagraph_mark_step_begin as cudagraph_mark_step_begin
from torchlike.compiler._controls import disable as disable
from torchlike.compiler._controls import is_compiling as is_compiling
from torchlike.compiler._controls import is_compiling as is_dynamo_compiling
from torchlike.compiler._controls import is_exporting as is_exporting
from torchlike.compiler._controls import load_cache_artifacts as load_cache_artifacts
from torchlike.compiler._controls import load_compiled_function as load_compiled_function
from torchlike.compiler._controls import nested_compile_region as nested_compile_region
from torchlike.compiler._controls import reset as reset
from torchlike.compiler._controls import save_cache_artifacts as save_cache_artifacts
from torchlike.compiler._controls import set_enable_guard_collectives as set_enable_guard_collectives
from torchlike.compiler._controls import substitute_in_graph as substitute_in_graph
from torchlike.compiler._controls import wrap_numpy as wrap_numpy
from torchlike.compiler._function import explain as explain
from torchlike.compiler._module import OptimizedModule as OptimizedModule
from torchlike.compiler._stance import set_stance as set_stance
from torchlike.interop.lazy import on_first_use

__getattr__, __dir__ = on_first_use(__name__)

__all__ = [
    "allow_in_graph", "assume_constant_result", "compile", "config", "cudagraph_mark_step_begin", "disable",
    "get_default_backend", "is_compiling", "is_dynamo_compiling", "is_exporting", "list_backends",
    "load_cache_artifacts", "load_compiled_function", "nested_compile_region", "reset", "save_cache_artifacts",
    "set_default_backend", "set_enable_guard_collectives", "set_stance", "substitute_in_graph", "wrap_numpy",
]  # fmt: skip
