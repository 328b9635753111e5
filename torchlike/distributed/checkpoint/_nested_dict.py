"""torch.distributed.checkpoint._nested_dict: state dicts as flat ones, and back."""

from collections.abc import Mapping
from typing import Any

from torchlike.distributed.checkpoint._nested import flatten_state_dict as flatten_state_dict
from torchlike.distributed.checkpoint._nested import set_element as set_element

__all__ = ["flatten_state_dict", "unflatten_state_dict"]


def unflatten_state_dict(state_dict: Mapping[str, Any], mapping: Mapping[str, Any]) -> dict[str, Any]:
    """What :func:`flatten_state_dict` made flat.

    >>> from torchlike.distributed.checkpoint._nested_dict import flatten_state_dict, unflatten_state_dict
    >>> unflatten_state_dict(*flatten_state_dict({"a": {"b": 1}, "c": [{"d": 2}]}))
    {'a': {'b': 1}, 'c': [{'d': 2}]}
    """
    nested: dict[str, Any] = {}
    for name, value in state_dict.items():
        set_element(nested, mapping[name], value)
    return nested
