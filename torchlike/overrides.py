"""``torch.overrides``: what can be overridden by ``__torch_function__``, by whom, and modes that see every call."""

import functools
import importlib
import inspect
import sys
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from torchlike._aten import subclass as subclasses
from torchlike._aten.packets import OpOverload, OpOverloadPacket
from torchlike._aten.python_dispatch import enable_reentrant_dispatch as enable_reentrant_dispatch
from torchlike._base.state import state
from torchlike._core.overrides import conventions
from torchlike._core.overrides import torch_function as core
from torchlike._core.tensor.tensor import Tensor

# isort: split
import torchlike._checks
import torchlike.fft
import torchlike.linalg
import torchlike.nn.init
import torchlike.sparse
import torchlike.special
import torchlike.storage  # noqa: F401  (they publish functions)

__all__ = [
    "BaseTorchFunctionMode", "TorchFunctionMode", "enable_reentrant_dispatch", "get_default_nowrap_functions",
    "get_ignored_functions", "get_overridable_functions", "get_testing_overrides", "handle_torch_function",
    "has_torch_function", "has_torch_function_unary", "has_torch_function_variadic", "is_tensor_like",
    "is_tensor_method_or_property", "redispatch_function", "resolve_name", "wrap_torch_function",
]  # fmt: skip


