"""Switches of coming behaviour: how ``Module.to`` and ``load_state_dict`` change parameters."""

from typing import Any

__all__ = [
    "get_overwrite_module_params_on_conversion", "get_swap_module_params_on_conversion",
    "set_overwrite_module_params_on_conversion", "set_swap_module_params_on_conversion",
]  # fmt: skip

_overwrites: list[Any] = [False]
_swaps: list[Any] = [False]


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


def get_swap_module_params_on_conversion() -> Any:
    """Whether ``Module.to`` and its kin, and ``load_state_dict``, swap parameters with new ones: False unless set.

    >>> import torchlike as torch
    >>> torch.__future__.get_swap_module_params_on_conversion()
    False
    """
    return _swaps[0]


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Whether ``Module.to`` and its kin, and ``load_state_dict``, swap parameters with new ones.

    Parameters stay the objects that they are, whatever they become (``torch.utils.swap_tensors``, which takes tens of
    milliseconds for each in a large program); RuntimeError where a graph or a weak reference holds one. It holds for
    all threads, and goes before ``set_overwrite_module_params_on_conversion``.

    >>> import torchlike as torch
    >>> layer = torch.nn.Linear(1, 1)
    >>> weight = layer.weight
    >>> torch.__future__.set_swap_module_params_on_conversion(True)
    >>> layer.to("meta").weight is weight
    True
    >>> torch.__future__.set_swap_module_params_on_conversion(False)
    """
    _swaps[0] = value
