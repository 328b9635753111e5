"""torch._dynamo.utils: what was counted of compilation."""

from torchlike.compiler._function import counters as counters
from torchlike.interop.alias import missing_names

__getattr__ = missing_names(__name__)


def is_compile_supported(device_type: str) -> bool:
    """Whether ``torch.compile`` compiles for a type of device: for every one that there is."""
    return True
