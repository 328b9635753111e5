"""What a function needs of the outside while it is traced: numbers that change from call to call, and checks."""

import jax
import numpy as np

from torchlike._base.state import state
from torchlike._core.anomaly import user_stack


_TRACED = " [found after a compiled program had run; the call is:{}]"


def user_line():
    """The user's line that made the current call."""
    stack = user_stack()
    return "\n" + stack[-1].rstrip() if stack else ""


class Unsupported(Exception):
    """The function does something that a program cannot do again."""


class Recording:
    """The inputs of a program that are not tensors, collected while its function is traced.

    Attributes:
        dynamic: {id of the array that stands for it: (array, getter)}; ``getter()`` gives its value in
            later calls. checks: (getter, value): the program is valid while they agree.
        cleared: ids of the tensors whose ``.grad`` was dropped before anything was added to it.
        adopted: (storage, its array) of the storages made while tracing that hold no tracer: state made
            on first use.
        flags, errors: whether each value check failed (tracers), and what it then raises.
        optimizers: those that took a step.
        start: nodes with a lower number existed before.
    """

    def __init__(self, start):
        self.dynamic, self.checks, self.adopted = {}, [], []
        self.cleared = set()
        self.flags, self.errors, self.optimizers = [], [], []
        self.start = start

    def input(self, value, getter):
        """An array that stands for a number or array which ``getter`` gives anew in every later call."""
        with jax.ensure_compile_time_eval():
            array = jax.device_put(value)
        self.dynamic[id(array)] = array, getter
        return array

    def check(self, getter):
        """``getter()``, which every later call must find unchanged."""
        value = getter()
        self.checks.append((getter, value))
        return value

    def adopt(self, storage):
        """Let the program read and write ``storage``, whose value is an array made while tracing."""
        self.adopted.append((storage, storage.value))

    def refuse(self, what):
        """The function does something that a program cannot."""
        raise Unsupported(what)

    def examine(self, bad, op, static, values):
        """Remember a value check of ``op``, whose flag is known when the program has run."""
        error = op.examine(static, values)[1]
        try:
            error = error() if callable(error) else error
        except jax.errors.JAXTypeError:  # the message would show the offending value
            error = RuntimeError(f"{op.name}(): its arguments have values that it refuses")
        error.args = (f"{error.args[0] if error.args else error}{_TRACED.format(user_line())}",)
        self.flags.append(bad)
        self.errors.append(error)

    def concrete(self, value):
        """A numpy array as a jax array, although jax is tracing."""
        with jax.ensure_compile_time_eval():
            return jax.device_put(np.array(value))


class recording:
    """The context in which ``state.capture`` is ``rec``."""

    def __init__(self, rec):
        self.rec = rec

    def __enter__(self):
        self._before, state.capture = state.capture, self.rec
        return self.rec

    def __exit__(self, *exc):
        state.capture = self._before
