"""Warnings that are given once in the life of a process, unless every one is wanted."""

import warnings

_given: set[str] = set()
_always = False


def warn_once(message: str, category: type[Warning] = UserWarning, *, stacklevel: int = 2) -> None:
    """Warn with ``message`` the first time that it is given."""
    if _always or message not in _given:
        _given.add(message)
        warnings.warn(message, category, stacklevel=stacklevel + 1)


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
