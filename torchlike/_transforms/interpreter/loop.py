"""Frames, and what each instruction of Python 3.11 does to one."""

import importlib
import sys
import types

import jax

from torchlike._transforms.interpreter.bytecode import decoded
from torchlike._transforms.interpreter.native import door
from torchlike._transforms.interpreter.objects import is_iterator
from torchlike._transforms.interpreter.reads import MISSING
from torchlike._transforms.interpreter.trust import PLAIN, own
from torchlike._transforms.recording import Unsupported

RETURN, YIELD = "return", "yield"
_ENDS = (Unsupported, jax.errors.JAXTypeError, GeneratorExit)  # never shown to the function's own handlers
_NULL = type("Null", (), {})()
_NO_KWARGS: dict = {}


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
                frame.door()(_raise, (error,), _NO_KWARGS)
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
OPS = {}


def op(function):
    """An instruction: its name is that of the function."""
    OPS[function.__name__] = function
    return function


def _nothing(i, f, arg):
    pass


for _name in ("NOP", "RESUME", "PRECALL", "MAKE_CELL_", "COPY_FREE_VARS", "EXTENDED_ARG"):
    OPS[_name] = _nothing


# -- the stack ---------------------------------------------------------------------------------------
@op
def POP_TOP(i, f, arg):
    f.stack.pop()


@op
def PUSH_NULL(i, f, arg):
    f.stack.append(_NULL)


@op
def SWAP(i, f, n):
    s = f.stack
    s[-1], s[-n] = s[-n], s[-1]


@op
def COPY(i, f, n):
    f.stack.append(f.stack[-n])


@op
def LOAD_CONST(i, f, value):
    f.stack.append(value)


# -- variables ---------------------------------------------------------------------------------------
@op
def LOAD_FAST(i, f, name):
    try:
        f.stack.append(f.local[name])
    except KeyError:
        message = f"cannot access local variable {name!r} where it is not associated with a value"
        raise UnboundLocalError(message) from None


@op
def STORE_FAST(i, f, name):
    f.local[name] = f.stack.pop()


@op
def DELETE_FAST(i, f, name):
    if name not in f.local:
        raise UnboundLocalError(f"cannot access local variable {name!r} where it is not associated with a value")
    del f.local[name]


@op
def MAKE_CELL(i, f, name):
    cell = types.CellType(f.local.pop(name)) if name in f.local else types.CellType()
    f.cells[name] = i.new(cell)


@op
def LOAD_CLOSURE(i, f, name):
    f.stack.append(f.cells[name])


@op
def LOAD_DEREF(i, f, name):
    cell = f.cells[name]
    try:
        value = cell.cell_contents
    except ValueError:
        value = MISSING
    if not i.is_made(cell):
        value = i.live(i.reads.add("cell", cell, None, value, name), "cell", cell, None)
    if value is MISSING:
        raise NameError(f"cannot access free variable {name!r} where it is not associated with a value")
    f.stack.append(value)


@op
def STORE_DEREF(i, f, name):
    cell, value = f.cells[name], f.stack.pop()
    i.change(cell, f"sets the variable {name}")
    cell.cell_contents = value


@op
def DELETE_DEREF(i, f, name):
    i.change(f.cells[name], f"deletes the variable {name}")
    del f.cells[name].cell_contents


@op
def LOAD_GLOBAL(i, f, arg):
    name, null = arg
    if null:
        f.stack.append(_NULL)
    value = _global(i, f, name)
    if value is MISSING:
        raise NameError(f"name {name!r} is not defined")
    f.stack.append(value)


def _global(i, f, name):
    if not f.watched:
        value = f.globals.get(name, MISSING)
        return f.builtins.get(name, MISSING) if value is MISSING else value
    value = i.reads.entry(f.globals, name, name)
    if value is MISSING:
        return i.reads.entry(f.builtins, name, name)
    return i.live(value, "entry", f.globals, name)


@op
def LOAD_NAME(i, f, name):
    LOAD_GLOBAL(i, f, (name, 0))


@op
def STORE_GLOBAL(i, f, name):
    i.set_item(f.globals, name, f.stack.pop())


@op
def DELETE_GLOBAL(i, f, name):
    i.delete_item(f.globals, name)


@op
def IMPORT_NAME(i, f, name):
    listed, level = f.stack.pop(), f.stack.pop()
    package = f.globals.get("__package__") or ""
    full = importlib.util.resolve_name("." * level + name, package) if level else name
    if full not in sys.modules:
        i.refuse(f"imports {full} for the first time")
    i.reads.entry(sys.modules, full, full)
    module = f.door()(__import__, (name, f.globals, None, listed, level), _NO_KWARGS)
    for part in listed or ():
        submodule = f"{full}.{part}"
        if part not in vars(module) and submodule in sys.modules:
            i.reads.entry(sys.modules, submodule, submodule)
    f.stack.append(module)


