"""Modules that keep their inputs, or what autograd saves in the host's memory, in place of their activations."""

from __future__ import annotations

import enum
import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

from torchlike.autograd.graph import save_on_cpu
from torchlike.distributed.fsdp import wrap
from torchlike.nn.modules.module import Module
from torchlike.nn.parameter import Parameter
from torchlike.utils.checkpoint import checkpoint

_CHECKPOINT_WRAPPED_MODULE = "_checkpoint_wrapped_module"
_CHECKPOINT_PREFIX = _CHECKPOINT_WRAPPED_MODULE + "."


class CheckpointImpl(enum.Enum):
    """Which of the two ways of ``torch.utils.checkpoint.checkpoint``."""

    REENTRANT = enum.auto()
    NO_REENTRANT = enum.auto()


class ActivationWrapper(Module, ABC):
    """A module around another, whose names in state dicts are those of the module inside."""

    def __init__(self, mod: Module) -> None:
        super().__init__()
        self._checkpoint_wrapped_module = mod
        self._register_state_dict_hook(self._post_state_dict_hook)
        self.register_load_state_dict_pre_hook(self._pre_load_state_dict_hook)

    @abstractmethod
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """How the module inside is called."""

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__(_CHECKPOINT_WRAPPED_MODULE), name)

    def __getitem__(self, key: Any) -> Any:
        """The module inside, where that is a container."""
        return self._checkpoint_wrapped_module[key]

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Parameter]]:
        """Those of the module inside, under its own names."""
        for name, parameter in super().named_parameters(*args, **kwargs):
            yield name.replace(_CHECKPOINT_PREFIX, ""), parameter

    @staticmethod
    def _post_state_dict_hook(module: Module, state_dict: Any, prefix: str, *args: Any) -> Any:
        renamed(state_dict, prefix + _CHECKPOINT_PREFIX, prefix)
        return state_dict

    @staticmethod
    def _pre_load_state_dict_hook(module: Module, state_dict: Any, prefix: str, *args: Any) -> None:
        renamed(state_dict, prefix, prefix + _CHECKPOINT_PREFIX)


def renamed(state_dict: Any, old: str, new: str) -> None:
    """Let the keys that begin with ``old`` begin with ``new``, in place."""
    for key in [key for key in state_dict if key.startswith(old)]:
        state_dict[new + key[len(old) :]] = state_dict.pop(key)


class CheckpointWrapper(ActivationWrapper):
    """A module whose activations are computed anew in backward; make one with :func:`checkpoint_wrapper`."""

    def __init__(
        self, mod: Module, checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
        checkpoint_fn: Callable[..., Any] | None = None, **checkpoint_fn_kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(mod)
        self.checkpoint_impl = checkpoint_impl
        if checkpoint_fn is None:
            reentrant = checkpoint_impl == CheckpointImpl.REENTRANT
            checkpoint_fn = functools.partial(checkpoint, use_reentrant=reentrant)
        self.checkpoint_fn = functools.partial(checkpoint_fn, **checkpoint_fn_kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The module's, checkpointed; keyword arguments are inputs too."""
        if not kwargs or self.checkpoint_impl is not CheckpointImpl.REENTRANT:
            return self.checkpoint_fn(self._checkpoint_wrapped_module, *args, **kwargs)
        names, count = tuple(kwargs), len(args)  # the reentrant way takes positional arguments only

        def run(*every: Any) -> Any:
            return self._checkpoint_wrapped_module(*every[:count], **dict(zip(names, every[count:], strict=True)))

        return self.checkpoint_fn(run, *args, *kwargs.values())


class OffloadWrapper(ActivationWrapper):
    """A module whose saved activations are in the memory of the host; make one with :func:`offload_wrapper`."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The module's."""
        with save_on_cpu(pin_memory=True):
            return self._checkpoint_wrapped_module(*args, **kwargs)


def checkpoint_wrapper(
    module: Module, checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
    checkpoint_fn: Callable[..., Any] | None = None, **checkpoint_fn_kwargs: Any,
) -> Module:  # fmt: skip
    """A module that keeps its inputs alone for backward, which computes the rest anew.

    Args:
        checkpoint_impl: which way of :func:`torch.utils.checkpoint.checkpoint`.
        checkpoint_fn: what to call in place of it, as ``checkpoint_fn(module, *args, **checkpoint_fn_kwargs)``.

    >>> import torchlike as torch
    >>> from torchlike.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
    >>> list(checkpoint_wrapper(torch.nn.Linear(2, 2)).state_dict())
    ['weight', 'bias']
    """
    return CheckpointWrapper(module, checkpoint_impl, checkpoint_fn, **checkpoint_fn_kwargs)


def offload_wrapper(module: Module) -> Module:
    """A module whose activations for backward are kept in the memory of the host."""
    return OffloadWrapper(module)


def apply_activation_checkpointing(
    model: Module, checkpoint_wrapper_fn: Callable[[Module], Module] = checkpoint_wrapper,
    check_fn: Callable[[Module], bool] = lambda _: True,
    auto_wrap_policy: Callable[..., bool] | None = None,
) -> None:  # fmt: skip
    """Wrap the modules inside of a model for which ``check_fn`` (or a policy of FSDP) says True, in place.

    >>> import torchlike as torch
    >>> from torchlike.distributed.algorithms._checkpoint import checkpoint_wrapper as c
    >>> net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    >>> c.apply_activation_checkpointing(net, check_fn=lambda m: isinstance(m, torch.nn.Linear))
    >>> type(net[0]).__name__, type(net[1]).__name__
    ('CheckpointWrapper', 'ReLU')
    """
    policy = auto_wrap_policy or functools.partial(wrap.lambda_auto_wrap_policy, lambda_fn=check_fn)
    made = {part: checkpoint_wrapper_fn(part, **own) for part, own in wrap.chosen(model, policy).items()}
    for parent in [*model.modules()]:
        if not isinstance(parent, ActivationWrapper):
            for name, child in parent.named_children():
                if child in made:
                    setattr(parent, name, made[child])
