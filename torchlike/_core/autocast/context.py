"""The context of autocast, which is also a decorator."""

import functools
from collections.abc import Callable
from typing import Any

from torchlike._base import dtypes
from torchlike._base.device import is_present
from torchlike._base.frames import warn
from torchlike._base.state import state
from torchlike._core.autocast import settings as flags

_HALVES = (dtypes.bfloat16, dtypes.float16)


class autocast:
    """A context in which operators choose the dtype that they compute in; also a decorator.

    Products of matrices and convolutions cast floating inputs to a lower precision, losses and what else needs the
    range cast to float32, and ``cat`` and its like to the widest of the dtypes given; the rest computes in what it is
    given. Calls that change a tensor in place or write into ``out=`` are not touched, and float64 and complex tensors
    never are. Inside, model and inputs stay in float32: nothing is to be converted by hand. It concerns the thread
    that enters it alone. Backward runs in the dtypes of forward; leave the context before it.

    Args:
        device_type: "cpu", "cuda" or "xla" ("tpu" is the same): which tensors are cast.
        dtype: the lower precision, bfloat16 or float16; by default that of ``torch.get_autocast_dtype(device_type)``.
        enabled: False switches autocast off inside.
        cache_enabled: whether the cast of a weight (a leaf in float32 that requires grad) is kept until the outermost
            context ends: it is then cast once, and a change of it inside goes unnoticed.

    Warns, and is disabled, for a dtype that the devices do not compute in and where there is no GPU. ValueError for a
    ``device_type`` that is no text, RuntimeError for one without autocast.

    >>> import torchlike as torch
    >>> layer, x = torch.nn.Linear(2, 2), torch.ones(1, 2)
    >>> with torch.autocast("cpu"):
    ...     y = layer(x)
    ...     loss = torch.nn.functional.mse_loss(y, x)
    >>> y.dtype, loss.dtype
    (torch.bfloat16, torch.float32)
    >>> loss.backward()
    >>> layer.weight.grad.dtype
    torch.float32
    """

    def __init__(
        self, device_type: str, dtype: dtypes.dtype | None = None, enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:  # fmt: skip
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        self.device, self.custom_backend_name = device_type, "privateuseone"
        default = flags.get_autocast_dtype(device_type)
        self.fast_dtype = default if dtype is None else dtype
        self._cache_enabled = flags.is_autocast_cache_enabled() if cache_enabled is None else cache_enabled
        self._kind = flags.kind_of("autocast", device_type)
        if not flags.is_autocast_available(device_type):
            raise RuntimeError(f"User specified an unsupported autocast device_type '{device_type}'")
        if self._kind == "privateuseone":
            raise AssertionError(
                "Tried to use AMP with the `privateuseone` backend, but the backend has not registered a module; "
                "torchlike computes on what jax has: cpu, cuda, tpu"
            )
        self._enabled = enabled and self._usable() and enabled

    def _usable(self) -> bool:
        """Whether the devices are there and compute in the dtype; warns if not."""
        name = self._kind.upper()
        if self._kind == "cuda" and not is_present("cuda"):
            warn("CUDA is not available or torch_xla is imported. Disabling autocast.")
            return False
        if self.fast_dtype in _HALVES:
            return True
        warn(
            f"In {name} autocast, but the target dtype is not supported. Disabling autocast.\n"
            f"{name} Autocast only supports dtypes of torch.bfloat16, torch.float16 currently."
        )
        return False

    def __enter__(self) -> "autocast":
        before = flags.current()
        flags.demand_flag("set_autocast_enabled", self._enabled)
        flags.demand_bool(self._cache_enabled)
        state.autocast_entered = (*state.autocast_entered, (self, state.autocast, state.active & flags.AUTOCAST))
        flags.autocast_increment_nesting()
        dtype = self.fast_dtype if isinstance(self.fast_dtype, dtypes.dtype) else before.lower(self._kind)
        flags.install(before.having(self._kind, self._enabled, dtype, self._cache_enabled))
        return self

    def __exit__(self, *exc: object) -> None:
        entered = state.autocast_entered
        at = next((i for i in reversed(range(len(entered))) if entered[i][0] is self), None)
        if at is None:
            raise AttributeError("'autocast' object has no attribute 'prev': this context was not entered here")
        _, before, bit = entered[at]
        state.autocast_entered = entered[:at] + entered[at + 1 :]
        if flags.autocast_decrement_nesting() == 0:
            flags.clear_autocast_cache()
        self._restore(before or flags.DEFAULT, bit)

    def _restore(self, before: flags.Settings, bit: int) -> None:
        """Set what this context has set as it was before; the rest stays."""
        kind = self._kind
        if before.on and not bit:  # entered while a call is handled, where autocast is off
            state.autocast, state.active = before, state.active & ~flags.AUTOCAST
        else:
            flags.install(flags.current().having(kind, kind in before.on, before.lower(kind), before.cache))

    def __call__(self, func: Callable) -> Callable:
        """``func``, each call of which is in this context."""
        return autocast_decorator(self, func)


def autocast_decorator(autocast_instance: autocast, func: Callable) -> Callable:
    """``func``, each call of which is in the given context."""
    if not callable(func):
        raise TypeError(
            f"autocast()(func) requires a callable, but got {type(func).__name__}. To use autocast as a context: "
            "with torch.autocast(device_type=...): output = model(input)"
        )

    @functools.wraps(func)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        with autocast_instance:
            return func(*args, **kwargs)

    decorated.__script_unsupported = "@autocast() decorator is not supported in script mode"  # type: ignore[attr-defined]
    return decorated


def enter_autocast(*values: Any) -> autocast:
    """Enter the context ``autocast(*values)``, and return it."""
    return autocast(*values).__enter__()


def exit_autocast(mode: autocast) -> None:
    """Leave a context that was entered."""
    mode.__exit__(None, None, None)


__all__ = ["autocast", "autocast_decorator", "enter_autocast", "exit_autocast"]
