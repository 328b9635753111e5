"""torch.distributed.fsdp._common_utils: names of parameters within wrappers, and the words for states."""

from collections.abc import Iterator
from enum import Enum, auto
from typing import Any

from torchlike._core.tensor.tensor import Tensor
from torchlike.distributed.fsdp._state_dicts import INSIDE, bare
from torchlike.interop.refusing import refusing
from torchlike.nn.modules.module import Module

__all__: list[str] = []

FSDP_PREFIX, FSDP_WRAPPED_MODULE, FSDP_FLATTENED = INSIDE, INSIDE.rstrip("."), "_fsdp_flattened"

__getattr__ = refusing(__name__, "fully_shard() of torchlike has no flat parameters: each is a DTensor")


class TrainingState(Enum):
    """What a FullyShardedDataParallel does."""

    IDLE = auto()
    FORWARD_BACKWARD = auto()
    SUMMON_FULL_PARAMS = auto()


class HandleTrainingState(Enum):
    """What is done with its parameters."""

    IDLE = auto()
    FORWARD = auto()
    BACKWARD_PRE = auto()
    BACKWARD_POST = auto()
    SUMMON_FULL_PARAMS = auto()


def clean_tensor_name(tensor_name: str) -> str:
    """The name that a parameter has in the bare model.

    >>> from torchlike.distributed.fsdp._common_utils import clean_tensor_name
    >>> clean_tensor_name("_fsdp_wrapped_module.a._checkpoint_wrapped_module.weight")
    'a.weight'
    """
    return bare(tensor_name)


def _is_fsdp_flattened(tensor: Tensor) -> bool:
    """Whether a tensor has the mark of :func:`_set_fsdp_flattened`."""
    return getattr(tensor, FSDP_FLATTENED, False)


def _set_fsdp_flattened(tensor: Tensor) -> None:
    """Mark a tensor."""
    setattr(tensor, FSDP_FLATTENED, True)


def _get_module_fsdp_state(module: Module) -> Any:
    """What ``fully_shard`` keeps of a module; None of others."""
    return getattr(module, "_fsdp", None)


def _named_parameters_with_duplicates(module: Module, **kwargs: Any) -> list[tuple[str, Any]]:
    """All names of all parameters."""
    if "remove_duplicate" in kwargs:
        raise AssertionError("_named_parameters_with_duplicates cannot be used with `remove_duplicate` argument.")
    return [*module.named_parameters(remove_duplicate=False, **kwargs)]


def _get_param_to_fqns(model: Module, dedup_shared_params: bool = True) -> dict[Any, list[str]]:
    """For each parameter the names that it has in the bare model, of which each module that has it counts once."""
    found: dict[Any, list[str]] = {}
    for prefix, module in _prefixed(model):
        for name, p in module._parameters.items():
            if p is None or (dedup_shared_params and p in found):
                continue
            found.setdefault(p, []).append(clean_tensor_name(prefix + name))
    return found


def _prefixed(model: Module) -> Iterator[tuple[str, Module]]:
    for name, module in model.named_modules():
        yield f"{name}." if name else "", module
