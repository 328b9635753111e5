"""Let `import torch` mean this package, and say plainly which names it lacks."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import CodeType, ModuleType
from typing import Any

from torchlike._base.home import ALIAS
from torchlike._base.home import OURS as _OURS
from torchlike._base.home import THEIRS as _ALIAS
from torchlike.interop import renaming, search_path, tracebacks, unbuilt
from torchlike.interop.refusing import refused_class
from torchlike.interop.their_names import is_theirs, their_home, their_modules, their_names
from torchlike.torch_version import TorchVersion
from torchlike.version import STANDS_FOR, TORCHLIKE

_BESIDE = "functorch"  # a package that comes with PyTorch, here a part of this one


def install_as_torch() -> None:
    """Make `import torch`, and every `import torch.x.y`, give this package's own modules.

    So does `import functorch`. The modules are the same objects under both names, so `torch.nn is torchlike.nn`
    and classes compare as usual. They show PyTorch's names and version (`torch.__name__`, `__version__`,
    `nn.Linear.__module__`, what pickles say), as does `importlib.metadata.version("torch")`. Processes that this one
    starts, by `multiprocessing` or as `python -m ...`, find the same, through the variable PYTHONPATH. Tracebacks of
    uncaught errors leave out frames of this package and of jax, unless TORCHLIKE_TRACEBACK=full. A second call does
    nothing; `uninstall_as_torch` takes it back.

    Raises:
        RuntimeError: PyTorch itself has been imported already. Code that holds its modules would mix the two.

    >>> import torchlike
    >>> torchlike.install_as_torch()           # doctest: +SKIP
    >>> import torch.nn.functional as F        # doctest: +SKIP
    >>> F is torchlike.nn.functional           # doctest: +SKIP
    True
    """
    present = sys.modules.get(_ALIAS)
    if present is not None and present is not sys.modules[_OURS]:
        raise RuntimeError(
            f"install_as_torch: {_ALIAS} is already imported, from {getattr(present, '__file__', 'memory')}; "
            f"expected a process that has not imported it. Call install_as_torch() before the first "
            f"`import {_ALIAS}`, or run the script with `python -m {_OURS} run SCRIPT`."
        )
    if _FINDER in sys.meta_path:
        return
    sys.meta_path.insert(0, _FINDER)
    sys.meta_path.append(unbuilt.FINDER)
    ALIAS.installed = True
    search_path.install()
    tracebacks.install()
    _alias_all()
    for name, module in list(sys.modules.items()):
        if module is not None and _is_or_under(name, _OURS):
            _open_up(module, name)
    _set_version(TorchVersion(STANDS_FOR), STANDS_FOR)


def _set_version(package: str, module: str) -> None:
    sys.modules[_OURS].__dict__["__version__"] = package
    sys.modules[f"{_OURS}.version"].__dict__["__version__"] = module


def uninstall_as_torch() -> None:
    """Undo `install_as_torch`: later imports of `torch` find PyTorch, where it is installed.

    Names that code has imported already keep pointing to this package. Without a previous
    `install_as_torch` it does nothing.
    """
    if _FINDER not in sys.meta_path:
        return
    sys.meta_path.remove(_FINDER)
    sys.meta_path.remove(unbuilt.FINDER)
    renaming.restore()
    ALIAS.installed = False
    search_path.uninstall()
    tracebacks.uninstall()
    _set_version(TORCHLIKE, TORCHLIKE)
    for name in [name for name in sys.modules if _is_or_under(name, _ALIAS) or _is_or_under(name, _BESIDE)]:
        del sys.modules[name]


def missing_names(module_name: str) -> Callable[[str], Any]:
    """A module-level `__getattr__` that names what the module lacks in the terms of the user's script.

    A module installs it as `__getattr__ = missing_names(__name__)`. The error is an AttributeError, so
    `hasattr`, `getattr` with a default and `from torch import x` (ImportError) work as everywhere. While this package
    stands in for torch, a name that PyTorch has there is what the module it comes from has under it, as
    ``torch.optim.adam.Optimizer``; what is not built can be imported, and refuses when it is used.

    >>> import torchlike as torch
    >>> torch.segment_reduce_v2
    Traceback (most recent call last):
    AttributeError: module 'torchlike' has no attribute 'segment_reduce_v2'
    >>> torch._C._jit_pass_inline
    Traceback (most recent call last):
    AttributeError: torchlike does not have torch._C._jit_pass_inline yet
    """
    public = _ALIAS + module_name[len(_OURS) :]

    def __getattr__(name: str) -> Any:
        special = name.startswith("__") and name.endswith("__")  # of which the import system asks for some
        known = False if special and not ALIAS.installed else is_theirs(public, name)
        if known and ALIAS.installed:
            return from_home(public, name)
        if special or known is False:
            message = f"module {(public if ALIAS.installed else module_name)!r} has no attribute {name!r}"
        else:
            message = f"{_OURS} does not have {public}.{name} yet"
        # name and obj let the interpreter suggest a name that is spelt nearly so.
        raise AttributeError(message, name=name, obj=sys.modules.get(module_name))

    return __getattr__


def from_home(public: str, name: str) -> Any:
    """What PyTorch's module of this name has imported from elsewhere; a class that refuses where that is not here."""
    home = their_home(public, name)
    if home is not None:
        ours = _OURS + home[len(_ALIAS) :] if _is_or_under(home, _ALIAS) else home
        if home in their_modules():
            return importlib.import_module(ours)
        place, _, own = ours.rpartition(".")
        try:
            module = importlib.import_module(place)
            if not isinstance(getattr(module.__spec__, "loader", None), unbuilt.Finder):
                return getattr(module, own)
        except (AttributeError, ImportError):
            pass
    elif f"{public}.{name}" in their_modules():  # a part that nobody has imported yet
        return importlib.import_module(f"{_OURS}{public[len(_ALIAS) :]}.{name}")
    return refused_class(public, name, f"not in {_OURS} yet")


