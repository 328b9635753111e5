"""torch._dynamo: names of the tracer of PyTorch that programs use, and graphs for backends that are functions."""

from torchlike._dynamo import config as config
from torchlike._dynamo import decorators as decorators
from torchlike._dynamo import eval_frame as eval_frame
from torchlike._dynamo import exc as exc
from torchlike._dynamo import external_utils as external_utils
from torchlike._dynamo import utils as utils
from torchlike._dynamo._decorators import error_on_graph_break as error_on_graph_break
from torchlike._dynamo._decorators import optimize as optimize
from torchlike._dynamo._decorators import patch_dynamo_config as patch_dynamo_config
from torchlike._dynamo._decorators import run as run
from torchlike._dynamo._export import export as export
from torchlike.compiler._backends import list_backends as list_backends
from torchlike.compiler._backends import lookup_backend as lookup_backend
from torchlike.compiler._backends import register_backend as register_backend
from torchlike.compiler._controls import allow_in_graph as allow_in_graph
from torchlike.compiler._controls import assume_constant_result as assume_constant_result
from torchlike.compiler._controls import disable as disable
from torchlike.compiler._controls import disallow_in_graph as disallow_in_graph
from torchlike.compiler._controls import forbid_in_graph as forbid_in_graph
from torchlike.compiler._controls import graph_break as graph_break
from torchlike.compiler._controls import is_compiling as is_compiling
from torchlike.compiler._controls import is_dynamo_supported as is_dynamo_supported
from torchlike.compiler._controls import is_inductor_supported as is_inductor_supported
from torchlike.compiler._controls import mark_dynamic as mark_dynamic
from torchlike.compiler._controls import mark_static as mark_static
from torchlike.compiler._controls import mark_static_address as mark_static_address
from torchlike.compiler._controls import maybe_mark_dynamic as maybe_mark_dynamic
from torchlike.compiler._controls import reset as reset
from torchlike.compiler._controls import reset as reset_code_caches  # noqa: F401
from torchlike.compiler._controls import skip_frame as skip_frame
from torchlike.compiler._controls import substitute_in_graph as substitute_in_graph
from torchlike.compiler._explain import explain as explain
from torchlike.compiler._module import OptimizedModule as OptimizedModule
from torchlike.compiler._stance import set_stance as set_stance
from torchlike.interop.lazy import on_first_use

__getattr__, __dir__ = on_first_use(__name__)
