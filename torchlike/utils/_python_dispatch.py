"""Modes that see every operator call: ``TorchDispatchMode``, and helpers for ``__torch_dispatch__``."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torchlike._aten.packets import OpOverload, ops
from torchlike._aten.python_dispatch import has_dispatch, kernel, modes_set_to, push, set_modes
from torchlike._aten.tags import Tag
from torchlike._base.layout import Layout, contiguous_strides
from torchlike._base.state import state
from torchlike._core.tensor.mutation import reshape
from torchlike._core.tensor.tensor import Tensor, alias
from torchlike._core.tensor.views import View
from torchlike.utils._pytree import tree_map_only


class TorchDispatchMode:
    """A context in which ``__torch_dispatch__`` of this object is given every operator call.

    Subclasses override ``__torch_dispatch__(self, func, types, args=(), kwargs=None)``: ``func`` is an object of
    ``torch.ops``, the arguments are normalised (keyword-only ones by name, all others by position, defaults left out).
    It runs below autograd, with this mode off; ``func(*args, **kwargs)`` computes the result, going through the modes
    outside of this one; ``with self:`` turns it on again. The innermost mode is asked first. Returning
    ``NotImplemented`` leaves the call to the subclasses among the arguments.

    >>> import torchlike as torch
    >>> from torchlike.utils._python_dispatch import TorchDispatchMode
    >>> class Names(TorchDispatchMode):
    ...     def __torch_dispatch__(self, func, types, args=(), kwargs=None):
    ...         print(func)
    ...         return func(*args, **(kwargs or {}))
    >>> with Names():
    ...     y = torch.ones(2) * 2
    aten.ones.default
    aten.mul.Tensor
    """

    def __init__(self, _dispatch_key: Any = None) -> None:
        if _dispatch_key is not None:
            raise NotImplementedError("TorchDispatchMode: torchlike has no dispatch keys; leave _dispatch_key away")

    def __torch_dispatch__(self, func: OpOverload, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        raise NotImplementedError(f"{type(self).__name__} is a TorchDispatchMode without a __torch_dispatch__ method")

    def __enter__(self) -> Any:
        push(self)
        return self

    def __exit__(self, exc_type: Any, exc: Any, traceback: Any) -> None:
        set_modes(state.dispatch_modes[:-1])

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Any:
        """A new mode; the older way to write ``Mode(...)``."""
        return cls(*args, **kwargs)

    @classmethod
    def is_infra_mode(cls) -> bool:
        """Whether the mode belongs to a tracing machinery; none of torchlike's does."""
        return False


