"""``replicate``: what DistributedDataParallel does, of a module in place."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torchlike._base.state import state
from torchlike.nn.modules.module import Module
from torchlike.nn.parallel import DistributedDataParallel

__all__ = ["replicate"]


def replicate(module: Module, ignored_modules: Iterable[Module] | None = None, **kwargs: Any) -> Module:
    """Let backward average the gradients of a module over processes; its names and class stay as they are.

    Args:
        ignored_modules: NotImplementedError, if there are some.
        kwargs: as of :class:`torch.nn.parallel.DistributedDataParallel`; buffers stay what they are on each process.

    Returns:
        The module. AssertionError where it was applied to it before.

    >>> import torchlike as torch
    >>> from torchlike.distributed._composable.replicate import replicate
    >>> torch.distributed.init_process_group("gloo", init_method="tcp://127.0.0.1:1", rank=0, world_size=1)
    >>> replicate(torch.nn.Linear(2, 1))
    Linear(in_features=2, out_features=1, bias=True)
    >>> torch.distributed.destroy_process_group()
    """
    if [*(ignored_modules or ())]:
        raise NotImplementedError("replicate(): ignored_modules is not supported")
    if "_replicated" in module.__dict__:
        raise AssertionError(
            "Each distinct composable distributed API can only be applied to a module once. replicate has already been "
            f"applied to the following module:\n{module}"
        )
    if kwargs.pop("device_id", None) is not None:
        raise NotImplementedError("replicate(): device_id is not supported; move the module, and leave it out")
    buffers = {} if "broadcast_buffers" in kwargs else {"forward_sync_buffers": False}
    ddp = DistributedDataParallel(module, **{**buffers, **kwargs})
    module.__dict__["_replicated"] = ddp  # no submodule
    reducer = ddp._reducer
    if reducer is not None:
        module.register_forward_pre_hook(lambda _, args: ddp._before(reducer), prepend=True)
        module.register_forward_hook(lambda _, args, out: _after(ddp))
    return module


def _after(ddp: DistributedDataParallel) -> None:
    ddp.require_forward_param_sync = bool(state.grad) and ddp.require_backward_grad_sync
