"""What each instruction does to a frame: building values, functions, generators, exceptions, match."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

from torchlike._transforms.interpreter.bytecode import FACTS
from torchlike._transforms.interpreter.instructions import NO_KWARGS, NULL, op
from torchlike._transforms.interpreter.protocols import is_iterator
from torchlike._transforms.interpreter.reads import MISSING
from torchlike._transforms.interpreter.trust import PLAIN

if TYPE_CHECKING:
    from torchlike._transforms.interpreter.loop import Frame
    from torchlike._transforms.interpreter.run import Interpreter

RETURN, YIELD = "return", "yield"


# -- building ------------------------------------------------------------------------------------------------
def _take(f: Frame, n: int) -> list[Any]:
    if not n:
        return []
    taken = f.stack[-n:]
    del f.stack[-n:]
    return taken


@op
def BUILD_TUPLE(i: Interpreter, f: Frame, n: int) -> None:
    f.stack.append(tuple(_take(f, n)))


@op
def BUILD_LIST(i: Interpreter, f: Frame, n: int) -> None:
    f.stack.append(i.new(_take(f, n)))


@op
def BUILD_SET(i: Interpreter, f: Frame, n: int) -> None:
    f.stack.append(i.new(set(map(i.key, _take(f, n)))))


@op
def BUILD_MAP(i: Interpreter, f: Frame, n: int) -> None:
    taken = _take(f, 2 * n)
    f.stack.append(i.new(dict(zip(map(i.key, taken[::2]), taken[1::2], strict=True))))


@op
def BUILD_CONST_KEY_MAP(i: Interpreter, f: Frame, n: int) -> None:
    keys = f.stack.pop()
    f.stack.append(i.new(dict(zip(keys, _take(f, n), strict=True))))


@op
def BUILD_STRING(i: Interpreter, f: Frame, n: int) -> None:
    f.stack.append("".join(_take(f, n)))


@op
def BUILD_SLICE(i: Interpreter, f: Frame, n: int) -> None:
    f.stack.append(slice(*i.constants(tuple(_take(f, 2 if n is None else n)))))


@op
def LIST_TO_TUPLE(i: Interpreter, f: Frame, arg: Any) -> None:
    f.stack.append(tuple(f.stack.pop()))


@op
def LIST_APPEND(i: Interpreter, f: Frame, n: int) -> None:
    value = f.stack.pop()
    f.stack[-n].append(value)


@op
def SET_ADD(i: Interpreter, f: Frame, n: int) -> None:
    value = i.key(f.stack.pop())
    f.stack[-n].add(value)


@op
def MAP_ADD(i: Interpreter, f: Frame, n: int) -> None:
    value, key = f.stack.pop(), f.stack.pop()
    f.stack[-n][i.key(key)] = value


def _all(i: Interpreter, x: Any) -> Any:
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
def LIST_EXTEND(i: Interpreter, f: Frame, n: int) -> None:
    values = _all(i, f.stack.pop())
    f.stack[-n].extend(values)


@op
def SET_UPDATE(i: Interpreter, f: Frame, n: int) -> None:
    values = _all(i, f.stack.pop())
    f.stack[-n].update(map(i.key, values))


@op
def DICT_UPDATE(i: Interpreter, f: Frame, n: int) -> None:
    x = f.stack.pop()
    f.stack[-n].update(_mapping(i, x))


@op
def DICT_MERGE(i: Interpreter, f: Frame, n: int) -> None:
    given, into = _mapping(i, f.stack.pop()), f.stack[-n]
    for key in given:
        if key in into:
            raise TypeError(f"got multiple values for keyword argument {key!r}")
    into.update(given)


def _mapping(i: Interpreter, x: Any) -> Any:
    if isinstance(x, dict):
        i.expose(x)
        return dict(x)
    return {key: i.item(x, key) for key in _all(i, i.call(i.attribute(x, "keys")))}


@op
def UNPACK_SEQUENCE(i: Interpreter, f: Frame, n: int) -> None:
    values = list(_all(i, f.stack.pop()))
    if len(values) != n:
        raise ValueError(f"expected {n} values to unpack, got {len(values)}")
    f.stack.extend(reversed(values))


@op
def UNPACK_EX(i: Interpreter, f: Frame, arg: Any) -> None:
    before, after = arg & 255, arg >> 8
    values = list(_all(i, f.stack.pop()))
    if len(values) < before + after:
        raise ValueError(f"not enough values to unpack (expected at least {before + after}, got {len(values)})")
    middle = i.new(values[before : len(values) - after])
    f.stack.extend(reversed([*values[:before], middle, *values[len(values) - after :]]))


@op
def FORMAT_VALUE(i: Interpreter, f: Frame, flags: int) -> None:
    spec = f.stack.pop() if flags & 4 else ""
    value = f.stack.pop()
    value = i.constant(value)
    convert = {1: str, 2: repr, 3: ascii}.get(flags & 3)
    if convert is not None:
        value = i.call(convert, (value,))
    f.stack.append(i.call(format, (value, spec)))


@op
def CONVERT_VALUE(i: Interpreter, f: Frame, convert: Any) -> None:
    f.stack.append(i.call(convert, (i.constant(f.stack.pop()),)))


# -- functions ---------------------------------------------------------------------------------------------------
@op
def MAKE_FUNCTION(i: Interpreter, f: Frame, parts: tuple[str, ...]) -> None:
    code = f.stack.pop()
    given = {part: f.stack.pop() for part in parts}
    function = types.FunctionType(code, f.globals, code.co_name, given.get("defaults"), given.get("closure"))
    function.__qualname__ = code.co_qualname
    function.__kwdefaults__ = given.get("kwdefaults")
    if "annotations" in given:
        pairs = given["annotations"]
        function.__annotations__ = dict(zip(pairs[::2], pairs[1::2], strict=True))
    if "annotate" in given:
        function.__annotate__ = given["annotate"]
    f.stack.append(i.new(function))


@op
def KW_NAMES(i: Interpreter, f: Frame, names: tuple[str, ...]) -> None:
    f.names = names


@op
def POP_KW_NAMES(i: Interpreter, f: Frame, arg: Any) -> None:
    f.names = f.stack.pop()


def _called(f: Frame, args: list[Any]) -> Any:
    """The function that stands below the arguments, with NULL or its first argument above it, or NULL below it."""
    second, first = f.stack.pop(), f.stack.pop()
    if first is NULL:
        return second
    if second is not NULL:
        args.insert(0, second)
    return first


@op
def CALL(i: Interpreter, f: Frame, n: int) -> None:
    given = _take(f, n)
    function = _called(f, given)
    kwargs = NO_KWARGS
    if f.names:
        k = len(f.names)
        kwargs = dict(zip(f.names, given[-k:], strict=True))
        del given[-k:]
    f.names = ()
    f.stack.append(i.call(function, tuple(given), kwargs))


@op
def CALL_FUNCTION_EX(i: Interpreter, f: Frame, keywords: int) -> None:
    kwargs = f.stack.pop() if keywords else NULL
    kwargs = NO_KWARGS if kwargs is NULL else _mapping(i, kwargs)
    args = [*_all(i, f.stack.pop())]
    function = _called(f, args)
    f.stack.append(i.call(function, tuple(args), kwargs))


@op
def RETURN_VALUE(i: Interpreter, f: Frame, arg: Any) -> tuple[Any, ...]:
    return RETURN, f.stack.pop()


# -- generators --------------------------------------------------------------------------------------------------
@op
def RETURN_GENERATOR(i: Interpreter, f: Frame, arg: Any) -> None:
    f.stack.append(None)


@op
def YIELD_VALUE(i: Interpreter, f: Frame, arg: Any) -> tuple[Any, ...]:
    return YIELD, f.stack.pop()


@op
def GET_YIELD_FROM_ITER(i: Interpreter, f: Frame, arg: Any) -> None:
    f.stack.append(i.iterate(f.stack.pop()))


@op
def GET_AWAITABLE(i: Interpreter, f: Frame, arg: Any) -> None:
    x = f.stack.pop()
    if type(x) is not types.CoroutineType:
        x = _of_type(i, x, "__await__", "'{}' object can't be awaited")
        f.stack.append(i.call(x))
    else:
        if not i.is_made(x):
            i.refuse("awaits a coroutine that was made outside")
        f.stack.append(x)


@op
def SEND(i: Interpreter, f: Frame, target: int) -> None:
    value, receiver = f.stack[-1], f.stack[-2]
    try:
        if value is None and is_iterator(receiver):
            f.stack[-1] = i.following(receiver)
        else:
            f.stack[-1] = i.call(i.attribute(receiver, "send"), (value,))
    except StopIteration as stop:
        finish(f, target, stop.value)


def finish(f: Frame, target: int, value: Any) -> None:
    """Go on behind a SEND: its receiver has returned."""
    f.stack[-1] = value
    if not FACTS.keeps:
        END_SEND(None, f, None)
    f.pc = target


@op
def END_SEND(i: Interpreter | None, f: Frame, arg: Any) -> None:
    del f.stack[-2]


@op
def CLEANUP_THROW(i: Interpreter, f: Frame, arg: Any) -> None:
    error = f.stack.pop()
    if not isinstance(error, StopIteration):
        f.stack.append(error)
        raise f.stack.pop()
    f.stack[-2:] = [None, error.value]


@op
def STOPITERATION_ERROR(i: Interpreter, f: Frame, arg: Any) -> None:
    error = f.stack[-1]
    if isinstance(error, StopIteration):
        f.stack[-1] = RuntimeError("generator raised StopIteration")
        f.stack[-1].__cause__ = error


# -- exceptions, contexts ------------------------------------------------------------------------------------------
@op
def LOAD_ASSERTION_ERROR(i: Interpreter, f: Frame, arg: Any) -> None:
    f.stack.append(AssertionError)


@op
def RAISE_VARARGS(i: Interpreter, f: Frame, n: int) -> None:
    cause = f.stack.pop() if n == 2 else MISSING
    error = f.stack.pop() if n else f.handled
    if error is None:
        i.refuse("raises again what a caller handles")
    if isinstance(error, type):
        error = i.call(error)
    if cause is not MISSING:
        error.__cause__ = i.call(cause) if isinstance(cause, type) else cause
    try:
        raise error
    finally:
        error = None  # which refers to this call


@op
def PUSH_EXC_INFO(i: Interpreter, f: Frame, arg: Any) -> None:
    error = f.stack.pop()
    f.stack.append(f.handled)
    f.stack.append(error)
    f.handled = error


@op
def CHECK_EXC_MATCH(i: Interpreter, f: Frame, arg: Any) -> None:
    kinds = f.stack.pop()
    f.stack.append(isinstance(f.stack[-1], kinds))


@op
def POP_EXCEPT(i: Interpreter, f: Frame, arg: Any) -> None:
    f.handled = f.stack.pop()


@op
def RERAISE(i: Interpreter, f: Frame, depth: int) -> None:
    raise f.stack.pop()


_NO_CONTEXT = "'{}' object does not support the context manager protocol"


def _of_type(i: Interpreter, x: Any, name: str, otherwise: str = _NO_CONTEXT) -> Any:
    cls = type(x)
    if i.method(x, name) is not None:
        return i.method(x, name)
    found = getattr(cls, name, None)
    if found is None:
        raise TypeError(otherwise.format(cls.__name__))
    return getattr(x, name)


@op
def BEFORE_WITH(i: Interpreter, f: Frame, arg: Any) -> None:
    x = f.stack.pop()
    leave = _of_type(i, x, "__exit__")
    enter = _of_type(i, x, "__enter__")
    f.stack.append(leave)
    f.stack.append(i.call(enter))


@op
def LOAD_SPECIAL(i: Interpreter, f: Frame, name: str) -> None:
    f.stack.append(_of_type(i, f.stack.pop(), name))
    f.stack.append(NULL)


@op
def WITH_EXCEPT_START(i: Interpreter, f: Frame, leave: int) -> None:
    error = f.stack[-1]
    f.stack.append(i.call(f.stack[-leave], (type(error), error, error.__traceback__)))


# -- match -----------------------------------------------------------------------------------------------------------
@op
def MATCH_MAPPING(i: Interpreter, f: Frame, arg: Any) -> None:
    f.stack.append(isinstance(f.stack[-1], dict | types.MappingProxyType))


@op
def MATCH_SEQUENCE(i: Interpreter, f: Frame, arg: Any) -> None:
    f.stack.append(bool(type(f.stack[-1]).__flags__ & 1 << 5))


@op
def MATCH_KEYS(i: Interpreter, f: Frame, arg: Any) -> None:
    keys, x = f.stack[-1], f.stack[-2]
    found = [i.contains(x, key) for key in keys]
    f.stack.append(tuple([i.item(x, key) for key in keys]) if all(found) else None)


@op
def MATCH_CLASS(i: Interpreter, f: Frame, n: int) -> None:
    names, cls, x = f.stack.pop(), f.stack.pop(), f.stack.pop()
    f.stack.append(_matched(i, x, cls, n, names) if i.call(isinstance, (x, cls)) else None)


def _matched(i: Interpreter, x: Any, cls: type, n: int, names: tuple[str, ...]) -> tuple[Any, ...] | None:
    if n and cls in (bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple):
        values = [x]
    else:
        values = [i.attribute(x, name) for name in (i.attribute(cls, "__match_args__")[:n] if n else ())]
    try:
        return (*values, *[i.attribute(x, name) for name in names])
    except AttributeError:
        return None