@op
def IMPORT_FROM(i, f, name):
    try:
        f.stack.append(i.attribute(f.stack[-1], name))
    except AttributeError as error:
        raise ImportError(str(error)) from None


# -- operators -----------------------------------------------------------------------------------------
@op
def BINARY_OP(i, f, number):
    right, left = f.stack.pop(), f.stack.pop()
    f.stack.append(i.binary(_SYMBOLS[number], left, right))


_SYMBOLS = ("+", "&", "//", "<<", "@", "*", "%", "|", "**", ">>", "-", "/", "^")
_SYMBOLS += tuple(f"{s}=" for s in _SYMBOLS)


@op
def COMPARE_OP(i, f, symbol):
    right, left = f.stack.pop(), f.stack.pop()
    f.stack.append(i.compare(symbol, left, right))


@op
def UNARY_NEGATIVE(i, f, arg):
    f.stack.append(i.unary("-", f.stack.pop()))


@op
def UNARY_POSITIVE(i, f, arg):
    f.stack.append(i.unary("+", f.stack.pop()))


@op
def UNARY_INVERT(i, f, arg):
    f.stack.append(i.unary("~", f.stack.pop()))


@op
def UNARY_NOT(i, f, arg):
    f.stack.append(not i.truth(f.stack.pop()))


@op
def IS_OP(i, f, arg):
    right, left = f.stack.pop(), f.stack.pop()
    f.stack.append((left is right) is not bool(arg))


@op
def CONTAINS_OP(i, f, arg):
    container, value = f.stack.pop(), f.stack.pop()
    f.stack.append(bool(i.contains(container, value)) is not bool(arg))


@op
def BINARY_SUBSCR(i, f, arg):
    key, x = f.stack.pop(), f.stack.pop()
    f.stack.append(i.item(x, key))


@op
def STORE_SUBSCR(i, f, arg):
    key, x, value = f.stack.pop(), f.stack.pop(), f.stack.pop()
    i.set_item(x, key, value)


@op
def DELETE_SUBSCR(i, f, arg):
    key, x = f.stack.pop(), f.stack.pop()
    i.delete_item(x, key)


@op
def GET_LEN(i, f, arg):
    f.stack.append(i.length(f.stack[-1]))


# -- attributes ------------------------------------------------------------------------------------------
@op
def LOAD_ATTR(i, f, name):
    f.stack.append(i.attribute(f.stack.pop(), name))


@op
def LOAD_METHOD(i, f, name):
    value = i.attribute(f.stack.pop(), name)
    f.stack.append(_NULL)
    f.stack.append(value)


@op
def STORE_ATTR(i, f, name):
    x, value = f.stack.pop(), f.stack.pop()
    i.set_attribute(x, name, value)


@op
def DELETE_ATTR(i, f, name):
    i.delete_attribute(f.stack.pop(), name)


# -- jumps -------------------------------------------------------------------------------------------------
@op
def JUMP_FORWARD(i, f, target):
    f.pc = target


OPS["JUMP_BACKWARD"] = OPS["JUMP_BACKWARD_NO_INTERRUPT"] = JUMP_FORWARD


def _jump_if(wanted):
    def jump(i, f, target):
        if i.truth(f.stack.pop()) is wanted:
            f.pc = target

    return jump


def _jump_if_none(wanted):
    def jump(i, f, target):
        if (f.stack.pop() is None) is wanted:
            f.pc = target

    return jump


def _jump_or_pop(wanted):
    def jump(i, f, target):
        if i.truth(f.stack[-1]) is wanted:
            f.pc = target
        else:
            f.stack.pop()

    return jump


for _way in ("FORWARD", "BACKWARD"):
    OPS[f"POP_JUMP_{_way}_IF_TRUE"], OPS[f"POP_JUMP_{_way}_IF_FALSE"] = _jump_if(True), _jump_if(False)
    OPS[f"POP_JUMP_{_way}_IF_NONE"], OPS[f"POP_JUMP_{_way}_IF_NOT_NONE"] = _jump_if_none(True), _jump_if_none(False)
OPS["JUMP_IF_TRUE_OR_POP"], OPS["JUMP_IF_FALSE_OR_POP"] = _jump_or_pop(True), _jump_or_pop(False)


@op
def GET_ITER(i, f, arg):
    f.stack.append(i.iterate(f.stack.pop()))


@op
def FOR_ITER(i, f, target):
    try:
        value = i.following(f.stack[-1])
    except StopIteration:
        f.stack.pop()
        f.pc = target
    else:
        f.stack.append(value)


