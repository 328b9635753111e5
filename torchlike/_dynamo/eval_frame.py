"""torch._dynamo.eval_frame."""

from torchlike._dynamo._decorators import optimize as optimize
from torchlike._dynamo._export import ExportResult as ExportResult
from torchlike._dynamo._export import export as export
from torchlike.compiler._controls import disable as disable
from torchlike.compiler._controls import is_dynamo_supported as is_dynamo_supported
from torchlike.compiler._explain import explain as explain
from torchlike.compiler._module import OptimizedModule as OptimizedModule
from torchlike.interop.alias import missing_names

__getattr__ = missing_names(__name__)
