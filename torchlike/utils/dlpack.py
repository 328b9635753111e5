"""DLPack, under torch's module path."""

from torchlike._core.conversion.convert import from_dlpack
from torchlike._core.tensor.tensor import Tensor

__all__ = ["from_dlpack", "to_dlpack"]


def to_dlpack(tensor: Tensor):
    """The DLPack capsule of a tensor's value; it may require grad, which the capsule does not tell.

    >>> import torchlike as torch
    >>> torch.from_dlpack(torch.ones(2))
    tensor([1., 1.])
    """
    return tensor.detach().__dlpack__()
