"""``torch._dispatch.python``: which kernels PyTorch's dispatcher prefers. Here each operator has one."""

import contextlib
from collections.abc import Iterator

from torchlike.interop.alias import missing_names

__all__ = ["enable_python_dispatcher", "no_python_dispatcher"]
__getattr__ = missing_names(__name__)


@contextlib.contextmanager
def enable_python_dispatcher() -> Iterator[None]:
    """A context in which PyTorch takes an operator's Python kernel, where it has one. It changes nothing here."""
    yield


@contextlib.contextmanager
def no_python_dispatcher() -> Iterator[None]:
    """A context in which PyTorch takes no Python kernels. It changes nothing here."""
    yield
