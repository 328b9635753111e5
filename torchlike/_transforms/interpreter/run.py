"""The entry: a function that runs under the interpreter while it is captured."""

from __future__ import annotations

import collections
import inspect
import types
from collections.abc import Callable, Collection, Coroutine
from typing import TYPE_CHECKING, Any

from torchlike._base.state import state
from torchlike._core.tensor.tensor import Tensor
from torchlike._transforms.capture.cycles import remembered
from torchlike._transforms.capture.given import Given
from torchlike._transforms.capture.numbers import Number
from torchlike._transforms.capture.recording import Unsupported
from torchlike._transforms.capture.structure import Attributes, flatten, is_wrapper, parts
from torchlike._transforms.interpreter.bytecode import KNOWN
from torchlike._transforms.interpreter.calls import Calls
from torchlike._transforms.interpreter.changes import Again, Changes
from torchlike._transforms.interpreter.classes import Classes
from torchlike._transforms.interpreter.live import Live
from torchlike._transforms.interpreter.loop import Loop
from torchlike._transforms.interpreter.objects import Objects
from torchlike._transforms.interpreter.protocols import is_iterator
from torchlike._transforms.interpreter.reads import Reads
from torchlike._transforms.interpreter.replay import Replay, is_simple
from torchlike._transforms.interpreter.trust import PLAIN, own, trusted_class

if TYPE_CHECKING:
    from torchlike._transforms.interpreter.loop import Frame


