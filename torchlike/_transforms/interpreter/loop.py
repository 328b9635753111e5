"""Frames, and the loop that runs their instructions."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

import jax

from torchlike._transforms.capture.recording import Unsupported
from torchlike._transforms.interpreter.blocks import RETURN, finish
from torchlike._transforms.interpreter.bytecode import REFUSED, decoded
from torchlike._transforms.interpreter.instructions import NO_KWARGS, OPS
from torchlike._transforms.interpreter.native import door, open_net
from torchlike._transforms.interpreter.trust import own

if TYPE_CHECKING:
    from types import FunctionType

_ENDS = (Unsupported, jax.errors.JAXTypeError)  # never shown to the function's own handlers


class Frame:
    """One call of a Python function.

    Attributes:
        space: the namespace of a class whose body this is, or None. back: the frame that called it, while it runs.
    """

    __slots__ = ("decoded", "code", "ops", "stack", "local", "globals", "builtins", "pc", "handled", "names",
                 "watched", "thrown", "space", "back")  # fmt: skip

    def __init__(self, function: FunctionType, local: dict[str, Any], ops: list[Any]) -> None:
        self.code, self.decoded, self.ops = function.__code__, decoded(function.__code__), ops
        self.stack, self.local, self.pc = [], local, 0
        self.globals, self.builtins = function.__globals__, function.__builtins__
        self.names: tuple[str, ...] = ()
        self.handled: Any = None
        self.thrown: Any = None
        self.back: Frame | None = None
        self.space: Any = None
        self.watched = not own(self.globals.get("__name__") or "")

    def line(self) -> int:
        """The line of the instruction that runs."""
        return self.decoded.lines[max(self.pc - 1, 0)]

    def door(self) -> Callable[..., Any]:
        """What calls from that line."""
        line, doors = self.line(), self.decoded.doors
        found = doors.get(line)
        if found is None or found.__globals__ is not self.globals:
            found = doors[line] = door(self.code, line, self.globals)
        return found

    def handler(self, at: int) -> Any:
        """Where an exception in the instruction ``at`` goes, or None."""
        for handler in reversed(self.decoded.handlers):
            if handler.start <= at < handler.end:
                return handler
        return None

    def protected(self) -> bool:
        """Whether a generator waits where it has code of the user's to run when it is closed."""
        handler = self.handler(self.pc - 1)
        while handler is not None and self.decoded.names[handler.target] == "CLEANUP_THROW":
            handler = self.handler(handler.target)
        return handler is not None and self.decoded.names[handler.target] != "STOPITERATION_ERROR"

    def of_super(self) -> tuple[Any, Any]:
        """What ``super()`` without arguments means here."""
        first = self.code.co_varnames[0]
        x = self.local[first]
        return self.local["__class__"].cell_contents, x.cell_contents if first in self.code.co_cellvars else x


def _abandon(frame: Frame) -> None:
    """Close the library's contexts that a frame is in as the capture ends, which undoes what they change now.

    They would do it when the garbage collector finds them, in the middle of something else.
    """
    for leave in reversed(frame.stack):
        made = getattr(getattr(leave, "__self__", None), "gen", None)
        if isinstance(made, types.GeneratorType) and made.gi_code is not Loop.generator.__code__:
            with contextlib.suppress(Exception):
                made.close()


