"""Functions that a program puts into ``torch.nn.functional`` in the place of what stood there.

PyTorch's functions find each other in that module, so that a replaced ``softmax`` is what attention calls. Ours run
many of them as one kernel; they ask ``REPLACED``, which is empty as long as everything is in its place, and then are
composed of what stands in ``PUBLIC``.
"""

import sys
from types import ModuleType
from typing import Any

PUBLIC = vars(sys.modules[__package__])
REPLACED: set[str] = set()
OWN: dict[str, Any] = {}


class _Functional(ModuleType):
    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name in OWN:
            (REPLACED.discard if value is OWN[name] else REPLACED.add)(name)


def watch() -> None:
    """Notice from now on what is put into ``torch.nn.functional``."""
    OWN.update((name, value) for name, value in PUBLIC.items() if callable(value))
    sys.modules[__package__].__class__ = _Functional
