"""torch._logging: what is logged of compilation."""

from torchlike._base.logs import set_logs as set_logs
from torchlike.interop.lazy import on_first_use

__getattr__, __dir__ = on_first_use(__name__)

__all__ = ["set_logs"]
