"""Linear maps."""

from torchlike._core.dispatch import call
from torchlike._ops import matmul

__all__ = ["linear"]


def linear(input, weight, bias=None):
    """``input @ weight.T + bias`` over the last dimension: [..., k], [m, k], [m] to [..., m].

    >>> import torchlike as torch
    >>> torch.nn.functional.linear(torch.ones(2, 3), torch.ones(4, 3)).shape
    torch.Size([2, 4])
    """
    return call(matmul.linear, (input, weight, bias), ())
