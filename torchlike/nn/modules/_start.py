"""How the parameters of layers start.

By what stands in ``nn.init`` when a layer is made: programs replace it there, so that nothing is drawn for weights that
they load.
"""

import math

from torchlike._core.tensor.tensor import Tensor
from torchlike.nn import init


def uniform(tensor: Tensor | None, bound: float) -> None:
    """Fill ``tensor`` with numbers that are uniform in +-``bound``; None is left alone."""
    if tensor is not None:
        init.uniform_(tensor, -bound, bound)


def by_fan_in(weight: Tensor, bias: Tensor | None) -> None:
    """Fill ``weight`` [out, in, ...] and ``bias`` uniformly in +-1 / sqrt(inputs of one output)."""
    fan_in = math.prod(weight.shape[1:])
    init.kaiming_uniform_(weight, a=math.sqrt(5))
    uniform(bias, 1 / math.sqrt(fan_in) if fan_in else 0.0)


def scale_and_shift(weight: Tensor | None, bias: Tensor | None) -> None:
    """Fill ``weight`` with ones and ``bias`` with zeros, those that there are."""
    if weight is not None:
        init.ones_(weight)
    if bias is not None:
        init.zeros_(bias)
