"""``torch._C._VariableFunctions``: the functions of torch as PyTorch's C++ code has them; ``torch._VF`` is the same.

Those that PyTorch wraps in Python take other arguments there: a list for ``*tensors``, the dims of both operands.
"""

import functools
import sys
from collections.abc import Callable
from typing import Any

from torchlike._aten.packets import ops
from torchlike._core.overrides import torch_function
from torchlike.interop.alias import missing_names

_missing = missing_names(__name__)
_PACKAGE = __name__.partition(".")[0]
_WRAPPED = frozenset(["block_diag", "cdist", "einsum", "split", "tensordot", "unique_consecutive", "unique_dim"])
_OF_A_LIST = frozenset(
    ["atleast_1d", "atleast_2d", "atleast_3d", "broadcast_tensors", "cartesian_prod", "chain_matmul", "meshgrid"]
)


def __getattr__(name: str) -> Any:
    if name in _WRAPPED:
        return getattr(ops.aten, name)
    found = None if name.startswith("__") or name == "stft" else getattr(sys.modules[_PACKAGE], name, None)
    if found is None or torch_function.of(found) is None and not (name[0] == "_" and hasattr(ops.aten, name)):
        return _missing(name)
    return _of_a_list(found) if name in _OF_A_LIST else found


def _of_a_list(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def called(tensors: Any, **kwargs: Any) -> Any:
        return function(*tensors, **kwargs) if isinstance(tensors, list | tuple) else function(tensors, **kwargs)

    return called


class _Functions(type):
    def __getattr__(cls, name: str) -> Any:
        return __getattr__(name)


class _VariableFunctionsClass(metaclass=_Functions):
    """What pickles of PyTorch's functions find them in."""


_VariableFunctionsClass.__module__ = f"{_PACKAGE}._C"
