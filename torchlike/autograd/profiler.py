"""torch.autograd.profiler: names for stretches of a program in the traces that JAX's profiler records."""

import functools
from collections.abc import Callable
from typing import Any

import jax

from torchlike.interop.alias import missing_names

__all__ = ["record_function"]

__getattr__ = missing_names(__name__)


class record_function:
    """In this context, or in calls of what it decorates, a trace of JAX's profiler shows ``name``.

    Args:
        name: the label. args: a text that is shown with it.

    >>> import torchlike as torch
    >>> with torch.autograd.profiler.record_function("double"):
    ...     y = torch.ones(2) * 2
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        if not isinstance(name, str):
            raise TypeError(f"record_function(): name must be a str, not {type(name).__name__}")
        self.name, self.args = name, args
        self._annotations: list[Any] = []

    def __enter__(self) -> "record_function":
        more = {} if self.args is None else {"args": self.args}
        annotation = jax.profiler.TraceAnnotation(self.name, **more)
        annotation.__enter__()
        self._annotations.append(annotation)
        return self

    def __exit__(self, *exc: object) -> None:
        self._annotations.pop().__exit__(*exc)

    def __call__(self, function: Callable) -> Callable:
        @functools.wraps(function)
        def annotated(*args: Any, **kwargs: Any) -> Any:
            with record_function(self.name, self.args):
                return function(*args, **kwargs)

        return annotated
