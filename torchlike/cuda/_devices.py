"""Which GPUs there are, and waiting for them."""

import jax

import torchlike._base.device as devices
from torchlike._base.rng import default_generator


def _gpus():
    try:
        return jax.local_devices(backend="gpu")
    except RuntimeError:
        return []


def is_available() -> bool:
    """Whether jax has a GPU in this process."""
    return bool(_gpus())


def device_count() -> int:
    """How many GPUs this process sees."""
    return len(_gpus())


def current_device() -> int:
    """The index of the GPU that ``cuda`` without an index means: the first."""
    devices.jax_device(devices.device("cuda", 0))
    return 0


def get_device_name(device=None) -> str:
    """The name of a GPU, as the driver gives it."""
    index = devices.device("cuda" if device is None else device).index or 0
    return devices.jax_device(devices.device("cuda", index)).device_kind


def synchronize(device=None) -> None:
    """Wait until the GPUs have finished what was launched."""
    for array in jax.live_arrays("gpu") if is_available() else ():
        array.block_until_ready()


def empty_cache() -> None:
    """Nothing to do: XLA manages device memory by itself."""


def _stats(device, key):
    index = devices.device("cuda" if device is None else device).index or 0
    return (devices.jax_device(devices.device("cuda", index)).memory_stats() or {}).get(key, 0) if is_available() else 0


def memory_allocated(device=None) -> int:
    """Bytes in use on a GPU; 0 without one."""
    return _stats(device, "bytes_in_use")


def max_memory_allocated(device=None) -> int:
    """The peak of bytes in use on a GPU; 0 without one."""
    return _stats(device, "peak_bytes_in_use")


def manual_seed(seed: int) -> None:
    """Seed the generator (one serves all devices)."""
    default_generator.manual_seed(int(seed))


manual_seed_all = manual_seed