# -- functions of one's own that can be overridden --------------------------------------------------


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether a mode is active or any of the arguments overrides functions.

    Args:
        relevant_args: a tuple or list of the arguments that may be tensors.

    >>> import torchlike as torch
    >>> torch.overrides.has_torch_function((torch.ones(1),))
    False
    """
    if not isinstance(relevant_args, tuple | list):
        raise TypeError(
            f"has_torch_function(): expected a sequence of arguments, got {type(relevant_args).__name__}; pass a tuple"
        )
    return has_torch_function_variadic(*relevant_args)


def has_torch_function_unary(tensor: Any) -> bool:
    """``has_torch_function((tensor,))``."""
    return has_torch_function_variadic(tensor)


def has_torch_function_variadic(*relevant_args: Any) -> bool:
    """``has_torch_function(relevant_args)``."""
    return core.asked(relevant_args)


def handle_torch_function(public_api: Callable, relevant_args: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
    """Hand a call of ``public_api`` to the active mode, or to those of ``relevant_args`` that override.

    Args:
        public_api: the function as users know it; handlers get it as ``func``.
        relevant_args: the arguments that may override it. args, kwargs: all of the call's arguments.

    Raises:
        TypeError: all handlers returned NotImplemented.

    >>> import torchlike as torch
    >>> def double(x):
    ...     if torch.overrides.has_torch_function((x,)):
    ...         return torch.overrides.handle_torch_function(double, (x,), x)
    ...     return x + x
    >>> class Loud(torch.Tensor):
    ...     @classmethod
    ...     def __torch_function__(cls, func, types, args=(), kwargs=None):
    ...         return func.__name__
    >>> double(torch.ones(1).as_subclass(Loud))
    'double'
    """
    name = f"{public_api.__module__}.{public_api.__name__}"
    return core.hand_over(public_api, relevant_args, args, kwargs, name)


def wrap_torch_function(dispatcher: Callable[..., Iterable[Any]]) -> Callable[[Callable], Callable]:
    """A decorator that makes a function overridable.

    Args:
        dispatcher: takes the function's arguments and returns those that may override it.

    >>> import torchlike as torch
    >>> @torch.overrides.wrap_torch_function(lambda x: (x,))
    ... def double(x):
    ...     return x + x
    >>> double(torch.ones(1))
    tensor([2.])
    """

    def decorate(function: Callable) -> Callable:
        @functools.wraps(function)
        def wrapped(*args, **kwargs):
            relevant = dispatcher(*args, **kwargs)
            if has_torch_function(tuple(relevant)):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return wrapped

    return decorate


# -- modes ------------------------------------------------------------------------------------------


class TorchFunctionMode:
    """A context in which every call of a public function goes through ``__torch_function__`` of the mode.

    The innermost mode comes first, before all that the arguments override. While its handler runs the mode is off;
    ``with self:`` in it turns it on again.

    >>> import torchlike as torch
    >>> class Names(torch.overrides.TorchFunctionMode):
    ...     def __torch_function__(self, func, types, args=(), kwargs=None):
    ...         print(torch.overrides.resolve_name(func))
    ...         return func(*args, **(kwargs or {}))
    >>> with Names():
    ...     x = torch.ones(2) + 1
    torch.ones
    torch.Tensor.add
    """

    def __init__(self) -> None:
        pass

    def __torch_function__(self, func, types, args=(), kwargs=None):
        """Answer a call; a mode has to define it."""
        raise NotImplementedError(f"{type(self).__name__} has no __torch_function__(self, func, types, args, kwargs)")

    def __enter__(self):
        _push_mode(self)
        return self

    def __exit__(self, exc_type, exc_val, exc_tb):
        _pop_mode()

    @classmethod
    def push(cls, *args, **kwargs):
        """An instance; kept for old code, which had to say so."""
        warnings.warn(f"`{cls.__name__}.push()` is no longer necessary and can be replaced with just with "
                      f"`{cls.__name__}()`", stacklevel=2)  # fmt: skip
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that calls each function as it is."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def _push_mode(mode) -> None:
    core.arm()
    state.function_modes = (*state.function_modes, mode)


def _pop_mode():
    *rest, mode = state.function_modes
    state.function_modes = tuple(rest)
    return mode


def _get_current_function_mode():
    """The innermost mode, or None."""
    modes = state.function_modes
    return modes[-1] if modes else None


def _get_current_function_mode_stack() -> list:
    """The active modes, the innermost last."""
    return list(state.function_modes)


def _len_torch_function_stack() -> int:
    return len(state.function_modes)


def _get_function_stack_at(index: int):
    return state.function_modes[index]


def _is_torch_function_mode_enabled() -> bool:
    return bool(state.function_modes) and state.overrides_off < 2


class _pop_mode_temporarily:
    """A context in which the innermost mode is off; it gives that mode."""

    def __enter__(self):
        self._before = state.function_modes
        return _pop_mode()

    def __exit__(self, *exc):
        state.function_modes = self._before


# -- what can be overridden ---------------------------------------------------------------------------


def resolve_name(f: Any) -> str | None:
    """The public name of a function, method, getter or operator; None for other objects.

    >>> import torchlike as torch
    >>> torch.overrides.resolve_name(torch.Tensor.shape.__get__)
    'torch.Tensor.shape.__get__'
    """
    if isinstance(f, OpOverload | OpOverloadPacket):
        return str(f)
    entry = core.of(f)
    return None if entry is None else entry.own_name


def is_tensor_method_or_property(func: Callable) -> bool:
    """Whether a function is a method of Tensor, or the getter of one of its properties.

    >>> import torchlike as torch
    >>> torch.overrides.is_tensor_method_or_property(torch.Tensor.add)
    True
    """
    entry = core.of(func)
    if entry is None:
        return getattr(func, "__name__", "") == "__get__"
    return entry.place == "torch.Tensor" and not entry.name.endswith((".__set__", ".__delete__"))


def is_tensor_like(inp: Any) -> bool:
    """Whether ``inp`` is a tensor, or of a type with a ``__torch_function__``.

    >>> import torchlike as torch
    >>> torch.overrides.is_tensor_like(3)
    False
    """
    return isinstance(inp, Tensor) or hasattr(inp, "__torch_function__")


def get_overridable_functions() -> dict[Any, list[Callable]]:
    """The functions that can be overridden, by the namespace that has them (a module, Tensor, a property).

    >>> import torchlike as torch
    >>> torch.add in torch.overrides.get_overridable_functions()[torch]
    True
    """
    found: dict[Any, list[Callable]] = {}
    for public, entry in core.ENTRIES.items():
        if _is_listed(entry):
            found.setdefault(_holder(entry), []).append(public)
    return found


def get_ignored_functions() -> set[Callable]:
    """The public functions that arguments do not override: they take no tensor, or read it as data.

    Modes see those of them that make tensors.

    >>> import torchlike as torch
    >>> torch.zeros in torch.overrides.get_ignored_functions()
    True
    """
    seen = {public for public, entry in core.ENTRIES.items() if not _is_listed(entry)}
    package = sys.modules[_PACKAGE]
    public = [getattr(package, name) for name in dir(package) if not name.startswith("_")]
    others = {f for f in public if inspect.isfunction(f) or inspect.isclass(f)}
    others |= {getattr(Tensor, name) for name, f in vars(Tensor).items() if inspect.isroutine(f)}
    return seen | (others - set(core.ENTRIES))


def get_testing_overrides() -> dict[Callable, Callable]:
    """For each overridable function a stand-in of the same signature that returns -1.

    >>> import inspect, torchlike as torch
    >>> str(inspect.signature(torch.overrides.get_testing_overrides()[torch.relu]))
    '(input)'
    """
    return {
        public: core.stand_in(entry)
        for public, entry in core.ENTRIES.items()
        if _is_listed(entry) or entry.place in _TESTED or entry.own_name in _TESTED or entry.name.startswith("_sym_")
    }


def get_default_nowrap_functions() -> set[Callable]:
    """The getters whose results the default ``__torch_function__`` leaves as they are."""
    return set(subclasses.nowrap())


def redispatch_function(func: Callable, types: Iterable[type], args: tuple, kwargs: dict[str, Any]) -> Any:
    """What ``func`` does itself, for a handler that has seen the call: the call is not handed over once more.

    >>> import torchlike as torch
    >>> class Loud(torch.Tensor):
    ...     @classmethod
    ...     def __torch_function__(cls, func, types, args=(), kwargs=None):
    ...         return torch.overrides.redispatch_function(func, types, args, kwargs or {})
    >>> type(torch.ones(1).as_subclass(Loud) + 1).__name__
    'Tensor'
    """
    entry = core.of(func)
    if entry is not None:
        return (entry.original or func)(*args, **(kwargs or {}))
    before, core.redispatched.once = core.redispatched.once, True
    try:
        return func(*args, **(kwargs or {}))
    finally:
        core.redispatched.once = before


# -- names, derived from what was published ---------------------------------------------------------


def _holder(entry: core.Overridable) -> Any:
    """The namespace of a function as users reach it."""
    if entry.place == "torch.Tensor":
        return vars(Tensor)[entry.name.partition(".")[0]] if "." in entry.name else Tensor
    return importlib.import_module(_PACKAGE + entry.place.removeprefix("torch"))  # some are loaded when they are used


def _is_listed(entry: core.Overridable) -> bool:
    """Whether PyTorch, too, says that it can be overridden."""
    return entry.looks and conventions.is_listed(entry.place, entry.name) and not _is_ignored(entry)


def _is_ignored(entry: core.Overridable) -> bool:
    """Whether a function makes tensors of other things."""
    if entry.name.endswith("_"):
        return False
    names = inspect.signature(entry.original).parameters
    return "requires_grad" in names and not {"input", "self", "tensor1"} & set(names)


_PACKAGE = __name__.partition(".")[0]
# What PyTorch gives stand-ins for, though it does not list it.
_TESTED = frozenset(["torch.nn.init", "torch.distributed.distributed_c10d", "torch.segment_reduce"])
