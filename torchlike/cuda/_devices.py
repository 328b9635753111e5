"""Which GPUs there are, and waiting for them."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax

import torchlike._base.device as devices
from torchlike._base.volatile import volatile
from torchlike._executor import value_checks


def is_available() -> bool:
    """Whether jax has a GPU in this process."""
    return bool(devices.local_devices("gpu"))


def device_count() -> int:
    """How many GPUs this process sees."""
    return len(devices.local_devices("gpu"))


def demand() -> None:
    """AssertionError without a GPU."""
    if not is_available():
        raise AssertionError("Torch not compiled with CUDA enabled: jax has no GPU in this process")


def index_of(device: Any = None) -> int:
    """The index of a GPU, given as a number, a name, a device or None. ValueError for other devices."""
    if device is None:
        return 0
    if isinstance(device, int):
        return device
    found = devices.as_device(device)
    if found.type != "cuda":
        raise ValueError(f"Expected a cuda device, but got: {found}")
    return found.index or 0


def gpu(device: Any = None) -> Any:
    """The jax device of a GPU."""
    demand()
    return devices.jax_device(devices.device("cuda", index_of(device)))


def current_device() -> int:
    """The index of the GPU that ``cuda`` without an index means: the first. AssertionError without a GPU."""
    demand()
    return 0


def set_device(device: Any) -> None:
    """Accepted for the first GPU and for -1 (none), as the first is what ``cuda`` without an index means.

    NotImplementedError for others: name the index of the device instead (``x.to("cuda:1")``).
    """
    use(device)


def use(device: Any) -> None:
    index = index_of(device)
    if index < 0:
        return
    demand()
    gpu(index)
    if index:
        raise NotImplementedError(
            f'torch.cuda: cuda without an index means the first GPU; write device="cuda:{index}" in place of '
            f"set_device({index})"
        )


class device:  # noqa: N801
    """A context in which ``cuda`` means the given GPU: the first, or -1 for no change. Others as :func:`set_device`."""

    def __init__(self, device: Any) -> None:
        self.idx, self.prev_idx = index_of(device), -1

    def __enter__(self) -> None:
        use(self.idx)

    def __exit__(self, *exc: object) -> None: ...


class device_of(device):  # noqa: N801
    """:class:`device` of a tensor; no change for one that is on no GPU."""

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.get_device() if obj.is_cuda else -1)


def init() -> None:
    """Nothing to do; AssertionError without a GPU."""
    demand()


def is_initialized() -> bool:
    """Whether jax has a GPU in this process."""
    return is_available()


def _lazy_init() -> None:
    """Nothing to do; AssertionError without a GPU. Its name in programs that wait for CUDA themselves."""
    demand()


def _lazy_call(callable: Callable[[], Any], **kwargs: Any) -> None:
    """Call it now if there is a GPU; without one it never would be."""
    if is_initialized():
        callable()


def _is_in_bad_fork() -> bool:
    """False: whether a forked process can use a GPU is for jax to say."""
    return False


def _is_compiled() -> bool:
    """Whether jax has a GPU in this process."""
    return is_available()


def with_state(found: Callable[[str], Any]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a module that also has ``_initialized``, which changes."""

    def __getattr__(name: str) -> Any:
        return is_initialized() if name == "_initialized" else found(name)

    return __getattr__


def get_device_properties(device: Any = None) -> Any:
    """``name``, ``major``, ``minor``, ``total_memory``, ``multi_processor_count`` of a GPU, as jax knows them."""
    found = gpu(device)
    major, minor = get_device_capability(device)
    total = (found.memory_stats() or {}).get("bytes_limit", 0)
    cores = getattr(found, "core_count", 0)
    return CudaDeviceProperties(found.device_kind, major, minor, total, cores)


class CudaDeviceProperties(NamedTuple):
    """What :func:`get_device_properties` says."""

    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """The compute capability of a GPU, such as (9, 0)."""
    major, _, minor = str(gpu(device).compute_capability).partition(".")
    return int(major), int(minor or 0)


def can_device_access_peer(device: Any, peer_device: Any) -> bool:
    """Whether two GPUs are different ones of this process; XLA moves data between all of them."""
    return gpu(device) is not gpu(peer_device)


def get_arch_list() -> list[str]:
    """The architectures PyTorch was compiled for: none, as XLA compiles for the GPU at hand."""
    return []


def get_gencode_flags() -> str:
    """The flags PyTorch was compiled with: none."""
    return ""


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether there is a GPU that computes with bfloat16: XLA lets all do."""
    return is_available() and (including_emulation or get_device_capability()[0] >= 8)


def is_tf32_supported() -> bool:
    """Whether there is a GPU that computes with TF32."""
    return is_available() and get_device_capability()[0] >= 8


def ipc_collect() -> None:
    """Nothing to do; AssertionError without a GPU."""
    demand()


@volatile
def get_sync_debug_mode() -> int:
    """0: XLA launches without waiting. AssertionError without a GPU."""
    demand()
    return 0


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """Accepted for 0 and "default"; NotImplementedError for modes that would report waiting."""
    demand()
    if debug_mode not in (0, "default"):
        raise NotImplementedError(f"torch.cuda.set_sync_debug_mode({debug_mode!r}): torchlike does not report waiting")


def get_device_name(device=None) -> str:
    """The name of a GPU, as the driver gives it."""
    return gpu(device).device_kind


def synchronize(device=None) -> None:
    """Wait until the GPUs have finished what was launched. AssertionError without a GPU."""
    demand()
    for array in jax.live_arrays("gpu"):
        array.block_until_ready()
    value_checks.told()


def empty_cache() -> None:
    """Nothing to do: XLA manages device memory by itself."""
