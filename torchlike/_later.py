"""The modules that dispatch modes, wrapper subclasses and ``torch.ops.aten`` need: imported when the first one is used.

They are further overloads of aten, the calls that operators are, and backward formulas as calls; few programs see them.
So is what prints tensors of function transforms.
"""

import importlib
import threading
from typing import Any

from torchlike._aten import packets
from torchlike._aten.packets import ops
from torchlike._base.state import state
from torchlike._core.overrides.torch_function import publish_method
from torchlike._core.tensor.printing import tensor_str
from torchlike._core.tensor.tensor import Tensor
from torchlike._executor import level

_names = [
    "_aten.backward", "_aten.grad", "_aten.lowered", "_aten.random", "_aten.recurrent", "_aten.functional",
    "_composites",
]  # fmt: skip
_lock = threading.RLock()


def _load() -> None:
    """Import them, unless that is done. Another thread that comes meanwhile waits."""
    if _names:
        with _lock:
            for name in _names:
                importlib.import_module(f"torchlike.{name}")
            _names.clear()


packets.LATER.append(_load)


def represented(self: Tensor, *, tensor_contents: str | None = None) -> str:
    """The text of ``repr(tensor)``; ``tensor_contents`` stands in place of the values."""
    if not (state.levels or self._ex or self._storage.stands or level.mapped(self)):
        return tensor_str(self, contents=tensor_contents)
    printing = importlib.import_module("torchlike._transforms.levels.printing")
    return printing.represented(self, tensor_contents=tensor_contents)


Tensor.__repr__ = represented  # type: ignore[assignment]


class _Namespace:
    """A namespace of ``torch.ops`` until a name of it is looked up."""

    def __init__(self, name: str, module: str) -> None:
        self.__dict__.update(__name__=name, _module=module)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        module = importlib.import_module(f"torchlike.{self._module}")  # may put itself there
        return getattr(module if getattr(ops, self.__name__) is self else getattr(ops, self.__name__), name)

    def __repr__(self) -> str:
        return f"torch.ops.{self.__name__}"


ops.higher_order = _Namespace("higher_order", "_higher_order_ops")
ops.quantized = _Namespace("quantized", "ao.nn.quantized._operators")
ops.profiler = _Namespace("profiler", "autograd._ranges")
for _library in ("_C", "_C_stable"):  # its older name and that of 0.29
    packets.BROUGHT["torchvision", _library] = lambda: importlib.import_module(
        "torchlike._library.torchvision_ops"
    ).define()
for _name in ("_c10d_functional", "_c10d_functional_autograd"):
    setattr(ops, _name, _Namespace(_name, "distributed._functional_ops"))
for _name in ("c10d", "c10d_functional"):
    setattr(ops, _name, _Namespace(_name, "distributed._dispatched"))


def _storage_type(self: Tensor) -> Any:
    """The class of old that :meth:`Tensor.storage` is an instance of."""
    return importlib.import_module("torchlike.storage").storage_type(self)


publish_method(Tensor, "storage_type", _storage_type)
