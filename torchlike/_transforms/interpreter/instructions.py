"""What each instruction does to a frame: stack, variables, operators, attributes, jumps."""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from torchlike._transforms.interpreter.bytecode import FACTS
from torchlike._transforms.interpreter.reads import MISSING
from torchlike._transforms.interpreter.trust import PLAIN

if TYPE_CHECKING:
    from torchlike._core.typed import F
    from torchlike._transforms.interpreter.loop import Frame
    from torchlike._transforms.interpreter.run import Interpreter

NULL = type("Null", (), {})()
NO_KWARGS: dict = {}
OPS = {}


def op(function: F) -> F:
    """An instruction: its name is that of the function."""
    OPS[function.__name__] = function
    return function


def _nothing(i: Interpreter, f: Frame, arg: Any) -> None:
    pass


OPS["NOP"] = OPS["RESUME"] = _nothing


# -- the stack ---------------------------------------------------------------------------------------
@op
def POP_TOP(i: Interpreter, f: Frame, arg: Any) -> None:
    f.stack.pop()


@op
def PUSH_NULL(i: Interpreter, f: Frame, arg: Any) -> None:
    f.stack.append(NULL)


@op
def SWAP(i: Interpreter, f: Frame, n: int) -> None:
    s = f.stack
    s[-1], s[-n] = s[-n], s[-1]


@op
def COPY(i: Interpreter, f: Frame, n: int) -> None:
    f.stack.append(f.stack[-n])


@op
def LOAD_CONST(i: Interpreter, f: Frame, value: Any) -> None:
    f.stack.append(value)


# -- variables ---------------------------------------------------------------------------------------
@op
def LOAD_FAST(i: Interpreter, f: Frame, name: str) -> None:
    try:
        f.stack.append(f.local[name])
    except KeyError:
        message = f"cannot access local variable {name!r} where it is not associated with a value"
        raise UnboundLocalError(message) from None


@op
def STORE_FAST(i: Interpreter, f: Frame, name: str) -> None:
    value = f.stack.pop()
    if value is NULL:  # a comprehension leaves its variable as it was
        f.local.pop(name, None)
    else:
        f.local[name] = value


@op
def LOAD_FAST_AND_CLEAR(i: Interpreter, f: Frame, name: str) -> None:
    f.stack.append(f.local.pop(name, NULL))


@op
def DELETE_FAST(i: Interpreter, f: Frame, name: str) -> None:
    if name not in f.local:
        raise UnboundLocalError(f"cannot access local variable {name!r} where it is not associated with a value")
    del f.local[name]


@op
def MAKE_CELL(i: Interpreter, f: Frame, name: str) -> None:
    cell = types.CellType(f.local[name]) if name in f.local else types.CellType()
    f.local[name] = i.new(cell)


@op
def LOAD_DEREF(i: Interpreter, f: Frame, name: str) -> None:
    value = i.variable(f.local[name], name)
    if value is MISSING:
        raise NameError(f"cannot access free variable {name!r} where it is not associated with a value")
    f.stack.append(value)


@op
def STORE_DEREF(i: Interpreter, f: Frame, name: str) -> None:
    i.set_cell(f.local[name], f.stack.pop(), name)


@op
def DELETE_DEREF(i: Interpreter, f: Frame, name: str) -> None:
    cell = f.local[name]
    if i.variable(cell, name) is MISSING:
        raise NameError(f"cannot access free variable {name!r} where it is not associated with a value")
    i.set_cell(cell, MISSING, name)


@op
def LOAD_GLOBAL(i: Interpreter, f: Frame, arg: tuple[str, int]) -> None:
    name, null = arg
    if null:
        f.stack.append(NULL)
    value = global_of(i, f, name)
    if value is MISSING:
        raise NameError(f"name {name!r} is not defined")
    f.stack.append(value)


def global_of(i: Interpreter, f: Frame, name: str) -> Any:
    """The global or built-in of this name, or MISSING."""
    if not f.watched:
        value = f.globals.get(name, MISSING)
        if type(value) in PLAIN and not name.isupper():  # a setting
            return i.held(f.globals, name, name)
        return f.builtins.get(name, MISSING) if value is MISSING else value
    value = i.held(f.globals, name, name)
    return i.reads.entry(f.builtins, name, name) if value is MISSING else value


@op
def STORE_GLOBAL(i: Interpreter, f: Frame, name: str) -> None:
    if not f.watched:
        i.refuse_change(f"sets the global {name}")
    i.set_item(f.globals, name, f.stack.pop())


@op
def DELETE_GLOBAL(i: Interpreter, f: Frame, name: str) -> None:
    i.delete_item(f.globals, name)


@op
def IMPORT_NAME(i: Interpreter, f: Frame, name: str) -> None:
    listed, level = f.stack.pop(), f.stack.pop()
    package = f.globals.get("__package__") or ""
    full = importlib.util.resolve_name("." * level + name, package) if level else name
    if full not in sys.modules:
        i.refuse(f"imports {full} for the first time")
    i.reads.entry(sys.modules, full, full)
    module = f.door()(__import__, (name, f.globals, None, listed, level), NO_KWARGS)
    for part in listed or ():
        submodule = f"{full}.{part}"
        if part not in vars(module) and submodule in sys.modules:
            i.reads.entry(sys.modules, submodule, submodule)
    f.stack.append(module)


@op
def IMPORT_FROM(i: Interpreter, f: Frame, name: str) -> None:
    try:
        f.stack.append(i.attribute(f.stack[-1], name))
    except AttributeError as error:
        raise ImportError(str(error)) from None


