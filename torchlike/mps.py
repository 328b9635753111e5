"""torch.mps: Apple's GPUs, which torchlike does not use."""

from typing import Any, NoReturn

from torchlike.interop.alias import missing_names

__getattr__ = missing_names(__name__)


def is_available() -> bool:
    """Whether torchlike computes on an Apple GPU: no."""
    return False


def device_count() -> int:
    """How many there are: none."""
    return 0


def manual_seed(seed: int) -> None:
    """Nothing to seed."""


def seed() -> None:
    """Nothing to seed."""


def _without(name: str) -> Any:
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(f"Cannot execute {name}() without MPS backend: torchlike does not use Apple's GPUs.")

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = "RuntimeError: torchlike does not use Apple's GPUs."
    return refuse


_REFUSED = ("current_allocated_memory", "driver_allocated_memory", "empty_cache", "get_rng_state",
            "recommended_max_memory", "set_per_process_memory_fraction", "set_rng_state", "synchronize",
            "compile_shader", "Event")  # fmt: skip
globals().update({name: _without(name) for name in _REFUSED})

__all__ = ["device_count", "is_available", "manual_seed", "seed", *_REFUSED]
