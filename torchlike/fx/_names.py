"""Classes and functions of torch.fx: they can be imported and asked about, and raise when they are used."""

from typing import Any, NoReturn


def _absent(name: str) -> NoReturn:
    raise NotImplementedError(f"torch.fx.{name}: graphs of Python code are not made; torch.compile compiles functions")


class _Absent:
    """A class without instances."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _absent(type(self).__name__)


class Proxy(_Absent):
    """The value of a node while a function is traced: there are none."""


class Attribute(Proxy):
    """An attribute of a traced value: there are none."""


class Node(_Absent):
    """A step of a graph: there are none."""


class Graph(_Absent):
    """The steps of a function: there are none. Raises NotImplementedError."""


class GraphModule(_Absent):
    """A module made of a graph: there are none. Raises NotImplementedError."""


class TracerBase(_Absent):
    """What makes graphs. Raises NotImplementedError."""


class Tracer(TracerBase):
    """What makes graphs of modules. Raises NotImplementedError."""


class GraphAppendingTracer(TracerBase):
    """What adds to graphs. Raises NotImplementedError."""


class Interpreter(_Absent):
    """What runs graphs. Raises NotImplementedError."""


class Transformer(Interpreter):
    """What changes graphs. Raises NotImplementedError."""


def symbolic_trace(root: Any, concrete_args: Any = None) -> NoReturn:
    """Raises NotImplementedError: no graph is made."""
    _absent("symbolic_trace")


def replace_pattern(gm: Any, pattern: Any, replacement: Any) -> NoReturn:
    """Raises NotImplementedError: there are no graphs."""
    _absent("replace_pattern")


def map_arg(a: Any, fn: Any) -> NoReturn:
    """Raises NotImplementedError: there are no nodes."""
    _absent("map_arg")


def wrap(fn_or_name: Any) -> Any:
    """``fn_or_name``, a function or its name, which a graph would show as one step.

    Raises RuntimeError for anything else.

    >>> import torchlike as torch
    >>> torch.fx.wrap("len")
    'len'
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError("Unsupported type for global function! Must be either a callable or string name")
    return fn_or_name


def has_side_effect(fn: Any) -> Any:
    """``fn``, a function whose steps a graph would keep."""
    return fn
