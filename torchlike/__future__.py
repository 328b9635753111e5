"""Switches of coming behaviour: how ``Module.to`` changes parameters."""

__all__ = [
    "get_overwrite_module_params_on_conversion", "get_swap_module_params_on_conversion",
    "set_overwrite_module_params_on_conversion", "set_swap_module_params_on_conversion",
]  # fmt: skip


def get_overwrite_module_params_on_conversion() -> bool:
    """False: ``Module.to`` changes the data of parameters, which stay the same objects."""
    return False


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Accepted for False. NotImplementedError for True."""
    _demand_off("set_overwrite_module_params_on_conversion", value)


def get_swap_module_params_on_conversion() -> bool:
    """False: parameters are not swapped."""
    return False


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Accepted for False. NotImplementedError for True."""
    _demand_off("set_swap_module_params_on_conversion", value)


def _demand_off(name: str, value: bool) -> None:
    if value:
        raise NotImplementedError(f"torch.__future__.{name}(True): parameters stay the objects that they are")
