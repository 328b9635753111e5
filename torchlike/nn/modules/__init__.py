"""The modules, by family."""

from torchlike.interop.lazy import on_first_use
from torchlike.nn.modules import (
    activation,
    adaptive,
    attention,
    batchnorm,
    container,
    conv,
    distance,
    dropout,
    flatten,
    fold,
    instancenorm,
    linear,
    linear_cross_entropy_options,
    loss,
    normalization,
    padding,
    pixelshuffle,
    pooling,
    rnn,
    sparse,
    transformer,
    upsampling,
)
from torchlike.nn.modules import channelshuffle as channelshuffle
from torchlike.nn.modules.activation import *  # noqa: F403
from torchlike.nn.modules.adaptive import *  # noqa: F403
from torchlike.nn.modules.attention import *  # noqa: F403
from torchlike.nn.modules.batchnorm import *  # noqa: F403
from torchlike.nn.modules.container import *  # noqa: F403
from torchlike.nn.modules.conv import *  # noqa: F403
from torchlike.nn.modules.distance import *  # noqa: F403
from torchlike.nn.modules.dropout import *  # noqa: F403
from torchlike.nn.modules.flatten import *  # noqa: F403
from torchlike.nn.modules.fold import *  # noqa: F403
from torchlike.nn.modules.instancenorm import *  # noqa: F403
from torchlike.nn.modules.linear import *  # noqa: F403
from torchlike.nn.modules.linear_cross_entropy_options import *  # noqa: F403
from torchlike.nn.modules.loss import *  # noqa: F403
from torchlike.nn.modules.module import Module as Module
from torchlike.nn.modules.normalization import *  # noqa: F403
from torchlike.nn.modules.padding import *  # noqa: F403
from torchlike.nn.modules.pixelshuffle import *  # noqa: F403
from torchlike.nn.modules.pooling import *  # noqa: F403
from torchlike.nn.modules.rnn import *  # noqa: F403
from torchlike.nn.modules.sparse import *  # noqa: F403
from torchlike.nn.modules.transformer import *  # noqa: F403
from torchlike.nn.modules.upsampling import *  # noqa: F403

__getattr__, __dir__ = on_first_use(__name__)

__all__ = [
    "Module",
    *activation.__all__,
    *adaptive.__all__,
    *attention.__all__,
    *batchnorm.__all__,
    *container.__all__,
    *conv.__all__,
    *distance.__all__,
    *dropout.__all__,
    *flatten.__all__,
    *fold.__all__,
    *instancenorm.__all__,
    *linear.__all__,
    *linear_cross_entropy_options.__all__,
    *loss.__all__,
    *normalization.__all__,
    *padding.__all__,
    *pixelshuffle.__all__,
    *pooling.__all__,
    *rnn.__all__,
    *sparse.__all__,
    *transformer.__all__,
    *upsampling.__all__,
]
