"""Parameters as one vector, and back."""

from collections.abc import Iterable

from torchlike._core.dispatch.bind import FUNCTIONS
from torchlike._core.tensor.tensor import Tensor


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All parameters one after another, flattened; recorded by autograd.

    >>> import torchlike as torch
    >>> torch.nn.utils.parameters_to_vector([torch.zeros(1), torch.ones(2, 1)])
    tensor([0., 1., 1.])
    """
    return FUNCTIONS["cat"]([p.reshape(-1) for p in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Let the parameters be the consecutive parts of ``vec``, whose storage they then share.

    Raises:
        TypeError: ``vec`` is no tensor. RuntimeError: it is too short.
    """
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {type(vec).__name__}")
    start = 0
    for p in parameters:
        p.data = vec[start : start + p.numel()].view_as(p).data
        start += p.numel()
