"""The optimizers with ``foreach=True`` as their default, under their former import path."""

import functools
from typing import Any

from torchlike import optim


def _with_foreach(cls: Any) -> Any:
    init = functools.partialmethod(cls.__init__, foreach=True)
    return type(cls.__name__, (cls,), {"__init__": init, "__module__": __name__})


Adam = _with_foreach(optim.Adam)
AdamW = _with_foreach(optim.AdamW)
NAdam = _with_foreach(optim.NAdam)
SGD = _with_foreach(optim.SGD)
RAdam = _with_foreach(optim.RAdam)
RMSprop = _with_foreach(optim.RMSprop)
Rprop = _with_foreach(optim.Rprop)
ASGD = _with_foreach(optim.ASGD)
Adamax = _with_foreach(optim.Adamax)
Adadelta = _with_foreach(optim.Adadelta)
Adagrad = _with_foreach(optim.Adagrad)
