"""What functions that change modules in place keep of each module."""

import weakref

from torchlike.nn.modules.module import Module

_module_state_mapping: weakref.WeakKeyDictionary[Module, "weakref.ReferenceType[_State]"] = weakref.WeakKeyDictionary()


class _State:
    """What one function keeps of the modules that it was applied to, as attributes."""


def _insert_module_state(module: Module, state: _State) -> None:
    """Let a module have a state, which is kept by others. AssertionError: it has one."""
    if module in _module_state_mapping:
        raise AssertionError(f"Inserting {module} more than once.")
    _module_state_mapping[module] = weakref.ref(state)


def _get_module_state(module: Module) -> _State | None:
    """The state of a module; None where it has none, or nobody keeps it any more."""
    if isinstance(module, _State):
        return module
    kept = _module_state_mapping.get(module)
    return None if kept is None else kept()
