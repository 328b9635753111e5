"""torch.distributed.elastic.agent.server.local_elastic_agent: a launcher to build upon, which there is not."""

from torchlike.interop.refusing import refusing

__getattr__ = refusing(__name__, "not supported; torch.distributed.run and torch.distributed.launcher start processes")
