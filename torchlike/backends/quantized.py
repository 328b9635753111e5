"""Engines of quantized operators: XLA computes them all; the name says which settings PyTorch would choose."""

import sys
from types import ModuleType
from typing import Any

from torchlike.interop.alias import missing_names

__getattr__ = missing_names(__name__)

supported_engines = ["qnnpack", "onednn", "x86", "fbgemm"]
engine = "x86"


class _Settings(ModuleType):
    """A module whose ``engine`` is one of those that there are."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "engine" and value not in supported_engines:
            raise RuntimeError(f"engine is {value!r}, which is not one of {', '.join(supported_engines)}")
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Settings
