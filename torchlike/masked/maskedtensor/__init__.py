"""``torch.masked.maskedtensor``: tensors that carry a mask."""

from torchlike.masked.maskedtensor.core import MaskedTensor as MaskedTensor
from torchlike.masked.maskedtensor.core import is_masked_tensor as is_masked_tensor
from torchlike.masked.maskedtensor.creation import as_masked_tensor as as_masked_tensor
from torchlike.masked.maskedtensor.creation import masked_tensor as masked_tensor

__all__ = ["MaskedTensor", "as_masked_tensor", "is_masked_tensor", "masked_tensor"]
