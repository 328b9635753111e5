"""``torch._C._distributed_rpc``: whether an agent for remote calls is there."""

from torchlike.interop.alias import missing_names

__all__ = ["_is_current_rpc_agent_set"]

__getattr__ = missing_names(__name__)


def _is_current_rpc_agent_set() -> bool:
    """False: torchlike makes no remote calls."""
    return False
