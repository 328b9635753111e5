"""How the parameters of layers start.

Modules name what they import of it: asking the package for it waits, in another thread, for the whole package.
"""

import math

from torchlike._base.state import no_grad
from torchlike._core.tensor.tensor import Tensor


@no_grad()
def uniform(tensor: Tensor | None, bound: float) -> None:
    """Fill ``tensor`` with numbers that are uniform in +-``bound``; None is left alone."""
    if tensor is not None and tensor.numel():
        tensor.uniform_(-bound, bound)


def by_fan_in(weight: Tensor, bias: Tensor | None) -> None:
    """Fill ``weight`` [out, in, ...] and ``bias`` uniformly in +-1 / sqrt(inputs of one output)."""
    fan_in = math.prod(weight.shape[1:])
    if not fan_in:
        return uniform(bias, 0.0)  # which draws, too
    gain = math.sqrt(2.0 / (1 + math.sqrt(5) ** 2))  # 1 / sqrt(3), but rounded as PyTorch's call of kaiming_uniform_
    uniform(weight, math.sqrt(3.0) * (gain / math.sqrt(fan_in)))
    return uniform(bias, 1 / math.sqrt(fan_in))
