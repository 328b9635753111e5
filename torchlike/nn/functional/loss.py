"""Losses of ``torch.nn.functional``."""

import warnings

from torchlike._core import arguments
from torchlike._core.dispatch import call
from torchlike._core.tensor import Tensor
from torchlike._ops import cross_entropy as classes

__all__ = ["cross_entropy", "nll_loss"]

_REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}


def _reduction(reduction, size_average=None, reduce=None):
    """0, 1 or 2 for ``none``, ``mean``, ``sum``; the two deprecated flags win over the name."""
    if size_average is not None or reduce is not None:
        reduction = reduction_name(size_average, reduce)
    found = _REDUCTIONS.get(reduction)
    if found is None:
        if reduction == "elementwise_mean":
            warnings.warn("reduction='elementwise_mean' is deprecated, please use reduction='mean' instead.", stacklevel=4)
            return 1
        raise ValueError(f"{reduction} is not a valid value for reduction: use 'none', 'mean' or 'sum'")
    return found


def reduction_name(size_average, reduce):
    """The reduction that the two deprecated flags mean."""
    name = "none" if reduce is False else "sum" if size_average is False else "mean"
    warnings.warn(f"size_average and reduce args will be deprecated, please use reduction='{name}' instead.", stacklevel=5)
    return name


def _tensors(name, **given):
    for argument, x in given.items():
        if not isinstance(x, Tensor):
            raise TypeError(f"{name}(): argument '{argument}' must be Tensor, not {type(x).__name__}")


def nll_loss(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean"):
    """Minus the input at each target class: [N, C, ...] log probabilities and [N, ...] indices.

    Args:
        weight: a weight for each class; the mean is over the weights. ignore_index: a target that counts for nothing.
        reduction: ``'none'``, ``'mean'`` or ``'sum'``.

    Raises:
        IndexError: a target outside [0, C). ValueError: batch sizes that differ, an unknown reduction.
        RuntimeError: other shapes that do not match, or a target that is not int64 or uint8.

    >>> import torchlike as torch
    >>> torch.nn.functional.nll_loss(torch.tensor([[-1.0, -2.0]]), torch.tensor([1]))
    tensor(2.)
    """
    _tensors("nll_loss", input=input, target=target)
    static = _reduction(reduction, size_average, reduce), arguments.as_int("nll_loss", "ignore_index", ignore_index)
    return call(classes.nll_loss2d if input.ndim > 2 else classes.nll_loss, (input, target, weight), static)


def cross_entropy(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean",
                  label_smoothing=0.0):  # fmt: skip
    """Cross entropy of logits [N, C, ...] (or [C]) with class indices [N, ...] or probabilities [N, C, ...].

    Args:
        weight: a weight for each class. ignore_index: a target index that counts for nothing.
        label_smoothing: the part of each target that is spread evenly over the classes, in [0, 1].
        reduction: ``'none'``, ``'mean'`` (over the weights of the targets) or ``'sum'``.

    Raises:
        IndexError: a target outside [0, C). ValueError: batch sizes that differ, an unknown reduction.
        RuntimeError: other shapes that do not match, an integer target that is not int64 or uint8,
            ``ignore_index`` with probabilities.

    >>> import torchlike as torch
    >>> torch.nn.functional.cross_entropy(torch.zeros(1, 4), torch.tensor([2]))
    tensor(1.3863)
    """
    _tensors("cross_entropy_loss", input=input, target=target)
    mode = _reduction(reduction, size_average, reduce)
    if label_smoothing > 1.0:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    smoothing = max(float(label_smoothing), 0.0)
    ignore_index = arguments.as_int("cross_entropy", "ignore_index", ignore_index)
    if input._layout.shape == target._layout.shape:
        return _with_probabilities(input, target, weight, mode, ignore_index, smoothing)
    if smoothing:
        return call(classes.cross_entropy_smooth, (input, target, weight, smoothing), (mode, ignore_index))
    op = classes.cross_entropy if input.ndim <= 2 else classes.cross_entropy2d
    return call(op, (input, target, weight), (mode, ignore_index))


def _with_probabilities(input, target, weight, mode, ignore_index, smoothing):
    if not target.dtype.is_floating_point:
        raise RuntimeError(
            f"Expected floating point type for target with class probabilities, got {target.dtype.scalar_name} (input and "
            "target of cross_entropy have the same shape)"
        )
    if ignore_index >= 0:
        raise RuntimeError("ignore_index is not supported for floating point target")
    return call(classes.cross_entropy_prob[mode], (input, target, weight, smoothing), ())
