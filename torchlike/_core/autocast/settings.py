"""What autocast is set to in this thread: on which types of devices it is on, its dtypes, whether casts are kept."""

from typing import Any, NamedTuple

from torchlike._base.device import device
from torchlike._base.dtypes import as_dtype, bfloat16, float16
from torchlike._base.dtypes import dtype as Dtype
from torchlike._base.state import AUTOCAST, state

# The types of devices that have an autocast, and the dtype of each as long as none was set.
_DTYPES = {
    "cpu": bfloat16, "cuda": float16, "mtia": float16, "maia": bfloat16,
    "xpu": float16, "ipu": float16, "hpu": bfloat16, "xla": bfloat16,
    "privateuseone": float16, "mps": float16,
}  # fmt: skip
SUPPORTED = tuple(_DTYPES)
_PLACES = {kind: i for i, kind in enumerate(SUPPORTED)}
_NAMES = {"tpu": "xla"}  # the same devices


class Settings(NamedTuple):
    """The settings of a thread; settings are replaced, never changed.

    ``on``: the types of devices that autocast is on for. ``dtypes``: those of ``SUPPORTED``, in that order.
    ``cache``: whether casts of weights are kept.
    """

    on: tuple[str, ...] = ()
    dtypes: tuple[Dtype, ...] = tuple(_DTYPES.values())
    cache: bool = True

    def lower(self, kind: str) -> Dtype:
        """The lower precision of a type of devices."""
        return self.dtypes[_PLACES[kind]]

    def having(self, kind: str, on: bool, lower: Dtype, cache: bool) -> "Settings":
        """These settings with others for one type of devices."""
        others = [x for x in self.on if x != kind]
        places = [lower if x == kind else known for x, known in zip(SUPPORTED, self.dtypes, strict=True)]
        return Settings(tuple(sorted([*others, kind] if on else others)), tuple(places), cache)


DEFAULT = Settings()


def current() -> Settings:
    """The settings of this thread; autocast is on nowhere while a call that it has seen is handled."""
    settings = state.autocast or DEFAULT
    return settings if state.active & AUTOCAST or not settings.on else settings._replace(on=())


def autocast_state() -> tuple:
    """All of this thread that concerns autocast: settings, bit, contexts, casts."""
    contexts = state.autocast_nesting, state.autocast_entered
    return state.autocast, state.active & AUTOCAST, contexts, state.autocast_casts


def set_autocast_state(found: tuple) -> None:
    """Set what :func:`autocast_state` gave."""
    state.autocast, bit, (state.autocast_nesting, state.autocast_entered), state.autocast_casts = found
    state.active = (state.active & ~AUTOCAST) | bit


class restored:
    """A context in which autocast is set as it was when this was made: what runs again does so as the first time.

    Casts that are kept in it are its own.
    """

    __slots__ = ("_before", "_settings")

    def __init__(self) -> None:
        self._settings = current()

    def __enter__(self) -> None:
        self._before = autocast_state()
        state.autocast_nesting, state.autocast_casts = (1 if self._settings.on else 0), None
        install(self._settings)

    def __exit__(self, *exc: object) -> None:
        set_autocast_state(self._before)


def keep(settings: Settings) -> None:
    """Make these the settings of this thread, where autocast is as much on as before."""
    state.autocast = None if settings == DEFAULT else settings


def install(settings: Settings) -> None:
    """Make these the settings of this thread."""
    keep(settings)
    state.active = state.active | AUTOCAST if settings.on else state.active & ~AUTOCAST


def kind_of(function: str, device_type: Any) -> str:
    """The type of device that a text names."""
    if not isinstance(device_type, str):
        raise TypeError(
            f"{function}(): argument 'device_type' (position 1) must be str, not {type(device_type).__name__}"
        )
    kind = device(device_type).type
    return _NAMES.get(kind, kind)


def demand_flag(function: str, enabled: Any, position: int = 2) -> None:
    """Refuse what is no bool."""
    if not isinstance(enabled, bool):
        raise TypeError(
            f"{function}(): argument 'enabled' (position {position}) must be bool, not {type(enabled).__name__}"
        )


def demand_bool(enabled: Any) -> None:
    """As :func:`demand_flag`, in the words of functions of one argument."""
    if not isinstance(enabled, bool):
        raise TypeError(f"enabled must be a bool (got {type(enabled).__name__})")


