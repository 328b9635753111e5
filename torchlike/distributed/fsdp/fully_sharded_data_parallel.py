"""FullyShardedDataParallel: a wrapper around a module to which ``fully_shard`` is applied."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from torchlike.distributed.device_mesh import DeviceMesh
from torchlike.distributed.fsdp import wrap
from torchlike.distributed.fsdp._fully_shard import FSDPModule, sharded
from torchlike.distributed.fsdp._fully_shard import MixedPrecisionPolicy as Policy
from torchlike.distributed.fsdp.api import BackwardPrefetch as BackwardPrefetch
from torchlike.distributed.fsdp.api import CPUOffload as CPUOffload
from torchlike.distributed.fsdp.api import MixedPrecision as MixedPrecision
from torchlike.distributed.fsdp.api import ShardingStrategy as ShardingStrategy
from torchlike.distributed.tensor.placement_types import Replicate
from torchlike.interop.refusing import refusing
from torchlike.nn.modules.container import ModuleDict, ModuleList
from torchlike.nn.modules.module import Module
from torchlike.nn.utils.clip_grad import clip_grad_norm_

__getattr__ = refusing(__name__, "torchlike has no such part of FSDP; its wrapper keeps the module's own parameters")

_HYBRID = (ShardingStrategy.HYBRID_SHARD, ShardingStrategy._HYBRID_SHARD_ZERO2)


class FullyShardedDataParallel(Module):
    """A module whose parameters, gradients and optimizer state are cut over devices; see :func:`fully_shard`.

    Parameters are those of the module, as DTensors, with and without ``use_orig_params``. Make the optimizer after it.

    Args:
        module: it is changed in place.
        sharding_strategy: NO_SHARD leaves parameters whole; HYBRID_SHARD needs a ``device_mesh`` of two dimensions.
        auto_wrap_policy: which modules inside bring their parameters together by themselves; see ``wrap``.
        mixed_precision: dtypes. ignored_modules, ignored_states: whose (or which) parameters stay as they are.
        device_mesh: over which parameters are cut; all devices by default.
        cpu_offload: NotImplementedError if it asks for that. process_group: NotImplementedError, but for None.
        The others are without effect: XLA decides when parameters come.
    """

    def __init__(
        self, module: Module, process_group: Any = None, sharding_strategy: ShardingStrategy | None = None,
        cpu_offload: CPUOffload | None = None, auto_wrap_policy: Callable[..., bool] | None = None,
        backward_prefetch: Any = BackwardPrefetch.BACKWARD_PRE, mixed_precision: MixedPrecision | None = None,
        ignored_modules: Iterable[Module] | None = None, param_init_fn: Any = None, device_id: Any = None,
        sync_module_states: bool = False, forward_prefetch: bool = False, limit_all_gathers: bool = True,
        use_orig_params: bool = False, ignored_states: Iterable[Any] | None = None,
        device_mesh: DeviceMesh | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if process_group is not None or param_init_fn is not None:
            raise NotImplementedError(
                "FullyShardedDataParallel: process_group and param_init_fn are not supported; pass device_mesh"
            )
        if cpu_offload is not None and cpu_offload.offload_params:
            raise NotImplementedError("FullyShardedDataParallel: CPUOffload is not supported")
        if sharding_strategy in _HYBRID and (device_mesh is None or device_mesh.ndim != 2):
            raise ValueError(f"FullyShardedDataParallel: {sharding_strategy} needs a device_mesh of two dimensions")
        ignored = {p for m in ignored_modules or () for p in m.parameters()}
        for x in ignored_states or ():
            ignored |= {*x.parameters()} if isinstance(x, Module) else {x}
        whole = sharding_strategy is ShardingStrategy.NO_SHARD
        options = (
            "", device_mesh, sharding_strategy is not ShardingStrategy.SHARD_GRAD_OP,
            (lambda p: Replicate()) if whole else None, _policy(mixed_precision), ignored,
        )  # fmt: skip
        skipped = {*(ignored_modules or ())}
        for part in [] if auto_wrap_policy is None else wrap.chosen(module, auto_wrap_policy):
            bare = isinstance(part, FSDPModule | ModuleList | ModuleDict)
            if part not in skipped and not bare:
                sharded(part, *options)
        self._fsdp_wrapped_module = module if isinstance(module, FSDPModule) else sharded(module, *options)

    @property
    def module(self) -> Module:
        """The module inside."""
        return self._fsdp_wrapped_module

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("_fsdp_wrapped_module"), name)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The module's."""
        return self._fsdp_wrapped_module(*args, **kwargs)

    def named_parameters(self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True) -> Any:
        """The module's, under its own names."""
        return self.module.named_parameters(prefix, recurse, remove_duplicate)

    def named_buffers(self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True) -> Any:
        """The module's, under its own names."""
        return self.module.named_buffers(prefix, recurse, remove_duplicate)

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """The module's: DTensors, whose ``full_tensor()`` is whole."""
        return self.module.state_dict(*args, **kwargs)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """The module's."""
        return self.module.load_state_dict(*args, **kwargs)

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> Any:
        """Scale all gradients such that their norm is at most ``max_norm``; gives the norm that they had."""
        return clip_grad_norm_(self.parameters(), max_norm, norm_type)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Backward inside reduces gradients all the same: their sum is that of the whole."""
        yield

    @staticmethod
    @contextlib.contextmanager
    def summon_full_params(
        module: Module, recurse: bool = True, writeback: bool = False, rank0_only: bool = False,
        offload_to_cpu: bool = False, with_grads: bool = False,
    ) -> Iterator[None]:  # fmt: skip
        """Modules with whole parameters inside, which are to be read. ``writeback`` and others: NotImplementedError."""
        if writeback or rank0_only or offload_to_cpu or with_grads:
            raise NotImplementedError(
                "summon_full_params(): pass writeback=False and no other options; write to parameters outside of it"
            )
        parts = [m for m in (module.modules() if recurse else [module]) if isinstance(m, FSDPModule)]
        for m in parts:
            m.unshard()
        try:
            yield
        finally:
            for m in parts:
                m.reshard()


def _policy(given: MixedPrecision | None) -> Policy:
    if given is None:
        return Policy()
    if given.buffer_dtype is not None or given.keep_low_precision_grads or given._module_classes_to_ignore:
        raise NotImplementedError(
            "MixedPrecision: buffer_dtype, keep_low_precision_grads and _module_classes_to_ignore are not supported"
        )
    inputs = given.cast_forward_inputs or given.cast_root_forward_inputs
    return Policy(given.param_dtype, given.reduce_dtype, cast_forward_inputs=inputs)
