"""Devices: PyTorch's names for them, and the jax devices behind the names."""

import operator
import os
import threading
from functools import cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from pkgutil import iter_modules
from typing import Any, NoReturn

import jax
from jax._src.xla_bridge import backends_are_initialized

from torchlike._base.state import state

_MISSING: Any = object()
_Tracer = jax.core.Tracer

# The types of PyTorch, and jax's own "tpu" beside "xla".
_TYPES = (
    "cpu", "cuda", "ipu", "xpu", "mkldnn", "opengl", "opencl", "ideep", "hip", "ve", "fpga", "maia", "xla",
    "lazy", "vulkan", "mps", "meta", "hpu", "mtia", "privateuseone", "tpu",
)  # fmt: skip
_PLATFORM = {"cpu": "cpu", "cuda": "gpu", "tpu": "tpu", "xla": "tpu"}
_TYPE_OF_PLATFORM = {"cpu": "cpu", "gpu": "cuda", "cuda": "cuda", "rocm": "cuda", "tpu": "tpu"}
_INSTALL = {
    "cpu": "set JAX_PLATFORMS so that it includes cpu",
    "gpu": "install jax with GPU support (jax[cuda12]) and check the driver, or use device='cpu'",
    "tpu": "install jax with TPU support (jax[tpu]) on a TPU machine, or use device='cpu'",
}


class _State(threading.local):
    current: "device | None" = None

    def __init__(self) -> None:
        self.entered: list[device | None] = []


_state = _State()
_interned: dict[tuple[str, int | None], "device"] = {}


class device:
    """Where a tensor lives: a type and, for some, an index.

    `device("cuda:1")`, `device("cuda", 1)`, `device(another)` and `device(1)` (the
    accelerator with that index). "cpu", "cuda", "tpu", "xla" (the name torch_xla gives to
    a TPU, equal to "tpu") and "meta" can hold tensors; PyTorch's other types parse, and
    are absent. As a context manager it sets this thread's default device.

    RuntimeError for a malformed string or a negative index, TypeError for other arguments.

    >>> import torchlike as torch
    >>> torch.device("cuda:1")
    device(type='cuda', index=1)
    >>> with torch.device("meta"):
    ...     torch.get_default_device()
    device(type='meta')
    """

    __slots__ = ("type", "index", "_key")

    type: str
    index: int | None
    _key: tuple[str, int | None]  # what equality compares

    def __new__(cls, type: Any = _MISSING, index: Any = None, *, device: Any = _MISSING) -> "device":
        given = type
        if device is not _MISSING and type is _MISSING and index is None:
            given = device
        elif type is _MISSING or device is not _MISSING:
            raise TypeError("device() takes one device, or a type (str) and an index (int)")
        if given.__class__ is cls and index is None:
            return given
        if isinstance(given, bytes):
            given = given.decode()
        if isinstance(given, str):
            return _from_string(given, index)
        if _is_index(given) and index is None:
            return _intern(_accelerator(), _checked_index(given))
        raise TypeError(f"device(): argument 'type' must be torch.device, str or int, not {given.__class__.__name__}")

    def __init_subclass__(cls) -> None:
        raise TypeError("type 'torch.device' is not an acceptable base type")

    def __setattr__(self, attribute: str, value: Any) -> NoReturn:
        if attribute in ("type", "index"):
            raise AttributeError(f"attribute '{attribute}' of 'torch.device' objects is not writable")
        raise AttributeError(f"'torch.device' object has no attribute '{attribute}'")

    __delattr__ = lambda self, attribute: self.__setattr__(attribute, None)  # noqa: E731

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return self._key == other._key if isinstance(other, device) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key)

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __repr__(self) -> str:
        index = "" if self.index is None else f", index={self.index}"
        return f"device(type='{self.type}'{index})"

    def __reduce__(self):
        return device, (self.type,) if self.index is None else (self.type, self.index)

    def __copy__(self) -> "device":
        return self

    def __deepcopy__(self, memo: dict) -> "device":
        return self

    def __enter__(self) -> "device":
        _state.entered.append(_state.current)
        _state.current = self
        return self

    def __exit__(self, *exc: object) -> None:
        _state.current = _state.entered.pop()


