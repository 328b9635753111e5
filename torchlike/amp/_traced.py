"""What a scaler does that is not traced: to start, and to find out how an optimizer takes a step."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from torchlike._base import dtypes
from torchlike._base.device import default_device, jax_device
from torchlike._base.state import state
from torchlike._core.conversion.factories import full
from torchlike._core.tensor.tensor import wrap
from torchlike._functions.amp import _amp_update_scale_
from torchlike._transforms.capture.recording import DynamicInput


def start(scaler: Any, device: Any) -> None:
    """Let a scaler have its scale and its count of steps on a device, unless it has them.

    While a step is traced they are tensors from outside of it, so that the same program fits the next call.
    """
    if scaler._scale is not None:
        return
    capture = state.capture
    numbers = (scaler._init_scale, dtypes.float32), (scaler._init_growth_tracker, dtypes.int32)
    if capture is None:
        made = [full((), number, dtype=dtype, device=device) for number, dtype in numbers]
    else:
        place = None if device == default_device() else jax_device(device)
        made = [wrap(capture.concrete(np.asarray(number, dtype.np), place)) for number, dtype in numbers]
        for t in made:
            capture.adopt(t._storage)
    scaler._scale, scaler._growth_tracker = made


_FACTORS = "_growth_factor", "_backoff_factor", "_growth_interval"


def rescale(scaler: Any, found: Any) -> None:
    """Change the scale as the steps went; while that is traced, by factors that every later call reads anew."""
    factors, capture = [getattr(scaler, name) for name in _FACTORS], state.capture
    if capture is not None:
        members = functools.partial(_members, scaler)
        pairs = zip(factors, _FACTORS, strict=True)
        factors = [capture.input(float(value), DynamicInput(members, name)) for value, name in pairs]
    _amp_update_scale_(scaler._scale, scaler._growth_tracker, found, *factors)


def _members(scaler: Any) -> dict[str, Any]:
    return scaler.__dict__


def decides_on_device(optimizer: Any, args: tuple, kwargs: dict[str, Any]) -> bool:
    """Whether the device is to decide if an optimizer takes a step: it is traced, and the step is one program."""
    if state.capture is None or args or kwargs or not hasattr(type(optimizer), "_step_unless"):
        return False
    return optimizer._is_plain()


def takes_scaler(step: Callable) -> bool:
    """Whether a step has an argument ``grad_scaler``."""
    return "grad_scaler" in inspect.signature(step).parameters
