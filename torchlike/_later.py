"""The modules that dispatch modes, wrapper subclasses and ``torch.ops.aten`` need: imported when the first one is used.

They are further overloads of aten, the calls that operators are, and backward formulas as calls; few programs see them.
"""

import importlib
import threading

from torchlike._core import packets

_names = ["grad", "lowered", "random"]
_lock = threading.RLock()


def _load() -> None:
    """Import them, unless that is done. Another thread that comes meanwhile waits."""
    if _names:
        with _lock:
            for name in _names:
                importlib.import_module(f"torchlike._core._aten_{name}")
            _names.clear()


packets.LATER.append(_load)
