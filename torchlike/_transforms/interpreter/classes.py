"""Classes that a captured function makes: their bodies are interpreted, with a namespace in place of variables."""

from __future__ import annotations

import abc
import builtins
import collections
import dataclasses
import types
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from torchlike._transforms.interpreter.instructions import NO_KWARGS, global_of, op
from torchlike._transforms.interpreter.reads import MISSING
from torchlike._transforms.interpreter.trust import trusted_class

if TYPE_CHECKING:
    from types import FunctionType

    from torchlike._transforms.interpreter.loop import Frame
    from torchlike._transforms.interpreter.run import Interpreter

# Functions of the standard library that make a class of their arguments alone, by means that are not interpreted.
MAKERS = frozenset((collections.namedtuple, dataclasses.make_dataclass, dataclasses._process_class))  # type: ignore[attr-defined]
_METACLASSES = (type, abc.ABCMeta)


class Classes:
    """The part of the interpreter that makes classes."""

    def build_class(
        self, body: FunctionType, name: str, *given: Any, metaclass: Any = None, **kwargs: Any
    ) -> Any:  # what the statement `class` does
        """A class whose body is this function."""
        bases = self.call(types.resolve_bases, (given,))
        if not self.is_made(body):
            self.refuse("defines a class in a way that is not known here")
        frame = self.frame_of(body, {})
        frame.space = self.new({})
        door = self.door()
        self.run(frame) if door is None else door(self.run, (frame,), NO_KWARGS)
        if bases is not given:
            frame.space["__orig_bases__"] = given
        return self.made_class(metaclass or type, name, bases, frame.space, kwargs)

    def made_class(
        self, meta: type, name: str, bases: tuple[Any, ...], space: dict[str, Any], kwargs: Mapping[str, Any]
    ) -> Any:
        """``meta(name, bases, space, **kwargs)``."""
        for kind in map(type, bases):
            meta = kind if issubclass(kind, meta) else meta
        if meta not in _METACLASSES and not trusted_class(meta):
            self.refuse(f"defines a class whose metaclass is {meta.__qualname__}")
        self.expose(space)
        return self.new(self.native(meta, (name, bases, space), kwargs))

    def class_of(self, f: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """The class that one of ``MAKERS`` makes, or changes."""
        if not (args and isinstance(args[0], type)):
            return self.new(self.leaf(f, args, kwargs))
        cls = args[0]
        self.change(cls, f"changes {cls.__qualname__}")
        if any([not trusted_class(type(v)) and type(v) is not dataclasses.Field for v in vars(cls).values()]):
            self.refuse(f"makes a dataclass of {cls.__qualname__}, some of whose members cannot be looked into")
        self.classes.clear()
        return self.native(f, args, kwargs, calm=True)  # runs code that it writes, in the user's module


@op
def LOAD_BUILD_CLASS(i: Interpreter, f: Frame, arg: Any) -> None:
    if f.watched:
        i.reads.entry(f.builtins, "__build_class__", "__build_class__")
    f.stack.append(builtins.__build_class__)


def _space(i: Interpreter, f: Frame) -> dict[str, Any]:
    if f.space is None:
        i.refuse("runs the body of a class or module")
    return f.space


def _in(i: Interpreter, f: Frame, space: Any, name: str) -> Any:
    """A name in the body of a class, where its variables are looked up first."""
    value = space.get(name, MISSING)
    value = global_of(i, f, name) if value is MISSING else value
    if value is MISSING:
        raise NameError(f"name {name!r} is not defined")
    return value


def _in_or_free(i: Interpreter, f: Frame, space: Any, name: str) -> Any:
    """A name in the body of a class that is a variable of a function around it."""
    value = space.get(name, MISSING)
    value = i.variable(f.local[name], name) if value is MISSING else value
    if value is MISSING:
        raise NameError(f"cannot access free variable {name!r} where it is not associated with a value")
    return value


@op
def LOAD_NAME(i: Interpreter, f: Frame, name: str) -> None:
    f.stack.append(_in(i, f, _space(i, f), name))


@op
def STORE_NAME(i: Interpreter, f: Frame, name: str) -> None:
    _space(i, f)[name] = i.constants(f.stack.pop())


@op
def DELETE_NAME(i: Interpreter, f: Frame, name: str) -> None:
    if name not in _space(i, f):
        raise NameError(f"name {name!r} is not defined")
    del f.space[name]


@op
def SETUP_ANNOTATIONS(i: Interpreter, f: Frame, arg: Any) -> None:
    _space(i, f).setdefault("__annotations__", i.new({}))


@op
def LOAD_LOCALS(i: Interpreter, f: Frame, arg: Any) -> None:
    f.stack.append(_space(i, f))


@op
def LOAD_CLASSDEREF(i: Interpreter, f: Frame, name: str) -> None:
    f.stack.append(_in_or_free(i, f, _space(i, f), name))


@op
def LOAD_FROM_DICT_OR_DEREF(i: Interpreter, f: Frame, name: str) -> None:
    f.stack.append(_in_or_free(i, f, f.stack.pop(), name))


@op
def LOAD_FROM_DICT_OR_GLOBALS(i: Interpreter, f: Frame, name: str) -> None:
    f.stack.append(_in(i, f, f.stack.pop(), name))
