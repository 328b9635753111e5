"""Memory of GPUs, as XLA's allocator counts it; zeros without a GPU."""

import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NoReturn

from torchlike._base.volatile import volatile
from torchlike.cuda._devices import demand, gpu, index_of, is_available
from torchlike.cuda._devices import empty_cache as empty_cache
from torchlike.interop.alias import missing_names

__getattr__ = missing_names(__name__)

_KEYS = {  # PyTorch's keys, and what XLA's allocator calls it
    "allocated_bytes.all.current": "bytes_in_use",
    "allocated_bytes.all.peak": "peak_bytes_in_use",
    "reserved_bytes.all.current": "bytes_reserved",
    "reserved_bytes.all.peak": "peak_bytes_reserved",
    "num_alloc": "num_allocs",
}


def _stats(device: Any) -> dict[str, int]:
    return dict(gpu(device).memory_stats() or {}) if is_available() else {}


def memory_stats(device: Any = None) -> "OrderedDict[str, Any]":
    """PyTorch's statistics that XLA has too, by PyTorch's keys; empty without a GPU."""
    known = _stats(device)
    return OrderedDict(sorted((key, known[name]) for key, name in _KEYS.items() if name in known))


def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    """:func:`memory_stats` as dicts of dicts."""
    nested: dict[str, Any] = {}
    for key, value in memory_stats(device).items():
        *path, last = key.split(".")
        inner = nested
        for part in path:
            inner = inner.setdefault(part, {})
        inner[last] = value
    return nested


def memory_allocated(device: Any = None) -> int:
    """Bytes in use on a GPU; 0 without one."""
    return _stats(device).get("bytes_in_use", 0)


def max_memory_allocated(device: Any = None) -> int:
    """The peak of bytes in use on a GPU; 0 without one."""
    return _stats(device).get("peak_bytes_in_use", 0)


def memory_reserved(device: Any = None) -> int:
    """Bytes that XLA's allocator holds on a GPU, at least those in use; 0 without one."""
    known = _stats(device)
    return max(known.get("pool_bytes", 0), known.get("bytes_reserved", 0), known.get("bytes_in_use", 0))


def max_memory_reserved(device: Any = None) -> int:
    """The peak of :func:`memory_reserved`."""
    known = _stats(device)
    return max(memory_reserved(device), known.get("peak_pool_bytes", 0), known.get("peak_bytes_in_use", 0))


def memory_cached(device: Any = None) -> int:
    """:func:`memory_reserved` by its name of old."""
    _renamed("memory_cached", "memory_reserved")
    return memory_reserved(device)


def max_memory_cached(device: Any = None) -> int:
    """:func:`max_memory_reserved` by its name of old."""
    _renamed("max_memory_cached", "max_memory_reserved")
    return max_memory_reserved(device)


def _renamed(old: str, new: str) -> None:
    warnings.warn(f"`torch.cuda.{old}` has been renamed to `torch.cuda.{new}`", FutureWarning, stacklevel=3)


@volatile
def mem_get_info(device: Any = None) -> tuple[int, int]:
    """(free, total) bytes that XLA's allocator may use on a GPU. AssertionError without one."""
    demand()
    known = _stats(device)
    total = known.get("bytes_limit", 0)
    return total - known.get("bytes_in_use", 0), total


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """:func:`memory_stats` as text, a line each."""
    demand()
    head = f"Memory of GPU {index_of(device)}, as XLA's allocator counts it"
    return "\n".join([head, *(f"{key}: {value}" for key, value in memory_stats(device).items())])


def host_memory_stats() -> "OrderedDict[str, Any]":
    """Statistics of pinned memory: none, as jax stages its own copies."""
    return OrderedDict()


def host_memory_stats_as_nested_dict() -> dict[str, Any]:
    """As :func:`host_memory_stats`."""
    return {}


def _lacks(name: str, instead: str) -> Callable[..., NoReturn]:
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        demand()
        raise NotImplementedError(f"torch.cuda.{name}: {instead}")

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = f"NotImplementedError: {instead}. AssertionError without a GPU."
    return refuse


_PEAK = "XLA's allocator cannot forget its peak; start another process to measure anew"
_OWN = "XLA manages device memory by itself; see XLA_PYTHON_CLIENT_MEM_FRACTION and XLA_PYTHON_CLIENT_PREALLOCATE"
for _name, _instead in {
    **dict.fromkeys(("reset_peak_memory_stats", "reset_max_memory_allocated", "reset_max_memory_cached"), _PEAK),
    **dict.fromkeys(("reset_accumulated_memory_stats", "reset_accumulated_host_memory_stats"), _PEAK),
    "reset_peak_host_memory_stats": _PEAK,
    **dict.fromkeys(("set_per_process_memory_fraction", "get_per_process_memory_fraction"), _OWN),
    **dict.fromkeys(("caching_allocator_alloc", "caching_allocator_delete", "caching_allocator_enable"), _OWN),
    **dict.fromkeys(("change_current_allocator", "get_allocator_backend", "use_mem_pool", "MemPool"), _OWN),
    "CUDAPluggableAllocator": _OWN,
    "memory_snapshot": "use jax.profiler.device_memory_profile()",
}.items():
    globals()[_name] = _lacks(_name, _instead)

for _name in ("utilization", "temperature", "power_draw", "clock_rate", "memory_usage", "device_memory_used"):
    globals()[_name] = _lacks(_name, "jax does not know it; ask nvidia-smi")


def list_gpu_processes(device: Any = None) -> str:
    """A text: jax does not know the processes on a GPU."""
    return "pynvml module not found, please install nvidia-ml-py"


__all__ = sorted(name for name in globals() if not name.startswith("_") and name[0] != "O")
