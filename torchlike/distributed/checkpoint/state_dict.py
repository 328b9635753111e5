"""State dicts whose names are those of the bare model, whatever it is wrapped in, for checkpoints of several ranks."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from torchlike._base.frames import warn
from torchlike._core.tensor.tensor import Tensor
from torchlike.distributed import _messages
from torchlike.distributed.distributed_c10d import found, get_rank, is_initialized
from torchlike.distributed.fsdp import FullyShardedDataParallel, StateDictType
from torchlike.distributed.fsdp._state_dicts import bare, cut_as
from torchlike.nn.modules.module import Module
from torchlike.nn.parallel import DistributedDataParallel
from torchlike.optim import LBFGS, Optimizer

__all__ = [
    "StateDictOptions", "get_model_state_dict", "get_optimizer_state_dict", "get_state_dict", "set_model_state_dict",
    "set_optimizer_state_dict", "set_state_dict",
]  # fmt: skip

_STATE, _GROUPS = "state", "param_groups"


@dataclasses.dataclass
class StateDictOptions:
    """What the functions here do with tensors and names.

    Args:
        full_state_dict: tensors whole, where they are sharded.
        cpu_offload: tensors on the CPU; with ``full_state_dict`` rank 0 alone has them, the state dict of others is
            empty.
        ignore_frozen_params: leave out parameters that do not require grad.
        keep_submodule_prefixes: for ``submodules``, names as in the model. strict: as in ``load_state_dict``.
        broadcast_from_rank0: what is set is that of rank 0; needs ``full_state_dict``.
        flatten_optimizer_state_dict: one name with dots for each number and tensor of an optimizer.
    """

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False
    dsd_fqn_modifiers: str = "_fqn_modifiers"


def _checked(options: StateDictOptions | None) -> StateDictOptions:
    chosen = StateDictOptions() if options is None else options
    if chosen.broadcast_from_rank0 and not chosen.full_state_dict:
        raise ValueError("full_state_dict must be True when broadcast_from_rank0 is True.")
    return chosen


# -- names -------------------------------------------------------------------------------------------------------------
def _wrappers(model: Module) -> Iterator[tuple[str, str]]:
    """(prefix, name) of each child that is but the inside of its parent."""
    for name, module in model.named_modules():
        prefix = f"{name}." if name else ""
        if isinstance(module, DistributedDataParallel):
            yield prefix, "module."
        elif "_orig_mod" in module._modules:
            yield prefix, "_orig_mod."


def _renamings(model: Module, keys: Iterable[str]) -> dict[str, str]:
    """{name in the model's own state dict: name without wrappers}"""
    inner = sorted(_wrappers(model), key=lambda pair: -len(pair[0]))
    found_ = {}
    for key in keys:
        name = key
        for prefix, part in inner:
            if name.startswith(prefix + part):
                name = prefix + name[len(prefix + part) :]
        found_[key] = bare(name)
    return found_


def _parameter_names(model: Module) -> dict[int, list[str]]:
    """The names of each parameter, the first one first."""
    every = list(model.named_parameters(remove_duplicate=False))
    names = _renamings(model, [name for name, _ in every])
    found_: dict[int, list[str]] = {}
    for name, p in every:
        found_.setdefault(id(p), []).append(names[name])
    return found_


def _state_of(model: Module) -> Any:
    """``model.state_dict()``, in which what FullyShardedDataParallel has cut is cut."""
    with FullyShardedDataParallel.state_dict_type(model, StateDictType.SHARDED_STATE_DICT):
        return model.state_dict()


# -- models ------------------------------------------------------------------------------------------------------------
def get_model_state_dict(
    model: Module, *, submodules: set[Module] | None = None, options: StateDictOptions | None = None
) -> dict[str, Any]:
    """``model.state_dict()`` with the names of the bare model.

    >>> import torchlike as torch
    >>> from torchlike.distributed.checkpoint.state_dict import get_model_state_dict
    >>> model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
    >>> list(model.state_dict()), list(get_model_state_dict(model))
    (['module.weight', 'module.bias'], ['weight', 'bias'])
    """
    chosen = _checked(options)
    state = _state_of(model)
    names = _renamings(model, state)
    renamed = {names[key]: value for key, value in state.items()}
    if chosen.ignore_frozen_params:
        frozen = {n for p in model.parameters() if not p.requires_grad for n in _parameter_names(model)[id(p)]}
        renamed = {name: value for name, value in renamed.items() if name not in frozen}
    if submodules:
        renamed = _of_submodules(renamed, model, submodules, chosen.keep_submodule_prefixes)
    return type(state)(_told(renamed, chosen))


def _warn_of_submodules() -> None:
    warn(
        "Getting submodules only model/optim state_dict is deprecated and will be removed in 2.5. This feature can be "
        "achieved by manually filtering out the state_dict returned from get_state_dict.",
        FutureWarning,
    )


def _of_submodules(state: dict[str, Any], model: Module, submodules: set[Module], keep: bool) -> dict[str, Any]:
    _warn_of_submodules()
    prefixes = [name for name, module in model.named_modules() if module in submodules]
    prefixes = [f"{_renamings(model, [f'{name}.'])[f'{name}.']}" for name in prefixes]
    return {
        key if keep else key.removeprefix(prefix): value
        for prefix in prefixes for key, value in state.items() if key.startswith(prefix)
    }  # fmt: skip


def _told(state: dict[str, Any], options: StateDictOptions) -> dict[str, Any]:
    """A state dict as options say; all processes take part, and whole ones on the CPU rank 0 alone keeps."""
    brought = _brought(state, options)
    elsewhere = options.full_state_dict and options.cpu_offload and is_initialized() and get_rank() != 0
    return {} if elsewhere else brought


def _brought(x: Any, options: StateDictOptions) -> Any:
    """Tensors whole and on the CPU, where that is asked for."""
    if isinstance(x, Tensor):
        whole = x.full_tensor() if options.full_state_dict and hasattr(x, "full_tensor") else x
        return whole.cpu() if options.cpu_offload else whole
    if isinstance(x, Mapping):
        return {key: _brought(value, options) for key, value in x.items()}
    return type(x)([_brought(y, options) for y in x]) if type(x) in (list, tuple) else x


def set_model_state_dict(
    model: Module, model_state_dict: Mapping[Any, Any], *, options: StateDictOptions | None = None
) -> Any:
    """``model.load_state_dict`` for names of the bare model; gives the missing and the unexpected ones.

    With ``options.full_state_dict`` the model keeps what is not given, unless it is strict and rank 0 gives it.
    RuntimeError where names differ otherwise and ``options.strict`` is not off.
    """
    chosen = _checked(options)
    state = _of_modules(model, model_state_dict)
    if chosen.broadcast_from_rank0:
        state = _of_rank_0(state)
    present = _state_of(model)
    names = {short: key for key, short in _renamings(model, present).items()}
    state = {names.get(key, key): value for key, value in state.items()}
    if chosen.full_state_dict:
        kept = {} if chosen.strict and chosen.broadcast_from_rank0 else present
        state = {**kept, **{key: cut_as(value, present.get(key)) for key, value in state.items()}}
    return model.load_state_dict(state, strict=chosen.strict)


def _of_modules(model: Module, state: Mapping[Any, Any]) -> dict[str, Any]:
    """State dicts by submodule, which older programs give, as one."""
    if not state or not isinstance(next(iter(state)), Module):
        return dict(state)
    warn(
        "Passing model_state_dict as a ``Dict[nn.Module, Dict[str, Any]]``is deprecated and will be removed in 2.5. If "
        "you need this feature, please preprocess the model_state_dict to achieve the same function",
        FutureWarning,
    )
    prefixes = {module: f"{name}." if name else "" for name, module in model.named_modules()}
    return {prefixes[module] + key: value for module, part in state.items() for key, value in part.items()}


def _of_rank_0(state: dict[str, Any]) -> dict[str, Any]:
    told = [state]
    _messages.broadcast_object_list(told, src=0, group=found(None))
    return told[0]


# -- optimizers --------------------------------------------------------------------------------------------------------
def _optimizers(given: Any) -> list[Optimizer]:
    return [given] if isinstance(given, Optimizer) else list(given)


def _init_optim_state(optimizer: Optimizer) -> None:
    """Let an optimizer have a state, by a step that changes nothing; not where there are gradients already."""
    params = [p for group in optimizer.param_groups for p in group["params"]]
    if optimizer.state or isinstance(optimizer, LBFGS) or any(p.grad is not None for p in params):
        return
    for p in params:
        if p.requires_grad:
            p.grad = p.detach().new_zeros(p.shape)
    rates = [group.get("lr") for group in optimizer.param_groups]
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        if rate is not None:
            group["lr"] = rate.new_zeros(rate.shape) if isinstance(rate, Tensor) else 0.0
    optimizer.step(closure=None)
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        if rate is not None:
            group["lr"] = rate
    optimizer.zero_grad(set_to_none=True)


def get_optimizer_state_dict(
    model: Module, optimizers: Optimizer | Iterable[Optimizer], *, submodules: set[Module] | None = None,
    options: StateDictOptions | None = None,
) -> dict[str, Any]:  # fmt: skip
    """The states of optimizers as one, with names of parameters in the place of numbers.

    An optimizer that has made no step gets the state that a step without effect gives, unless there are gradients.
    KeyError for an optimizer of other parameters than the model's.

    >>> import torchlike as torch
    >>> from torchlike.distributed.checkpoint.state_dict import get_optimizer_state_dict
    >>> model = torch.nn.Linear(2, 1)
    >>> found = get_optimizer_state_dict(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
    >>> found["param_groups"][0]["params"], found["state"]["bias"]
    (['weight', 'bias'], {'momentum_buffer': tensor([0.])})
    """
    chosen = _checked(options)
    names = _parameter_names(model)
    state: dict[str, Any] = {}
    groups: list[dict[str, Any]] = []
    for optimizer in _optimizers(optimizers):
        _init_optim_state(optimizer)
        own = _names_of(optimizer, names)
        told = optimizer.state_dict()
        state.update({own[number]: value for number, value in told[_STATE].items()})
        groups += [{**group, "params": [own[number] for number in group["params"]]} for group in told[_GROUPS]]
    if submodules:
        _warn_of_submodules()  # and PyTorch gives all of it
    found_ = _told({_STATE: state, _GROUPS: groups}, chosen)
    return _flattened(found_) if found_ and chosen.flatten_optimizer_state_dict else found_


def _names_of(optimizer: Optimizer, names: dict[int, list[str]]) -> dict[Any, str]:
    """The name of each parameter of an optimizer, by the number that its state dict has for it."""
    params = [p for group in optimizer.param_groups for p in group["params"]]
    for number, p in enumerate(params):
        if id(p) not in names:
            raise KeyError(number)
    return {number: names[id(p)][0] for number, p in enumerate(params)}


def _flattened(state: dict[str, Any]) -> dict[str, Any]:
    flat = {f"{_STATE}.{name}.{key}": x for name, values in state[_STATE].items() for key, x in values.items()}
    for group in state[_GROUPS]:
        for name in group["params"]:
            flat.update({f"{_GROUPS}.{name}.{key}": value for key, value in group.items() if key != "params"})
    return flat


def set_optimizer_state_dict(
    model: Module, optimizers: Optimizer | Iterable[Optimizer], optim_state_dict: Mapping[str, Any], *,
    options: StateDictOptions | None = None,
) -> None:  # fmt: skip
    """Let optimizers have the states that :func:`get_optimizer_state_dict` gave, flat or not.

    ValueError for another number of groups of parameters, RuntimeError for a parameter without a saved state (unless
    ``options.strict`` is off) or a group that is not there.
    """
    chosen = _checked(options)
    state = dict(optim_state_dict)
    if chosen.broadcast_from_rank0:
        state = _of_rank_0(state)
    listed = _optimizers(optimizers)
    if listed and not state:
        raise RuntimeError(
            "The option indicates that model state_dict is required to save, or load but optim state_dict is empty. "
            f"{state}"
        )
    names = _parameter_names(model)
    for optimizer in listed:
        _init_optim_state(optimizer)
        own = _names_of(optimizer, names)
        told = optimizer.state_dict()
        nested = _nested(state, told, own) if chosen.flatten_optimizer_state_dict else state
        given = _numbered(nested, told, own, optimizer, chosen.strict)
        if chosen.full_state_dict:
            given[_STATE] = {
                number: _cut(values, told[_STATE].get(number, {})) for number, values in given[_STATE].items()
            }
        optimizer.load_state_dict(given)


def _cut(values: Any, present: Any) -> dict[str, Any]:
    """The whole tensors of one parameter's state, as those that it has are."""
    return {key: cut_as(value, present.get(key)) for key, value in values.items()}


def _nested(flat: Mapping[str, Any], told: dict[str, Any], own: dict[Any, str]) -> dict[str, Any]:
    """A flat state as that of an optimizer with the groups of ``told``."""
    state: dict[str, Any] = {}
    for name in own.values():
        prefix = f"{_STATE}.{name}."
        state[name] = {key[len(prefix) :]: value for key, value in flat.items() if key.startswith(prefix)}
    groups = []
    for group in told[_GROUPS]:
        params = [own[number] for number in group["params"]]
        options = {key: flat.get(f"{_GROUPS}.{params[0]}.{key}", group[key]) for key in group if key != "params"}
        groups.append({**options, "params": params})
    return {_STATE: {name: values for name, values in state.items() if values}, _GROUPS: groups}


def _numbered(
    state: Mapping[str, Any], told: dict[str, Any], own: dict[Any, str], optimizer: Optimizer, strict: bool
) -> dict[str, Any]:
    """A state with names as one with the numbers of an optimizer."""
    params = [p for group in optimizer.param_groups for p in group["params"]]
    values: dict[Any, Any] = {}
    for number, name in own.items():
        if name in state[_STATE]:
            values[number] = state[_STATE][name]
        elif state[_STATE] and strict and params[number].requires_grad and number in told[_STATE]:
            raise RuntimeError(
                f"Missing optimizer state for parameter '{name}' in checkpoint. The parameter requires gradients but "
                "has no saved optimizer state. To load anyway, use StateDictOptions(strict=False)."
            )
    by_name = {name: group for group in state[_GROUPS] for name in group["params"]}
    groups = []
    for group in told[_GROUPS]:
        saved = next((by_name[own[n]] for n in group["params"] if own[n] in by_name), None)
        if saved is not None:
            groups.append({**saved, "params": group["params"]})
    return {_STATE: values, _GROUPS: groups}


# -- both --------------------------------------------------------------------------------------------------------------
def get_state_dict(
    model: Module, optimizers: Optimizer | Iterable[Optimizer], *, submodules: set[Module] | None = None,
    options: StateDictOptions | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:  # fmt: skip
    """:func:`get_model_state_dict` and :func:`get_optimizer_state_dict`; the latter is empty without optimizers."""
    listed = _optimizers(optimizers)
    state = get_model_state_dict(model, submodules=submodules, options=options)
    return state, get_optimizer_state_dict(model, listed, submodules=submodules, options=options) if listed else {}


def set_state_dict(
    model: Module, optimizers: Optimizer | Iterable[Optimizer], *, model_state_dict: Mapping[Any, Any],
    optim_state_dict: Mapping[str, Any], options: StateDictOptions | None = None,
) -> Any:  # fmt: skip
    """:func:`set_model_state_dict` and :func:`set_optimizer_state_dict`; gives what the former gives."""
    found_ = set_model_state_dict(model, model_state_dict, options=options)
    set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return found_
