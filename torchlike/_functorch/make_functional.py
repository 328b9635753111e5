"""Modules as functions of tuples of parameters: what functorch had before ``functional_call``."""

import copy
from collections.abc import Sequence
from typing import Any

from torchlike._core.dispatch.bind import FUNCTIONS
from torchlike._core.tensor.tensor import Tensor
from torchlike._functorch._weights import _swap_state as _swap_state
from torchlike._functorch._weights import create_names_map as create_names_map
from torchlike._functorch._weights import extract_buffers as extract_buffers
from torchlike._functorch._weights import extract_weights as extract_weights
from torchlike._functorch._weights import functional_init as functional_init
from torchlike._functorch._weights import functional_init_with_buffers as functional_init_with_buffers
from torchlike._functorch._weights import load_buffers as load_buffers
from torchlike._functorch._weights import load_state as load_state
from torchlike._functorch._weights import load_weights as load_weights
from torchlike._functorch._weights import make_functional_deprecated_v1 as make_functional_deprecated_v1
from torchlike._functorch._weights import (
    make_functional_with_buffers_deprecated_v1 as make_functional_with_buffers_deprecated_v1,
)
from torchlike._functorch._weights import transpose_stack as transpose_stack
from torchlike.func import functional_call
from torchlike.interop.alias import missing_names
from torchlike.nn.modules.module import Module

__getattr__ = missing_names(__name__)


class FunctionalModule(Module):
    """A module without tensors of its own: ``functional(params, *args)``.

    Attributes:
        stateless_model: the module. param_names: the names of the parameters, in their order.
        names_map: for each of them, all the names that the parameter has.
    """

    def __init__(self, stateless_model: Module, param_names: tuple[str, ...], names_map: dict[str, list[str]]) -> None:
        super().__init__()
        self.stateless_model, self.param_names, self.names_map = stateless_model, param_names, names_map

    def forward(self, params: Sequence[Tensor], *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        """What the module computes with these parameters."""
        given = _under_all_names(self.names_map, self.param_names, params)
        return functional_call(self.stateless_model, given, args, kwargs, tie_weights=False)


class FunctionalModuleWithBuffers(Module):
    """A module without tensors of its own: ``functional(params, buffers, *args)``.

    Attributes:
        stateless_model: the module. param_names, buffer_names: the names of its tensors, in their order.
        all_names_map: for each of them, all the names that the tensor has.
    """

    def __init__(
        self,
        stateless_model: Module,
        param_names: tuple[str, ...],
        buffer_names: tuple[str, ...],
        all_names_map: dict[str, list[str]],
    ) -> None:
        super().__init__()
        self.stateless_model, self.all_names_map = stateless_model, all_names_map
        self.param_names, self.buffer_names = param_names, buffer_names

    def forward(  # type: ignore[override]
        self, params: Sequence[Tensor], buffers: Sequence[Tensor], *args: Any, **kwargs: Any
    ) -> Any:
        """What the module computes with these parameters and buffers."""
        names = self.param_names + self.buffer_names
        given = _under_all_names(self.all_names_map, names, (*params, *buffers))
        return functional_call(self.stateless_model, given, args, kwargs, tie_weights=False)


def _under_all_names(groups: dict[str, list[str]], names: Sequence[str], given: Sequence[Tensor]) -> dict[str, Tensor]:
    return {each: tensor for name, tensor in zip(names, given, strict=True) for each in groups[name]}


def make_functional(model: Module, disable_autograd_tracking: bool = False) -> tuple[FunctionalModule, tuple]:
    """A copy of ``model`` as a function ``f(params, *args)``, and its parameters as a tuple.

    Args:
        disable_autograd_tracking: let the parameters not require grad.

    Raises RuntimeError for a model with buffers: :func:`make_functional_with_buffers` takes those.

    >>> import torchlike as torch
    >>> from torchlike._functorch.make_functional import make_functional
    >>> f, params = make_functional(torch.nn.Linear(2, 3))
    >>> f(params, torch.ones(2)).shape
    torch.Size([3])
    """
    if list(model.buffers()):
        raise RuntimeError(
            "make_functional(model): `model` has buffers. Please use make_functional_with_buffers(model) instead."
        )
    names, params = _parameters(model, disable_autograd_tracking)
    return FunctionalModule(_stateless(model), names, _groups(model)), params


def make_functional_with_buffers(
    model: Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModuleWithBuffers, tuple, tuple]:
    """A copy of ``model`` as a function ``f(params, buffers, *args)``, its parameters and its buffers, as tuples."""
    names, params = _parameters(model, disable_autograd_tracking)
    buffers = dict(copy.deepcopy(model).named_buffers())
    made = FunctionalModuleWithBuffers(_stateless(model), names, tuple(buffers), _groups(model))
    return made, params, tuple(buffers.values())


def combine_state_for_ensemble(models: Sequence[Module]) -> tuple[FunctionalModuleWithBuffers, tuple, tuple]:
    """The first model as a function, and the parameters and buffers of all, each stacked along a new first axis.

    Raises RuntimeError for no models, models of several classes or modes.
    """
    if not len(models):
        raise RuntimeError("combine_state_for_ensemble: Expected at least one model, got 0.")
    if not (all(m.training for m in models) or all(not m.training for m in models)):
        raise RuntimeError("combine_state_for_ensemble: Expected all models to have the same training/eval mode.")
    if any(type(m) is not type(models[0]) for m in models):
        raise RuntimeError("combine_state_for_ensemble: Expected all models to be of the same class.")
    made = [make_functional_with_buffers(m) for m in models]
    params, buffers = (
        tuple(FUNCTIONS["stack"]([t.detach() for t in column]) for column in zip(*[m[i] for m in made], strict=True))
        for i in (1, 2)
    )
    return made[0][0], params, buffers


def _parameters(model: Module, plain: bool) -> tuple[tuple[str, ...], tuple]:
    found = dict(copy.deepcopy(model).named_parameters())
    if plain:
        for p in found.values():
            p.requires_grad_(False)
    return tuple(found), tuple(found.values())


def _groups(model: Module) -> dict[str, list[str]]:
    """For each parameter and buffer, all the names that it has: a module is called with each under all of them."""
    return {
        **create_names_map(model.named_parameters(), model.named_parameters(remove_duplicate=False)),
        **create_names_map(model.named_buffers(), model.named_buffers(remove_duplicate=False)),
    }


def _stateless(model: Module) -> Module:
    """A copy whose tensors hold no numbers."""
    return copy.deepcopy(model).to("meta")
