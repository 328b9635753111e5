"""Code objects decoded once: instructions with their arguments, where jumps go, which instructions are protected.

Pythons differ in how they spell the same thing. Here each instruction is put as one or several of those that
``instructions.py`` and ``blocks.py`` define, so that nothing else needs to know which Python runs.
"""

from __future__ import annotations

import builtins
import dis
import sys
import types
from collections.abc import Iterator
from typing import Any, NamedTuple


class Facts(NamedTuple):
    """What the instructions of a Python mean where the same name means something else in another.

    Attributes:
        methods: whether the low bit of LOAD_ATTR asks for a method. keeps: whether an iterator that is finished stays
            on the stack, for END_FOR and END_SEND. end_for: how many values END_FOR takes away. leave: how far below
            the top of the stack WITH_EXCEPT_START finds ``__exit__``.
    """

    methods: bool
    keeps: bool
    end_for: int
    leave: int


_VERSIONS = {
    (3, 11): Facts(methods=False, keeps=False, end_for=0, leave=4),
    (3, 12): Facts(methods=True, keeps=True, end_for=2, leave=4),
    (3, 13): Facts(methods=True, keeps=True, end_for=1, leave=4),
    (3, 14): Facts(methods=True, keeps=True, end_for=1, leave=5),
}
FACTS = _VERSIONS.get(sys.version_info[:2], _VERSIONS[3, 11])
KNOWN = sys.version_info[:2] in _VERSIONS  # whether this Python's instructions are known
_TARGETS = frozenset(dis.hasjrel) | frozenset(dis.hasjabs)
_LEFT_OUT = ("CACHE", "EXTENDED_ARG")
_decoded: dict[types.CodeType, Decoded] = {}


class Handler(NamedTuple):
    """Where an exception in the instructions ``start`` to ``end`` goes: to ``target``, with ``depth`` values kept."""

    start: int
    end: int
    target: int
    depth: int
    lasti: bool


class Decoded(NamedTuple):
    """A code object.

    Attributes:
        names: of the instructions. arguments: a name, constant, number or position of an instruction each.
        lines: the line of each. handlers: of exceptions. doors: {line: the function that calls from that line}.
    """

    names: tuple[str, ...]
    arguments: tuple
    lines: tuple[int, ...]
    handlers: tuple[Handler, ...]
    doors: dict


def decoded(code: types.CodeType) -> Decoded:
    """The instructions of ``code``."""
    found = _decoded.get(code)
    if found is None:
        found = _decoded[code] = _decode(code)
    return found


def _decode(code: types.CodeType) -> Decoded:
    found = [i for i in dis.get_instructions(code) if i.opname not in _LEFT_OUT]
    names_of = variables(code)
    meanings = [_meaning(i, code, names_of) for i in found]
    position, size = {}, 0
    for i, meaning in zip(found, meanings, strict=True):
        position[i.offset] = size
        size += len(meaning)
    _cover(position, len(code.co_code), size)
    names, arguments, lines, line = [], [], [], code.co_firstlineno
    for i, meaning in zip(found, meanings, strict=True):
        line = i.positions.lineno or line if i.positions else line
        for name, argument in meaning:
            names.append(name)
            arguments.append(position[argument] if i.opcode in _TARGETS else argument)
            lines.append(line)
    handlers = tuple(
        Handler(position[start], position[end], position[target], depth, lasti)
        for start, end, target, depth, lasti in _table(code.co_exceptiontable)
    )
    _gather(names, arguments)
    return Decoded(tuple(names), tuple(arguments), tuple(lines), handlers, {})


def _cover(position: dict[int, int], length: int, size: int) -> None:
    """Let every offset stand for the instruction that it belongs to, or the next one: jumps go to prefixes too."""
    following = size
    for offset in range(length, -2, -2):
        following = position.setdefault(offset, following)


def _gather(names: list[str], arguments: list[Any]) -> None:
    """Let each MAKE_FUNCTION take from the stack what the instructions after it would."""
    for at, name in enumerate(names):
        if name == "MAKE_FUNCTION":
            last = at + 1
            while last < len(names) and names[last] == "SET_FUNCTION_ATTRIBUTE":
                arguments[at] += _parts(arguments[last])
                names[last], last = "NOP", last + 1


