"""Classes of composite functions that PyTorch's autocast knows, though they are no operators here."""

import functools
from collections.abc import Callable
from typing import Any

from torchlike._base.dtypes import float32
from torchlike._base.state import AUTOCAST, state
from torchlike._core.autocast.layer import cast, eligible, lowered
from torchlike._core.tensor.tensor import Tensor


class off:
    """A context in which autocast is off for calls, whatever is set."""

    __slots__ = ("_bit",)

    def __enter__(self) -> None:
        self._bit = state.active & AUTOCAST
        state.active &= ~AUTOCAST

    def __exit__(self, *exc: object) -> None:
        state.active |= self._bit


def in_float32_on_cpu(function: Callable) -> Callable:
    """``function``, which is of the class ``fp32`` on CPUs, unless its results are written into ``out=``."""
    return _in_float32(function, True)


def in_float32_off_cpu(function: Callable) -> Callable:
    """``function``, which is of the class ``fp32`` on other devices, unless it is told a dtype or an ``out=``."""
    return _in_float32(function, False)


def _in_float32(function: Callable, on_cpu: bool) -> Callable:
    @functools.wraps(function)
    def composite(*args: Any, **kwargs: Any) -> Any:
        kinds = [x for x in state.autocast.on if (x == "cpu") is on_cpu] if state.active & AUTOCAST else ()
        if not kinds or kwargs.get("out") is not None or kwargs.get("dtype") is not None:
            return function(*args, **kwargs)
        args = tuple([_single(x, kinds) for x in args])
        kwargs = {name: _single(x, kinds) for name, x in kwargs.items()}
        with off():
            return function(*args, **kwargs)

    return composite


def _single(x: Any, kinds: list[str]) -> Any:
    return cast(x, float32) if any(eligible(x, kind) for kind in kinds) else x


def in_lower_precision(*tensors: Tensor, on_cpu: bool = True) -> tuple[Tensor, ...]:
    """The inputs of a composite function that is of the class ``lower_precision_fp``, as autocast casts them."""
    if state.active & AUTOCAST:
        for kind in state.autocast.on if on_cpu else [x for x in state.autocast.on if x != "cpu"]:
            target, keep = state.autocast.lower(kind), state.autocast.cache
            tensors = tuple([lowered(x, target, keep) if eligible(x, kind) else x for x in tensors])
    return tensors


__all__ = ["in_float32_off_cpu", "in_float32_on_cpu", "in_lower_precision", "off"]