def _with_autocast(kind: str) -> str:
    if kind not in _DTYPES:
        raise RuntimeError(
            f"unknown device type for autocast: {kind} has no autocast; those that do are {', '.join(SUPPORTED)}"
        )
    return kind


def is_autocast_available(device_type: str) -> bool:
    """Whether there is an autocast for a type of device.

    >>> import torchlike as torch
    >>> torch.amp.is_autocast_available("cpu"), torch.amp.is_autocast_available("meta")
    (True, False)
    """
    return kind_of("is_autocast_available", device_type) in _DTYPES


def supported_devices() -> list[str]:
    """The types of devices that have an autocast."""
    return list(SUPPORTED)


def is_any_enabled() -> bool:
    """Whether autocast is on in this thread for any type of device."""
    return bool(current().on)


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Whether autocast is on in this thread, for a type of device.

    RuntimeError for a type of device that has none.

    >>> import torchlike as torch
    >>> with torch.autocast("cpu"):
    ...     torch.is_autocast_enabled("cpu")
    True
    """
    return _with_autocast(kind_of("is_autocast_enabled", device_type)) in current().on


def set_autocast_enabled(*args: Any, **kwargs: Any) -> None:
    """Switch autocast on or off in this thread: ``set_autocast_enabled(device_type, enabled)``.

    With ``enabled`` alone, that of CUDA. Prefer the context :class:`torch.autocast`, which also ends.

    >>> import torchlike as torch
    >>> torch.set_autocast_enabled("cpu", True)
    >>> torch.ones(1, 1).mm(torch.ones(1, 1)).dtype
    torch.bfloat16
    >>> torch.set_autocast_enabled("cpu", False)
    """
    named = dict(zip(("device_type", "enabled") if len(args) > 1 else ("enabled",), args, strict=False)) | kwargs
    if len(args) > 2 or not named or not named.keys() <= {"device_type", "enabled"} or "enabled" not in named:
        raise TypeError(
            f"set_autocast_enabled() received an invalid combination of arguments - got ({args}, {kwargs}), but "
            "expected one of (str device_type, bool enabled), (bool enabled)"
        )
    kind = kind_of("set_autocast_enabled", named.get("device_type", "cuda"))
    demand_flag("set_autocast_enabled", named["enabled"], len(named))
    settings = current()
    install(settings.having(_with_autocast(kind), named["enabled"], settings.lower(kind), settings.cache))


def get_autocast_dtype(device_type: str) -> Dtype:
    """The lower precision that autocast computes in, for a type of device.

    >>> import torchlike as torch
    >>> torch.get_autocast_dtype("cpu"), torch.get_autocast_dtype("cuda")
    (torch.bfloat16, torch.float16)
    """
    kind = kind_of("get_autocast_dtype", device_type)
    if kind not in _DTYPES:
        raise RuntimeError(f"unsupported scalarType: autocast has no dtype for devices of type {kind}")
    return current().lower(kind)


def set_autocast_dtype(device_type: str, dtype: Dtype) -> None:
    """Set the lower precision that autocast computes in, for a type of device, in this thread.

    >>> import torchlike as torch
    >>> torch.set_autocast_dtype("cpu", torch.float16)
    >>> torch.get_autocast_dtype("cpu")
    torch.float16
    >>> torch.set_autocast_dtype("cpu", torch.bfloat16)
    """
    kind = kind_of("set_autocast_dtype", device_type)
    try:
        dtype = as_dtype(dtype)
    except TypeError:
        raise TypeError(
            f"set_autocast_dtype(): argument 'dtype' (position 2) must be torch.dtype, not {type(dtype).__name__}"
        ) from None
    if kind in _DTYPES:
        settings = state.autocast or DEFAULT
        keep(settings.having(kind, kind in settings.on, dtype, settings.cache))


def is_autocast_cache_enabled() -> bool:
    """Whether autocast keeps the casts of weights until its outermost context ends."""
    return current().cache


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Whether autocast, in this thread, is to keep the casts of weights until its outermost context ends."""
    demand_bool(enabled)
    keep((state.autocast or DEFAULT)._replace(cache=enabled))


def autocast_increment_nesting() -> int:
    """Count one more context of autocast in this thread; returns how many there are."""
    state.autocast_nesting += 1
    return state.autocast_nesting


def autocast_decrement_nesting() -> int:
    """Count one context of autocast less in this thread; returns how many there are."""
    state.autocast_nesting -= 1
    return state.autocast_nesting


def clear_autocast_cache() -> None:
    """Forget the casts of weights that this thread keeps."""
    state.autocast_casts = None
