"""Modules that can be imported and hold nothing that works: their names say so when they are used."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from torchlike._base.home import ALIAS, OURS, THEIRS
from torchlike.interop.their_names import is_theirs, their_modules

# what test runners ask any module for
PROBES = frozenset((
    "collect_ignore", "collect_ignore_glob", "load_tests", "pytest_plugins", "pytestmark", "setUpModule",
    "setup_function", "setup_module", "tearDownModule", "teardown_function", "teardown_module",
))  # fmt: skip


def refusing(module: str, why: str) -> Callable[[str], Any]:
    """The ``__getattr__`` of a module whose public names are classes that raise NotImplementedError when called.

    They can be imported, subclassed and asked for by ``isinstance``, which nothing is an instance of.

    >>> import torchlike.ao
    >>> from torchlike.interop.refusing import refusing
    >>> refusing("torchlike.ao", "there is none")("Observer")()
    Traceback (most recent call last):
    NotImplementedError: torch.ao.Observer: there is none
    """
    public = module[len(OURS) + 1 :] if module.startswith(f"{OURS}.functorch.") else THEIRS + module[len(OURS) :]

    def __getattr__(name: str) -> Any:
        if name.startswith("__") or name in PROBES or is_theirs(public, name) is False:
            raise AttributeError(f"module {module!r} has no attribute {name!r}", name=name)
        if ALIAS.installed and f"{public}.{name}" in their_modules() and hasattr(sys.modules[module], "__path__"):
            return importlib.import_module(f"{module}.{name}")
        made = _unavailable if name == "is_available" else refused_class(public, name, why)
        setattr(sys.modules[module], name, made)
        return made

    return __getattr__


def _unavailable() -> bool:
    """False: what the module is for is not here."""
    return False


class _Refused(type):
    """The classes that refuse: so do their attributes, and whoever takes one for a constant and asks what it says."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("_") and not name.strip("_").isupper() or name.startswith("__"):
            raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}", name=name, obj=cls)
        made = refused_class(f"{cls.__module__}.{cls.__qualname__}", name, cls.why)
        setattr(cls, name, made)
        return made

    def __bool__(cls) -> bool:
        return not cls.__name__.isupper() or cls._ask()

    def __iter__(cls) -> Any:
        cls._ask()

    def _ask(cls) -> NoReturn:
        raise NotImplementedError(f"{cls.__module__}.{cls.__qualname__}: {cls.why}")


@functools.cache
def is_refused(x: Any) -> bool:
    """Whether ``x`` is a class that :func:`refused_class` has made."""
    return isinstance(x, _Refused)


def refused_class(module: str, name: str, why: str) -> type:
    """A class ``module.name`` that cannot be made an object of; what is called an error can be caught."""

    def __new__(cls: type, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{module}.{name}: {why}")

    body = {"__new__": __new__, "__module__": module, "why": why, "__doc__": f"NotImplementedError when called: {why}."}
    return _Refused(name, (Exception,) if name.endswith(("Error", "Exception", "Warning")) else (), body)
