"""Thread-local flags: the grad mode, and whether any slow dispatch layer is active."""

import functools
import inspect
import threading
import warnings
from collections.abc import Callable
from typing import Any

from torchlike._base.tracing import current_trace, trace_state_clean
from torchlike._base.volatile import volatile

# Not empty while a flag of :data:`_MARKED` is set in some thread. Reading a flag takes 70 ns: who finds this empty need
# not.
UNUSUAL: dict[int, None] = {}
_MARKED = frozenset({"active", "recorder", "function_modes", "levels", "inference", "task"})


class _Marked:
    """The flags that are set in one thread; it ends with the thread."""

    __slots__ = ("names", "key")

    def __init__(self) -> None:
        self.names: dict[str, None] = {}
        self.key = id(self)

    def __del__(self, forget: Callable[[int, None], None] = UNUSUAL.pop) -> None:
        forget(self.key, None)


class State(threading.local):
    """What dispatch reads on every call; a new thread starts from these class attributes.

    ``grad``: whether operators record nodes; None below autograd, where they never do and the grad mode that code
    there sees and sets is ``dispatch_grad`` (None above). ``active``: non-zero when a layer other than autograd
    and the executor has work to do (modes, transforms, autocast). ``inference``: whether new tensors
    are inference tensors. ``pack``: the default hooks of saved tensors, (pack, unpack, outer ones) or
    None; ``pack_outside``: those that were there when a function began to be traced, which take nothing of it;
    ``pack_refused``: the message of the error that setting some gives, or None. ``task``: the
    backward that runs, or None. ``capture``: what a compiled function needs of the outside, while it is traced.
    ``trace``: what makes a graph of the calls of this thread, and is told of tensors that come or change otherwise.
    ``stopped``: jax's trace of the function that has switched the grad mode off, see :func:`stops`.
    ``recorder``: what records the calls of this thread; None if they run at once. ``interpreter``: what runs the
    user's Python code while a function is captured. ``function_modes``,
    ``dispatch_modes``: the modes that are active, the innermost last. ``overrides_off``: 1 where
    ``__torch_function__`` of subclasses is off, 2 where that of modes is too. ``levels``: the function transforms
    (vmap, jvp) and dual levels that are active, the innermost last. ``autocast``: on which devices autocast is on,
    and its dtypes; None as long as nothing was set. ``autocast_nesting``: how many contexts of it are entered;
    ``autocast_entered``: they, the innermost last; ``autocast_casts``: the weights that were cast in them.
    """

    grad: bool | None = True
    dispatch_grad: bool | None = None
    active = 0
    inference = False
    pack: tuple | None = None
    pack_outside: tuple | None = None
    pack_refused: str | None = None
    task: Any = None
    selective: Any = None
    capture: Any = None
    trace: Any = None
    stopped: Any = None
    multithreading = True
    view_replay = False
    recorder: Any = None
    interpreter: Any = None
    function_modes: tuple = ()
    dispatch_modes: tuple = ()
    overrides_off = 0
    levels: tuple = ()
    autocast: Any = None
    autocast_nesting = 0
    autocast_entered: tuple = ()
    autocast_casts: dict | None = None
    first_recorder: Any = staticmethod(lambda: None)
    _marked: Any = None

    def __init__(self):
        recorder = self.first_recorder()
        if recorder is not None:
            self.recorder = recorder

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a flag; no Ctrl-C comes after that, as Python looks for one in loops and calls alone.

        One may come ahead of it: what must not be missed is put into ``__dict__`` first.
        """
        marked = self._marked if name in _MARKED else None
        if value and marked is None and name in _MARKED:
            marked = self.__dict__["_marked"] = _Marked()
        if value and marked is not None:
            marked.names[name] = None
            UNUSUAL[marked.key] = None
        self.__dict__[name] = value
        if not value and marked is not None and name in marked.names:
            del marked.names[name]
            if not marked.names and marked.key in UNUSUAL:
                del UNUSUAL[marked.key]

    def copied(self) -> dict[str, Any]:
        """The flags of this thread, for :meth:`take` in another."""
        return {name: value for name, value in vars(self).items() if name != "_marked"}

    def take(self, flags: dict[str, Any]) -> None:
        """Set flags as :meth:`copied` gave them."""
        for name, value in flags.items():
            setattr(self, name, value)


state = State()


def followed(function):
    """A user's function as this library is to call it: during a capture it is interpreted."""
    return function if state.interpreter is None else state.interpreter.wrap(function)


