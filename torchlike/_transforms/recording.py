"""What a function needs of the outside while it is traced: numbers that change from call to call, and checks."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np

from torchlike._base.frames import user_stack
from torchlike._base.rng import Generator, default_generator
from torchlike._base.state import state

_RESEEDS = "sets the seed or state of a random generator, which a program would not do again"
_TRACED = " [found after a compiled program had run; the call is:{}]"


def last_line():
    """The user's line that made the current call, with its code."""
    return "".join(["\n", *user_stack()[-1:]]).rstrip()


class Unsupported(Exception):
    """The function does something that a program cannot do again."""


class Entry(NamedTuple):
    """A getter of one entry of the dict that ``source()`` makes; entries of one source share a call of it."""

    source: Callable[[], dict]
    key: str

    def __call__(self):
        return self.source()[self.key]


class Recording:
    """The inputs of a program that are not tensors, collected while its function is traced.

    Attributes:
        dynamic: {id of the array that stands for it: (array, getter)}; ``getter()`` gives its value in
            later calls. checks: (getter, value): the program is valid while they agree.
        arguments, outside: ids of the storages of the tensor arguments, and of all that there were before.
        cleared: ids of the tensors whose ``.grad`` was dropped before anything was added to it.
        adopted: (storage, its array) of the storages made while tracing that hold no tracer: state made
            on first use.
        flags, errors: whether each value check failed (tracers), and what it then raises.
        optimizers: those that took a step.
        drawn: {generator and words: the array that stands for them}. sources: {id of a generator: [it, its seed,
            its count of draws at the start, and as later calls will leave it]}.
        start: nodes with a lower number existed before.
    """

    def __init__(self, start):
        self.dynamic, self.checks, self.adopted = {}, [], []
        self.cleared = set()
        self.arguments = self.outside = frozenset()
        self.flags, self.errors, self.optimizers = [], [], []
        self.start = start
        self.drawn, source = {}, default_generator
        self.sources = {id(source): [source, source.initial_seed(), source.counter, source.counter]}

    def input(self, value, getter):
        """An array that stands for a number or array which ``getter`` gives anew in every later call."""
        source = getattr(getter, "__self__", None)
        if isinstance(source, Generator):
            return self._draw(value, source)
        return self._input(value, getter)

    def _draw(self, words, source):
        """The words of a draw. Drawn again from the same state, as a checkpoint does, they are the same input."""
        key = (id(source), *words.tolist())
        found = self.drawn.get(key)
        if found is not None:
            return found
        seed, counter = (int(high) << 32 | int(low) for high, low in words.reshape(2, 2).tolist())
        expected = self.sources.setdefault(id(source), [source, seed, counter, counter])
        if [seed, counter] != [expected[1], expected[3]]:
            self.refuse(_RESEEDS)
        expected[3] += 1
        found = self.drawn[key] = self._input(words, source.draw)
        return found

    def settle(self):
        """Refuse what leaves a random generator elsewhere than the draws of a later call would."""
        for source, seed, _, counter in self.sources.values():
            if (source.initial_seed(), source.counter) != (seed, counter):
                self.refuse(_RESEEDS)

    def rewind(self):
        """Put the random generators back: the function will run once more, in eager code."""
        for source, seed, start, _ in self.sources.values():
            source._restart(seed, start)

    def _input(self, value, getter):
        with jax.ensure_compile_time_eval():
            array = jax.device_put(value)
        self.dynamic[id(array)] = array, getter
        return array

    def check(self, getter):
        """``getter()``, which every later call must find unchanged."""
        value = getter()
        self.checks.append((getter, value))
        return value

    def reads(self, t):
        """Numbers of ``t`` are asked for: what was not made while tracing has others in the next call."""
        if id(t._storage) in self.arguments:
            self.refuse("reads the numbers of an argument (item, tolist, numpy, bool)")
        if id(t._storage) in self.outside:
            self.refuse("reads the numbers of a tensor from outside (item, tolist, numpy, bool)")

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
        error.args = (f"{error.args[0] if error.args else error}{_TRACED.format(last_line())}",)
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
        self._before = state.capture, state.recorder
        state.capture, state.recorder = self.rec, None
        return self.rec

    def __exit__(self, *exc):
        state.capture, state.recorder = self._before
