"""Linear and bilinear maps."""

from torchlike._core.dispatch.bind import FUNCTIONS
from torchlike._core.dispatch.dispatch import call
from torchlike._core.dispatch.out import call_out
from torchlike._ops import matmul

__all__ = ["bilinear", "linear"]

bilinear = FUNCTIONS["bilinear"]


def linear(input, weight, bias=None, *, out=None):
    """``input @ weight.T + bias`` over the last dimension: [..., k], [m, k], [m] to [..., m].

    >>> import torchlike as torch
    >>> torch.nn.functional.linear(torch.ones(2, 3), torch.ones(4, 3)).shape
    torch.Size([2, 4])
    """
    if out is not None:
        return call_out(matmul.linear, (input, weight, bias), (), out)
    return call(matmul.linear, (input, weight, bias), ())
