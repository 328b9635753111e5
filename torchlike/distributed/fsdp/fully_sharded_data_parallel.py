"""FullyShardedDataParallel: a wrapper around a module to which ``fully_shard`` is applied."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, NoReturn

from torchlike._base.dtypes import float32
from torchlike._base.frames import warn
from torchlike._core.tensor.tensor import Tensor
from torchlike.distributed import distributed_c10d as c10d
from torchlike.distributed.device_mesh import DeviceMesh, default_type
from torchlike.distributed.fsdp import _state_dicts, wrap
from torchlike.distributed.fsdp._fully_shard import FSDPModule, sharded
from torchlike.distributed.fsdp._fully_shard import MixedPrecisionPolicy as Policy
from torchlike.distributed.fsdp._gather import prepared
from torchlike.distributed.fsdp._summon import summoned
from torchlike.distributed.fsdp.api import BackwardPrefetch as BackwardPrefetch
from torchlike.distributed.fsdp.api import CPUOffload as CPUOffload
from torchlike.distributed.fsdp.api import FullOptimStateDictConfig as FullOptimStateDictConfig
from torchlike.distributed.fsdp.api import FullStateDictConfig as FullStateDictConfig
from torchlike.distributed.fsdp.api import LocalOptimStateDictConfig as LocalOptimStateDictConfig
from torchlike.distributed.fsdp.api import LocalStateDictConfig as LocalStateDictConfig
from torchlike.distributed.fsdp.api import MixedPrecision as MixedPrecision
from torchlike.distributed.fsdp.api import OptimStateDictConfig as OptimStateDictConfig
from torchlike.distributed.fsdp.api import OptimStateKeyType as OptimStateKeyType
from torchlike.distributed.fsdp.api import ShardedOptimStateDictConfig as ShardedOptimStateDictConfig
from torchlike.distributed.fsdp.api import ShardedStateDictConfig as ShardedStateDictConfig
from torchlike.distributed.fsdp.api import ShardingStrategy as ShardingStrategy
from torchlike.distributed.fsdp.api import StateDictConfig as StateDictConfig
from torchlike.distributed.fsdp.api import StateDictSettings as StateDictSettings
from torchlike.distributed.fsdp.api import StateDictType as StateDictType
from torchlike.distributed.tensor._dtensor import DTensor
from torchlike.distributed.tensor.placement_types import Replicate
from torchlike.interop.refusing import refusing
from torchlike.nn.modules.module import Module
from torchlike.nn.parallel._copies import broadcast_all
from torchlike.nn.utils.clip_grad import clip_grad_norm_

__getattr__ = refusing(__name__, "torchlike has no such part of FSDP; its wrapper keeps the module's own parameters")

_WHOLE = _state_dicts.settings(StateDictType.FULL_STATE_DICT)
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
        param_init_fn: called with each module that has a parameter or buffer of its own on meta.
        sync_module_states: whether buffers become those of rank 0; parameters do in any case.
        cpu_offload: on other devices than CPUs NotImplementedError if it asks for that. process_group: that of all
            processes; NotImplementedError for others. The others are without effect: XLA decides when parameters come.
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
        _demand_all(process_group)
        kind = default_type() if device_mesh is None else device_mesh.device_type
        if cpu_offload is not None and cpu_offload.offload_params and kind != "cpu":
            raise NotImplementedError(f"FullyShardedDataParallel: CPUOffload on {kind} is not supported")
        if param_init_fn is not None:
            _initialize(module, param_init_fn)
        if sync_module_states and c10d.is_initialized():
            broadcast_all(list(module.buffers()), 0, c10d.found(None))
        if sharding_strategy in _HYBRID and (device_mesh is None or device_mesh.ndim != 2):
            raise ValueError(f"FullyShardedDataParallel: {sharding_strategy} needs a device_mesh of two dimensions")
        ignored = {p for m in ignored_modules or () for p in m.parameters()}
        for x in ignored_states or ():
            ignored |= {*x.parameters()} if isinstance(x, Module) else {x}
        whole = sharding_strategy is ShardingStrategy.NO_SHARD
        options = (
            "", device_mesh, sharding_strategy is not ShardingStrategy.SHARD_GRAD_OP,
            (lambda p: Replicate()) if whole else None, _policy(mixed_precision), ignored, True,
        )  # fmt: skip
        if auto_wrap_policy is not None:
            _wrap_inside(
                module, auto_wrap_policy, {x for m in ignored_modules or () for x in m.modules()},
                {
                    "sharding_strategy": sharding_strategy, "cpu_offload": cpu_offload, "device_mesh": device_mesh,
                    "mixed_precision": mixed_precision, "ignored_states": ignored, "use_orig_params": use_orig_params,
                },
            )  # fmt: skip
        for inside in FullyShardedDataParallel.fsdp_modules(module):  # it is no root from now on
            inside._held.policy = replace(inside._held.policy, cast_forward_inputs=inside._casts)
        own = not isinstance(module, FSDPModule)
        self._fsdp_wrapped_module = sharded(module, *options) if own else module
        self._held: Any = module._fsdp
        self._held.joint = own
        self._casts: bool = mixed_precision is not None and mixed_precision.cast_forward_inputs
        self._state_dict_settings = _WHOLE
        self._buffer_dtype = None if mixed_precision is None else mixed_precision.buffer_dtype
        self._former_dtypes: dict[str, Any] = {}
        self.register_load_state_dict_pre_hook(self._before_load)

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
        if self._buffer_dtype is not None:
            self._cast_buffers(self._buffer_dtype)
            self._buffer_dtype = None
        return self._fsdp_wrapped_module(*args, **kwargs)

    def _cast_buffers(self, dtype: Any) -> None:
        """Let buffers have a dtype from now on; those of wrappers inside have their own."""
        own = (m for m in self.module.modules() if isinstance(m, FullyShardedDataParallel))
        inside = {id(x) for m in own for x in m.modules()}
        for name, part in self.module.named_modules():
            for key, buffer in [] if id(part) in inside else [*part._buffers.items()]:
                if buffer is not None and buffer.is_floating_point():
                    self._former_dtypes[f"{name}.{key}" if name else key] = buffer.dtype
                    part._buffers[key] = buffer.to(dtype)

    def __getitem__(self, key: int) -> Any:
        """The module's."""
        return self.module[key]  # type: ignore[index]

    def named_parameters(self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True) -> Any:
        """Names and parameters; within :meth:`summon_full_params` under the names of the bare model."""
        return self._named(super().named_parameters(prefix, recurse, remove_duplicate))

    def named_buffers(self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True) -> Any:
        """Names and buffers; within :meth:`summon_full_params` under the names of the bare model."""
        return self._named(super().named_buffers(prefix, recurse, remove_duplicate))

    def _named(self, found: Iterable[Any]) -> Iterator[Any]:
        for name, x in found:
            yield name.replace(_state_dicts.INSIDE, "") if self._held.kept else name, x

    # -- state dicts ---------------------------------------------------------------------------------------------------
    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """The module's: whole tensors, or what :meth:`set_state_dict_type` chose. All processes call it."""
        held = kwargs.get("destination") if not args else args[0]
        before = {*()} if held is None else {*held}
        made, chosen = self.module.state_dict(*args, **kwargs), self._state_dict_settings
        config, gone = chosen.state_dict_config, _state_dicts.elsewhere(chosen.state_dict_config)
        prefix = kwargs.get("prefix", "") if len(args) < 2 else args[1]
        for name, dtype in self._former_dtypes.items():
            if prefix + name in made:
                made[prefix + name] = made[prefix + name].to(dtype)
        for key in [key for key in made if key not in before]:
            x = _state_dicts.converted(made[key], chosen.state_dict_type, config.offload_to_cpu)
            if gone:
                del made[key]
            else:
                made[key] = x
        return made

    def load_state_dict(self, state_dict: Any, strict: bool = True, assign: bool = False) -> Any:
        """The module's; tensors may be whole or cut."""
        return self.module.load_state_dict(self._cut(state_dict, ""), strict, assign)

    def _cut(self, state_dict: Any, prefix: str) -> dict[str, Any]:
        bare, inside = _state_dicts.bare, self.module.named_parameters(remove_duplicate=False)
        held = {bare(prefix + name): p for name, p in inside}
        return {key: _state_dicts.cut_as(x, held.get(bare(key))) for key, x in state_dict.items()}

    @staticmethod
    def _before_load(module: Any, state_dict: Any, prefix: str, *args: Any) -> None:
        """A wrapper inside of another module: its names in files are those of the bare model."""
        own = {key: x for key, x in state_dict.items() if key.startswith(prefix)}
        for key, x in module._cut(own, prefix).items():
            del state_dict[key]
            state_dict[prefix + _state_dicts.INSIDE + key[len(prefix) :].removeprefix(_state_dicts.INSIDE)] = x

    @staticmethod
    def fsdp_modules(module: Module, root_only: bool = False) -> list[FullyShardedDataParallel]:
        """The wrappers in a module, itself included; the outermost alone with ``root_only``."""
        every = [m for m in module.modules() if isinstance(m, FullyShardedDataParallel)]
        inner = {id(x) for m in every for x in m.modules() if x is not m} if root_only else set()
        return [m for m in every if id(m) not in inner]

    @staticmethod
    def set_state_dict_type(
        module: Module, state_dict_type: StateDictType, state_dict_config: StateDictConfig | None = None,
        optim_state_dict_config: OptimStateDictConfig | None = None,
    ) -> StateDictSettings:  # fmt: skip
        """Choose what state dicts of the wrappers in a module are; gives what they were.

        Args:
            state_dict_type: FULL_STATE_DICT, whole tensors (the default of a wrapper), or SHARDED_STATE_DICT, DTensors.
            state_dict_config, optim_state_dict_config: of the same kind; see ``torch.distributed.fsdp.api``.

        Raises:
            RuntimeError: a config of another kind. NotImplementedError: LOCAL_STATE_DICT.
        """
        new = _state_dicts.settings(state_dict_type, state_dict_config, optim_state_dict_config)
        before = FullyShardedDataParallel.get_state_dict_type(module)
        for m in FullyShardedDataParallel.fsdp_modules(module):
            m._state_dict_settings = new
        return before

    @staticmethod
    def get_state_dict_type(module: Module) -> Any:
        """What was chosen by :meth:`set_state_dict_type`; None for a module without wrappers."""
        found = FullyShardedDataParallel.fsdp_modules(module)
        if any(m._state_dict_settings != found[0]._state_dict_settings for m in found):
            raise AssertionError("get_state_dict_type(): the wrappers in the module have different settings")
        return found[0]._state_dict_settings if found else None

    @staticmethod
    @contextlib.contextmanager
    def state_dict_type(
        module: Module, state_dict_type: StateDictType, state_dict_config: StateDictConfig | None = None,
        optim_state_dict_config: OptimStateDictConfig | None = None,
    ) -> Iterator[None]:  # fmt: skip
        """A context in which state dicts are as :meth:`set_state_dict_type` would choose."""
        chosen = (state_dict_type, state_dict_config, optim_state_dict_config)
        before = FullyShardedDataParallel.set_state_dict_type(module, *chosen)
        try:
            yield
        finally:
            for m in FullyShardedDataParallel.fsdp_modules(module):
                m._state_dict_settings = before

    @staticmethod
    def optim_state_dict(model: Module, optim: Any, optim_state_dict: Any = None, group: Any = None) -> dict[str, Any]:
        """The state dict of a model's optimizer, or the given one, by names, as :meth:`state_dict_type` says."""
        chosen = FullyShardedDataParallel.get_state_dict_type(model) or _WHOLE
        config = chosen.optim_state_dict_config
        return _state_dicts.optim_state_dict(model, optim, chosen.state_dict_type, config, optim_state_dict)

    @staticmethod
    def optim_state_dict_to_load(
        model: Module, optim: Any, optim_state_dict: Any, is_named_optimizer: bool = False,
        load_directly: bool = False, group: Any = None,
    ) -> dict[str, Any]:  # fmt: skip
        """What ``optim.load_state_dict`` takes, of what :meth:`optim_state_dict` gave, perhaps to other devices.

        ``load_directly``: load it too. Where only rank 0 has it (``rank0_only``), the others get it from there.
        """
        chosen = FullyShardedDataParallel.get_state_dict_type(model)
        if getattr(getattr(chosen, "optim_state_dict_config", None), "rank0_only", False):
            optim_state_dict = _from_first(optim_state_dict, group)
        made = _state_dicts.to_load(model, optim, optim_state_dict, is_named_optimizer)
        if load_directly:
            optim.load_state_dict(made)
        return made

    @staticmethod
    def full_optim_state_dict(
        model: Module, optim: Any, optim_input: Any = None, rank0_only: bool = True, group: Any = None
    ) -> dict[str, Any]:
        """The optimizer's whole state on the CPU, by names; empty on other ranks than 0 with ``rank0_only``."""
        config = FullOptimStateDictConfig(rank0_only=rank0_only)
        return _state_dicts.optim_state_dict(model, optim, StateDictType.FULL_STATE_DICT, config)

    @staticmethod
    def sharded_optim_state_dict(model: Module, optim: Any, group: Any = None) -> dict[str, Any]:
        """The optimizer's state as DTensors, by names."""
        config = ShardedOptimStateDictConfig(offload_to_cpu=False)
        return _state_dicts.optim_state_dict(model, optim, StateDictType.SHARDED_STATE_DICT, config)

    @staticmethod
    def shard_full_optim_state_dict(
        full_optim_state_dict: Any, model: Module, optim_input: Any = None, optim: Any = None
    ) -> dict[str, Any]:
        """What ``optim.load_state_dict`` takes, of a whole state that every process has."""
        if optim is None:
            raise NotImplementedError("shard_full_optim_state_dict(): pass optim, the optimizer that is to load it")
        return _state_dicts.to_load(model, optim, full_optim_state_dict)

    @staticmethod
    def scatter_full_optim_state_dict(
        full_optim_state_dict: Any, model: Module, optim_input: Any = None, optim: Any = None, group: Any = None
    ) -> dict[str, Any]:
        """What ``optim.load_state_dict`` takes, of a whole state that rank 0 has."""
        found = _from_first(full_optim_state_dict, group)
        return FullyShardedDataParallel.shard_full_optim_state_dict(found, model, optim_input, optim)

    @staticmethod
    def flatten_sharded_optim_state_dict(sharded_optim_state_dict: Any, model: Module, optim: Any) -> dict[str, Any]:
        """What ``optim.load_state_dict`` takes, of what :meth:`sharded_optim_state_dict` gave."""
        return _state_dicts.to_load(model, optim, sharded_optim_state_dict)

    @staticmethod
    def rekey_optim_state_dict(
        optim_state_dict: Any, optim_state_key_type: OptimStateKeyType, model: Module, optim_input: Any = None,
        optim: Any = None,
    ) -> dict[str, Any]:  # fmt: skip
        """A whole state by names as one by numbers, or the other way, for an optimizer of the bare model."""
        return _state_dicts.rekeyed(optim_state_dict, optim_state_key_type, model, optim_input, optim)

    def register_comm_hook(self, state: object, hook: Callable[..., Any]) -> NoReturn:
        """NotImplementedError: XLA's collectives reduce the gradients."""
        raise NotImplementedError("FullyShardedDataParallel.register_comm_hook is not supported; reduce p.grad by hand")

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> Any:
        """Scale all gradients such that their norm is at most ``max_norm``; gives the norm that they had."""
        norm = clip_grad_norm_(self.parameters(), max_norm, norm_type)
        return norm.full_tensor() if isinstance(norm, DTensor) else norm

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Backward inside reduces gradients all the same: their sum is that of the whole."""
        yield

    @staticmethod
    @contextlib.contextmanager
    def summon_full_params(
        module: Module, recurse: bool = True, writeback: bool = True, rank0_only: bool = False,
        offload_to_cpu: bool = False, with_grads: bool = False,
    ) -> Iterator[None]:  # fmt: skip
        """Modules with whole parameters inside; what is written to these is kept with ``writeback``.

        Args:
            recurse: whether modules inside bring theirs together too.
            rank0_only: whether other processes than the first keep cut parameters. Needs ``writeback=False``.
            offload_to_cpu: whether they are in the memory of the host.
            with_grads: whether gradients are whole too; writes to them are kept as those to parameters.

        Raises:
            NotImplementedError: ``rank0_only`` with ``writeback``, ``offload_to_cpu`` with ``with_grads``.
        """
        with summoned(module, recurse, writeback, rank0_only, offload_to_cpu, with_grads):
            yield


def _from_first(x: Any, group: Any) -> Any:
    """An object that the first process has."""
    if not c10d.is_initialized():
        return x
    held = [x]
    c10d.broadcast_object_list(held, 0, group)
    return held[0]


def _demand_all(group: Any) -> None:
    if group is not None and (not c10d.is_initialized() or group.ranks != c10d.found(None).ranks):
        raise NotImplementedError(
            "FullyShardedDataParallel: a process_group of some of the processes is not supported; pass device_mesh"
        )


def _initialize(module: Module, make: Callable[[Module], Any]) -> None:
    """Call ``make`` for each module with a parameter or buffer of its own on meta."""
    for part in module.modules():
        own = [*part.parameters(recurse=False), *part.buffers(recurse=False)]
        if any(x.is_meta for x in own):
            make(part)


def _wrap_inside(module: Module, policy: Any, skipped: set[Module], options: dict[str, Any]) -> None:
    """Let wrappers take the places of the modules inside that a policy chooses, inner ones first."""
    exact = _kept_exact(module, options["mixed_precision"], skipped)

    def wanted(module: Module, recurse: bool, nonwrapped_numel: int) -> Any:
        if module in skipped:
            return False
        found = policy(module=module, recurse=recurse, nonwrapped_numel=nonwrapped_numel)
        here = module in exact or recurse and not exact.isdisjoint(module.modules())
        return found if isinstance(found, dict) else found or here

    parts = wrap.chosen(module, wanted)
    places = [(parent, name, part) for parent in module.modules() for name, part in parent._modules.items()]
    for part, own in parts.items():
        made = FullyShardedDataParallel(part, **{**options, **({"mixed_precision": None} if part in exact else own)})
        if part in exact:
            dtypes: list[Any] = []
            part.register_forward_pre_hook(functools.partial(_up, dtypes), with_kwargs=True)
            part.register_forward_hook(functools.partial(_down, dtypes))
        for parent, name, held in places:
            if held is part:
                setattr(parent, name, made)


def _kept_exact(module: Module, given: MixedPrecision | None, skipped: set[Module]) -> set[Module]:
    """The modules of the classes that a choice of dtypes leaves out, which compute in float32."""
    classes = tuple(given._module_classes_to_ignore or ()) if given is not None else ()
    found = {m for m in module.modules() if classes and isinstance(m, classes) and m not in skipped}
    if given is None or not found or {given.param_dtype, given.reduce_dtype, given.buffer_dtype} == {None}:
        return set()
    warn(
        f"Both mixed precision and an auto_wrap_policy were specified to FSDP, where the wrapped module has submodules "
        f"of type:\n{ {type(m) for m in found} }\nThese modules are wrapped by themselves, with mixed precision "
        "disabled.",
        UserWarning,
    )
    return found


def _up(dtypes: list[Any], module: Module, args: Any, kwargs: Any) -> Any:
    """Arguments in float32; ``dtypes`` gets the first one that they had."""
    tensors = [x for x in (*args, *kwargs.values()) if isinstance(x, Tensor) and x.is_floating_point()]
    dtypes[:] = [x.dtype for x in tensors[:1]]
    return prepared(args, float32), prepared(kwargs, float32)


def _down(dtypes: list[Any], module: Module, args: Any, out: Any) -> Any:
    """The result in the dtype that the arguments had."""
    return prepared(out, dtypes[0]) if dtypes else out


def _policy(given: MixedPrecision | None) -> Policy:
    if given is None:
        return Policy()
    if given.keep_low_precision_grads and not {given.param_dtype, given.reduce_dtype} <= {None, float32}:
        raise NotImplementedError("MixedPrecision: keep_low_precision_grads is not supported")
    inputs = given.cast_forward_inputs or given.cast_root_forward_inputs
    return Policy(given.param_dtype, given.reduce_dtype, cast_forward_inputs=inputs)
