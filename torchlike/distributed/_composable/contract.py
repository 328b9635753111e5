"""``contract``: functions that change a module in place, once, and leave the names of its parameters as they are."""

import functools
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

from torchlike.distributed._composable_state import _State
from torchlike.nn.modules.module import Module

__all__ = ["contract"]

STATE_KEY, REGISTRY_KEY = (f"__composable_api_{name}_{uuid.uuid4()}" for name in ("state", "registry"))
_NAMED = {"parameters": "named_parameters", "buffers": "named_buffers", "modules": "named_modules"}


class RegistryItem:
    """Stands for a function that was applied to a module."""


def contract(state_cls: type[_State] = _State) -> Callable[[Callable], Any]:
    """A decorator for functions of a module, or a list of modules, which give it back or nothing.

    Each can be applied to a module once; ``function.state(module)`` is what it keeps of it, a ``state_cls``.

    Raises:
        AssertionError: it was applied to the module before. RuntimeError: names of parameters, buffers or modules have
            changed.

    >>> import torchlike as torch
    >>> from torchlike.distributed._composable import contract
    >>> @contract()
    ... def freeze(module, but=()):
    ...     freeze.state(module).but = but
    ...     return module.requires_grad_(False)
    >>> layer = freeze(torch.nn.Linear(1, 1), but="bias")
    >>> freeze.state(layer).but
    'bias'
    """

    def decorated(function: Callable) -> Any:
        @functools.wraps(function)
        def applied(module: Any, *args: Any, **kwargs: Any) -> Any:
            modules = _listed(module)
            state = state_cls()
            for one in modules:
                _enter(one, function, state)
            before = [_names(one) for one in modules]
            updated = function(module, *args, **kwargs)
            if updated is None:
                return module
            for names, one in zip(before, _as_many(modules, updated), strict=True):
                _demand_names(names, _names(one))
            return updated

        def state_of(module: Module) -> _State | None:
            """What the function keeps of a module; None where it was not applied to it."""
            return module.__dict__.get(STATE_KEY, {}).get(function)

        applied.state = state_of  # type: ignore[attr-defined]
        return applied

    return decorated


def _listed(module: Any) -> list[Module]:
    return [module] if isinstance(module, Module) else _get_root_modules(list(module))


def _as_many(modules: list[Module], updated: Any) -> list[Module]:
    found = _listed(updated)
    if len(found) != len(modules):
        raise AssertionError(f"{len(modules)} modules were given, and {len(found)} came back")
    return found


def _enter(module: Module, function: Callable, state: _State) -> None:
    registry = module.__dict__.setdefault(REGISTRY_KEY, OrderedDict())
    states = module.__dict__.setdefault(STATE_KEY, OrderedDict())
    if function in states or function.__name__ in registry:
        raise AssertionError(
            "Each distinct composable distributed API can only be applied to a module once. "
            f"{function.__name__} has already been applied to the following module:\n{module}"
        )
    states[function], registry[function.__name__] = state, RegistryItem()


def _names(module: Module) -> dict[str, set[str]]:
    return {kind: {name for name, _ in getattr(module, names)()} for kind, names in _NAMED.items()}


def _demand_names(before: dict[str, set[str]], after: dict[str, set[str]]) -> None:
    for kind, names in before.items():
        if names != after[kind]:
            raise RuntimeError(
                f"Checking {kind}: Composable distributed API implementations cannot modify FQNs.\n"
                f"FQNs only in original: {names - after[kind]}\nFQNs only in new: {after[kind] - names}"
            )


def _get_registry(module: Module) -> dict[str, RegistryItem] | None:
    """By their names the functions that were applied to a module; None where none was."""
    return module.__dict__.get(REGISTRY_KEY)


def _get_root_modules(modules: Iterable[Module]) -> list[Module]:
    """Those that are in none of the others."""
    given = list(modules)
    within = {id(part) for one in given for part in one.modules() if part is not one}
    return [one for one in given if id(one) not in within]