def handler(x, name):
    """The method ``name`` of a user's class or object, as this library is to call it; see :func:`followed`."""
    return getattr(x, name) if state.interpreter is None else state.interpreter.handler(x, name)


# The bits of ``state.active``, one for each layer of dispatch beside autograd and the executor, in their order.
LEVELS = 1  # a function transform: vmap, jvp, or a dual level
SELECTIVE = 2  # a checkpoint that keeps the results of some operators
AUTOCAST = 4
INFERENCE = 8
STOPPED = 16  # in a function that jax traces the grad mode was switched off
REMAT = 32  # a checkpointed region runs again
DISPATCH = 64  # a TorchDispatchMode is active
CAPTURE = 128  # a function is captured: what its calls read becomes inputs of a program


class untraced:
    """A context in which values may be read although a graph of the calls is made: they choose nothing that it has."""

    def __enter__(self) -> None:
        self._before, state.trace = state.trace, None

    def __exit__(self, *exc: Any) -> None:
        state.trace = self._before


class Context:
    """A context manager that is also a decorator of functions and generators, entered anew at each call."""

    __slots__ = ()

    def clone(self):
        """Another context like this one, for one call of what this one decorates."""
        return type(self)()

    def __call__(self, target):
        return decorate(self.clone, target)


def decorate(make, target):
    """Wrap ``target`` so that each call (each resumption of a generator) runs under ``make()``."""
    if inspect.isclass(target):
        warnings.warn(_CLASS, FutureWarning, stacklevel=3)
        return decorate(make, lambda *args, **kwargs: target(*args, **kwargs))
    wraps = functools.wraps(target)
    if inspect.isgeneratorfunction(target):

        @wraps
        def generator(*args, **kwargs):
            return (yield from _Resumed(make, target(*args, **kwargs)))

        return generator

    @wraps
    def wrapper(*args, **kwargs):
        with make():
            return target(*args, **kwargs)

    return wrapper


_CLASS = (
    "Decorating classes is deprecated and will be disabled in future versions: what comes of it is a function that "
    "makes instances. You should only decorate functions or methods; here that is the method __init__."
)


class _Resumed:
    """An iterator that runs every step of a generator under a fresh context."""

    def __init__(self, make, inner):
        self.make, self.inner = make, inner

    def __iter__(self):
        return self

    def __next__(self):
        return self.send(None)

    def send(self, value):
        with self.make():
            return self.inner.send(value)

    def throw(self, *exc):
        with self.make():
            return self.inner.throw(*exc)

    def close(self):
        with self.make():
            self.inner.close()


class _GradMode(Context):
    """A context with a fixed grad mode; given a function it decorates that, so parentheses may be left out."""

    __slots__ = ("bit", "prev")
    _target = True

    def __new__(cls, func=None):
        mode = super().__new__(cls)
        return mode if func is None else mode(func)

    def __enter__(self):
        self.prev, self.bit = state.grad, None
        if self.prev is None or not trace_state_clean():
            self.prev, self.bit = _switched(self._target)
        else:
            state.__dict__["grad"] = self._target

    def __exit__(self, *exc):
        if self.bit is None:
            switch_grad(self.prev)
        else:
            _switched_back(self.prev, self.bit)


def switch_grad(mode: bool) -> bool:
    """Set the grad mode of this thread; returns the former one."""
    before = state.grad
    if before is None:
        before, state.dispatch_grad = bool(state.dispatch_grad), mode
    else:
        state.__dict__["grad"] = mode
    return before


def _switched(mode: bool) -> tuple[bool, tuple | None]:
    """Set the grad mode as a user does; returns what :func:`_switched_back` takes.

    What is computed without grad in a function that jax traces is constant for jax, too, if the mode is switched there:
    around such a function it says nothing of what jax differentiates.
    """
    before = None
    if state.grad is not None and state.capture is None and not trace_state_clean():
        before = state.active & STOPPED, state.stopped
        state.active = state.active & ~STOPPED if mode else state.active | STOPPED
        state.stopped = None if mode else current_trace()
    return switch_grad(mode), before


def _switched_back(mode: bool, before: tuple | None) -> None:
    switch_grad(mode)
    if before is not None:
        bit, state.stopped = before
        state.active = (state.active & ~STOPPED) | bit


def stops() -> bool:
    """Whether the function that jax traces now has switched the grad mode off, so that jax is to follow nothing."""
    return bool(state.active & STOPPED) and stops_here()


def stops_here() -> bool:
    """As :func:`stops`, where the bit of the layer says that some function did."""
    return not state.grad and state.stopped is current_trace()


