"""What a function needs of the outside while it is traced: numbers that change from call to call, and checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import jax
import numpy as np

from torchlike._base.frames import user_stack
from torchlike._base.rng import Generator, default_generator
from torchlike._core.tensor.tensor import value_of
from torchlike._executor import value_checks
from torchlike._transforms.capture.overlay import Overlay

if TYPE_CHECKING:
    from torchlike._core.tensor.storage import Storage
    from torchlike._core.tensor.tensor import Tensor
    from torchlike._decl.typed import Static, Values

_RESEEDS = "sets the seed or state of a random generator, which a program would not do again"
_TRACED = " [found after a compiled program had run; the call is:{}]"


def last_line() -> str:
    """The user's line that made the current call, with its code."""
    return "".join(["\n", *user_stack()[-1:]]).rstrip()


def _value(storage: Storage) -> Any:
    return storage.value


class Unsupported(Exception):
    """The function does something that a program cannot do again."""


class DynamicInput(NamedTuple):
    """A getter of one entry of the dict that ``source()`` makes; entries of one source share a call of it."""

    source: Callable[[], dict]
    key: Any

    def __call__(self) -> Any:
        return self.source()[self.key]


class Draws:
    """What a function draws from a random generator.

    Attributes:
        seed, start: as it was before. end: the count after the last draw. moved: None, or where the function has set
            the generator, -1 with another seed. place: where PyTorch's stream was before the function first drew from
            it or set it; reached: after the last new draw. sampled: {where the stream was: (the array that stands
            for the numbers, where it was then)}.
    """

    __slots__ = ("source", "seed", "start", "end", "moved", "place", "reached", "sampled")

    def __init__(self, source: Any, seed: int, counter: int) -> None:
        self.source, self.seed, self.start, self.end = source, seed, counter, counter
        self.moved: int | None = None
        self.place: bytes | None = None
        self.reached: bytes | None = None
        self.sampled: dict[bytes, tuple[Any, bytes]] = {}

    def left(self) -> bool:
        """Whether the generator was set and is elsewhere than the draws would have left it."""
        return self.moved is not None and (self.moved != self.end or self.reached != self.source._position())

    def rewind(self) -> None:
        """Put the generator back."""
        if self.place is not None and (self.moved is not None or self.reached == self.source._position()):
            self.source._back(self.seed, self.start, self.place)
        elif self.source.counter == self.end or self.moved is not None:
            self.source._restart(self.seed, self.start)


class Samples:
    """What a program draws from PyTorch's streams: the numbers are made before each call, in the function's order.

    Attributes:
        draws: (generator, ``sample(engine)``) of each.
    """

    def __init__(self) -> None:
        self.draws: list[tuple[Generator, Callable[[Any], Any]]] = []

    def __call__(self) -> dict[int, Any]:
        """{number of a draw: its numbers}, of the next call."""
        found = {}
        for number, (source, sample) in enumerate(self.draws):
            with source._lock:
                found[number] = sample(source.engine)
        return found


