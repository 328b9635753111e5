"""Rare names of ``torch._C`` that programs ask."""

from torchlike._base.state import state
from torchlike._core.tensor.tensor import Tensor

_TensorMeta = type(Tensor)
NoneType = type(None)


def _are_functorch_transforms_active() -> bool:
    """Whether this thread is in a function that torch.func transforms.

    >>> import torchlike as torch
    >>> torch._C._are_functorch_transforms_active()
    False
    """
    return bool(getattr(state, "levels", ()))


def _cuda_clearCublasWorkspaces() -> None:  # noqa: N802
    """Nothing to do: XLA manages device memory."""


class TensorType:
    """The type of tensors in TorchScript."""

    @staticmethod
    def get() -> type:
        """The class of tensors."""
        return Tensor
