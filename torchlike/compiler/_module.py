"""Modules whose calls are compiled."""

from typing import Any

from torchlike.nn.modules.module import Module

_OWN = frozenset(("_orig_mod", "forward", "_wrap", "training"))


class OptimizedModule(Module):
    """A module whose calls are compiled; everything else is the module's own.

    Attributes:
        _orig_mod: the module. _wrap: makes the compiled call of a function.
    """

    def __init__(self, module: Module, wrap: Any) -> None:
        super().__init__()
        self._orig_mod, self._wrap = module, wrap
        self._compile()

    def _compile(self) -> None:
        self.__dict__["forward"] = self._wrap(self._orig_mod.__call__)

    @property
    def training(self) -> bool:
        """The mode of the module."""
        module = self.__dict__["_modules"].get("_orig_mod")
        return True if module is None else module.training

    @training.setter
    def training(self, mode: bool) -> None:
        if "_orig_mod" in self.__dict__.get("_modules", ()):
            self._orig_mod.training = mode

    def __getattr__(self, name: str) -> Any:
        if name == "_orig_mod":
            return self.__dict__["_modules"][name]
        return getattr(self._orig_mod, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _OWN or name in self.__dict__ or "_orig_mod" not in self.__dict__.get("_modules", ()):
            super().__setattr__(name, value)
        else:
            setattr(self._orig_mod, name, value)

    def __delattr__(self, name: str) -> None:
        if name in self.__dict__:
            super().__delattr__(name)
        else:
            delattr(self._orig_mod, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self._orig_mod)})

    def __len__(self) -> int:
        return len(self._orig_mod)

    def __bool__(self) -> bool:
        return True

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in super().__getstate__().items() if k != "forward"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._compile()
