"""``torch.distributed.algorithms``: ways to bring gradients together."""

from torchlike.distributed.algorithms.join import Join as Join
from torchlike.distributed.algorithms.join import Joinable as Joinable
from torchlike.distributed.algorithms.join import JoinHook as JoinHook