# -- operators -----------------------------------------------------------------------------------------
@op
def BINARY_OP(i: Interpreter, f: Frame, symbol: str) -> None:
    right, left = f.stack.pop(), f.stack.pop()
    f.stack.append(i.binary(symbol, left, right))


@op
def COMPARE_OP(i: Interpreter, f: Frame, symbol: str) -> None:
    right, left = f.stack.pop(), f.stack.pop()
    f.stack.append(i.compare(symbol, left, right))


@op
def UNARY_NEGATIVE(i: Interpreter, f: Frame, arg: Any) -> None:
    f.stack.append(i.unary("-", f.stack.pop()))


@op
def UNARY_POSITIVE(i: Interpreter, f: Frame, arg: Any) -> None:
    f.stack.append(i.unary("+", f.stack.pop()))


@op
def UNARY_INVERT(i: Interpreter, f: Frame, arg: Any) -> None:
    f.stack.append(i.unary("~", f.stack.pop()))


@op
def TO_BOOL(i: Interpreter, f: Frame, arg: Any) -> None:
    f.stack.append(i.truth(f.stack.pop()))


@op
def UNARY_NOT(i: Interpreter, f: Frame, arg: Any) -> None:
    f.stack.append(not i.truth(f.stack.pop()))


@op
def IS_OP(i: Interpreter, f: Frame, arg: Any) -> None:
    right, left = f.stack.pop(), f.stack.pop()
    if i.lives and left is not None and right is not None:
        left, right = i.constant(left), i.constant(right)
    f.stack.append((left is right) is not bool(arg))


@op
def CONTAINS_OP(i: Interpreter, f: Frame, arg: Any) -> None:
    container, value = f.stack.pop(), f.stack.pop()
    f.stack.append(bool(i.contains(container, value)) is not bool(arg))


@op
def BINARY_SUBSCR(i: Interpreter, f: Frame, arg: Any) -> None:
    key, x = f.stack.pop(), f.stack.pop()
    f.stack.append(i.item(x, key))


@op
def STORE_SUBSCR(i: Interpreter, f: Frame, arg: Any) -> None:
    key, x, value = f.stack.pop(), f.stack.pop(), f.stack.pop()
    i.set_item(x, key, value)


@op
def DELETE_SUBSCR(i: Interpreter, f: Frame, arg: Any) -> None:
    key, x = f.stack.pop(), f.stack.pop()
    i.delete_item(x, key)


@op
def GET_LEN(i: Interpreter, f: Frame, arg: Any) -> None:
    f.stack.append(i.length(f.stack[-1]))


# -- attributes ------------------------------------------------------------------------------------------
@op
def LOAD_ATTR(i: Interpreter, f: Frame, name: str) -> None:
    f.stack.append(i.attribute(f.stack.pop(), name))


@op
def LOAD_METHOD(i: Interpreter, f: Frame, name: str) -> None:
    value = i.attribute(f.stack.pop(), name)
    f.stack.append(NULL)
    f.stack.append(value)


@op
def LOAD_SUPER(i: Interpreter, f: Frame, given: Any) -> None:
    x, cls, function = f.stack.pop(), f.stack.pop(), f.stack.pop()
    f.stack.append(i.call(function, (cls, x) if given or function is super else ()))


@op
def STORE_ATTR(i: Interpreter, f: Frame, name: str) -> None:
    x, value = f.stack.pop(), f.stack.pop()
    i.set_attribute(x, name, value)


@op
def DELETE_ATTR(i: Interpreter, f: Frame, name: str) -> None:
    i.delete_attribute(f.stack.pop(), name)


# -- jumps -------------------------------------------------------------------------------------------------
@op
def JUMP_FORWARD(i: Interpreter, f: Frame, target: int) -> None:
    f.pc = target


def _jump_if(wanted: bool) -> Callable[..., None]:
    def jump(i: Interpreter, f: Frame, target: int) -> None:
        if i.truth(f.stack.pop()) is wanted:
            f.pc = target

    return jump


def _jump_if_none(wanted: bool) -> Callable[..., None]:
    def jump(i: Interpreter, f: Frame, target: int) -> None:
        if (f.stack.pop() is None) is wanted:
            f.pc = target

    return jump


def _jump_or_pop(wanted: bool) -> Callable[..., None]:
    def jump(i: Interpreter, f: Frame, target: int) -> None:
        if i.truth(f.stack[-1]) is wanted:
            f.pc = target
        else:
            f.stack.pop()

    return jump


OPS["POP_JUMP_IF_TRUE"], OPS["POP_JUMP_IF_FALSE"] = _jump_if(True), _jump_if(False)
OPS["POP_JUMP_IF_NONE"], OPS["POP_JUMP_IF_NOT_NONE"] = _jump_if_none(True), _jump_if_none(False)
OPS["JUMP_IF_TRUE_OR_POP"], OPS["JUMP_IF_FALSE_OR_POP"] = _jump_or_pop(True), _jump_or_pop(False)


@op
def GET_ITER(i: Interpreter, f: Frame, arg: Any) -> None:
    f.stack.append(i.iterate(f.stack.pop(), loops=True))


@op
def FOR_ITER(i: Interpreter, f: Frame, target: int) -> None:
    try:
        value = i.following(f.stack[-1])
    except StopIteration:
        if FACTS.keeps:
            f.stack.append(NULL)
        else:
            f.stack.pop()
        f.pc = target
    else:
        f.stack.append(value)
