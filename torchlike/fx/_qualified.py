"""What graphs call functions: PyTorch's own name for each, under which generated code finds it."""

import builtins
import operator
import sys
import types
import typing
from collections.abc import Callable
from typing import Any

from torchlike._aten.packets import OpOverload, OpOverloadPacket
from torchlike._core.tensor.tensor import Tensor
from torchlike.interop.function_names import own_name

PACKAGE = __name__.partition(".")[0]


def public_module(module: str) -> str:
    """The module's name as users of PyTorch know it."""
    return "torch" + module[len(PACKAGE) :] if module == PACKAGE or module.startswith(PACKAGE + ".") else module


def target_name(func: Callable) -> str:
    """The name of a function without its module, as PyTorch has it."""
    return qualified_name(func).rpartition(".")[2] if is_ours(func) else str(func.__name__)


def is_ours(func: Any) -> bool:
    """Whether this package defines the function."""
    module = getattr(func, "__module__", None) or ""
    return isinstance(func, types.FunctionType) and (module == "torch" or module.startswith(("torch.", PACKAGE)))


def qualified_name(func: Callable) -> str:
    """The dotted name of a function or class by which generated code calls it.

    Raises RuntimeError for what has no module.
    """
    name = getattr(func, "__name__", None)
    if name is None:
        raise RuntimeError(f"cannot find module for {func}")
    if getattr(builtins, name, None) is func:
        return f"builtins.{name}" if func is getattr else str(name)
    if isinstance(func, OpOverload | OpOverloadPacket):
        return f"torch.ops.{func}"
    if is_ours(func):
        return _name_here(func, name)
    module = getattr(func, "__module__", None)
    if module is None:
        if getattr(Tensor, name, None) is func:
            return f"torch.Tensor.{name}"
        raise RuntimeError(f"cannot find module for {func}")
    if module in ("_operator", "operator"):
        return f"_operator.{name}"
    return f"{_home(func, public_module(module), name)}.{name}"


def _name_here(func: Any, name: str) -> str:
    """PyTorch's name of a function of this package."""
    if Tensor.__dict__.get(name) is func:
        return f"torch.Tensor.{name}"
    module = public_module(func.__module__)
    if module.startswith("torch._functions"):
        module = "torch"
    if module == "torch._C._switches":
        module = "torch._C"
    if module.startswith("torch._") and getattr(sys.modules[PACKAGE], name, None) is func:
        return f"torch.{name}"
    return own_name(module, name)


def _home(func: Any, module: str, name: str) -> str:
    """The module of a class or function, where PyTorch says another than Python."""
    if func is Tensor:
        return "torch"
    return "torch" if module.startswith("torch._") and not module.startswith("torch._C") else module


def type_text(kind: Any) -> str:
    """How str(graph) and the list of globals write a type."""
    if isinstance(kind, type) and not isinstance(kind, types.GenericAlias):
        if kind.__module__ == "builtins":
            return kind.__qualname__
        name = getattr(kind, "__name__", "")
        return f"{_home(kind, public_module(kind.__module__), name)}.{kind.__qualname__}"
    if kind is ...:
        return "..."
    if isinstance(kind, types.FunctionType):
        return kind.__name__
    if typing.get_origin(kind) is not None and typing.get_args(kind):
        return _generic_text(kind)
    return repr(kind)


def _generic_text(kind: Any) -> str:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Union and len(arguments) == 2 and type(None) in arguments:
        inner = arguments[0] if arguments[1] is type(None) else arguments[1]
        return f"typing.Optional[{type_text(inner)}]"
    if isinstance(kind, types.UnionType):
        return " | ".join("None" if a is type(None) else type_text(a) for a in arguments)
    name = repr(kind).partition("[")[0]
    return f"{name}[{', '.join(type_text(a) for a in arguments)}]"


def is_operator(func: Any, names: Any) -> bool:
    """Whether ``func`` is the function of Python's ``operator`` of one of these names."""
    name = getattr(func, "__name__", "")
    return name in names and getattr(operator, name, None) is func
