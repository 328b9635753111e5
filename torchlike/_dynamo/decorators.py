"""torch._dynamo.decorators."""

from torchlike._dynamo._decorators import _DimRange as _DimRange
from torchlike._dynamo._decorators import error_on_graph_break as error_on_graph_break
from torchlike._dynamo._decorators import run as run
from torchlike.compiler._controls import allow_in_graph as allow_in_graph
from torchlike.compiler._controls import assume_constant_result as assume_constant_result
from torchlike.compiler._controls import disable as disable
from torchlike.compiler._controls import graph_break as graph_break
from torchlike.compiler._controls import mark_dynamic as mark_dynamic
from torchlike.compiler._controls import mark_static as mark_static
from torchlike.compiler._controls import mark_static_address as mark_static_address
from torchlike.compiler._controls import maybe_mark_dynamic as maybe_mark_dynamic
from torchlike.compiler._stance import set_stance as set_stance
from torchlike.interop.alias import missing_names

__getattr__ = missing_names(__name__)
