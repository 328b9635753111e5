"""The context that chooses the dtypes of operators, and what custom functions need to work in it."""

from torchlike._core.autocast.context import autocast, autocast_decorator
from torchlike._core.autocast.context import enter_autocast as _enter_autocast
from torchlike._core.autocast.context import exit_autocast as _exit_autocast
from torchlike._core.autocast.custom import _cast as _cast
from torchlike._core.autocast.custom import custom_bwd, custom_fwd
from torchlike._core.autocast.settings import is_autocast_available

__all__ = [
    "_enter_autocast", "_exit_autocast", "autocast", "autocast_decorator", "custom_bwd", "custom_fwd",
    "is_autocast_available",
]  # fmt: skip
