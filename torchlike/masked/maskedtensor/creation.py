"""How tensors with a mask are made."""

from torchlike.masked.maskedtensor.core import MaskedTensor, carrying, demand_valid

__all__ = ["as_masked_tensor", "masked_tensor"]


def masked_tensor(data, mask, requires_grad=False):
    """A leaf with a copy of ``data``, of which the elements count where ``mask`` (bool, of the same shape) is True.

    Raises:
        TypeError: no tensors, another dtype than float16, float32, float64, bool or a signed integer.
        ValueError: shapes that differ.

    >>> import torchlike as torch
    >>> torch.masked.masked_tensor(torch.tensor([1., 2.]), torch.tensor([True, False]))
    MaskedTensor(
      [  1.0000,       --]
    )
    """
    return MaskedTensor(data, mask, requires_grad)


def as_masked_tensor(data, mask):
    """``data`` with a mask, without a copy: gradients flow to ``data``, 0 where the mask is False.

    >>> import torchlike as torch
    >>> x = torch.tensor([1., 2.], requires_grad=True)
    >>> torch.masked.as_masked_tensor(x, torch.tensor([True, False])).sum().backward()
    >>> x.grad
    tensor([1., 0.])
    """
    demand_valid(data, mask)
    return carrying(data, mask)
