"""torch.onnx.symbolic_helper: decorators of functions that would write ONNX; the functions stay as they are."""

from collections.abc import Callable
from typing import TypeVar

from torchlike.interop.alias import missing_names

F = TypeVar("F", bound=Callable)

__getattr__ = missing_names(__name__)


def parse_args(*arg_descriptors: str) -> Callable[[F], F]:
    """A decorator that changes nothing: no argument is ever a node of an ONNX graph."""
    return lambda function: function
