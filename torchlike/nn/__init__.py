"""Neural networks: ``torch.nn``."""

from typing import TYPE_CHECKING

from torchlike.interop.lazy import on_first_use
from torchlike.nn import functional as functional
from torchlike.nn._factory import factory_kwargs as factory_kwargs
from torchlike.nn.parameter import Buffer as Buffer
from torchlike.nn.parameter import Parameter as Parameter
from torchlike.nn.parameter import UninitializedBuffer as UninitializedBuffer
from torchlike.nn.parameter import UninitializedParameter as UninitializedParameter

if TYPE_CHECKING:  # what is imported when it is first used
    from torchlike.nn import attention as attention
    from torchlike.nn import common_types as common_types
    from torchlike.nn import grad as grad
    from torchlike.nn import init as init
    from torchlike.nn import intrinsic as intrinsic
    from torchlike.nn import modules as modules
    from torchlike.nn import parallel as parallel
    from torchlike.nn import parameter as parameter
    from torchlike.nn import qat as qat
    from torchlike.nn import quantized as quantized
    from torchlike.nn import utils as utils
    from torchlike.nn.modules import *  # noqa: F403
    from torchlike.nn.parallel import DataParallel as DataParallel

__getattr__, __dir__ = on_first_use(__name__, {"DataParallel": "parallel"}, star="modules")
