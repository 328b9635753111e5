"""``torch.jit.script`` and the functions around it."""

import functools
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torchlike._base.volatile import volatile
from torchlike._jit_internal import tracing
from torchlike.jit._errors import script_errors
from torchlike.jit._types import RecursiveScriptModule, ScriptFunction, ScriptModule, copied
from torchlike.nn.modules.module import Module

ENABLED = [os.environ.get("PYTORCH_JIT", "1") != "0"]


def script(obj: Any, optimize: Any = None, _frames_up: int = 0, _rcb: Any = None, example_inputs: Any = None) -> Any:
    """A function or module as a script, which runs the Python that it is.

    Args:
        obj: a function; or a module, which is copied with the same parameters and buffers: its children are copies too,
            and attributes that are set later on one are not seen by the other. A class is given back as it is.
        optimize: deprecated. example_inputs: accepted.

    Returns:
        a :class:`ScriptFunction` or :class:`RecursiveScriptModule`; ``obj`` itself if it is one.

    Raises:
        RuntimeError: ``obj`` is a class of modules. TypeError: ``obj`` is nothing that can be scripted.
        NotImplementedError: ``obj`` is a list or dict, or what ``code`` and ``graph`` of the result would show.

    >>> import torchlike as torch
    >>> @torch.jit.script
    ... def double(x):
    ...     return x * 2
    >>> double(torch.ones(2))
    tensor([2., 2.])
    >>> torch.jit.script(torch.nn.Linear(2, 2))
    RecursiveScriptModule(original_name=Linear)
    """
    if optimize is not None:
        message = "`optimize` is deprecated and has no effect. Use `with torch.jit.optimized_execution()` instead"
        warnings.warn(message, FutureWarning, stacklevel=2)
    if not ENABLED[0] or isinstance(obj, ScriptModule | ScriptFunction):
        return obj
    if isinstance(obj, Module):
        return copied(obj, RecursiveScriptModule, {})
    if isinstance(obj, dict | list):
        raise NotImplementedError(f"torch.jit.script: a {type(obj).__name__} as an object of scripts; pass it as it is")
    if isinstance(obj, type):
        if issubclass(obj, Module):
            raise RuntimeError(
                f"Type '{obj}' cannot be compiled since it inherits from nn.Module, pass an instance instead"
            )
        return obj
    if not callable(obj):
        raise TypeError(f"torch.jit.script: expected a function, a module or a class, got {type(obj)}")
    if isinstance(getattr(obj, "__self__", None), Module):
        return obj
    return ScriptFunction(obj)


def script_method(fn: Callable) -> Callable:
    """``fn``, a method of a :class:`ScriptModule`: it runs as it is, with the errors of scripts."""
    return script_errors(fn) if ENABLED[0] else fn


def _script_if_tracing(fn: Callable) -> Callable:
    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    wrapper.__original_fn = fn  # type: ignore[attr-defined]
    wrapper.__script_if_tracing_wrapper = True  # type: ignore[attr-defined]
    return wrapper


def script_if_tracing(fn: Callable) -> Callable:
    """``fn``, also inside a trace: control flow of Python is followed there too."""
    return _script_if_tracing(fn)


def is_tracing() -> bool:
    """Whether this thread runs a function or module that :func:`torch.jit.trace` made.

    >>> import torchlike as torch
    >>> torch.jit.is_tracing()
    False
    """
    return tracing.depth > 0


def interface(obj: Any) -> Any:
    """``obj``, a class that says which methods a module has. Raises RuntimeError for what is no class."""
    if not isinstance(obj, type):
        raise RuntimeError("interface must be applied to a class")
    return obj


def annotate(the_type: Any, the_value: Any) -> Any:
    """``the_value``, which a script would take to be of ``the_type``."""
    return the_value


def export_opnames(m: Any) -> Any:
    """Raises NotImplementedError: scripted modules are Python and list no operators."""
    raise NotImplementedError("torch.jit.export_opnames: scripted modules run as Python and list no operators")


def _unwrap_optional(x: Any) -> Any:
    if x is None:
        raise AssertionError("Unwrapping null optional")
    return x


class strict_fusion:  # noqa: N801
    """A context that a script checks, and Python does not: it warns so."""

    def __init__(self) -> None:
        warnings.warn("Only works in script mode", stacklevel=2)

    def __enter__(self) -> None: ...

    def __exit__(self, *exc: object) -> None: ...


_settings: dict[str, Any] = {"fusion": [("STATIC", 2), ("DYNAMIC", 10)], "onednn": False}


def set_fusion_strategy(strategy: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Keep a strategy of specialisation, which XLA does not need; the previous one is given back."""
    previous, _settings["fusion"] = _settings["fusion"], strategy
    return previous


def enable_onednn_fusion(enabled: bool) -> None:
    """Keep the switch of a fuser that is not there."""
    _settings["onednn"] = bool(enabled)


@volatile
def onednn_fusion_enabled() -> bool:
    """What :func:`enable_onednn_fusion` was told."""
    return _settings["onednn"]


@contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    """A context that changes nothing: scripts run as Python."""
    yield


@contextmanager
def fuser(name: str) -> Iterator[None]:
    """A context that changes nothing; ``name`` is one of "fuser0" to "fuser3". Raises RuntimeError for another."""
    if name not in ("fuser0", "fuser1", "fuser2", "fuser3"):
        raise RuntimeError(f"unrecognized fuser option (name: {name})")
    yield
