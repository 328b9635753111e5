"""State dicts of modules and optimizers over cut parameters: whole tensors or cut ones, by names of the bare model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from torchlike._core.tensor.tensor import Tensor, fresh, value_of
from torchlike._executor.spread import copy_here
from torchlike.distributed import distributed_c10d as c10d
from torchlike.distributed.fsdp import api
from torchlike.distributed.fsdp.api import OptimStateKeyType, StateDictSettings, StateDictType
from torchlike.distributed.tensor._dtensor import DTensor, distribute_tensor
from torchlike.nn.modules.module import Module

INSIDE = "_fsdp_wrapped_module."
_WRAPPERS = (INSIDE, "_checkpoint_wrapped_module.")

_CONFIGS: dict[StateDictType, tuple[type, type]] = {
    StateDictType.FULL_STATE_DICT: (api.FullStateDictConfig, api.FullOptimStateDictConfig),
    StateDictType.LOCAL_STATE_DICT: (api.LocalStateDictConfig, api.LocalOptimStateDictConfig),
    StateDictType.SHARDED_STATE_DICT: (api.ShardedStateDictConfig, api.ShardedOptimStateDictConfig),
}


def settings(kind: StateDictType, config: Any = None, optim_config: Any = None) -> StateDictSettings:
    """The settings of a kind of state dict; RuntimeError for configs of another kind."""
    expected, optim_expected = _CONFIGS[kind]
    given = (("state_dict_config", config, expected), ("optim_state_dict_config", optim_config, optim_expected))
    for name, value, cls in given:
        if value is not None and type(value) is not cls:
            raise RuntimeError(f"Expected {name} of type {cls} but got {type(value)}")
    if kind is StateDictType.LOCAL_STATE_DICT:
        raise NotImplementedError("LOCAL_STATE_DICT is not supported; use StateDictType.SHARDED_STATE_DICT")
    return StateDictSettings(kind, config or expected(), optim_config or optim_expected())


def converted(x: Any, kind: StateDictType, offload: bool) -> Any:
    """A tensor of a state dict, as its kind has it; all processes take part."""
    if not isinstance(x, Tensor):
        return x
    if kind is StateDictType.FULL_STATE_DICT and isinstance(x, DTensor):
        x = x.detach().full_tensor()
    return x.cpu() if offload else x


def elsewhere(config: Any) -> bool:
    """Whether this process's state dict is to be empty."""
    return getattr(config, "rank0_only", False) and c10d.is_initialized() and c10d.get_rank() != 0


def cut_as(x: Any, parameter: Any) -> Any:
    """A whole tensor cut as a parameter of its shape is; anything else as it is."""
    if not isinstance(x, Tensor) or isinstance(x, DTensor) or not isinstance(parameter, DTensor):
        return x
    if x.shape != parameter.shape:
        return x
    return distribute_tensor(x.detach(), parameter._device_mesh, parameter.placements, src_data_rank=None)


def bare(name: str) -> str:
    """A parameter's name without those of wrappers."""
    for wrapper in _WRAPPERS:
        name = name.replace(wrapper, "")
    return name


# -- optimizers --------------------------------------------------------------------------------------------------------
def _ordered(optim: Any) -> list[Any]:
    return [p for group in optim.param_groups for p in group["params"]]


def names_of(model: Module, parameters: Iterable[Any]) -> list[str]:
    """The names of parameters in a model."""
    found = {id(p): bare(name) for name, p in model.named_parameters()}
    unknown = [tuple(p.shape) for p in parameters if id(p) not in found]
    if unknown:
        raise ValueError(
            f"an optimizer's state dict: parameters of shapes {unknown} are not the model's; make the optimizer after "
            "the model is wrapped"
        )
    return [found[id(p)] for p in parameters]


def _snapshot(x: Any, parameter: Any) -> Any:
    """As :func:`cut_as`, in memory of its own: optimizers keep what they load, and two would share it."""
    new = cut_as(x, parameter)
    if new is not x or not isinstance(x, Tensor):
        return new
    return fresh(copy_here(value_of(x))).clone() if type(x) is Tensor else x.detach().clone()


def optim_state_dict(
    model: Module, optim: Any, kind: StateDictType, config: Any, given: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """An optimizer's state dict (or ``given``) whose keys are names and whose tensors are as the settings say."""
    held = optim.state_dict() if given is None else given
    parameters = _ordered(optim)
    names = names_of(model, parameters)
    of_name = dict(zip(names, parameters, strict=True))
    state = {}
    for key, own in held["state"].items():
        name = names[key] if isinstance(key, int) else key
        p = of_name.get(name)
        state[name] = {k: converted(_snapshot(v, p), kind, config.offload_to_cpu) for k, v in own.items()}
    groups = [
        group | {"params": [names[key] if isinstance(key, int) else key for key in group["params"]]}
        for group in held["param_groups"]
    ]
    return {} if elsewhere(config) else {"state": dict(sorted(state.items())), "param_groups": groups}


def to_load(model: Module, optim: Any, given: Mapping[str, Any], by_name: bool = False) -> dict[str, Any]:
    """What ``optim.load_state_dict`` takes, of a state dict by names: tensors cut as their parameters."""
    parameters = _ordered(optim)
    names = names_of(model, parameters)
    key_of: dict[str, Any] = {name: name if by_name else k for k, name in enumerate(names)}
    of_name = dict(zip(names, parameters, strict=True))
    state = {
        key_of[name]: {k: _snapshot(v, of_name[name]) for k, v in given["state"][name].items()}
        for name in names
        if name in given["state"]
    }
    groups, start = [], 0
    for group in optim.param_groups:
        own = names[start : start + len(group["params"])]
        start += len(own)
        saved = next((g for g in given["param_groups"] if set(own) & set(g["params"])), group)
        groups.append({**saved, "params": [key_of[name] for name in own]})
    return {"state": state, "param_groups": groups}


def rekeyed(
    given: Mapping[str, Any], to: OptimStateKeyType, model: Module, optim_input: Any, optim: Any
) -> dict[str, Any]:
    """An optimizer's whole state dict with the other kind of keys."""
    if to not in (OptimStateKeyType.PARAM_NAME, OptimStateKeyType.PARAM_ID):
        raise AssertionError(f"Expected optim_state_key_type to be PARAM_NAME or PARAM_ID, got {to}")
    names = names_of(model, ordered_as(model, optim_input, optim))
    change: Callable[[Any], Any] = names.__getitem__
    if to is OptimStateKeyType.PARAM_ID:
        change = {name: k for k, name in enumerate(names)}.__getitem__
    groups = [group | {"params": sorted(map(change, group["params"]))} for group in given["param_groups"]]
    return {"state": {change(key): own for key, own in given["state"].items()}, "param_groups": groups}


def ordered_as(model: Module, optim_input: Any, optim: Any) -> list[Any]:
    """The parameters in the order in which an optimizer has them."""
    if optim_input is not None and optim is not None:
        raise AssertionError("optim_input and optim: pass one of them")
    if optim is not None:
        return _ordered(optim)
    given = list(model.parameters() if optim_input is None else optim_input)
    return [p for x in given for p in (x["params"] if isinstance(x, dict) else [x])]