def _parts(flags: int | None) -> tuple[str, ...]:
    """What of a function stands on the stack, in the order in which it is taken from there."""
    return tuple([name for bit, name in _PARTS.items() if (flags or 0) & bit])


_PARTS = {8: "closure", 16: "annotate", 4: "annotations", 2: "kwdefaults", 1: "defaults"}


# -- what each instruction means -----------------------------------------------------------------------
def variables(code: types.CodeType) -> tuple[str, ...]:
    """The name of each variable of a frame, by its number.

    A variable of a comprehension can have the name of one of the enclosing function; then it gets a dot.
    """
    free = code.co_freevars
    own = [*code.co_varnames, *[name for name in code.co_cellvars if name not in code.co_varnames]]
    return (*[f".{name}" if name in free else name for name in own], *free)


def _meaning(i: Any, code: types.CodeType, variables: tuple[str, ...]) -> list[tuple[str, Any]]:
    """An instruction as a list of (name, argument)."""
    read: Any = MEANINGS.get(i.opname)
    if read is not None:
        return read(i, code)
    if i.opname in PAIRS:
        numbers = i.arg >> 4, i.arg & 15
        return [(name, variables[n]) for name, n in zip(PAIRS[i.opname], numbers, strict=True)]
    if i.opcode in _VARIABLES:
        return [(SAME.get(i.opname, i.opname), variables[i.arg])]
    return [(SAME.get(i.opname, i.opname), i.argval)]


def _intrinsic(i: Any, code: types.CodeType) -> list[tuple[str, Any]]:
    """The function that CALL_INTRINSIC_1 calls, by its name, as an instruction."""
    return [(i.argrepr.removeprefix("INTRINSIC_"), None)]


def _common(i: Any, code: types.CodeType) -> list[tuple[str, Any]]:
    """LOAD_COMMON_CONSTANT: a class or function among the built-in ones."""
    name = i.argrepr.removeprefix("<built-in function ").removesuffix(">")
    return [("LOAD_CONST", getattr(builtins, name)) if hasattr(builtins, name) else (i.opname, None)]


