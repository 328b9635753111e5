"""torch._dynamo._trace_wrapped_higher_order_op: indexing by tensors inside traced functions."""

from torchlike.compiler._controls import TransformGetItemToIndex as TransformGetItemToIndex
from torchlike.interop.alias import missing_names

__getattr__ = missing_names(__name__)
