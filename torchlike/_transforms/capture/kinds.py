"""What of an argument selects a program, and what of a value that is read anew in every call."""

import enum
import types

import numpy as np

from torchlike._base.device import device
from torchlike._base.dtypes import dtype
from torchlike._core.tensor.tensor import Tensor
from torchlike._transforms.capture.structure import exactly

_VALUES = (dtype, device, enum.Enum, range, frozenset, type, types.FunctionType, types.BuiltinFunctionType)
_PLAIN = (bool, int, float, complex, str, bytes, type(None))


def kind_of(x):
    """Equal for values with which a program does the same."""
    if isinstance(x, Tensor):
        view = x._view
        value = x._storage.value
        element = value.dtype if view is None or view.dtype is None else view.dtype
        layout = value.shape if view is None else view.layout
        hooks = x._ex and _hooks(x._ex)
        return type(x), layout, element, x._rg, x._edge is None, x._grad is None, hooks
    if type(x) is tuple:
        return tuple, *map(kind_of, x)
    if isinstance(x, _PLAIN):
        return type(x), x if x and x == x else repr(x)  # -0.0 is not 0.0, and NaN is the same NaN
    if isinstance(x, slice):
        return slice, kind_of(x.start), kind_of(x.stop), kind_of(x.step)
    if isinstance(x, np.generic):
        return type(x), x.tobytes()
    if isinstance(x, frozenset):
        return type(x), frozenset(zip(x, exactly(x), strict=True))
    return (type(x), x) if isinstance(x, _VALUES) else (type(x), id(x))


def _hooks(extras):
    """The hooks of an argument, by identity."""
    return tuple([(k, *map(id, v.values())) if isinstance(v, dict) else (k, id(v)) for k, v in extras.items()])
