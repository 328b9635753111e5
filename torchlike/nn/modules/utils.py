"""Tuples from arguments that may be one number, and other small help for layers."""

from collections.abc import Iterable
from typing import Any

__all__ = ["consume_prefix_in_state_dict_if_present"]


def _ntuple(n: int, name: str = "parse"):
    """A function that makes an n-tuple of one value, and a tuple of an iterable."""

    def parse(x: Any) -> tuple:
        return tuple(x) if isinstance(x, Iterable) else (x,) * n

    parse.__name__ = name
    return parse


_single = _ntuple(1, "_single")
_pair = _ntuple(2, "_pair")
_triple = _ntuple(3, "_triple")
_quadruple = _ntuple(4, "_quadruple")


def _reverse_repeat_tuple(t: tuple, n: int) -> tuple:
    """Each element ``n`` times, the last element first: (1, 2) and 2 give (2, 2, 1, 1)."""
    return tuple(x for x in reversed(t) for _ in range(n))


def _list_with_default(out_size: list, defaults: list) -> list:
    """``out_size`` with None replaced by the last of ``defaults``, position by position from the end."""
    if isinstance(out_size, int):
        return out_size
    if len(defaults) <= len(out_size):
        raise ValueError(f"Input dimension should be at least {len(out_size) + 1}")
    tail = defaults[-len(out_size) :]
    return [d if v is None else v for v, d in zip(out_size, tail, strict=True)]


def consume_prefix_in_state_dict_if_present(state_dict: dict, prefix: str) -> None:
    """Remove ``prefix`` from the keys that start with it, in place, and from the metadata.

    >>> import torchlike as torch
    >>> d = {"module.w": 1}
    >>> torch.nn.modules.utils.consume_prefix_in_state_dict_if_present(d, "module.")
    >>> d
    {'w': 1}
    """
    for key in [k for k in state_dict if k.startswith(prefix)]:
        state_dict[key[len(prefix) :]] = state_dict.pop(key)
    metadata = getattr(state_dict, "_metadata", None)
    if metadata is None:
        return
    for key in list(metadata):
        if key and (key.startswith(prefix) or key + "." == prefix):
            metadata[key[len(prefix) :]] = metadata.pop(key)
