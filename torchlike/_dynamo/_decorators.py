"""Older ways to compile, and settings for one function."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torchlike._dynamo import config
from torchlike.compiler._compile import compile


@dataclass(frozen=True, slots=True)
class _DimRange:
    """Between what a dynamic length lies: in files of tensors that PyTorch has marked."""

    dim: int
    min: int | None
    max: int | None


def optimize(
    backend: str | Callable = "inductor", *, nopython: bool = False, disable: bool = False, dynamic: bool | None = None
) -> Callable:
    """``torch.compile`` under its former name: a decorator; ``nopython`` is ``fullgraph``."""
    return compile(backend=backend, fullgraph=nopython, disable=disable, dynamic=dynamic)


def run(fn: Callable | None = None) -> Any:
    """Give back ``fn``, or a decorator that does."""
    return (lambda f: f) if fn is None else fn


def patch_dynamo_config(arg1: Any = None, arg2: Any = None, **kwargs: Any) -> contextlib.AbstractContextManager:
    """``torch._dynamo.config.patch``: other settings within a context or a function."""
    return config.patch(arg1, arg2, **kwargs)


class error_on_graph_break(contextlib.ContextDecorator):
    """Accepted as a context or decorator: ``fullgraph=True`` is what makes graph breaks errors."""

    def __init__(self, error_on_graph_break: bool) -> None:
        self.error_on_graph_break = error_on_graph_break

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        pass
