"""Switches of coming behaviour: how ``Module.to`` changes parameters."""

from typing import Any

__all__ = [
    "get_overwrite_module_params_on_conversion", "get_swap_module_params_on_conversion",
    "set_overwrite_module_params_on_conversion", "set_swap_module_params_on_conversion",
]  # fmt: skip

_overwrites: list[Any] = [False]


def get_overwrite_module_params_on_conversion() -> Any:
    """Whether ``Module.to`` and its kin make other parameters: False unless set.

    >>> import torchlike as torch
    >>> torch.__future__.get_overwrite_module_params_on_conversion()
    False
    """
    return _overwrites[0]


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Whether ``Module.to`` and its kin put new parameters, with new gradients, in the place of the old ones.

    If not, as at first, they change the data of parameters, which stay the same objects. It holds for all threads.

    >>> import torchlike as torch
    >>> layer = torch.nn.Linear(1, 1)
    >>> weight = layer.weight
    >>> torch.__future__.set_overwrite_module_params_on_conversion(True)
    >>> layer.double().weight is weight
    False
    >>> torch.__future__.set_overwrite_module_params_on_conversion(False)
    """
    _overwrites[0] = value


def get_swap_module_params_on_conversion() -> bool:
    """False: parameters are not swapped."""
    return False


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Accepted for False. NotImplementedError for True."""
    if value:
        raise NotImplementedError(
            "torch.__future__.set_swap_module_params_on_conversion(True): torchlike does not swap tensors"
        )
