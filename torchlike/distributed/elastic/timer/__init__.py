"""torch.distributed.elastic.timer: timers that end processes, which there are not."""

from torchlike.interop.refusing import refusing

__getattr__ = refusing(__name__, "not supported; collectives end by the timeout of init_process_group")
