"""torch.distributed.rpc: its names; functions are not called in other processes here."""

from torchlike.distributed.rpc import api as api
from torchlike.interop.refusing import refusing

__getattr__ = refusing(__name__, "calls in other processes are not supported; torch.distributed has collectives")
