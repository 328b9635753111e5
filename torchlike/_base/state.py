"""Thread-local flags: the grad mode, and whether any slow dispatch layer is active."""

import functools
import inspect
import threading


class State(threading.local):
    """What dispatch reads on every call; a new thread starts from these class attributes.

    ``grad``: whether operators record nodes. ``slow``: non-zero when a layer other than autograd
    and the executor has work to do (modes, transforms, autocast). ``inference``: whether new tensors
    are inference tensors. ``pack``: the default hooks of saved tensors, (pack, unpack, outer ones) or
    None; ``pack_refused``: the message of the error that setting some gives, or None. ``task``: the
    backward that runs, or None.
    """

    grad = True
    slow = 0
    inference = False
    pack = None
    pack_refused = None
    task = None
    multithreading = True
    view_replay = False


state = State()

INFERENCE = 1  # the bit of ``state.slow`` for inference mode


class _ModeBase:
    """A context manager that is also a decorator of functions, generators and classes."""

    __slots__ = ("_before",)
    _target = True

    def __enter__(self):
        self._before = state.grad
        state.grad = self._target

    def __exit__(self, *exc):
        state.grad = self._before

    def _clone(self):
        return type(self)()

    def __call__(self, target):
        return decorate(self._clone, target)


def decorate(make, target):
    """Wrap ``target`` so that each call (each resumption of a generator) runs under ``make()``."""
    if inspect.isclass(target):
        target.__init__ = decorate(make, target.__init__)
        return target
    if inspect.isgeneratorfunction(target):

        @functools.wraps(target)
        def generator(*args, **kwargs):
            return (yield from _Resumed(make, target(*args, **kwargs)))

        return generator

    @functools.wraps(target)
    def wrapper(*args, **kwargs):
        with make():
            return target(*args, **kwargs)

    return wrapper


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


class no_grad(_ModeBase):
    """Operators inside record nothing; results do not require grad.

    >>> import torchlike as torch
    >>> x = torch.ones(2, requires_grad=True)
    >>> with torch.no_grad():
    ...     (x * 2).requires_grad
    False
    """

    _target = False

    def __new__(cls, func=None):
        mode = super().__new__(cls)
        return mode if func is None else mode(func)


class enable_grad(_ModeBase):
    """Operators inside record nodes again, also within :class:`no_grad`."""

    def __new__(cls, func=None):
        mode = super().__new__(cls)
        return mode if func is None else mode(func)


class set_grad_enabled(_ModeBase):
    """Set the grad mode to ``mode`` at once; as a context manager, restore it on exit."""

    __slots__ = ("_mode",)

    def __init__(self, mode: bool):
        if not isinstance(mode, bool):
            raise TypeError(f"set_grad_enabled(): mode must be a bool, not {type(mode).__name__}")
        self._mode = mode
        self._before = state.grad
        state.grad = mode

    def __enter__(self):
        state.grad = self._mode

    def _clone(self):
        return set_grad_enabled(self._mode)

    def __call__(self, target):
        state.grad = self._before
        return decorate(self._clone, target)


class inference_mode:
    """As :class:`no_grad`, and new tensors are inference tensors, which autograd can never use.

    They keep no version counter. ``mode=False`` undoes an outer inference mode. It decorates
    functions, generators and classes, with or without parentheses.

    >>> import torchlike as torch
    >>> with torch.inference_mode():
    ...     torch.ones(2).is_inference()
    True
    """

    def __new__(cls, mode=True):
        new = super().__new__(cls)
        if isinstance(mode, bool):
            return new
        new._mode = True
        return new(mode)

    def __init__(self, mode=True):
        self._mode = mode

    def __enter__(self):
        self._before = state.grad, state.inference, state.slow & INFERENCE
        state.grad, state.inference = not self._mode, self._mode
        state.slow = (state.slow | INFERENCE) if self._mode else state.slow & ~INFERENCE

    def __exit__(self, *exc):
        state.grad, state.inference, bit = self._before
        state.slow = (state.slow & ~INFERENCE) | bit

    def _clone(self):
        return inference_mode(self._mode)

    def __call__(self, target):
        return decorate(self._clone, target)


class set_multithreading_enabled:
    """Accepted for compatibility: backward runs in the thread that called it, in any case.

    The flag is kept per thread, set at once, and restored on leaving the context.
    """

    def __init__(self, mode: bool) -> None:
        self._before, state.multithreading = state.multithreading, mode
        self.mode = mode

    def __enter__(self):
        """The constructor has switched."""

    def __exit__(self, *exc):
        state.multithreading = self._before


def is_multithreading_enabled() -> bool:
    """The flag of :class:`set_multithreading_enabled`."""
    return state.multithreading


def is_inference_mode_enabled() -> bool:
    """Whether new tensors are inference tensors in this thread."""
    return state.inference


def is_grad_enabled() -> bool:
    """Whether operators record nodes in this thread."""
    return state.grad
