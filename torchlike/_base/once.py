"""Warnings that are given once in the life of a process, unless every one is wanted."""

from typing import TYPE_CHECKING

from .bits import NARROW, X64
from .frames import warn

if TYPE_CHECKING:
    from .dtypes import dtype

_given: set[str] = set()
_always = False


def warn_once(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn with ``message``, at the user's line, the first time that it is given."""
    if _always or message not in _given:
        _given.add(message)
        warn(message, category)


def discarding(dtype: "dtype") -> None:
    """Say once that complex numbers become those of ``dtype``; bool keeps whether they are 0."""
    if not dtype.is_complex and str(dtype) != "torch.bool":
        warn_once("Casting complex values to real discards the imaginary part; give x.real if that is meant")


def set_warn_always(b: bool, /) -> None:
    """Whether warnings that are given once per process are given every time.

    >>> import torchlike as torch
    >>> torch.set_warn_always(True)
    >>> torch.is_warn_always_enabled()
    True
    >>> torch.set_warn_always(False)
    """
    global _always
    if not isinstance(b, bool):
        raise TypeError(f"setWarnOnlyOnce expects a bool, but got {type(b).__name__}")
    _always = b


def is_warn_always_enabled() -> bool:
    """Whether warnings that are given once per process are given every time."""
    return _always


def asked_for(name: str) -> None:
    """In 32-bit mode: say once that a type of 64 bits was asked for by name, and what it is here."""
    if X64 or "64 bits" in _given:
        return
    _given.add("64 bits")
    kinds = ", ".join(f"torch.{wide} is torch.{narrow}" for wide, narrow in NARROW.items())
    warn(f"64 bits are asked for by {name}, but jax runs with 32 (JAX_ENABLE_X64=0): {kinds}")