# -- building ------------------------------------------------------------------------------------------------
def _take(f, n):
    if not n:
        return []
    taken = f.stack[-n:]
    del f.stack[-n:]
    return taken


@op
def BUILD_TUPLE(i, f, n):
    f.stack.append(tuple(_take(f, n)))


@op
def BUILD_LIST(i, f, n):
    f.stack.append(i.new(_take(f, n)))


@op
def BUILD_SET(i, f, n):
    f.stack.append(i.new(set(_take(f, n))))


@op
def BUILD_MAP(i, f, n):
    taken = _take(f, 2 * n)
    f.stack.append(i.new(dict(zip(taken[::2], taken[1::2], strict=True))))


@op
def BUILD_CONST_KEY_MAP(i, f, n):
    keys = f.stack.pop()
    f.stack.append(i.new(dict(zip(keys, _take(f, n), strict=True))))


@op
def BUILD_STRING(i, f, n):
    f.stack.append("".join(_take(f, n)))


@op
def BUILD_SLICE(i, f, n):
    f.stack.append(slice(*_take(f, 2 if n is None else n)))


@op
def LIST_TO_TUPLE(i, f, arg):
    f.stack.append(tuple(f.stack.pop()))


@op
def LIST_APPEND(i, f, n):
    value = f.stack.pop()
    f.stack[-n].append(value)


@op
def SET_ADD(i, f, n):
    value = f.stack.pop()
    f.stack[-n].add(value)


@op
def MAP_ADD(i, f, n):
    value, key = f.stack.pop(), f.stack.pop()
    f.stack[-n][key] = value


def _all(i, x):
    """The elements of an iterable."""
    if type(x) in (tuple, list) and (type(x) is tuple or i.is_made(x)):
        return x
    iterator = i.iterate(x)
    if type(iterator) in PLAIN or i.is_made(iterator) and type(iterator).__module__ == "builtins":
        return i.native(list, (iterator,), {})
    found = []
    while True:
        try:
            found.append(i.following(iterator))
        except StopIteration:
            return found


@op
def LIST_EXTEND(i, f, n):
    values = _all(i, f.stack.pop())
    f.stack[-n].extend(values)


@op
def SET_UPDATE(i, f, n):
    values = _all(i, f.stack.pop())
    f.stack[-n].update(values)


@op
def DICT_UPDATE(i, f, n):
    x = f.stack.pop()
    f.stack[-n].update(_mapping(i, x))


@op
def DICT_MERGE(i, f, n):
    given, into = _mapping(i, f.stack.pop()), f.stack[-n]
    for key in given:
        if key in into:
            raise TypeError(f"got multiple values for keyword argument {key!r}")
    into.update(given)


def _mapping(i, x):
    if isinstance(x, dict):
        i.seen(x)
        return dict(x)
    return {key: i.item(x, key) for key in _all(i, i.call(i.attribute(x, "keys")))}


@op
def UNPACK_SEQUENCE(i, f, n):
    values = list(_all(i, f.stack.pop()))
    if len(values) != n:
        raise ValueError(f"expected {n} values to unpack, got {len(values)}")
    f.stack.extend(reversed(values))


@op
def UNPACK_EX(i, f, arg):
    before, after = arg & 255, arg >> 8
    values = list(_all(i, f.stack.pop()))
    if len(values) < before + after:
        raise ValueError(f"not enough values to unpack (expected at least {before + after}, got {len(values)})")
    middle = i.new(values[before : len(values) - after])
    f.stack.extend(reversed([*values[:before], middle, *values[len(values) - after :]]))


@op
def FORMAT_VALUE(i, f, flags):
    spec = f.stack.pop() if flags & 4 else ""
    value = f.stack.pop()
    convert = {1: str, 2: repr, 3: ascii}.get(flags & 3)
    if convert is not None:
        value = i.call(convert, (value,))
    f.stack.append(i.call(format, (value, spec)))


# -- functions ---------------------------------------------------------------------------------------------------
@op
def MAKE_FUNCTION(i, f, flags):
    code = f.stack.pop()
    closure = f.stack.pop() if flags & 8 else None
    annotations = f.stack.pop() if flags & 4 else ()
    keyword = f.stack.pop() if flags & 2 else None
    defaults = f.stack.pop() if flags & 1 else None
    function = types.FunctionType(code, f.globals, code.co_name, defaults, closure)
    function.__qualname__ = code.co_qualname
    function.__kwdefaults__ = keyword
    if annotations:
        pairs = annotations if isinstance(annotations, tuple) else tuple(x for kv in annotations.items() for x in kv)
        function.__annotations__ = dict(zip(pairs[::2], pairs[1::2], strict=True))
    f.stack.append(i.new(function))


@op
def KW_NAMES(i, f, names):
    f.names = names


