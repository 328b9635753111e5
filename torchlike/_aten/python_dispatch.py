"""The layer of ``__torch_dispatch__``: operators as calls of ``torch.ops`` objects, seen by modes and subclasses.

A call comes here below autograd, as one or several aten calls. Each goes to the innermost mode, with that mode off
meanwhile, else to the subclasses among its arguments, else to the kernel. Recording is off while they run; what the
operator's node needs is recorded around them, on the tensors that they returned.
"""

import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from torchlike._aten import lazy, packets
from torchlike._aten.packets import OpOverload
from torchlike._base import state as flags
from torchlike._base.state import below_autograd, handler, is_grad_enabled, state
from torchlike._core.dispatch.layers import DISPATCH
from torchlike._core.tensor.mutation import restore_version
from torchlike._core.tensor.storage import UNTRACKED
from torchlike._core.tensor.tensor import Tensor


def _disabled_torch_dispatch_impl(func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
    """The ``__torch_dispatch__`` of Tensor: ``func`` of plain tensors, which its results are too.

    A subclass that assigns it is a plain tensor to operators.
    """
    with DisableTorchDispatch():
        return func(*args, **(kwargs or {}))


class DisableTorchDispatch:
    """A context in which no mode and no class has a ``__torch_dispatch__``: operators take them as plain tensors.

    >>> import torchlike as torch
    >>> class Loud(torch.Tensor):
    ...     @classmethod
    ...     def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
    ...         raise RuntimeError("not called")
    >>> with torch._C._DisableTorchDispatch():
    ...     torch.ones(1).as_subclass(Loud) + 1
    tensor([2.])
    """

    def __enter__(self) -> None:
        self._before = _pending.off, set_modes(())
        _pending.off = True

    def __exit__(self, *exc: Any) -> None:
        _pending.off, modes = self._before
        set_modes(modes)


# -- which classes take part ----------------------------------------------------------------------------------

_classes: dict[type, bool] = {Tensor: False}


def has_dispatch(cls: type) -> bool:
    """Whether tensors of this class are handled by a ``__torch_dispatch__`` of their own."""
    found = _classes.get(cls)
    if found is None:
        own = getattr(cls, "__torch_dispatch__", None)
        own = getattr(own, "__func__", own)
        found = issubclass(cls, Tensor) and own is not None and own is not _disabled_torch_dispatch_impl
        if found:
            packets.complete()
        _classes[cls] = found
    return found


def takes(cls: type) -> bool:
    """As :func:`has_dispatch`, where none is switched off."""
    return not _pending.off and has_dispatch(cls)


def leaves(args: Iterable) -> Iterator[Tensor]:
    """The tensors among the arguments of an operator, those in lists included."""
    for x in args:
        if isinstance(x, Tensor):
            yield x
        elif isinstance(x, list | tuple):
            yield from leaves(x)


def handlers(args: Iterable) -> list[Tensor]:
    """One tensor of each class with a ``__torch_dispatch__``, subclasses before their bases, else left to right."""
    found: list[Tensor] = []
    if _pending.off:
        return found
    for t in leaves(args):
        cls = type(t)
        if cls is not Tensor and has_dispatch(cls) and all(type(f) is not cls for f in found):
            at = next((i for i, f in enumerate(found) if issubclass(cls, type(f))), len(found))
            found.insert(at, t)
    return found


# -- modes ------------------------------------------------------------------------------------------------------


def set_modes(modes: tuple) -> tuple:
    """Make these the active modes of this thread, the innermost last; returns the former ones."""
    before = state.dispatch_modes
    state.dispatch_modes = modes
    state.active = state.active | flags.DISPATCH if modes else state.active & ~flags.DISPATCH
    return before


def push(mode: Any) -> None:
    """Make ``mode`` the innermost one."""
    packets.complete()
    set_modes((*state.dispatch_modes, mode))


@contextmanager
def modes_set_to(modes: tuple) -> Iterator[None]:
    """These modes alone."""
    before = set_modes(modes)
    try:
        yield
    finally:
        set_modes(before)


# -- one call -----------------------------------------------------------------------------------------------------


def invoke(func: OpOverload, args: tuple, kwargs: dict) -> Any:
    """Run one call with normalised arguments: through the innermost mode, the subclasses, or the kernel."""
    modes = state.dispatch_modes
    overloaded = handlers((*args, *kwargs.values()))
    if not modes and not overloaded:
        return kernel(func, args, kwargs)
    eager = lazy.copied(func, args, kwargs, lambda t: invoke(packets.ops.aten.clone.default, (t,), {}))
    if eager is not None:
        args, kwargs, copies = eager
        write = lambda t, source: invoke(packets.ops.aten.copy_.default, (t, source), {})  # noqa: E731
        return lazy.written(func, copies, invoke(func, args, kwargs), write)
    types = tuple([type(t) for t in overloaded])
    _pending.depth += 1
    autocast = state.active & flags.AUTOCAST
    state.active &= ~flags.AUTOCAST
    try:
        with below_autograd():
            out = _handled(func, types, args, kwargs, modes, overloaded)
    finally:
        _pending.depth -= 1
        state.active |= autocast
    if out is not NotImplemented:
        return out if isinstance(out, Tensor) and func._returns_one else _checked(func, out)
    tried = [f"  - mode object {modes[-1]!r}"] if modes else []
    tried += [f"  - tensor subclass {type(t)}" for t in overloaded]
    raise TypeError(
        f"Multiple dispatch failed for 'torch._ops.{func}'; all __torch_dispatch__ handlers returned "
        "NotImplemented:\n\n"
        + "\n".join(tried)
        + "\n\nReturn a result for this operator from one of them, e.g. func(*args, **kwargs)."
    )


def _handled(func: OpOverload, types: tuple, args: tuple, kwargs: dict, modes: tuple, overloaded: list) -> Any:
    """What the first handler that does not refuse gives."""
    if modes:
        set_modes(modes[:-1])
        try:
            mine = handler(modes[-1], "__torch_dispatch__")
            if isinstance(getattr(mine, "__self__", None), type):
                raise RuntimeError(
                    "Defining your mode's `__torch_dispatch__` as a classmethod is not supported, please make it a "
                    f"plain method: {type(modes[-1]).__name__}.__torch_dispatch__(self, func, types, args, kwargs)"
                )
            out = mine(func, types, args, kwargs)
        finally:
            set_modes(modes)
        if out is not NotImplemented:
            return out
    for t in overloaded:
        out = handler(type(t), "__torch_dispatch__")(func, types, args, kwargs)
        if out is not NotImplemented:
            return out
    return NotImplemented


def _checked(func: OpOverload, out: Any) -> Any:
    """What a handler returned, if it is what the schema says. A result may be None in place of a tensor."""
    kinds = [str(r.type) for r in func._schema.returns]
    if len(kinds) == 1:
        _demand(func, out, kinds[0])
    elif kinds and not isinstance(out, list | tuple):
        raise RuntimeError(
            f"{func}: Object of type {type(out).__name__!r} is not an instance of 'sequence'; its __torch_dispatch__ "
            f"must return {len(kinds)} results"
        )
    elif kinds:
        if len(out) != len(kinds):
            raise RuntimeError(f"{func}: its __torch_dispatch__ must return {len(kinds)} results, but got {len(out)}")
        for value, kind in zip(out, kinds, strict=True):
            _demand(func, value, kind)
    return out


def _demand(func: OpOverload, value: Any, kind: str) -> None:
    if kind == "Tensor" and value is not None and not isinstance(value, Tensor):
        raise RuntimeError(f"Unable to cast {value} to Tensor: the __torch_dispatch__ of {func} must return one")
    if kind == "number" and not isinstance(value, int | float | complex):
        raise RuntimeError(f"Cannot cast {value} to number, which the __torch_dispatch__ of {func} must return")
    if kind == "List[Tensor]" and not (isinstance(value, list | tuple) and all(isinstance(v, Tensor) for v in value)):
        raise RuntimeError(
            f"Unable to cast {value} of type {type(value)} to a list of tensors, which the __torch_dispatch__ of "
            f"{func} must return"
        )


def kernel(func: OpOverload, args: tuple, kwargs: dict) -> Any:
    """Compute one call on plain tensors: no mode, no override, nothing recorded."""
    if _pending.recorded:
        return func._op(*args, **kwargs)
    compute = _pending.pop(func) if _pending.computes else None
    grad, off, modes = state.grad, state.overrides_off, state.dispatch_modes
    if modes:
        set_modes(())
    state.grad, state.overrides_off = False, 2
    try:
        out = (compute or func._op)(*args, **kwargs)
    finally:
        state.grad, state.overrides_off = grad, off
        if modes:
            set_modes(modes)
    _detached(func, out, (*args, *kwargs.values()))
    return out


def _detached(func: OpOverload, out: Any, args: tuple) -> None:
    """Results are no views to autograd; what a kernel did to its own ones does not count as changes in place."""
    if func._schema.is_mutable:
        return
    tensors = list(leaves(args))
    given = [t._storage for t in tensors]
    for t in leaves((out,)):
        if all(t is not x for x in tensors):
            t._diff = None
        if all(t._storage is not s for s in given) and t._vc is not UNTRACKED:
            restore_version(t, 0)


class _Pending(threading.local):
    """What computes the next call of an overload in this thread, where the operator has begun: it drew its numbers."""

    depth: int
    off = False  # whether none takes part
    recorded = False  # whether calls are made above autograd

    def __init__(self) -> None:
        self.computes: dict[OpOverload, Callable] = {}
        self.depth = 0  # how many __torch_dispatch__ run

    def pop(self, func: OpOverload) -> Callable | None:
        return self.computes.pop(func, None)


_pending = _Pending()


def in_handler() -> bool:
    """Whether a ``__torch_dispatch__`` runs in this thread."""
    return _pending.depth > 0


def set_depth(depth: int) -> int:
    """Let this many ``__torch_dispatch__`` count as running in this thread; returns how many did."""
    before, _pending.depth = _pending.depth, depth
    return before


def invoke_with(compute: Callable, func: OpOverload, args: tuple, kwargs: dict) -> Any:
    """As :func:`invoke`, where ``compute(*args, **kwargs)`` is the kernel, once."""
    _pending.computes[func] = compute
    try:
        return invoke(func, args, kwargs)
    finally:
        _pending.pop(func)


class enable_reentrant_dispatch:
    """A context for handlers of ``__torch_dispatch__`` in which calls are dispatched from the top again.

    Raises RuntimeError outside of such a handler.
    """

    def __enter__(self) -> None:
        if not in_handler():
            raise RuntimeError(
                "Accessing torch dispatch state outside of '__torch_dispatch__' is not allowed: "
                "enable_reentrant_dispatch() changes that of the handler that runs"
            )
        self._before = state.grad, state.dispatch_grad, state.overrides_off
        state.grad, state.dispatch_grad, state.overrides_off = is_grad_enabled(), None, 0
        self._depth = set_depth(0)

    def __exit__(self, *exc: Any) -> None:
        state.grad, state.dispatch_grad, state.overrides_off = self._before
        set_depth(self._depth)


@contextmanager
def without_dispatch() -> Iterator[None]:
    """What is under all layers: modes, overrides and recording are off."""
    if _pending.recorded:
        yield
        return
    grad, off = state.grad, state.overrides_off
    before = set_modes(())
    state.grad, state.overrides_off = False, 2
    try:
        yield
    finally:
        state.grad, state.overrides_off = grad, off
        set_modes(before)


@contextmanager
def above_autograd() -> Iterator[None]:
    """Calls within are recorded, and cast by autocast, as those of a user."""
    before, _pending.recorded = _pending.recorded, True
    try:
        yield
    finally:
        _pending.recorded = before


# -- arguments ------------------------------------------------------------------------------------------------------


def normalised(func: OpOverload, args: Iterable, kwargs: dict) -> tuple[tuple, dict]:
    """(args, kwargs) by the calling convention: positional unless keyword-only, defaults left out."""
    positional, by_name = _split(func)
    given: list = []
    named = kwargs
    if kwargs or not isinstance(args, tuple | list) or len(args) > len(positional):
        named = dict(zip([a.name for a, *_ in positional], args, strict=False)) | kwargs
        args = ()
    for i in range(len(positional) - 1, -1, -1):
        a, is_list, default = positional[i]
        if i < len(args):
            value = args[i]
        elif a.name in named:
            value = named[a.name]
        else:
            if given:
                given.append(a.default_value)
            continue
        if is_list:
            value = _listed(a, value)
        if given or default is _NONE or not _same(value, default):
            given.append(value)
    given.reverse()
    rest = {
        a.name: named[a.name]
        for a, _, default in by_name
        if a.name in named and (default is _NONE or not _same(named[a.name], default))
    }
    return tuple(given), rest


_NONE = object()


def _split(func: OpOverload) -> tuple[list, list]:
    """The positional and the keyword-only arguments: (argument, whether it is a list, its default)."""
    found = func.__dict__.get("_split")
    if found is None:
        rows = [
            (a, "List[" in str(a.type), a.default_value if a.has_default_value() else _NONE)
            for a in func._schema.arguments
        ]
        found = [r for r in rows if not r[0].kwarg_only], [r for r in rows if r[0].kwarg_only]
        func.__dict__["_split"] = found
    return found


def _listed(a: Any, value: Any) -> Any:
    """Sequences as lists; one number for ``int[2]`` as a list of them."""
    if isinstance(value, list | tuple):
        return list(value) * a.N if a.N and len(value) == 1 else list(value)
    if a.N and isinstance(value, int) and not isinstance(value, bool):
        return [value] * a.N
    return value


def _same(value: Any, default: Any) -> bool:
    """Whether an argument is its default."""
    return value is default or type(value) is type(default) and not isinstance(value, Tensor) and value == default


def intercept(func: OpOverload, args: tuple, kwargs: dict) -> Any:
    """A call of an overload from outside: straight to its function unless a ``__torch_dispatch__`` may see it."""
    if not state.dispatch_modes and not handlers((*args, *kwargs.values())):
        return kernel(func, args, kwargs) if _pending.depth else func._op(*args, **kwargs)
    if state.grad and not getattr(func, "_whole", False):
        return func._op(*args, **kwargs)  # its own operators arrive here in turn, and are recorded
    if state.grad and any(t.requires_grad for t in leaves((*args, *kwargs.values()))):
        return func._op(*args, **kwargs)
    return invoke(func, *normalised(func, args, kwargs))


DISPATCH.intercept = intercept


# -- wrapper subclasses ----------------------------------------------------------------------------------------------


_lock = threading.Lock()


def wrappers_alive() -> bool:
    """Whether backward may meet a tensor whose class has a ``__torch_dispatch__``."""
    return DISPATCH.wrappers > 0


def count(x: Any) -> Any:
    """Note that ``x``, a tensor whose class has a ``__torch_dispatch__`` or a node that saw one, has been made."""
    with _lock:
        DISPATCH.wrappers += 1
    weakref.finalize(x, _gone).atexit = False
    return x


def _gone() -> None:
    with _lock:
        DISPATCH.wrappers -= 1


__all__ = [
    "DisableTorchDispatch", "without_dispatch", "count", "handlers", "has_dispatch", "in_handler", "intercept",
    "enable_reentrant_dispatch", "invoke", "kernel",
    "leaves", "modes_set_to", "normalised", "push", "set_depth", "set_modes", "takes", "wrappers_alive",
]  # fmt: skip
