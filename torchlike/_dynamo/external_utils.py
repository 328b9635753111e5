"""torch._dynamo.external_utils."""

from torchlike.compiler._controls import is_compiling as is_compiling
from torchlike.interop.alias import missing_names

__getattr__ = missing_names(__name__)