@op
def CALL(i, f, n):
    given = _take(f, n)
    second, first = f.stack.pop(), f.stack.pop()
    if first is not _NULL:
        given.insert(0, second)
        second = first
    kwargs = _NO_KWARGS
    if f.names:
        k = len(f.names)
        kwargs = dict(zip(f.names, given[-k:], strict=True))
        del given[-k:]
        f.names = ()
    f.stack.append(i.call(second, tuple(given), kwargs))


@op
def CALL_FUNCTION_EX(i, f, flags):
    kwargs = _mapping(i, f.stack.pop()) if flags & 1 else _NO_KWARGS
    args = tuple(_all(i, f.stack.pop()))
    function = f.stack.pop()
    f.stack.pop()
    f.stack.append(i.call(function, args, kwargs))


@op
def RETURN_VALUE(i, f, arg):
    return RETURN, f.stack.pop()


@op
def LOAD_BUILD_CLASS(i, f, arg):
    i.refuse("defines a class")


# -- generators --------------------------------------------------------------------------------------------------
@op
def RETURN_GENERATOR(i, f, arg):
    f.stack.append(None)


@op
def YIELD_VALUE(i, f, arg):
    return YIELD, f.stack.pop()


@op
def GET_YIELD_FROM_ITER(i, f, arg):
    f.stack.append(i.iterate(f.stack.pop()))


@op
def SEND(i, f, target):
    value, receiver = f.stack[-1], f.stack[-2]
    try:
        if value is None and is_iterator(receiver):
            f.stack[-1] = i.following(receiver)
        else:
            f.stack[-1] = i.call(i.attribute(receiver, "send"), (value,))
    except StopIteration as stop:
        f.stack.pop()
        f.stack[-1] = stop.value
        f.pc = target


# -- exceptions, contexts ------------------------------------------------------------------------------------------
@op
def LOAD_ASSERTION_ERROR(i, f, arg):
    f.stack.append(AssertionError)


@op
def RAISE_VARARGS(i, f, n):
    cause = f.stack.pop() if n == 2 else MISSING
    error = f.stack.pop() if n else f.handled
    if error is None:
        raise RuntimeError("No active exception to reraise")
    if isinstance(error, type):
        error = i.call(error)
    if cause is not MISSING:
        error.__cause__ = i.call(cause) if isinstance(cause, type) else cause
    raise error


@op
def PUSH_EXC_INFO(i, f, arg):
    error = f.stack.pop()
    f.stack.append(f.handled)
    f.stack.append(error)
    f.handled = error


@op
def CHECK_EXC_MATCH(i, f, arg):
    kinds = f.stack.pop()
    f.stack.append(isinstance(f.stack[-1], kinds))


@op
def POP_EXCEPT(i, f, arg):
    f.handled = f.stack.pop()


@op
def RERAISE(i, f, depth):
    raise f.stack.pop()


def _of_type(i, x, name):
    cls = type(x)
    if i.method(x, name) is not None:
        return i.method(x, name)
    found = getattr(cls, name, None)
    if found is None:
        raise TypeError(f"{cls.__name__!r} object does not support the context manager protocol")
    return getattr(x, name)


@op
def BEFORE_WITH(i, f, arg):
    x = f.stack.pop()
    leave = _of_type(i, x, "__exit__")
    enter = _of_type(i, x, "__enter__")
    f.stack.append(leave)
    f.stack.append(i.call(enter))


@op
def WITH_EXCEPT_START(i, f, arg):
    error = f.stack[-1]
    f.stack.append(i.call(f.stack[-4], (type(error), error, error.__traceback__)))


# -- match -----------------------------------------------------------------------------------------------------------
@op
def MATCH_MAPPING(i, f, arg):
    f.stack.append(isinstance(f.stack[-1], dict | types.MappingProxyType))


@op
def MATCH_SEQUENCE(i, f, arg):
    f.stack.append(bool(type(f.stack[-1]).__flags__ & 1 << 5))


@op
def MATCH_KEYS(i, f, arg):
    keys, x = f.stack[-1], f.stack[-2]
    found = [i.contains(x, key) for key in keys]
    f.stack.append(tuple([i.item(x, key) for key in keys]) if all(found) else None)


@op
def MATCH_CLASS(i, f, n):
    names, cls, x = f.stack.pop(), f.stack.pop(), f.stack.pop()
    f.stack.append(_matched(i, x, cls, n, names) if i.call(isinstance, (x, cls)) else None)


def _matched(i, x, cls, n, names):
    if n and cls in (bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple):
        values = [x]
    else:
        values = [i.attribute(x, name) for name in (i.attribute(cls, "__match_args__")[:n] if n else ())]
    try:
        return (*values, *[i.attribute(x, name) for name in names])
    except AttributeError:
        return None
