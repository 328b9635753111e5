"""torch.distributed.constants: how long calls wait for others by default."""

from datetime import timedelta

from torchlike.interop.alias import missing_names

__getattr__ = missing_names(__name__)

default_pg_timeout = timedelta(minutes=30)
default_pg_nccl_timeout = timedelta(minutes=10)
