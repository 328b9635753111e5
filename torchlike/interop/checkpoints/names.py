"""The names that PyTorch's files have for what both libraries have."""

from typing import Any

import torchlike._base.dtypes as dtypes
from torchlike._base.device import device as Device
from torchlike._base.home import OURS as _OURS
from torchlike._base.home import THEIRS as _THEIRS
from torchlike._base.home import home
from torchlike._base.qschemes import QScheme
from torchlike._core.autograd.hooks import RemovableHandle
from torchlike._core.tensor.size import Size
from torchlike._core.tensor.tensor import MemoryFormat, Tensor
from torchlike._core.tensor.untyped_storage import TypedStorage, UntypedStorage
from torchlike._functions.generator import Generator
from torchlike._utils import STORAGES
from torchlike.interop.renaming import is_private, moved

STORAGE_NAMES = {dtype: name for name, dtype in STORAGES.items()}

_RENAMED = {
    RemovableHandle: "torch.utils.hooks.RemovableHandle",
    Size: "torch.Size",
    Device: "torch.device",
    Tensor: "torch.Tensor",
    Generator: "torch._C.Generator",
    UntypedStorage: "torch.storage.UntypedStorage",
    TypedStorage: "torch.storage.TypedStorage",
}


def their_name(x: Any, name: str | None = None) -> tuple[str, str] | None:
    """The (module, qualified name) that PyTorch has for a class, function or constant; None if it has none."""
    if isinstance(x, dtypes.dtype):
        return _THEIRS, x.name
    if isinstance(x, MemoryFormat | QScheme):
        return _THEIRS, repr(x).removeprefix("torch.")
    try:
        renamed = _RENAMED.get(x)
    except TypeError:  # not hashable
        renamed = None
    if renamed is not None:
        module, _, last = renamed.rpartition(".")
        return module, last
    module = getattr(x, "__module__", None) or ""
    module = home(module)
    module = moved(module, name or x.__qualname__) or module
    if module == "torch.return_types":
        return module, x.__qualname__
    parts = module.split(".")
    if parts[0] != _OURS or is_private(module):
        return None
    return ".".join([_THEIRS, *parts[1:]]), name or x.__qualname__


def our_module(module: str) -> str:
    """The module that stands for one of PyTorch's."""
    module = {"torch._C._nn": "torch.nn.functional"}.get(module, module)  # where its functions in C++ are
    if module == _THEIRS or module.startswith(_THEIRS + "."):
        return _OURS + module[len(_THEIRS) :]
    return module