def _intern(kind: str, index: int | None) -> device:
    found = _interned.get((kind, index))
    if found is None:
        new = object.__new__(device)
        object.__setattr__(new, "type", kind)
        object.__setattr__(new, "index", index)
        object.__setattr__(new, "_key", ("tpu" if kind == "xla" else kind, index))
        found = _interned.setdefault((kind, index), new)
    return found


def _is_index(value: Any) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, bool | type)


def _checked_index(value: Any) -> int:
    index = value.__index__()
    if index < 0:
        raise RuntimeError(f"Device index must not be negative, got {index}")
    return index


def _from_string(text: str, index: Any) -> device:
    found = _interned.get((text, None)) if index is None else None
    if found is not None:
        return found
    if not text:
        raise RuntimeError("Device string must not be empty; use for example 'cpu' or 'cuda:0'")
    kind, colon, digits = text.partition(":")
    if kind not in _TYPES:
        raise RuntimeError(f"Expected one of {', '.join(_TYPES)} device type at start of device string: {text}")
    if colon and not _is_number(digits):
        raise RuntimeError(f"Invalid device string: '{text}'; expected a type and an index, such as 'cuda:0'")
    if index is None:
        return _intern(kind, int(digits) if colon else None)
    if not _is_index(index):
        raise TypeError(f"device(): argument 'index' (position 2) must be int, not {type(index).__name__}")
    if colon:
        raise RuntimeError(f"type (string) must not include an index when one is given too: {text}, {index}")
    return _intern(kind, _checked_index(index))


def _is_number(digits: str) -> bool:
    plain = digits.isascii() and digits.isdigit() and (digits == "0" or digits[0] != "0")
    if plain and int(digits) >= 2**31:
        raise RuntimeError(f"Could not parse device index '{digits}': it is too large")
    return plain


def local_devices(platform: str) -> list[jax.Device]:
    """This process's devices on a jax platform; none if jax lacks it.

    Asking for a GPU that cannot be there does not start jax's backend: processes may still come together.
    """
    if platform != "cpu" and not backends_are_initialized() and _is_alone_with_cpus():
        return []
    try:
        return jax.local_devices(backend=platform)
    except RuntimeError:
        return []


@cache
def _is_alone_with_cpus() -> bool:
    """Whether jax can have no devices but CPUs, whatever there is in this machine: it is told so, or has no plugin."""
    if jax.config.jax_platforms:
        return {*jax.config.jax_platforms.split(",")} <= {"cpu"}
    found = find_spec("jax_plugins")
    plugins = [*iter_modules(found.submodule_search_locations)] if found is not None else []
    told = "PJRT_NAMES_AND_LIBRARY_PATHS" in os.environ
    return not (plugins or entry_points(group="jax_plugins") or find_spec("libtpu") or told)


def is_present(kind: str) -> bool:
    """Whether jax has a device of this type here."""
    return kind in _PLATFORM and bool(local_devices(_PLATFORM[kind]))


def _accelerator() -> str:
    for kind in ("cuda", "tpu"):
        if local_devices(_PLATFORM[kind]):
            return kind
    raise RuntimeError(
        "Cannot access accelerator device when none is available: a bare index names an accelerator, "
        "and jax has only a CPU here; use torch.device('cpu')"
    )


@cache
def jax_device(d: device) -> jax.Device:
    """The jax device behind a device.

    As in PyTorch, a CPU index beyond the CPUs there are means the first one. RuntimeError
    for a device that is absent or, like "meta", holds no values.
    """
    if d.type == "meta":
        raise RuntimeError("device 'meta' holds no values, so no jax device is behind it; use 'cpu'")
    platform = _PLATFORM.get(d.type)
    devices = local_devices(platform) if platform else []
    index = d.index or 0
    if devices and (index < len(devices) or d.type == "cpu"):
        return devices[index if index < len(devices) else 0]
    raise (NotCompiled if d.type == "cuda" and not devices else RuntimeError)(_absent(d, platform, len(devices)))


