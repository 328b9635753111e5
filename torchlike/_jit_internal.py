"""torch._jit_internal: what decorators of TorchScript leave on functions, and names that programs import from here.

Decorated functions run as the Python that they are; nothing here reads or compiles source code.
"""

import builtins
import functools
import threading
import typing
import warnings
from collections.abc import Callable
from typing import Any, Dict, Final, List, Optional, Tuple, Union  # noqa: UP035

from torchlike.futures import Future
from torchlike.interop.alias import missing_names

__all__ = [
    "Any", "BroadcastingList1", "BroadcastingList2", "BroadcastingList3", "BroadcastingList4", "BroadcastingList5",
    "BroadcastingList6", "BroadcastingListCls", "Callable", "Dict", "Final", "FunctionModifiers", "Future", "List",
    "Optional", "Tuple", "Union", "boolean_dispatch", "boolean_dispatched", "export", "get_torchscript_modifier",
    "ignore", "is_ignored_fn", "is_scripting", "unused",
]  # fmt: skip

__getattr__ = missing_names(__name__)


class Tracing(threading.local):
    """Whether this thread runs a function that ``torch.jit.trace`` made, and in which scopes its graph is written."""

    depth = 0
    scopes: tuple[str, ...] = ()

    def push_scope(self, name: str) -> None:
        """Calls from now on stand in this scope, too."""
        self.scopes = (*self.scopes, name)

    def pop_scope(self) -> None:
        """Leave the innermost scope."""
        self.scopes = self.scopes[:-1]


tracing = Tracing()


class FunctionModifiers:
    """What a decorator says of a function."""

    UNUSED = "unused (ignored and replaced with raising of an exception)"
    IGNORE = "ignore (leave as a call to Python, cannot be torch.jit.save'd)"
    EXPORT = "export (compile this function even if nothing calls it)"
    DEFAULT = "default (compile if called from an exported function / forward)"
    COPY_TO_SCRIPT_WRAPPER = "if this method is not scripted, copy the python method onto the scripted model"
    _DROP = "_drop (function is fully ignored, declaration can be unscriptable)"


IGNORED: dict[int, Any] = {}  # the code of functions that scripts leave to Python, by its id


def _marked(fn: Any, modifier: str) -> Any:
    target = fn.fget if isinstance(fn, property) else fn
    target._torchscript_modifier = modifier
    code = getattr(target, "__code__", None)
    if code is not None and modifier == FunctionModifiers.IGNORE:
        IGNORED[id(code)] = code
    return fn


def is_scripting() -> bool:
    """False: scripted functions run as Python, so the branch that is meant for Python is the one taken.

    >>> import torchlike as torch
    >>> torch.jit.is_scripting()
    False
    """
    return False


def unused(fn: Any) -> Any:
    """``fn`` itself, marked as not part of a script; a property is marked at its getter."""
    return _marked(fn, FunctionModifiers.UNUSED)


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """A decorator, or the decorated function: ``fn`` itself, marked as one that scripts leave to Python.

    Args:
        drop: the function; or whether calls are dropped, which marks it as :func:`unused` does.

    Raises:
        RuntimeError: ``drop`` is neither.
    """
    if callable(drop):
        return _marked(drop, FunctionModifiers.IGNORE)
    if not isinstance(drop, bool):
        raise RuntimeError(f"Argument to @torch.jit.ignore must be a bool or a function but got {drop}")
    unexported = kwargs.pop("drop_on_export", None)
    if unexported:
        message = "ignore(drop_on_export=True) has been deprecated. TorchScript will now drop the function call"
        warnings.warn(message, FutureWarning, stacklevel=2)
    modifier = FunctionModifiers.UNUSED if drop or unexported else FunctionModifiers.IGNORE
    return lambda fn: _marked(fn, modifier)


def export(fn: Any) -> Any:
    """``fn`` itself, marked as an entry of the scripted module."""
    return _marked(fn, FunctionModifiers.EXPORT)


def _drop(fn: Any) -> Any:
    return _marked(fn, FunctionModifiers._DROP)


def _copy_to_script_wrapper(fn: Any) -> Any:
    """``fn`` itself, marked as a method that a scripted module has as Python."""
    return _marked(fn, FunctionModifiers.COPY_TO_SCRIPT_WRAPPER)


def get_torchscript_modifier(fn: Any) -> Any:
    """What the decorators of this module said of ``fn``; None if it is no function."""
    if not callable(fn):
        return None
    return getattr(getattr(fn, "__func__", fn), "_torchscript_modifier", FunctionModifiers.DEFAULT)


def is_ignored_fn(fn: Any) -> bool:
    """Whether ``fn`` is marked as ignored, unused or dropped."""
    modifiers = FunctionModifiers.UNUSED, FunctionModifiers.IGNORE, FunctionModifiers._DROP
    return get_torchscript_modifier(fn) in modifiers


def copy_torchscript_modifier(orig: Any, new: Any) -> None:
    """Mark ``new`` as ``orig`` is."""
    modifier = get_torchscript_modifier(orig)
    if modifier is not None:
        new._torchscript_modifier = modifier


# ----- overloads -----

_overloaded_fns: dict[str, list[Callable]] = {}
_overloaded_methods: dict[str, dict[str, list[Callable]]] = {}


def _qualified_name(obj: Any, mangle_name: bool = True) -> str:
    """The name of a function or class among scripts."""
    module = "__torch__" if obj.__module__ == "__main__" else f"__torch__.{obj.__module__}"
    return f"{module}.{getattr(obj, '__qualname__', obj.__name__).replace('<lambda>', '_lambda').rpartition('.')[2]}"


