"""Modules with whole parameters for a while, and perhaps their gradients."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from torchlike._base.state import no_grad
from torchlike._core.tensor.tensor import value_of
from torchlike.distributed import distributed_c10d as c10d
from torchlike.distributed.fsdp._fully_shard import FSDPModule
from torchlike.distributed.tensor._dtensor import distribute_tensor
from torchlike.nn.modules.module import Module


@contextlib.contextmanager
def summoned(
    module: Module, recurse: bool, writeback: bool, rank0_only: bool, offload_to_cpu: bool, with_grads: bool
) -> Iterator[None]:
    """See ``FullyShardedDataParallel.summon_full_params``."""
    if writeback and rank0_only:
        raise NotImplementedError("writeback=True and rank0_only=True is not supported yet")
    if offload_to_cpu and with_grads:
        raise NotImplementedError("with_grads=True, offload_to_cpu=True is not supported yet")
    parts = [m for m in (module.modules() if recurse else [module]) if isinstance(m, FSDPModule)]
    here = not rank0_only or not c10d.is_initialized() or c10d.get_rank() == 0
    for m in parts:
        m._fsdp.bring(exact=True)
        m._fsdp.kept = True
    grads = [_bring_grads(m._fsdp, here) for m in parts] if with_grads else []
    for m in parts:
        if not here:
            m.reshard()
        elif offload_to_cpu:
            _offload(m._fsdp)
    try:
        yield
    finally:
        for m in parts:
            m._fsdp.kept = False
            if writeback:
                m._fsdp.write_back()
        for pairs in grads if writeback else []:
            _return_grads(pairs)
        for m in parts:
            m.reshard()


def _bring_grads(state: Any, here: bool) -> list[tuple[Any, Any, Any]]:
    """Let whole parameters have whole gradients: (cut gradient, whole parameter, the value that it got) of each."""
    found = []
    for cut, whole, how in zip(state.cut, state.present(), state.hows(), strict=True):
        grad = cut.grad
        if grad is None:
            continue
        if how.inner is not None:
            raise NotImplementedError("summon_full_params(with_grads=True): a parameter of tensor parallelism")
        brought = grad.full_tensor().detach()
        if here:
            whole.grad = brought.clone()
            found.append((grad, whole, value_of(whole.grad)))
    return found


def _return_grads(pairs: list[tuple[Any, Any, Any]]) -> None:
    for grad, whole, before in pairs:
        new = whole.grad
        if new is not None and value_of(new) is not before:
            with no_grad():
                grad.copy_(distribute_tensor(new.detach(), grad._device_mesh, grad.placements, src_data_rank=None))


def _offload(state: Any) -> None:
    wholes = [w if w.device.type == "cpu" else w.detach().cpu() for w in state.present()]
    state.put(wholes)
    state.values = [value_of(w) for w in wholes]
