"""torch._logging: what is logged of compilation."""

from torchlike._base.logs import set_logs as set_logs
from torchlike.interop.alias import missing_names

__getattr__ = missing_names(__name__)

__all__ = ["set_logs"]