def _overload(func: Any) -> Any:
    """``func``, noted as one signature of the function of its name; the last definition is what is called."""
    _overloaded_fns.setdefault(_qualified_name(func), []).append(func)
    return func


def _get_fn_overloads(qual_name: str) -> list[Callable] | None:
    return _overloaded_fns.get(qual_name)


def _clear_fn_overloads(qual_name: str) -> None:
    del _overloaded_fns[qual_name]


def _overload_method(func: Any) -> Any:
    """``func``, noted as one signature of the method of its name."""
    methods = _overloaded_methods.setdefault(f"{func.__module__}.{func.__qualname__}", {})
    methods.setdefault(func.__qualname__.rpartition(".")[0], []).append(func)
    return func


boolean_dispatched: dict[Callable, dict[str, Any]] = {}


def boolean_dispatch(
    arg_name: str,
    arg_index: int,
    default: bool,
    if_true: Callable,
    if_false: Callable,
    module_name: Any,
    func_name: Any,
) -> Callable:
    """A function that calls ``if_true`` or ``if_false``, as its argument ``arg_name`` says.

    Args:
        arg_name, arg_index, default: the argument's name, position and default.
        module_name, func_name: of the function that is made; None leaves them.

    Raises:
        RuntimeError: both functions have a docstring.
    """

    def fn(*args: Any, **kwargs: Any) -> Any:
        chosen = args[arg_index] if arg_index < len(args) else kwargs.get(arg_name, default)
        return (if_true if chosen else if_false)(*args, **kwargs)

    if if_true.__doc__ is not None and if_false.__doc__ is not None:
        raise RuntimeError("only one function can have a docstring")
    fn.__doc__ = if_true.__doc__ or if_false.__doc__
    if module_name is not None:
        fn.__module__ = module_name
    if func_name is not None:
        fn.__name__ = func_name
    boolean_dispatched[fn] = {
        "if_true": if_true, "if_false": if_false, "index": arg_index, "default": default, "arg_name": arg_name,
    }  # fmt: skip
    return fn


class BroadcastingListCls:
    """An annotation: a list of so many numbers, or one that stands for all of them."""

    def __getitem__(self, types: Any) -> None:
        return None


BroadcastingList1: Any = BroadcastingListCls()
BroadcastingList2: Any = BroadcastingListCls()
BroadcastingList3: Any = BroadcastingListCls()
BroadcastingList4: Any = BroadcastingListCls()
BroadcastingList5: Any = BroadcastingListCls()
BroadcastingList6: Any = BroadcastingListCls()


# ----- types -----


def _origin(ann: Any) -> Any:
    return typing.get_origin(ann)


def is_tuple(ann: Any) -> bool:
    """Whether an annotation is a tuple's, with the types of its items."""
    return _origin(ann) is tuple


def is_list(ann: Any) -> bool:
    """Whether an annotation is a list's, with the type of its items."""
    return _origin(ann) is list


def is_dict(ann: Any) -> bool:
    """Whether an annotation is a dict's, with the types of keys and values."""
    return _origin(ann) is dict


def is_union(ann: Any) -> bool:
    """Whether an annotation is a union."""
    return ann is Union or _origin(ann) is Union or type(ann).__name__ == "UnionType"


def is_optional(ann: Any) -> bool:
    """Whether an annotation is a union of one type and None."""
    parts = typing.get_args(ann)
    return is_union(ann) and len(parts) == 2 and type(None) in parts


def is_future(ann: Any) -> bool:
    """Whether an annotation is a future's."""
    return ann is Future or _origin(ann) is Future


def is_final(ann: Any) -> bool:
    """Whether an annotation says that an attribute is constant."""
    return ann is Final or _origin(ann) is Final


def _isinstance(obj: Any, target_type: Any) -> bool:
    """Whether ``obj`` is of a type that may name the types of items; a tuple of types is any of them."""
    if isinstance(target_type, tuple):
        return any(_isinstance(obj, one) for one in target_type)
    _refuse_bare(target_type)
    origin, parts = typing.get_origin(target_type), typing.get_args(target_type)
    if origin is None:
        return builtins.isinstance(obj, target_type)
    if is_union(target_type):
        return any(obj is None if part is type(None) else _isinstance(obj, part) for part in parts)
    if not isinstance(obj, origin):
        return False
    if origin is tuple:
        same = len(parts) == len(obj) or parts == ((),) and not obj
        return same and all(_isinstance(x, part) for x, part in zip(obj, parts, strict=False))
    if not obj:
        warnings.warn("The inner type of a container is lost when calling torch.jit.isinstance in eager mode. For "
                      "example, List[int] would become list and therefore falsely return True for List[float] or "
                      "List[str].", stacklevel=3)  # fmt: skip
    columns = zip(*obj.items(), strict=True) if origin is dict and obj else [obj]
    return all(_isinstance(x, part) for column, part in zip(columns, parts, strict=False) for x in column)


_BARE = (list, tuple, dict, typing.List, typing.Tuple, typing.Dict)  # noqa: UP006


def _refuse_bare(target: Any) -> None:
    """A container's type without the types of its items says too little."""
    if target in _BARE:
        name = getattr(target, "__name__", str(target))
        raise RuntimeError(
            f"Attempted to use {name} without a contained type. Please add a contained type, e.g. {name}[int]"
        )


def get_callable_argument_names(fn: Callable) -> list[str]:
    """The names of the arguments that may be given by position and name; none where others are."""
    code = getattr(functools.partial(fn).func, "__code__", None)
    return list(code.co_varnames[: code.co_argcount]) if code is not None else []
