"""``torch.functional``: those functions of ``torch`` that PyTorch has in Python, under their other name."""

import torchlike._api  # noqa: F401  (it publishes them)
from torchlike._core.dispatch.bind import FUNCTIONS as _FUNCTIONS
from torchlike._core.overrides.torch_function import ENTRIES as _ENTRIES

_doors = {f: door for f, door in _ENTRIES.doors.items() if door.behind.place == "torch.functional"}
_here = {name: f for name, f in _FUNCTIONS.items() if f in _doors}
_here["broadcast_shapes"] = _FUNCTIONS["broadcast_shapes"]
globals().update(_here)

__all__ = list(_here)
