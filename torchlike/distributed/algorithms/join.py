"""``torch.distributed.algorithms.join``: processes that run out of inputs at different times."""

from torchlike.distributed._join import Join as Join
from torchlike.distributed._join import Joinable as Joinable
from torchlike.distributed._join import JoinHook as JoinHook
from torchlike.distributed._join import _JoinConfig as _JoinConfig
