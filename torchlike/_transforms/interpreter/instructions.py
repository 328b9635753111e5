"""What each instruction does to a frame: stack, variables, operators, attributes, jumps."""

import importlib
import sys
import types

from torchlike._transforms.interpreter.bytecode import FACTS
from torchlike._transforms.interpreter.reads import MISSING

NULL = type("Null", (), {})()
NO_KWARGS: dict = {}
OPS = {}


def op(function):
    """An instruction: its name is that of the function."""
    OPS[function.__name__] = function
    return function


def _nothing(i, f, arg):
    pass


OPS["NOP"] = OPS["RESUME"] = _nothing


# -- the stack ---------------------------------------------------------------------------------------
@op
def POP_TOP(i, f, arg):
    f.stack.pop()


@op
def PUSH_NULL(i, f, arg):
    f.stack.append(NULL)


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
    value = f.stack.pop()
    if value is NULL:  # a comprehension leaves its variable as it was
        f.local.pop(name, None)
    else:
        f.local[name] = value


@op
def LOAD_FAST_AND_CLEAR(i, f, name):
    f.stack.append(f.local.pop(name, NULL))


@op
def DELETE_FAST(i, f, name):
    if name not in f.local:
        raise UnboundLocalError(f"cannot access local variable {name!r} where it is not associated with a value")
    del f.local[name]


@op
def MAKE_CELL(i, f, name):
    cell = types.CellType(f.local[name]) if name in f.local else types.CellType()
    f.local[name] = i.new(cell)


@op
def LOAD_DEREF(i, f, name):
    value = i.variable(f.local[name], name)
    if value is MISSING:
        raise NameError(f"cannot access free variable {name!r} where it is not associated with a value")
    f.stack.append(value)


@op
def STORE_DEREF(i, f, name):
    i.set_cell(f.local[name], f.stack.pop(), name)


@op
def DELETE_DEREF(i, f, name):
    cell = f.local[name]
    if i.variable(cell, name) is MISSING:
        raise NameError(f"cannot access free variable {name!r} where it is not associated with a value")
    i.set_cell(cell, MISSING, name)


@op
def LOAD_GLOBAL(i, f, arg):
    name, null = arg
    if null:
        f.stack.append(NULL)
    value = _global(i, f, name)
    if value is MISSING:
        raise NameError(f"name {name!r} is not defined")
    f.stack.append(value)


def _global(i, f, name):
    if not f.watched:
        value = f.globals.get(name, MISSING)
        return f.builtins.get(name, MISSING) if value is MISSING else value
    value = i.held(f.globals, name, name)
    return i.reads.entry(f.builtins, name, name) if value is MISSING else value


@op
def STORE_GLOBAL(i, f, name):
    if not f.watched:
        i.refuse_change(f"sets the global {name}")
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
    module = f.door()(__import__, (name, f.globals, None, listed, level), NO_KWARGS)
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
def BINARY_OP(i, f, symbol):
    right, left = f.stack.pop(), f.stack.pop()
    f.stack.append(i.binary(symbol, left, right))


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
def TO_BOOL(i, f, arg):
    f.stack.append(i.truth(f.stack.pop()))


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
    f.stack.append(NULL)
    f.stack.append(value)


@op
def LOAD_SUPER(i, f, given):
    x, cls, function = f.stack.pop(), f.stack.pop(), f.stack.pop()
    f.stack.append(i.call(function, (cls, x) if given or function is super else ()))


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


OPS["POP_JUMP_IF_TRUE"], OPS["POP_JUMP_IF_FALSE"] = _jump_if(True), _jump_if(False)
OPS["POP_JUMP_IF_NONE"], OPS["POP_JUMP_IF_NOT_NONE"] = _jump_if_none(True), _jump_if_none(False)
OPS["JUMP_IF_TRUE_OR_POP"], OPS["JUMP_IF_FALSE_OR_POP"] = _jump_or_pop(True), _jump_or_pop(False)


@op
def GET_ITER(i, f, arg):
    f.stack.append(i.iterate(f.stack.pop()))


@op
def FOR_ITER(i, f, target):
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
