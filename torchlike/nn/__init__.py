"""Neural networks: ``torch.nn``."""

from torchlike.nn import attention as attention
from torchlike.nn import functional as functional
from torchlike.nn import init as init
from torchlike.nn import utils as utils
from torchlike.nn.modules import *  # noqa: F403
from torchlike.nn.parameter import Buffer as Buffer
from torchlike.nn.parameter import Parameter as Parameter