class _AliasFinder(MetaPathFinder):
    """Finds `torch` and `torch.*` as the modules of the same path below this package."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if _is_or_under(fullname, _ALIAS):
            wanted = _OURS + fullname[len(_ALIAS) :]
        elif _is_or_under(fullname, _BESIDE):
            wanted = f"{_OURS}.{fullname}"
        else:
            return self._of_ours(fullname, path, target) if _is_or_under(fullname, _OURS) else None
        try:
            module = importlib.import_module(wanted)
        except ModuleNotFoundError as error:
            if error.name != wanted:
                raise
            # importlib.util.find_spec only asks: for it, None is the answer "there is none".
            if sys._getframe(2).f_globals.get("__name__") == "importlib.util":
                return None
            message = f"{_OURS} does not have the module {fullname} yet"
            raise ModuleNotFoundError(message, name=fullname) from None
        sys.modules.pop(fullname, None)  # put there while it was loaded: the import system would run it once more
        origin = getattr(module, "__file__", None)
        package = hasattr(module, "__path__")
        return ModuleSpec(fullname, _AliasLoader(module), origin=origin, is_package=package)

    def _of_ours(self, name: str, path: Sequence[str] | None, target: ModuleType | None) -> ModuleSpec | None:
        """What the other finders find, to be known under both names once it is loaded."""
        finders = [finder for finder in sys.meta_path if finder is not self]
        specs = (finder.find_spec(name, path, target) for finder in finders)
        spec = next((spec for spec in specs if spec is not None), None)
        if spec is None or not hasattr(spec.loader, "exec_module"):
            return spec
        loader: Any = spec.loader
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            if ALIAS.installed:
                _alias(name, module)
                _open_up(module, name)

        loader.exec_module = exec_module
        return spec


class _AliasLoader(Loader):
    """Hands out a module that is loaded already."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module
        self.spec = module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self.module

    def get_code(self, fullname: str) -> CodeType | None:
        """The code of the module, for who runs it as a program (``-m torch.distributed.run``)."""
        loader: Any = self.spec and self.spec.loader
        return loader.get_code(loader.name) if hasattr(loader, "get_code") else None

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec  # the import system has put the alias's spec there
        _alias_all()


def _alias_all() -> None:
    """Put every module that is loaded under its alias.

    The import system puts a module that it finds into its parent, where a function of the same name may stand
    (`torch.autograd.gradcheck`); what it has already, it leaves alone.
    """
    for name, module in list(sys.modules.items()):
        if module is not None and _is_or_under(name, _OURS):
            _alias(name, module)


def _open_up(module: ModuleType, name: str) -> None:
    """Give a module that is loaded PyTorch's names and parts."""
    unbuilt.open_up(module, name)
    renaming.rename(module, name)
    if _ALIAS + name[len(_OURS) :] in their_names():
        module.__dict__.setdefault("__getattr__", missing_names(name))


def _alias(name: str, module: ModuleType) -> None:
    sys.modules[_ALIAS + name[len(_OURS) :]] = module
    if _is_or_under(name, f"{_OURS}.{_BESIDE}"):
        sys.modules[name[len(_OURS) + 1 :]] = module


def _is_or_under(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


_FINDER = _AliasFinder()
