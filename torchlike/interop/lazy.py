"""Packages whose parts are imported when they are first used."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import sys
import threading
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any

from torchlike._base.home import ALIAS
from torchlike.interop.alias import missing_names
from torchlike.interop.renaming import show


def on_first_use(
    package: str,
    names: Mapping[str, str] = MappingProxyType({}),
    star: str | None = None,
    missing: Callable[[str], Any] | None = None,
    changing: Collection[str] = (),
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The ``__getattr__`` and ``__dir__`` of a package that imports its submodules when somebody asks for them.

    Args:
        package: the package's name.
        names: further names it has, each with the submodule that holds it.
        star: a submodule all of whose names it has.
        missing: gives, or raises, what it has for other names.
        changing: names that are asked for each time, since what they stand for depends on settings.

    What it has not is named as :func:`missing_names` does. ``from package import *`` imports everything.

    >>> import torchlike as torch
    >>> "optim" in dir(torch), torch.optim.__name__
    (True, 'torchlike.optim')
    """
    missing = missing_names(package) if missing is None else missing

    def found(name: str) -> Any:
        if name in names:
            return getattr(_imported(f"{package}.{names[name]}"), name)
        if name == "__all__":
            return [n for n in __dir__() if not n.startswith("_")]
        if name.startswith("__"):
            return missing(name)
        if importlib.util.find_spec(f"{package}.{name}") is not None:
            return _imported(f"{package}.{name}")
        whole = _imported(f"{package}.{star}") if star else None
        return getattr(whole, name) if whole is not None and name in whole.__all__ else missing(name)

    def __getattr__(name: str) -> Any:
        value = found(name)
        if ALIAS.installed:
            show(value, package)
        if name != "__all__" and name not in changing:  # the former may grow
            setattr(sys.modules[package], name, value)
        return value

    def __dir__() -> list[str]:
        module = sys.modules[package]
        parts = {part.name for part in pkgutil.iter_modules(module.__path__) if not part.name.startswith("_")}
        shared = importlib.import_module(f"{package}.{star}").__all__ if star else ()
        return sorted({*vars(module), *names, *parts, *shared})

    return __getattr__, __dir__


_importing = threading.RLock()
_PATIENCE = 10.0  # seconds


def _imported(name: str) -> Any:
    """The module, imported by one thread at a time.

    Python imports a package's part and the package in either order, and threads that do so at once fail: it takes them
    for a deadlock, or one finds what the other has half done. Patience ends, lest a thread that holds Python's own lock
    of a module waits here for one that waits for that.
    """
    taken = _importing.acquire(timeout=_PATIENCE)
    try:
        return importlib.import_module(name)
    finally:
        if taken:
            _importing.release()
