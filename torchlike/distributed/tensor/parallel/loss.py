"""Losses of logits that are cut over classes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torchlike._core.tensor.tensor import Tensor
from torchlike.distributed.tensor._dtensor import DTensor, allowing
from torchlike.nn import functional as F

_LOSSES: tuple[Callable[..., Any], ...] = (F.cross_entropy, F.nll_loss)


def _is_loss(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a call may have plain targets beside logits that are a DTensor."""
    if func not in _LOSSES:
        return False
    given = dict(zip(("input", "target"), args, strict=False)) | kwargs
    target = given.get("target")
    if not isinstance(given.get("input"), DTensor):
        raise RuntimeError("loss_parallel: the logits must be a DTensor where another argument is one")
    if given.get("label_smoothing", 0.0) or (isinstance(target, Tensor) and target.is_floating_point()):
        raise RuntimeError("loss_parallel: label smoothing and targets of probabilities are not supported")
    return True


@contextmanager
def loss_parallel() -> Iterator[None]:
    """A context in which cross entropy takes logits cut over classes beside plain targets, which all processes have.

    XLA computes the loss of such logits where their pieces are, within the context or not; what it allows is that the
    targets (and weights of classes) are plain tensors. Call ``backward`` within it too, as PyTorch asks.

    RuntimeError for label smoothing and for targets of probabilities.

    >>> import torchlike as torch
    >>> from torchlike.distributed.tensor import Shard, distribute_tensor, init_device_mesh
    >>> from torchlike.distributed.tensor.parallel import loss_parallel
    >>> logits = distribute_tensor(torch.zeros(2, 4), init_device_mesh("cpu", (1,)), [Shard(1)])
    >>> with loss_parallel():
    ...     torch.nn.functional.cross_entropy(logits, torch.tensor([0, 3])).full_tensor()
    tensor(1.3863)
    """
    with allowing(_is_loss):
        yield
