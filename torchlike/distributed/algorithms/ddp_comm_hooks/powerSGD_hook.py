"""PowerSGD, which is not supported."""

from typing import Any, NoReturn

__all__ = ["PowerSGDState", "batched_powerSGD_hook", "powerSGD_hook"]


class PowerSGDState:
    """Not supported: NotImplementedError."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refuse()


def powerSGD_hook(state: Any, bucket: Any) -> NoReturn:  # noqa: N802
    """Not supported: NotImplementedError."""
    _refuse()


def batched_powerSGD_hook(state: Any, bucket: Any) -> NoReturn:  # noqa: N802
    """Not supported: NotImplementedError."""
    _refuse()


def _refuse() -> NoReturn:
    raise NotImplementedError("PowerSGD is not supported: use default_hooks.bf16_compress_hook to send less")