class BaseTorchDispatchMode(TorchDispatchMode):
    """A mode that lets every call pass."""

    def __torch_dispatch__(self, func: OpOverload, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        return func(*args, **(kwargs or {}))


def _get_current_dispatch_mode() -> TorchDispatchMode | None:
    """The innermost active mode."""
    return state.dispatch_modes[-1] if state.dispatch_modes else None


def _get_current_dispatch_mode_stack() -> list[TorchDispatchMode]:
    """The active modes, the innermost last."""
    return list(state.dispatch_modes)


def _len_torch_dispatch_stack() -> int:
    return len(state.dispatch_modes)


def _get_dispatch_stack_at(index: int) -> TorchDispatchMode:
    return state.dispatch_modes[index]


def is_in_torch_dispatch_mode(include_infra_modes: bool = True) -> bool:
    """Whether any mode is active."""
    return bool(state.dispatch_modes)


def _push_mode(mode: TorchDispatchMode) -> None:
    """Make ``mode`` the innermost one."""
    push(mode)


def _pop_mode(k: Any = None) -> TorchDispatchMode:
    """Take the innermost mode off, and return it."""
    if not state.dispatch_modes:
        raise AssertionError("no TorchDispatchMode is active: there is none to take off")
    mode = state.dispatch_modes[-1]
    set_modes(state.dispatch_modes[:-1])
    return mode


@contextmanager
def _pop_mode_temporarily(k: Any = None) -> Iterator[TorchDispatchMode]:
    """The innermost mode, off within."""
    mode = _pop_mode(k)
    try:
        yield mode
    finally:
        _push_mode(mode)


@contextmanager
def _disable_current_modes() -> Iterator[list[TorchDispatchMode]]:
    """No mode within; gives those that are off."""
    with modes_set_to(()) as _:
        yield []


def any_torch_dispatch_mode_on_stack() -> bool:
    """Whether any mode is active."""
    return bool(state.dispatch_modes)


# -- wrapper subclasses ---------------------------------------------------------------------------------------------


def is_traceable_wrapper_subclass(t: object) -> bool:
    """Whether ``t`` is a tensor whose class has ``__torch_dispatch__``, ``__tensor_flatten__`` and ``..._unflatten__``.

    >>> import torchlike as torch
    >>> is_traceable_wrapper_subclass(torch.ones(1))
    False
    """
    return isinstance(t, Tensor) and is_traceable_wrapper_subclass_type(type(t))


def is_traceable_wrapper_subclass_type(cls: type) -> bool:
    """As :func:`is_traceable_wrapper_subclass`, of a class."""
    flattens = hasattr(cls, "__tensor_flatten__") and hasattr(cls, "__tensor_unflatten__")
    return issubclass(cls, Tensor) and has_dispatch(cls) and flattens


def transform_subclass(t: Any, callback: Callable, outer_size: Any = None, outer_stride: Any = None) -> Any:
    """A wrapper like ``t`` whose inner tensors are ``callback(name, inner)``; size and strides may be given."""
    outer_size = t.size() if outer_size is None else outer_size
    outer_stride = t.stride() if outer_stride is None else outer_stride
    names, context = t.__tensor_flatten__()
    inner = {name: callback(name, getattr(t, name)) for name in names}
    made = type(t).__tensor_unflatten__(inner, context, outer_size, outer_stride)
    if tuple(made.shape) != tuple(outer_size) or made.stride() != tuple(outer_stride):
        raise AssertionError(
            f"{type(t).__name__}.__tensor_unflatten__ gave size {tuple(made.shape)} and strides {made.stride()}; "
            f"expected {tuple(outer_size)} and {tuple(outer_stride)}"
        )
    return made


def _inputs_by_alias(func: OpOverload, args: Any, kwargs: dict) -> dict[str, tuple[Any, bool]]:
    """{letter: (argument, whether it is written)} of the arguments that the schema says are aliased."""
    given = dict(zip([a.name for a in func._schema.arguments if not a.kwarg_only], args, strict=False)) | kwargs
    found = {}
    for a in func._schema.arguments:
        if a.alias_info is not None and a.name in given:
            for letter in a.alias_info.before_set:
                found[letter] = (given[a.name], a.is_write)
    return found


def return_and_correct_aliasing(func: OpOverload, args: Any, kwargs: dict | None, out: Any) -> Any:
    """``out``, with what the schema of ``func`` says about memory made true for wrappers.

    The result of an in-place or ``out=`` operator is the argument itself; the result of a view shares the storage
    (so ``untyped_storage()`` and versions) of the argument that it is a view of.
    """
    aliases = _inputs_by_alias(func, args, kwargs or {})
    returns = func._schema.returns
    results = list(out) if isinstance(out, list | tuple) and len(returns) > 1 else [out]
    for i, r in enumerate(returns[: len(results)]):
        letters = [] if r.alias_info is None else list(r.alias_info.before_set)
        if not letters or letters[0] not in aliases:
            continue
        source, written = aliases[letters[0]]
        if written:
            results[i] = source
            if Tag.inplace_view in func.tags and isinstance(source, Tensor) and has_dispatch(type(source)):
                _take_geometry(func, source, args, kwargs or {})
        else:
            tree_map_only(Tensor, lambda t, source=source: _share(source, t), results[i])
    if isinstance(out, list | tuple) and len(returns) > 1:
        return type(out)(results) if type(out) in (list, tuple) else tuple(results)
    return results[0]


def _take_geometry(func: OpOverload, t: Tensor, args: Any, kwargs: dict) -> None:
    """Give the wrapper ``t`` the geometry that the in-place view ``func`` gives what it wraps."""
    if func is ops.aten.resize_.default:
        shape = tuple(args[1])
        reshape(t, View((), (), Layout(shape, contiguous_strides(shape), t._layout.offset)))
        return
    plain = alias(t)
    swap = lambda x: plain if x is t else x  # noqa: E731
    kernel(func, tuple([swap(x) for x in args]), {k: swap(x) for k, x in kwargs.items()})
    reshape(t, plain._view)


def _share(source: Tensor, t: Tensor) -> None:
    """Let ``t`` count its versions with ``source``; a wrapper has no memory beside what it wraps."""
    if t is not source and isinstance(source, Tensor) and has_dispatch(type(t)):
        t._vc = source._vc


__all__ = [
    "BaseTorchDispatchMode", "TorchDispatchMode", "any_torch_dispatch_mode_on_stack", "is_in_torch_dispatch_mode",
    "is_traceable_wrapper_subclass", "is_traceable_wrapper_subclass_type", "return_and_correct_aliasing",
    "transform_subclass",
]  # fmt: skip
