"""torch._tensor_str: the pieces of printing that programs put together themselves."""

from typing import Any

from torchlike._core.tensor.printing import _append, _body, get_printoptions, tensor_str
from torchlike._core.tensor.printing import printoptions as printoptions
from torchlike._core.tensor.printing import set_printoptions as set_printoptions
from torchlike._core.tensor.tensor import Tensor
from torchlike.interop.alias import missing_names

__getattr__ = missing_names(__name__)


class _Options:
    """The options of printing as attributes, as they are now."""

    def __getattr__(self, name: str) -> Any:
        try:
            return get_printoptions()[name]
        except KeyError:
            raise AttributeError(f"printing has no option {name!r}") from None


PRINT_OPTS = _Options()


def _tensor_str(self: Tensor, indent: int) -> str:
    """The numbers of a tensor between brackets; ``indent``: how far the first line is in already."""
    return _body(self, None, indent)[0]


def _add_suffixes(tensor_str: str, suffixes: list[str], indent: int, force_newline: bool) -> str:
    """``tensor_str``, the suffixes and the bracket that closes, broken where the line would be too long."""
    return _append(tensor_str, suffixes, indent)


def _str_intern(inp: Tensor, *, tensor_contents: str | None = None) -> str:
    """The tensor as it prints; ``tensor_contents`` stand in the place of its numbers, which are then not read.

    >>> import torchlike as torch
    >>> torch._tensor_str._str_intern(torch.ones(2), tensor_contents="...")
    'tensor(...)'
    """
    return tensor_str(inp, contents=tensor_contents)


def _str(self: Tensor, *, tensor_contents: str | None = None) -> str:
    """As :func:`_str_intern`."""
    return tensor_str(self, contents=tensor_contents)
