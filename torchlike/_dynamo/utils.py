"""torch._dynamo.utils: what was counted of compilation."""

from torchlike.compiler._function import counters as counters
from torchlike.interop.alias import missing_names

__getattr__ = missing_names(__name__)
