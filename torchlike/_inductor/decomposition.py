"""torch._inductor.decomposition: rules for the compiler of PyTorch. XLA compiles what an operator computes."""

from collections.abc import Callable
from typing import Any

from torchlike.interop.alias import missing_names

__getattr__ = missing_names(__name__)


def register_decomposition(ops: Any) -> Callable[[Callable], Callable]:
    """A decorator that gives the function back: nothing here decomposes operators for PyTorch's compiler.

    >>> from torchlike._inductor.decomposition import register_decomposition
    >>> register_decomposition([])(len) is len
    True
    """
    return lambda function: function
