"""torch.distributed.tensor.debug: how often collectives run."""

from torchlike.distributed.tensor.debug._comm_mode import CommDebugMode as CommDebugMode
from torchlike.interop.refusing import refusing

__getattr__ = refusing(__name__, "not supported; torchlike.viz.sharding() draws where tensors lie")
