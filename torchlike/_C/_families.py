"""PyTorch's names of functions that it computes in C++, as graphs of torch.fx write them: ``torch._C._nn.gelu``."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

from torchlike.interop.alias import missing_names


def names_of(module_name: str, home: ModuleType, prefix: str = "") -> Callable[[str], Any]:
    """The ``__getattr__`` of a module that has the functions of ``home``, each as ``prefix`` and its name.

    >>> import torchlike as torch
    >>> torch._C._fft.fft_fft is torch.fft.fft, torch._C._nn.gelu is torch.nn.functional.gelu
    (True, True)
    """
    missing = missing_names(module_name)

    def __getattr__(name: str) -> Any:
        short = _OTHER.get(name, name.removeprefix(prefix))
        if name.startswith("__") or not name.startswith(prefix) or not hasattr(home, short):
            return missing(name)
        return getattr(home, short)

    return __getattr__


_OTHER = {"log_sigmoid": "logsigmoid"}
