"""Frames, and the loop that runs their instructions."""

import jax

from torchlike._transforms.capture.recording import Unsupported
from torchlike._transforms.interpreter.blocks import RETURN
from torchlike._transforms.interpreter.bytecode import decoded
from torchlike._transforms.interpreter.instructions import NO_KWARGS, OPS
from torchlike._transforms.interpreter.native import door
from torchlike._transforms.interpreter.trust import own

_ENDS = (Unsupported, jax.errors.JAXTypeError, GeneratorExit)  # never shown to the function's own handlers


class Frame:
    """One call of a Python function."""

    __slots__ = ("decoded", "code", "ops", "stack", "local", "cells", "globals", "builtins", "pc", "handled", "names",
                 "watched", "thrown")  # fmt: skip

    def __init__(self, function, local, ops):
        self.code, self.decoded, self.ops = function.__code__, decoded(function.__code__), ops
        self.stack, self.local, self.cells, self.pc = [], local, {}, 0
        self.globals, self.builtins = function.__globals__, function.__builtins__
        self.handled, self.names, self.thrown = None, (), None
        self.watched = not own(self.globals.get("__name__") or "")

    def line(self):
        """The line of the instruction that runs."""
        return self.decoded.lines[max(self.pc - 1, 0)]

    def door(self):
        """What calls from that line."""
        line, doors = self.line(), self.decoded.doors
        found = doors.get(line)
        if found is None or found.__globals__ is not self.globals:
            found = doors[line] = door(self.code, line, self.globals)
        return found

    def of_super(self):
        """What ``super()`` without arguments means here."""
        first = self.code.co_varnames[0]
        x = self.local[first] if first in self.local else self.cells[first].cell_contents
        return self.cells["__class__"].cell_contents, x


class Loop:
    """The part of the interpreter that runs instructions.

    Attributes:
        frame: the one that runs, or None.
    """

    def door(self):
        """What calls from the user's line, or None."""
        return None if self.frame is None else self.frame.door()

    def frame_of(self, function, local):
        """A frame at the start of a function."""
        ops = _linked(function.__code__)
        frame = Frame(function, local, ops)
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            frame.cells[name] = cell
        return frame

    def run(self, frame):
        """Run a frame to its end."""
        before, self.frame = self.frame, frame
        try:
            return self.advance(frame)[1]
        finally:
            self.frame = before

    def generator(self, frame):
        """A generator of what the frame yields."""
        while True:
            before, self.frame = self.frame, frame
            try:
                kind, value = self.advance(frame)
            finally:
                self.frame = before
            if kind is RETURN:
                return value
            try:
                sent = yield value
            except BaseException as error:
                frame.thrown = error
            else:
                frame.stack.append(sent)

    def advance(self, frame):
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
                caught = error
            self._unwind(frame, caught)
            caught = None

    def _throw(self, frame):
        error, frame.thrown = frame.thrown, None
        if frame.decoded.names[frame.pc] == "RESUME" and frame.decoded.arguments[frame.pc] & 3 == 2:
            receiver = frame.stack[-1]
            if hasattr(receiver, "throw"):
                value = receiver.throw(error)
                frame.stack.append(value)
                frame.pc -= 1  # yields what it gave
                return
        raise error

    def _unwind(self, frame, error):
        if isinstance(error, _ENDS):
            if not hasattr(error, "_placed"):
                error._placed = True
                frame.door()(_raise, (error,), NO_KWARGS)
            raise error
        at = frame.pc - 1
        for start, end, target, depth, lasti in reversed(frame.decoded.handlers):
            if start <= at < end:
                del frame.stack[depth:]
                if lasti:
                    frame.stack.append(at)
                frame.stack.append(error)
                frame.pc = target
                return
        raise error


def _raise(error):
    raise error


def _linked(code):
    found = _programs.get(code)
    if found is None:
        made = decoded(code)
        missing = [name for name in made.names if name not in OPS]
        if missing:
            raise Unsupported(f"contains the instruction {missing[0]}, which cannot be part of a program")
        ops = [(OPS[name], argument) for name, argument in zip(made.names, made.arguments, strict=True)]
        found = _programs[code] = ops
    return found


_programs: dict = {}