class NotCompiled(AssertionError, RuntimeError):
    """A GPU is asked for where jax has none: an AssertionError, as of a PyTorch without CUDA; a RuntimeError else."""


def _absent(d: device, platform: str | None, count: int) -> str:
    present = {p: len(local_devices(p)) for p in ("cpu", "gpu", "tpu")}
    has = ", ".join(f"{p} ({n})" for p, n in present.items() if n)
    if platform is None:
        do = "torchlike runs on cpu, cuda, tpu and xla"
    elif count:
        do = f"the highest index of '{d.type}' is {count - 1}"
    else:
        do = _INSTALL[platform] + (" (Torch not compiled with CUDA enabled)" if d.type == "cuda" else "")
    return f"device '{d}' is not available: jax has the platforms {has or 'none'}; {do}"


@cache
def first() -> jax.Device:
    """The device on which jax computes by default: with several processes this one's first, not that of all."""
    return jax.local_devices()[0]


@cache
def stays() -> bool:
    """Whether arrays are made to stay where they are: where jax computes on an accelerator by default.

    There a calculation of a tensor of the GPU with one of the CPU must not run on the CPU, as jax would have it with an
    array that is nowhere in particular. So jitted functions must keep inputs that they do not read: these say where
    the results are to be.
    """
    return from_jax(first()).type != "cpu"


def anchor(target: jax.Device) -> jax.Device | None:
    """``target`` for an array that is to stay there; None where it may go where others are."""
    return target if stays() or target is not first() else None


@cache
def from_jax(jax_dev: jax.Device) -> device:
    """The device of a jax device. The first CPU has no index, as in PyTorch."""
    kind = _TYPE_OF_PLATFORM.get(jax_dev.platform)
    if kind is None:
        raise NotImplementedError(f"jax platform '{jax_dev.platform}' is not supported; use cpu, gpu or tpu")
    local = local_devices(jax_dev.platform)
    index = local.index(jax_dev) if jax_dev in local else jax_dev.id
    return _intern(kind, None if kind == "cpu" and index == 0 else index)


def of_array(array: Any) -> device:
    """The device of a jax array.

    A tracer has none yet and gets that of the program it is traced for, or the default device;
    of an array spread over several devices it is the first one's.
    """
    if isinstance(array, _Tracer):
        capture = state.capture
        return default_device() if capture is None or capture.place is None else capture.place
    return _of_sharding(array.sharding)


@cache
def _of_sharding(sharding: jax.sharding.Sharding) -> device:
    return from_jax(min(sharding.device_set, key=operator.attrgetter("id")))


_CPU = _intern("cpu", None)


def of_host() -> jax.Device | None:
    """The anchor of numbers of the host that become a tensor of the CPU."""
    return anchor(jax_device(_CPU))


META = _intern("meta", None)


def default_device() -> device:
    """The device of new tensors: this thread's, "cpu" unless set."""
    return _state.current or _CPU


_Device = device  # in functions that have an argument of this name


def set_default_device(device: Any) -> None:
    """Set the device of new tensors in this thread; None goes back to the CPU.

    Inside `with device:` it lasts until the end of the block.

    >>> import torchlike as torch
    >>> torch.set_default_device("meta")
    >>> torch.zeros(2).device
    device(type='meta')
    >>> torch.set_default_device(None)
    """
    _state.current = None if device is None else _Device(device)


def as_device(value: Any, function: str = "", argument: str = "device") -> device:
    """The device that an argument stands for; None is the default device.

    TypeError, naming the function and the argument, if it is no device, string or index.
    """
    if value is None:
        return default_device()
    if value.__class__ is device or isinstance(value, str) or _is_index(value):
        return device(value)
    prefix = f"{function}(): " if function else ""
    raise TypeError(f"{prefix}argument '{argument}' must be torch.device, not {type(value).__name__}")
