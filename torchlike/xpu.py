"""torch.xpu: Intel's GPUs, on which jax does not work."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NoReturn

from torchlike.interop.alias import missing_names

__getattr__ = missing_names(__name__)


def is_available() -> bool:
    """Whether there is such a GPU: no."""
    return False


def device_count() -> int:
    """How many there are: none."""
    return 0


def is_initialized() -> bool:
    """Whether one is in use: no."""
    return False


def _answer(name: str, value: Any, doc: str) -> Callable[..., Any]:
    def answer(*args: Any, **kwargs: Any) -> Any:
        return value

    answer.__name__ = answer.__qualname__ = name
    answer.__doc__ = doc
    return answer


def _without(name: str) -> Callable[..., NoReturn]:
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise AssertionError(f"Torch not compiled with XPU enabled: jax does not work on Intel's GPUs ({name})")

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = "AssertionError: there is no such GPU."
    return refuse


_NOTHING = ("empty_cache", "manual_seed", "manual_seed_all", "seed", "seed_all", "set_stream", "set_rng_state_all")
_ZERO = ("max_memory_allocated", "max_memory_reserved", "memory_allocated", "memory_reserved")
_NO = ("is_bf16_supported", "is_current_stream_capturing", "is_tf32_supported")
_LISTS, _STATS = ("get_arch_list", "get_rng_state_all"), ("memory_stats",)
_REFUSED = (
    "Event", "Stream", "current_device", "current_stream", "get_device_capability", "get_device_name",
    "get_device_properties", "get_rng_state", "init", "initial_seed", "mem_get_info", "reset_peak_memory_stats",
    "set_device", "stream", "synchronize",
)  # fmt: skip
for _names, _value, _doc in (
    (_NOTHING, None, "Nothing to do: there is no such GPU."),
    (_ZERO, 0, "0: there is no such GPU."),
    (_NO, False, "No: there is no such GPU."),
    (_LISTS, [], "None: there is no such GPU."),
    (_STATS, OrderedDict(), "None: there is no such GPU."),
):
    globals().update({_name: _answer(_name, _value, _doc) for _name in _names})
globals().update({name: _without(name) for name in _REFUSED})

__all__ = ["device_count", "is_available", "is_initialized"]
__all__ += [*_LISTS, *_STATS, *_NOTHING, *_ZERO, *_NO, *_REFUSED]