class Interpreter(Loop, Calls, Classes, Objects, Changes, Live):
    """One capture of a function.

    Attributes:
        listener: is told of each call that runs as it is (``before``, ``after``), of numbers that become tensors
            (``number``), of the trace that begins (``trace``) and of its results (``leave``); or None.
        active: whether the capture goes on. given: ids of the containers of the arguments, and of their attributes.
            patient: whether a function that undoes what it relies on is left to eager code.
    """

    listener: Any = None

    def __init__(
        self,
        function: Callable[..., Any] | None,
        moving: Collection[Any] = frozenset(),
        fixed: Collection[Any] = frozenset(),
        patient: bool = False,
    ) -> None:
        self.function, self.moving, self.patient, self.active = function, moving, patient, False
        self.given = set()
        self._start_changes()
        self.around = []
        self.made, self.arguments, self.classes, self.wrappers, self.looking = {}, set(), {}, {}, set()
        self.histories: set[int] = set()  # ids of what stands for tensors that were computed outside
        self.frame: Frame | None = None
        self.reads, self.lives, self.suspended, self.generators = Reads(), False, {}, {}
        self.fixed, self.inputs, self.tensors = set(fixed), {}, {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function on arguments whose containers are new."""
        if not KNOWN:
            raise Unsupported("runs on a version of Python whose instructions are not known here")
        self._given((args, kwargs))
        out = self.call(self.function, args, self.new(kwargs))
        if type(out) is types.CoroutineType and inspect.iscoroutinefunction(self.function):
            out = self.finished(out)
        self.close_generators()
        if self.lives:
            out = self._with_numbers(out)
        self._check(out)
        return out

    def __enter__(self) -> Interpreter:
        self._before, state.interpreter = state.interpreter, self
        self.active = True
        return self

    def __exit__(self, *exc: object) -> None:
        self.active, state.interpreter = False, self._before
        if exc[0] is not None:  # the function runs again: that nobody waits for these is not its doing
            for x in self.made.values():
                if type(x) is types.CoroutineType:
                    x.close()
        self.left = remembered(self.made.values())
        self.made.clear()
        self.generators.clear()
        self.classes.clear()
        self.tensors.clear()
        self._start_changes()

    def owns(self, t: Tensor) -> bool:
        """Whether a tensor was made in the capture: it is neither from outside nor an argument."""
        return id(t) not in self.arguments and state.capture.owns(t)

    def effects(self, out: Any, given: Given) -> Replay | None:
        """What calls of the program do to Python objects at their end, None if it is nothing; there is no more then.

        ``given``: the containers of the arguments.
        """
        self.sealed = "after it has returned"
        if self.tensors and (shared := self.shared()):
            raise Again(fixed=shared)
        ops = [*self.operations(), *self.changes_of(given)]
        if not ops:
            return None
        self.anticipate()
        return Replay(self, ops, out, given.numbers)

    def _given(self, x: Any) -> None:
        """Note containers of the arguments, which were made for this capture, and the tensors in them."""
        if isinstance(x, Tensor) and not is_wrapper(x):
            self.arguments.add(id(x))
        elif type(x) is Number:
            self.lives = True
        elif (found := parts(x)) is not None:
            self.new(x)
            self.given.add(id(x))
            if hasattr(x, "__dict__"):
                self.new(vars(x))
                self.given.add(id(vars(x)))
            for value in found:
                self._given(value)

    def was_read(self, x: Any) -> bool:
        """Whether ``x`` was there before the capture, and is where the function read it, in every call."""
        return id(x) in self.reads.names and not self.is_made(x)

    def _with_numbers(self, x: Any) -> Any:
        """A result, in which live numbers stay where the program's calls can put others in their place.

        Containers stay the ones that they are, and in their order.
        """
        cls = type(x)
        if cls is Number and self.listener is None:  # a backend's graph returns tensors and constants
            return x
        if cls in _DICTS:
            old, new = list(x.values()), [self._with_numbers(v) for v in x.values()]
            if any([a is not b for a, b in zip(old, new, strict=True)]):
                x.update(zip(x, new, strict=True))
            return x
        if cls is not list and cls is not tuple and not (isinstance(x, tuple) and hasattr(x, "_fields")):
            return self.constants(x)
        new = [self._with_numbers(v) for v in x]
        if all([a is b for a, b in zip(x, new, strict=True)]):
            return x
        if cls is list:
            x[:] = new
            return x
        return cls(new) if cls is tuple else cls(*new)

    def _check(self, out: Any) -> None:
        """Refuse results that a program would have to make anew in every call."""
        self._demand_known(out)
        for x in flatten(out, self.anew(out))[0]:
            if id(x) in self.reads.weak:
                raise Unsupported(f"returns a {type(x).__name__} of a weak reference, which a program would keep alive")
            if (
                isinstance(x, Tensor)
                or type(x) in PLAIN
                or type(x) is Number
                or type(x) in _FIXED
                or trusted_class(type(x))
                and own(type(x).__module__)
            ):
                continue
            if self.is_made(x) or is_iterator(x):
                if isinstance(x, Coroutine):
                    x.close()
                raise Unsupported(f"returns a {type(x).__name__}, which a program does not make anew")

    def anew(self, out: Any) -> dict[int, Attributes]:
        """{id: how it is made} of the objects in a result that every call makes."""
        found: dict[int, Attributes] = {}
        within: dict[int, bool] = {}  # of each container and object whether it is part of such an object
        self._look_for_objects(out, False, found, within)
        return found

    def _look_for_objects(self, x: Any, inside: bool, found: dict[int, Attributes], within: dict[int, bool]) -> None:
        if type(x) in PLAIN or isinstance(x, Tensor | Number):
            return
        is_object = self.is_made(x) and is_simple(x) and id(x) not in self.given
        held = vars(x).values() if is_object else parts(x)
        if held is None:
            return
        if id(x) in within:
            if is_object or inside or within[id(x)]:
                raise Unsupported(f"returns a {type(x).__name__} that stands there twice")
            return
        within[id(x)] = inside
        if is_object:
            found[id(x)] = Attributes(type(x), tuple(vars(x)))
        for value in held:
            self._look_for_objects(value, inside or is_object, found, within)

    def _demand_known(self, x: Any) -> None:
        """Refuse containers of a class that the function has made, which is another one in every call."""
        if self.is_made(type(x)):
            raise Unsupported(f"returns a {type(x).__name__}, whose class it has made")
        for part in parts(x) or ():
            self._demand_known(part)


_DICTS = frozenset((dict, collections.OrderedDict, collections.defaultdict))
_FIXED = (tuple, frozenset, slice)
