"""What PyTorch says of arguments that are no tensors, where a function has asked them for what tensors have."""

from __future__ import annotations

import inspect
import re
from typing import Any

import numpy as np

_OF_METHOD = re.compile(r"(\w+)\(\): argument 'self' \(position 1\) must be Tensor, not (\S+)")

tensor: type = type(None)  # the class Tensor, once it is published


def demand_tensors(error: Exception, door: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise the TypeError that names the argument which an AttributeError was about, or a method called with it.

    Nothing of any other error. Functions that PyTorch has in Python ask their arguments as we do, so theirs is the
    AttributeError, too; sequences they hand on.
    """
    behind = door.__dict__.get("behind")
    entry = None if behind is None else behind.entry
    if isinstance(error, TypeError) and entry is not None:
        _demand_of_method(error, entry, args, kwargs)
    if not isinstance(error, AttributeError) or entry is None or not hasattr(tensor, error.name or ""):
        return
    asked = error.obj
    for place, (name, value) in enumerate(_named(entry, args, kwargs)):
        if value is asked and not entry.python and not isinstance(value, tensor):
            what = f"argument '{name}' (position {place + 1}) must be Tensor, not {_kind(value)}"
            raise TypeError(f"{entry.name}(): {what}") from error
        if isinstance(value, tuple | list) and not isinstance(asked, tensor):
            for at in [i for i, x in enumerate(value) if x is asked]:
                what = f"expected Tensor as element {at} in argument {place}, not {_kind(asked)}"
                raise TypeError(f"{entry.name}(): {what}") from error


def _demand_of_method(error: TypeError, entry: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    found = _OF_METHOD.match(str(error))
    if found is None:
        return
    for place, (name, value) in enumerate(_named(entry, args, kwargs)):
        if name != "self" and _kind(value) == found[2] and not isinstance(value, tensor):
            raise TypeError(
                f"{entry.name}(): argument '{name}' (position {place + 1}) must be Tensor, not {found[2]}"
            ) from error


def _named(entry: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[str, Any]]:
    """The arguments of a call with the names of their parameters, those of ``*name`` as one."""
    try:
        return [*inspect.signature(entry.original).bind(*args, **kwargs).arguments.items()]
    except (TypeError, ValueError):
        return []


def _kind(value: Any) -> str:
    return "numpy.ndarray" if value.__class__ is np.ndarray else type(value).__name__