_VARIABLES = frozenset(dis.haslocal) | frozenset(dis.hasfree)
SAME = {  # other names of an instruction
    "LOAD_FAST_CHECK": "LOAD_FAST", "LOAD_FAST_BORROW": "LOAD_FAST", "LOAD_CLOSURE": "LOAD_FAST",
    "LOAD_SMALL_INT": "LOAD_CONST", "POP_ITER": "POP_TOP", "NOT_TAKEN": "NOP", "JUMP_BACKWARD": "JUMP_FORWARD",
    "JUMP_BACKWARD_NO_INTERRUPT": "JUMP_FORWARD", "PRECALL": "NOP", "COPY_FREE_VARS": "NOP",
    **{f"POP_JUMP_{way}_IF_{what}": f"POP_JUMP_IF_{what}"
       for way in ("FORWARD", "BACKWARD") for what in ("TRUE", "FALSE", "NONE", "NOT_NONE")},
}  # fmt: skip
PAIRS = {  # two instructions in one, with the number of a variable each
    "LOAD_FAST_LOAD_FAST": ("LOAD_FAST", "LOAD_FAST"), "STORE_FAST_LOAD_FAST": ("STORE_FAST", "LOAD_FAST"),
    "LOAD_FAST_BORROW_LOAD_FAST_BORROW": ("LOAD_FAST", "LOAD_FAST"),
    "STORE_FAST_STORE_FAST": ("STORE_FAST", "STORE_FAST"),
}  # fmt: skip
MEANINGS = {  # those whose argument says more than one thing, or another one than in other versions
    "LOAD_GLOBAL": lambda i, code: [("LOAD_GLOBAL", (i.argval, i.arg & 1))],
    "LOAD_ATTR": lambda i, code: [("LOAD_METHOD" if FACTS.methods and i.arg & 1 else "LOAD_ATTR", i.argval)],
    "LOAD_SUPER_ATTR": lambda i, code: [
        ("LOAD_SUPER", i.arg & 2), ("LOAD_METHOD" if i.arg & 1 else "LOAD_ATTR", i.argval)],
    "LOAD_SPECIAL": lambda i, code: [("LOAD_SPECIAL", i.argrepr)],
    "LOAD_COMMON_CONSTANT": _common,
    "RETURN_CONST": lambda i, code: [("LOAD_CONST", i.argval), ("RETURN_VALUE", None)],
    "BINARY_OP": lambda i, code: [("BINARY_SUBSCR", None) if i.argrepr == "[]" else ("BINARY_OP", i.argrepr)],
    "BINARY_SLICE": lambda i, code: [("BUILD_SLICE", 2), ("BINARY_SUBSCR", None)],
    "STORE_SLICE": lambda i, code: [("BUILD_SLICE", 2), ("STORE_SUBSCR", None)],
    "COMPARE_OP": lambda i, code: [("COMPARE_OP", i.argval)] + [("TO_BOOL", None)] * i.argrepr.startswith("bool("),
    "FORMAT_VALUE": lambda i, code: [("FORMAT_VALUE", i.arg)],
    "FORMAT_SIMPLE": lambda i, code: [("FORMAT_VALUE", 0)],
    "FORMAT_WITH_SPEC": lambda i, code: [("FORMAT_VALUE", 4)],
    "MAKE_FUNCTION": lambda i, code: [("MAKE_FUNCTION", _parts(i.arg))],
    "SET_FUNCTION_ATTRIBUTE": lambda i, code: [("SET_FUNCTION_ATTRIBUTE", i.arg)],  # for _gather
    "KW_NAMES": lambda i, code: [("KW_NAMES", code.co_consts[i.arg])],
    "CALL_KW": lambda i, code: [("POP_KW_NAMES", None), ("CALL", i.arg)],
    "CALL_FUNCTION_EX": lambda i, code: [("CALL_FUNCTION_EX", 1 if i.arg is None else i.arg & 1)],
    "CALL_INTRINSIC_1": _intrinsic, "CALL_INTRINSIC_2": _intrinsic,
    "END_FOR": lambda i, code: [("POP_TOP", None)] * FACTS.end_for,
    "WITH_EXCEPT_START": lambda i, code: [("WITH_EXCEPT_START", FACTS.leave)],
}  # fmt: skip
_REFUSED = {  # what cannot be part of a program, or stands in no function
    "an asynchronous loop or context": (
        "ASYNC_GEN_WRAP", "BEFORE_ASYNC_WITH", "END_ASYNC_FOR", "GET_AITER", "GET_ANEXT"),
    "except*": ("CHECK_EG_MATCH", "PREP_RERAISE_STAR"),
    "a template string": ("BUILD_INTERPOLATION", "BUILD_TEMPLATE"),
    "a type parameter": (
        "PARAMSPEC", "SET_FUNCTION_TYPE_PARAMS", "SET_TYPEPARAM_DEFAULT", "SUBSCRIPT_GENERIC", "TYPEALIAS", "TYPEVAR",
        "TYPEVARTUPLE", "TYPEVAR_WITH_BOUND", "TYPEVAR_WITH_CONSTRAINTS"),
    "the body of a module": ("IMPORT_STAR", "PRINT", "PRINT_EXPR"),
    "what no compiler writes": (
        "CACHE", "ENTER_EXECUTOR", "EXIT_INIT_CHECK", "EXTENDED_ARG", "INTERPRETER_EXIT", "INVALID", "RESERVED"),
}  # fmt: skip
REFUSED = {name: what for what, names in _REFUSED.items() for name in names}


def _table(table: bytes) -> Iterator[tuple[int, int, int, int, bool]]:
    """The entries of an exception table: five numbers in groups of six bits, the most significant first."""
    numbers, value, started = [], 0, False
    for byte in table:
        value = (value << 6) | (byte & 63) if started else byte & 63
        started = bool(byte & 64)
        if not started:
            numbers.append(value)
    for start, length, target, rest in zip(*[iter(numbers)] * 4, strict=True):
        yield start * 2, (start + length) * 2, target * 2, rest >> 1, bool(rest & 1)
