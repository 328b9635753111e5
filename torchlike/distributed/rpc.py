"""torch.distributed.rpc: calls of functions in other processes are not available."""

from torchlike.interop.alias import missing_names

__getattr__ = missing_names(__name__)


def is_available() -> bool:
    """False."""
    return False
