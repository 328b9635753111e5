"""What ``torch.nn.functional`` has of what is imported later: ``torch.nn.grad``, under the name ``grad``."""

from typing import Any

from torchlike.interop.alias import missing_names
from torchlike.interop.lazy import on_first_use

_missing = missing_names("torchlike.nn.functional")
_of_nn = on_first_use("torchlike.nn")[0]


def __getattr__(name: str) -> Any:
    return _of_nn(name) if name == "grad" else _missing(name)
