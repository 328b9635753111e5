"""Modes set by a call alone."""

from contextlib import ExitStack
from typing import Any

from torchlike._base.state import state, switch_grad
from torchlike._core.autocast.settings import is_autocast_enabled, set_autocast_enabled, supported_devices
from torchlike._core.dispatch.dispatch_keys import AUTOCAST, AUTOGRAD, DEVICES, UNUSED, DispatchKeySet
from torchlike._library.excluded_keys import AutoDispatchBelowAutograd


def _set_grad_enabled(enabled: bool) -> None:
    """Set whether operators record nodes in this thread.

    >>> import torchlike as torch
    >>> torch._C._set_grad_enabled(True)
    """
    if not isinstance(enabled, bool):
        raise TypeError(
            f"set_grad_enabled(): argument 'enabled' (position 1) must be bool, not {type(enabled).__name__}"
        )
    switch_grad(enabled)


def _set_multithreading_enabled(enabled: bool) -> None:
    """Set the flag of ``torch.autograd.set_multithreading_enabled`` in this thread."""
    if not isinstance(enabled, bool):
        raise TypeError(
            f"set_multithreading_enabled(): argument 'enabled' (position 1) must be bool, not {type(enabled).__name__}"
        )
    state.multithreading = enabled


class _ExcludeDispatchKeyGuard:
    """A context that calls pass the layers of some keys by: those of autocast and of autograd.

    Keys that no call here meets change nothing; NotImplementedError for those of devices and composites.
    """

    def __init__(self, keys: DispatchKeySet) -> None:
        names = {key.name for key in keys.keys}
        if wrong := sorted(names - UNUSED - AUTOGRAD - AUTOCAST):
            raise NotImplementedError(f"_ExcludeDispatchKeyGuard: {', '.join(wrong)} cannot be excluded in torchlike")
        self._autocast = [d for d in supported_devices() if f"Autocast{DEVICES[d]}" in names]
        self._autograd = bool(names & AUTOGRAD)

    def __enter__(self) -> None:
        with ExitStack() as stack:
            for kind in filter(is_autocast_enabled, self._autocast):
                set_autocast_enabled(kind, False)
                stack.callback(set_autocast_enabled, kind, True)
            if self._autograd:
                stack.enter_context(AutoDispatchBelowAutograd())
            self._undo = stack.pop_all()

    def __exit__(self, *exc: Any) -> None:
        self._undo.close()


_jit_flags = {"profiling mode": True, "profiling executor": True, "autocast": True}


def _flag(name: str, value: bool) -> bool:
    before, _jit_flags[name] = _jit_flags[name], bool(value)
    return before


def _jit_set_profiling_mode(mode: bool) -> bool:
    """Remembered, and without meaning: scripts run as Python. Returns what was set before."""
    return _flag("profiling mode", mode)


def _jit_set_profiling_executor(mode: bool) -> bool:
    """Remembered, and without meaning. Returns what was set before."""
    return _flag("profiling executor", mode)


def _jit_set_autocast_mode(enabled: bool) -> bool:
    """Remembered, and without meaning: scripts run as Python, under autocast as any other code. Returns the last."""
    return _flag("autocast", enabled)


_emit_hooks: list[Any] = [None, None]


def _jit_set_emit_hooks(module_hook: Any, function_hook: Any) -> None:
    """Remembered: no TorchScript is emitted here, so that nothing calls them."""
    _emit_hooks[:] = module_hook, function_hook


def _jit_get_emit_hooks() -> tuple[Any, Any]:
    """What :func:`_jit_set_emit_hooks` was given last, ``(None, None)`` at first."""
    return _emit_hooks[0], _emit_hooks[1]


def _jit_clear_class_registry() -> None:
    """Accepted: scripted classes are Python's, of which nothing is registered."""


def _jit_set_texpr_fuser_enabled(enabled: bool) -> None:
    """Accepted: XLA fuses."""


def _jit_set_nvfuser_enabled(enabled: bool) -> None:
    """Accepted: XLA fuses."""


def _jit_set_nvfuser_guard_mode(enabled: bool) -> None:
    """Accepted: XLA fuses."""


def _jit_override_can_fuse_on_cpu(enabled: bool) -> None:
    """Accepted: XLA fuses."""


def _jit_override_can_fuse_on_gpu(enabled: bool) -> None:
    """Accepted: XLA fuses."""


def _jit_can_fuse_on_cpu() -> bool:
    """False, as in PyTorch: the fuser of scripts is meant."""
    return False


def _jit_can_fuse_on_gpu() -> bool:
    """False, as in PyTorch: the fuser of scripts is meant."""
    return False
