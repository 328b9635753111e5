"""``torch.utils.deterministic``: what memory holds that nothing was written to.

When algorithms have to be deterministic, NaN or the largest integer, as long as ``fill_uninitialized_memory`` is True;
zeros otherwise.

>>> import torchlike as torch
>>> torch.utils.deterministic.fill_uninitialized_memory
True
>>> torch.use_deterministic_algorithms(True)
>>> torch.empty(2), torch.ones(1).resize_(2)
(tensor([nan, nan]), tensor([1., nan]))
>>> torch.use_deterministic_algorithms(False)
"""

import sys
import types

from torchlike._base.deterministic import determinism


class _Settings(types.ModuleType):
    """RuntimeError for a value of the setting that is no bool."""

    @property
    def fill_uninitialized_memory(self) -> bool:
        return determinism.fill

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, on: bool) -> None:
        if not isinstance(on, bool):
            raise RuntimeError(f"expected a bool, but got {type(on).__name__}: the setting is True or False")
        determinism.fill = on


sys.modules[__name__].__class__ = _Settings
