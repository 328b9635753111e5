"""Code objects decoded once: instructions with their arguments, where jumps go, which instructions are protected."""

import dis
import sys
import types
from typing import NamedTuple

KNOWN = sys.version_info[:2] == (3, 11)  # whether the opcodes of this Python are those of loop.py
_TARGETS = frozenset(dis.hasjrel) | frozenset(dis.hasjabs)
_decoded: dict[types.CodeType, "Decoded"] = {}


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


def _decode(code):
    found = [i for i in dis.get_instructions(code) if i.opname not in ("CACHE", "EXTENDED_ARG")]
    position = {}
    for number, instruction in enumerate(found):
        position[instruction.offset] = number
    _cover(position, len(code.co_code))
    names, arguments, lines, line = [], [], [], code.co_firstlineno
    for i in found:
        line = i.positions.lineno or line if i.positions else line
        names.append(i.opname)
        arguments.append(_argument(i, position, code))
        lines.append(line)
    handlers = tuple(
        Handler(position[start], position[end], position[target], depth, lasti)
        for start, end, target, depth, lasti in _table(code.co_exceptiontable)
    )
    return Decoded(tuple(names), tuple(arguments), tuple(lines), handlers, {})


def _cover(position, length):
    """Let every offset stand for the instruction that it belongs to, or the next one: jumps go to prefixes too."""
    following = max(position.values(), default=-1) + 1
    for offset in range(length, -2, -2):
        following = position.setdefault(offset, following)


def _argument(i, position, code):
    if i.opname == "LOAD_GLOBAL":
        return i.argval, i.arg & 1
    if i.opname == "KW_NAMES":
        return code.co_consts[i.arg]
    if i.opcode in _TARGETS:
        return position[i.argval]
    if i.opname in ("BINARY_OP", "FORMAT_VALUE", "MAKE_FUNCTION", "RESUME", "CALL_FUNCTION_EX"):
        return i.arg
    return i.argval


def _table(table):
    """The entries of an exception table: five numbers in groups of six bits, the most significant first."""
    numbers, value, started = [], 0, False
    for byte in table:
        value = (value << 6) | (byte & 63) if started else byte & 63
        started = bool(byte & 64)
        if not started:
            numbers.append(value)
    for start, length, target, rest in zip(*[iter(numbers)] * 4, strict=True):
        yield start * 2, (start + length) * 2, target * 2, rest >> 1, bool(rest & 1)
