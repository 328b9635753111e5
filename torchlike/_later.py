"""The modules that dispatch modes, wrapper subclasses and ``torch.ops.aten`` need: imported when the first one is used.

They are further overloads of aten, the calls that operators are, and backward formulas as calls; few programs see them.
"""

import importlib
import threading
from typing import Any

from torchlike._aten import packets
from torchlike._aten.packets import ops

_names = ["_aten.backward", "_aten.grad", "_aten.lowered", "_aten.random", "_composites"]
_lock = threading.RLock()


def _load() -> None:
    """Import them, unless that is done. Another thread that comes meanwhile waits."""
    if _names:
        with _lock:
            for name in _names:
                importlib.import_module(f"torchlike.{name}")
            _names.clear()


packets.LATER.append(_load)


class _HigherOrder:
    """``torch.ops.higher_order`` until a name of it is looked up."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        importlib.import_module("torchlike._higher_order_ops")  # puts itself there
        return getattr(ops.higher_order, name)

    def __repr__(self) -> str:
        return "torch.ops.higher_order"


ops.higher_order = _HigherOrder()
packets.BROUGHT["torchvision", "_C"] = lambda: importlib.import_module("torchlike._library.torchvision_ops").define()