class below_autograd:
    """A context in which nothing is recorded, whatever the grad mode, which code there goes on to see and set."""

    __slots__ = ("_before",)

    def __enter__(self):
        self._before = state.grad, state.dispatch_grad
        if state.dispatch_grad is None:
            state.dispatch_grad = state.grad
        state.grad = None

    def __exit__(self, *exc):
        state.grad, state.dispatch_grad = self._before


class no_grad(_GradMode):
    """Operators inside record nothing; results do not require grad.

    >>> import torchlike as torch
    >>> x = torch.ones(2, requires_grad=True)
    >>> with torch.no_grad():
    ...     (x * 2).requires_grad
    False
    """

    __slots__ = ()
    _target = False


class enable_grad(_GradMode):
    """Operators inside record nodes again, also within :class:`no_grad`.

    >>> import torchlike as torch
    >>> x = torch.ones(2, requires_grad=True)
    >>> with torch.no_grad(), torch.enable_grad():
    ...     (x * 2).requires_grad
    True
    """

    __slots__ = ()


class set_grad_enabled(Context):
    """Set the grad mode to ``mode`` at once; as a context manager, restore it on exit.

    As a decorator it leaves the mode around the definition alone. Raises TypeError unless ``mode`` is a bool.

    >>> import torchlike as torch
    >>> x = torch.ones(2, requires_grad=True)
    >>> with torch.set_grad_enabled(False):
    ...     (x * 2).requires_grad
    False
    """

    __slots__ = ("bit", "mode", "prev")

    def __init__(self, mode: bool):
        if not isinstance(mode, bool):
            raise TypeError(
                f"set_grad_enabled(): argument 'enabled' (position 1) must be bool, not {type(mode).__name__}"
            )
        (self.prev, self.bit), self.mode = _switched(mode), mode

    def __enter__(self):
        _switched(self.mode)

    def __exit__(self, *exc):
        _switched_back(self.prev, self.bit)

    def __call__(self, target):
        switch_grad(self.prev)
        return super().__call__(target)

    def clone(self):
        return set_grad_enabled(self.mode)

    def __repr__(self):
        return f"torch.autograd.grad_mode.set_grad_enabled(mode={self.mode})"


class inference_mode(Context):
    """As :class:`no_grad`, and new tensors are inference tensors, which autograd can never use.

    They keep no version counter. ``mode=False`` undoes an outer inference mode. It decorates
    functions, generators and classes, with or without parentheses.

    >>> import torchlike as torch
    >>> with torch.inference_mode():
    ...     torch.ones(2).is_inference()
    True
    """

    __slots__ = ("mode", "_before")

    def __new__(cls, mode=True):
        new = super().__new__(cls)
        if isinstance(mode, bool):
            return new
        new.mode = True
        return new(mode)

    def __init__(self, mode=True):
        self.mode = mode

    def __enter__(self):
        self._before = _switched(not self.mode), state.inference, state.active & INFERENCE
        state.inference = self.mode
        state.active = (state.active | INFERENCE) if self.mode else state.active & ~INFERENCE

    def __exit__(self, *exc):
        grad, state.inference, bit = self._before
        _switched_back(*grad)
        state.active = (state.active & ~INFERENCE) | bit

    def clone(self):
        return inference_mode(self.mode)


class Switch(Context):
    """A context that sets one flag of this thread when it is made, and restores it on exit."""

    __slots__ = ("prev", "mode")
    _flag: str

    def __init__(self, mode: bool) -> None:
        self.prev, self.mode = getattr(state, self._flag), mode
        setattr(state, self._flag, mode)

    def __enter__(self):
        """The constructor has switched."""

    def __exit__(self, *exc):
        setattr(state, self._flag, self.prev)

    def clone(self):
        return type(self)(self.mode)


class set_multithreading_enabled(Switch):
    """Accepted for compatibility: backward runs in the thread that called it, in any case.

    The flag is kept per thread, set at once, and restored on leaving the context.
    """

    __slots__ = ()
    _flag = "multithreading"


@volatile
def is_multithreading_enabled() -> bool:
    """The flag of :class:`set_multithreading_enabled`."""
    return state.multithreading


def is_inference_mode_enabled() -> bool:
    """Whether new tensors are inference tensors in this thread."""
    return state.inference


def is_grad_enabled() -> bool:
    """Whether operators record nodes in this thread."""
    return bool(state.dispatch_grad) if state.grad is None else state.grad
