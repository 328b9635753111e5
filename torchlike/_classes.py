"""``torch.classes``: classes that PyTorch's extensions in C++ register, of which there are none."""

import os
from pathlib import Path
from typing import Any, NoReturn


class ScriptObject:
    """The class of what ``torch.classes`` makes: nothing is an instance of it.

    >>> import torchlike as torch
    >>> isinstance(torch.ones(1), torch.ScriptObject)
    False
    """

    def __init__(self) -> None:
        raise TypeError("torch._C.ScriptObject: No constructor defined!")


class _Namespace:
    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise RuntimeError(
            f"Tried to instantiate class '{self._name}.{name}', but it does not exist! Ensure that it is registered "
            "via torch::class_"
        )


class _Classes:
    @property
    def loaded_libraries(self) -> set[str]:
        """The libraries that were loaded: none."""
        return set()

    def load_library(self, path: Any) -> NoReturn:
        """OSError if there is no such file, else NotImplementedError."""
        if not Path(path).exists():
            raise OSError(f"Could not load this library: {os.path.abspath(path)}")
        raise NotImplementedError(f"torch.classes.load_library({os.fspath(path)!r}): it is compiled for PyTorch")

    def __getattr__(self, name: str) -> _Namespace:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Namespace(name)


classes = _Classes()
