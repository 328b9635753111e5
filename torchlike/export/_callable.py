"""``torchlike.export`` is a module, and can be called: ``torchlike.export(fn, args)``."""

import types

from torchlike.export._trace import export_function


class CallableModule(types.ModuleType):
    """A module that exports what it is called with."""

    __call__ = staticmethod(export_function)
