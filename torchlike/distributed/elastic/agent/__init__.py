"""torch.distributed.elastic.agent: launchers to build upon, which there are not."""

from torchlike.interop.refusing import refusing

__getattr__ = refusing(__name__, "not supported; torch.distributed.run and torch.distributed.launcher start processes")
