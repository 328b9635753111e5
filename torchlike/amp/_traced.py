"""What a scaler does that is not traced: to start, and to find out how an optimizer takes a step."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from torchlike._base import dtypes
from torchlike._base.device import default_device, jax_device
from torchlike._base.state import state
from torchlike._core.conversion.factories import full
from torchlike._core.tensor.tensor import wrap


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


def decides_on_device(optimizer: Any, args: tuple, kwargs: dict[str, Any]) -> bool:
    """Whether the device is to decide if an optimizer takes a step: it is traced, and the step is one program."""
    if state.capture is None or args or kwargs or not hasattr(type(optimizer), "_step_unless"):
        return False
    return optimizer._is_plain()


def takes_scaler(step: Callable) -> bool:
    """Whether a step has an argument ``grad_scaler``."""
    return "grad_scaler" in inspect.signature(step).parameters
