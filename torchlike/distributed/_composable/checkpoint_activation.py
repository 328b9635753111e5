"""``checkpoint``: activations of a module are computed anew in backward; its names and class stay as they are."""

import functools
from typing import Any

from torchlike.distributed._composable.contract import contract
from torchlike.nn.modules.module import Module
from torchlike.utils import checkpoint as _checkpoint

__all__ = ["checkpoint"]


@contract()
def checkpoint(module: Module, **kwargs: Any) -> Module:
    """Let a module keep its arguments alone for backward, which runs its forward once more.

    ``kwargs``: of :func:`torch.utils.checkpoint.checkpoint`; reentrant ones are a NotImplementedError.

    >>> import torchlike as torch
    >>> from torchlike.distributed._composable import checkpoint
    >>> model = checkpoint(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Tanh()))
    >>> model(torch.ones(1, 2)).sum().backward()
    >>> model[0].weight.grad.shape
    torch.Size([2, 2])
    """
    if kwargs.pop("use_reentrant", False):
        raise NotImplementedError(
            "use_reentrant=True is not supported in composable checkpoint. Please use "
            "torch.utils.checkpoint.checkpoint instead."
        )
    run = functools.partial(_checkpoint.checkpoint, module.forward, use_reentrant=False, **kwargs)
    module.forward = run  # type: ignore[method-assign]
    return module