class Loop:
    """The part of the interpreter that runs instructions.

    Attributes:
        frame: the one that runs, or None. suspended: {id: frame} of generators that wait within ``try`` or ``with``.
        generators: {id of its frame: generator}.
    """

    frame: Frame | None
    sealed: str | None

    def door(self) -> Callable[..., Any] | None:
        """What calls from the user's line, or None."""
        return None if self.frame is None else self.frame.door()

    def frame_of(self, function: FunctionType, local: dict[str, Any]) -> Frame:
        """A frame at the start of a function."""
        ops = _linked(function.__code__)
        frame = Frame(function, local, ops)
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            frame.local[name] = cell
        return frame

    def run(self, frame: Frame) -> Any:
        """Run a frame to its end."""
        before, self.frame = self.frame, frame
        frame.back = before
        try:
            return self.advance(frame)[1]
        finally:
            self.frame, frame.back = before, None

    def generator(self, frame: Frame) -> Iterator[Any]:
        """A generator of what the frame yields."""
        while True:
            before, self.frame = self.frame, frame
            frame.back = before
            try:
                with open_net():
                    kind, value = self.advance(frame)
            finally:
                self.frame, frame.back = before, None
            if kind is RETURN:
                return value
            if frame.protected():
                self.suspended[id(frame)] = frame
            try:
                sent = yield value
            except BaseException as error:
                if not self.active:  # the capture is over, and this generator is only taken away
                    raise
                frame.thrown = error
            else:
                frame.stack.append(sent)
            finally:
                self.suspended.pop(id(frame), None)

    def close_generators(self) -> None:
        """Close the generators that nobody will go on with, as happens to them when the function has returned.

        What their code then does to others is refused: when it happens depends on who holds them.
        """
        for key in [*self.suspended]:
            with self.body():
                self.sealed = "as a generator is closed"
                try:
                    self.generators[key].close()
                except Unsupported as error:
                    self.refuse(f"leaves a generator within try or with, whose end {error}")
                except RuntimeError:
                    self.refuse("leaves a generator that cannot be closed")
                finally:
                    self.sealed = None

    def finished(self, coroutine: Any) -> Any:
        """What a coroutine returns, which waits for nothing but others that the function made."""
        try:
            self.native(coroutine.send, (None,), {})
        except StopIteration as stop:
            return stop.value
        coroutine.close()
        return self.refuse("waits for something that is not ready")

    def advance(self, frame: Frame) -> tuple[Any, ...]:
        """Run up to a return or yield: (which, value)."""
        ops = frame.ops
        while True:
            try:
                if frame.thrown is not None:
                    self._throw(frame)
                while True:
                    op, argument = ops[frame.pc]
                    frame.pc += 1
                    done = op(self, frame, argument)
                    if done is not None:
                        return done
            except BaseException as error:
                if not self._handled(frame, error):
                    frame.handled = None
                    del frame.stack[:]
                    raise  # no variable keeps it: its traceback refers to this call

    def _throw(self, frame: Frame) -> None:
        """Go on with an exception, which what the frame yields from gets first."""
        error, frame.thrown = frame.thrown, None
        names, arguments = frame.decoded.names, frame.decoded.arguments
        delegates = names[frame.pc] == "RESUME" and arguments[frame.pc] & 3 == 2
        frame.stack.append(None)  # in the place of what would have been sent
        closes = isinstance(error, GeneratorExit)
        if delegates and closes and hasattr(frame.stack[-2], "close"):
            self.call(self.attribute(frame.stack[-2], "close"))
        if closes or not delegates or not hasattr(frame.stack[-2], "throw"):
            errors, error = [error], None
            _raise(errors)
        try:
            frame.stack[-1] = self.call(self.attribute(frame.stack[-2], "throw"), (error,))
        except StopIteration as stop:
            send = arguments[frame.pc + 1]  # where the jump after RESUME goes
            finish(frame, arguments[send], stop.value)
        else:
            frame.pc -= 1  # yields what it gave
        finally:
            error = None

    def _handled(self, frame: Frame, error: BaseException) -> bool:
        """Whether the frame handles an exception: where it goes on is set then."""
        if isinstance(error, _ENDS):
            _abandon(frame)
            placed, error._placed, errors = hasattr(error, "_placed"), True, [error]
            error = None
            return False if placed else frame.door()(_raise, (errors,), NO_KWARGS)
        at = frame.pc - 1
        handler = frame.handler(at)
        if frame.handled is not None and error.__context__ is None and error is not frame.handled:
            _raised_while(error, frame.handled)
        if handler is None:
            return False
        del frame.stack[handler.depth :]
        if handler.lasti:
            frame.stack.append(at)
        if type(error) is StopIteration:  # of a generator or coroutine of the function, with what that returned
            self.new(error)
            error.__traceback__ = None  # which would keep what is around as long as this is known to be new
        frame.stack.append(error)
        frame.pc = handler.target
        return True


@types.coroutine
def _steps(generator: Any) -> Any:
    return (yield from generator)


async def coroutine_of(generator: Any) -> Any:
    """A coroutine that takes the steps of a generator."""
    return await _steps(generator)


def _raised_while(error: BaseException, handled: BaseException) -> None:
    """Note that an exception was raised while another one was handled; chains of these have no circles."""
    last = handled
    while last.__context__ is not None and last.__context__ is not error:
        last = last.__context__
    last.__context__ = None
    error.__context__ = handled


def _raise(errors: list[BaseException]) -> NoReturn:
    raise errors.pop()


def _linked(code: types.CodeType) -> list[Any]:
    found = _programs.get(code)
    if found is None:
        made = decoded(code)
        missing = [name for name in made.names if name not in OPS]
        if missing:
            what = REFUSED.get(missing[0], "an instruction that is not known here")
            raise Unsupported(f"contains {what} ({missing[0]}), which cannot be part of a program")
        ops = [(OPS[name], argument) for name, argument in zip(made.names, made.arguments, strict=True)]
        found = _programs[code] = ops
    return found


_programs: dict = {}