class Capture(Overlay):
    """What a function reads and changes while it is traced, and what later calls need beside tensors.

    Attributes:
        dynamic: {id of the array that stands for it: (array, getter)}; ``getter()`` gives its value in
            later calls. checks: (getter, value): the program is valid while they agree.
        arguments: ids of the storages of the tensor arguments. cropped: of those among them that are views, of whose
            memory the program sees no more than the view. marked: of those that are lazy conjugates or negatives.
        flags, errors: whether each value check failed (tracers), and what it then raises.
        optimizers: those that took a step.
        drawn: {(id of a generator, seed, counter): the array that stands for the words}. generators: {id: Draws}.
        ends: called when the function has returned; they refuse what it has left open.
        start: nodes with a lower number existed before.
        argument: makes a tensor from outside, which a getter gives in every call, an argument of the program: gives
            what stands for it, None where that cannot be. None where programs have no such arguments.
        hosted: whether calls can draw from PyTorch's streams. samples: what they draw.
        symbolic: whether lengths may be symbols of jax.
    """

    hosted, symbolic = True, False

    def __init__(self, start: int) -> None:
        super().__init__()
        self.dynamic, self.checks = {}, []
        self.arguments = self.cropped = self.marked = frozenset()
        self.flags, self.errors, self.optimizers = [], [], []
        self.argument: Callable[..., Any] | None = None
        self.ends: list[Callable[[], None]] = []
        self.start = start
        self.drawn, self.generators, source = {}, {}, default_generator
        self._draws(source, source.initial_seed(), source.counter)
        self.samples = Samples()

    def input(self, value: Any, getter: Any) -> Any:
        """An array that stands for a number or array which ``getter`` gives anew in every later call."""
        source = getattr(getter, "__self__", None)
        if isinstance(source, Generator):
            return self._draw(value, source)
        return self._input(value, getter)

    def _draw(self, words: Any, source: Any) -> Any:
        """The words of a draw. Drawn again from the same state, as a checkpoint does, they are the same input."""
        seed, counter = (int(high) << 32 | int(low) for high, low in words.reshape(2, 2).tolist())
        draws = self._draws(source, seed, counter)
        found = self.drawn.get((id(source), seed, counter))
        if draws.moved is not None:
            draws.moved = counter + 1
        if found is not None:
            return found
        if seed != draws.seed or (draws.moved is not None and counter != draws.end):
            self.refuse(_RESEEDS)
        draws.end = counter + 1  # other threads may have drawn in between
        found = self.drawn[id(source), seed, counter] = self._input(words, source.draw)
        return found

    def sampled(self, source: Generator, sample: Callable[[Any], Any]) -> Any:
        """An array that stands for the numbers which ``sample(engine)`` makes anew in every later call, None for none.

        Drawn again from the same place, as a checkpoint does, they are the same input.
        """
        draws = self._draws(source, source.initial_seed(), source.counter)
        with source._lock:
            before = source._position()
            numbers = sample(source.engine)
            after = source._position()
        if numbers is None:
            return None
        if draws.place is None:
            draws.place = draws.reached = before
        known = draws.sampled.get(before)
        if known is not None and known[1] == after and known[0].shape == numbers.shape:
            return known[0]
        if known is not None or (draws.moved is not None and before != draws.reached):
            self.refuse(_RESEEDS)
        draws.reached = after
        array = self._input(numbers, DynamicInput(self.samples, len(self.samples.draws)))
        self.samples.draws.append((source, sample))
        draws.sampled[before] = array, after
        return array

    def _draws(self, source: Any, seed: int, counter: int) -> Draws:
        if id(source) not in self.generators:
            self.generators[id(source)] = Draws(source, seed, counter)
        return self.generators[id(source)]

    def restarted(self, source: Any, seed: int, counter: int, seeds: bool) -> None:
        """The function sets the state of a random generator; ``seeds``: to the start of a seed, wherever it is now."""
        if seeds:
            self.refuse(_RESEEDS)
        draws = self._draws(source, source.initial_seed(), source.counter)
        draws.moved = counter if seed == draws.seed else -1
        if draws.place is None:
            draws.place = draws.reached = source._position()

    def settle(self) -> None:
        """Refuse what leaves a random generator elsewhere than the draws of a later call would."""
        if any(draws.left() for draws in self.generators.values()):
            self.refuse(_RESEEDS)
        for end in self.ends:
            end()

    def rewind(self) -> None:
        """Put the random generators back, for the function that will run once more, if nobody else uses them."""
        for draws in self.generators.values():
            draws.rewind()

    def _input(self, value: Any, getter: Any) -> jax.Array:
        with jax.ensure_compile_time_eval():
            array = jax.device_put(value)
        self.dynamic[id(array)] = array, getter
        return array

    def check(self, getter: Callable[..., Any]) -> Any:
        """``getter()``, which every later call must find unchanged."""
        value = getter()
        if (getter, value) not in self.checks:
            self.checks.append((getter, value))
        return value

    def reads(self, t: Tensor) -> None:
        """Numbers of ``t`` are asked for: what was not made while tracing has others in the next call."""
        if id(t._storage) in self.arguments:
            self.refuse("reads the numbers of an argument (item, tolist, numpy, bool)")
        if id(t._storage) not in self.own:
            self.refuse("reads the numbers of a tensor from outside (item, tolist, numpy, bool)")

    def placed(self, t: Tensor) -> None:
        """The memory around ``t`` is asked for, which an argument that is a view has in eager code only."""
        if id(t._storage) in self.cropped:
            self.refuse("asks for the memory around an argument that is a view (as_strided, untyped_storage, _base)")
        super().placed(t)

    def marks_asked(self, t: Tensor) -> None:
        """It is asked whether ``t`` is a lazy conjugate or negative, as what stands for an argument never is."""
        if id(t._storage) in self.marked:
            self.refuse("asks whether an argument is conjugated or negated (is_conj, resolve_conj, view_as_real)")
        super().marks_asked(t)

    def retained(self, t: Tensor) -> None:
        """A leaf is to keep its gradient: an argument may be none in eager code."""
        if id(t._storage) in self.arguments:
            self.refuse("keeps the gradient of an argument (retain_grad)")
        super().retained(t)

    def numbers(self, t: Tensor) -> Any:
        """The numbers of ``t``, which are asked for."""
        self.reads(t)
        return value_of(t)

    def adopt(self, storage: Storage) -> None:
        """Let the program read and write ``storage``, made while tracing, as if it had been there before."""
        self.own.pop(id(storage), None)
        self.enter(storage)

    def refuse(self, what: str) -> NoReturn:
        """The function does something that a program cannot."""
        raise Unsupported(what)

    def postpone(self, what: str) -> NoReturn:
        """The function does, in its first call alone, what a program cannot: this call is eager, the next traced."""
        error = Unsupported(what)
        error.postponed = True  # type: ignore[attr-defined]
        raise error

    def examine(self, bad: Any, op: Any, static: Static, values: Values) -> None:
        """Remember a value check of ``op``, whose flag is known when the program has run."""
        flag, error = op.examine(static, values)
        if error is None and not isinstance(flag, jax.core.Tracer) and not flag:
            return  # all that is checked is a constant
        try:
            error = error() if callable(error) else error
        except jax.errors.JAXTypeError:  # the message would show the offending value
            error = None
        if error is None:
            message = f"{op.name}(): its arguments have values that it refuses"
            error = value_checks.Unseen(message, op, static, values)
        error.args = (f"{error.args[0] if error.args else error}{_TRACED.format(last_line())}",)
        self.flags.append(bad)
        self.errors.append(error)

    def outside(self, t: Tensor) -> Any:
        """What the storage of ``t`` holds outside of the trace."""
        return self._outside(_value, t._storage)

    def concrete(self, value: Any, device: Any = None) -> jax.Array:
        """A numpy array as a jax array, although jax is tracing."""
        with jax.ensure_compile_time_eval():
            return jax.device_put(np.array(value), device)
