"""Switches of ``__torch_function__``, and the stack of its modes, under PyTorch's internal names."""

from torchlike._aten.subclass import DisableTorchFunction, DisableTorchFunctionSubclass
from torchlike._aten.subclass import EnableTorchFunction as _EnableTorchFunction
from torchlike._base.state import state
from torchlike._core.overrides.torch_function import disabled as _disabled_torch_function_impl
from torchlike.overrides import _get_function_stack_at, _is_torch_function_mode_enabled, _len_torch_function_stack
from torchlike.overrides import _pop_mode as _pop_torch_function_stack
from torchlike.overrides import _push_mode as _push_on_torch_function_stack
from torchlike.overrides import has_torch_function as _has_torch_function
from torchlike.overrides import has_torch_function_unary as _has_torch_function_unary
from torchlike.overrides import has_torch_function_variadic as _has_torch_function_variadic

__all__ = [
    "DisableTorchFunction", "DisableTorchFunctionSubclass", "_EnableTorchFunction", "_disabled_torch_function_impl",
    "_get_function_stack_at", "_has_torch_function", "_has_torch_function_unary", "_has_torch_function_variadic",
    "_is_torch_function_all_disabled", "_is_torch_function_enabled", "_is_torch_function_mode_enabled",
    "_len_torch_function_stack", "_pop_torch_function_stack", "_push_on_torch_function_stack",
]  # fmt: skip


def _is_torch_function_enabled() -> bool:
    """Whether subclasses and foreign types may override."""
    return not state.overrides_off


def _is_torch_function_all_disabled() -> bool:
    """Whether nothing may, no mode either."""
    return state.overrides_off >= 2
