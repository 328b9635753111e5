"""The collectives of a compiled program, read from its text: how often each runs, how large, and over which axes."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

KINDS = "all-reduce|all-gather|reduce-scatter|all-to-all|ragged-all-to-all|collective-permute|collective-broadcast"
_COLLECTIVE = re.compile(rf" = (.*?) ({KINDS})(?:-start)?\(")
_SHAPE = re.compile(r"\b(pred|[a-z]+\d+[a-z0-9]*)\[([\d,]*)\]")
_CALL = re.compile(r"\b(?:body|to_apply|calls|true_computation|false_computation)=%([\w.\-]+)")
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')
_IOTA = re.compile(r"replica_groups=\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?")
_IDS = r"(?:, device_ids=\(\[([\d,]+)\](?:T\(([\d,]+)\))?\))?"
_MESH = re.compile(rf"replica_groups=mesh\[([^\]]*)\]{_IDS} *\{{([^}}]*)\}}")
_LISTS = re.compile(r"(?:replica_groups|source_target_pairs)=\{\{([\d,]+)\}")


class Collective(NamedTuple):
    """One kind of collective: over which axes of the mesh, and the bytes on a device of what it reduces or brings
    together.
    """

    kind: str
    over: str
    size: int


def collectives(text: str, axes: dict[str, int]) -> Counter[Collective]:
    """How often a program, given as XLA's text, runs each collective; ``axes``: the lengths of the mesh's axes.

    Bodies of loops count as often as XLA knows them to run, or once.
    """
    found: Counter[Collective] = Counter()
    times = _times(text)
    for computation, line in _lines(text):
        match = _COLLECTIVE.search(line)
        if match is None or not times.get(computation):
            continue
        group = _group(line)
        size = _bytes(match[1], "-start(" in line)
        size *= len(group) if match[2] == "reduce-scatter" else 1
        found[Collective(match[2], _over(group, axes), size)] += times[computation]
    return found


_STEP = re.compile(r"^  (ROOT )?%([\w.\-]+) = .*? ([\w\-]+)\(([^)]*)\)")
_REDUCTIONS = {
    "add": "sum", "maximum": "max", "minimum": "min", "multiply": "product", "and": "product", "or": "sum",
}  # fmt: skip


def reduced_last(text: str, axes: dict[str, int]) -> tuple[str, Sequence[str], bool] | None:
    """("sum", "max"..., axes of the mesh, whether more follows) of a program of one result that ends with a reduction
    over devices; what follows is done by each device with the reduced numbers and constants alone.

    None for others, and where devices tell each other more, or do not all do the same.
    """
    steps, root = _steps(text)
    kinds, over, count, more = set(), [], 0, False
    while root in steps:
        kind, operands, line = steps[root]
        if kind == "all-reduce":
            kinds.add(_reduction(text, line))
            over += _over(_group(line), axes).split(",")
            count += 1
        elif kind not in ("copy", "bitcast"):
            if count:
                break
            more = True
        sources = {n for n in re.findall(r"%([\w.\-]+)", operands) if steps.get(n, ("",))[0] != "constant"}
        root = sources.pop() if len(sources) == 1 else ""
    differ = re.search(r"= \S+ (?:partition|replica)-id\(", text)
    talks = sum(_COLLECTIVE.search(line) is not None for _, line in _lines(text))
    if differ or talks != count or len(kinds) != 1 or not {*over} <= {*axes}:
        return None
    kind = kinds.pop()
    return None if kind is None else (kind, over, more)


def _steps(text: str) -> tuple[dict[str, tuple[str, str, str]], str]:
    """{name: (what, operands, line)} of the instructions of the entry, and the name of the last one."""
    entry = re.search(r"^ENTRY %([\w.\-]+)", text, re.MULTILINE)
    found, root = {}, ""
    for computation, line in _lines(text):
        match = _STEP.match(line) if entry is not None and computation == entry[1] else None
        if match is not None:
            found[match[2]] = match[3], match[4], line
            root = match[2] if match[1] else root
    return found, root


def _reduction(text: str, line: str) -> str | None:
    """What an all-reduce does with two numbers."""
    applied = re.search(r"to_apply=%([\w.\-]+)", line)
    for computation, step in _lines(text):
        match = _STEP.match(step) if applied is not None and computation == applied[1] else None
        if match is not None and match[1]:
            return _REDUCTIONS.get(match[3])
    return None


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """(computation, line) of each instruction."""
    computation = ""
    for line in text.splitlines():
        head = re.match(r"(?:ENTRY )?%([\w.\-]+) .*\{$", line)
        if head is not None:
            computation = head[1]
        elif line.startswith("  "):
            yield computation, line


def _times(text: str) -> dict[str, int]:
    """How often each computation runs in a run of the program."""
    calls: dict[str, list[tuple[str, int]]] = {}
    for computation, line in _lines(text):
        trips = _TRIPS.search(line)
        n = int(trips[1]) if trips is not None and " while(" in line else 1
        calls.setdefault(computation, []).extend((name, n) for name in _CALL.findall(line))
    entry = re.search(r"^ENTRY %([\w.\-]+)", text, re.MULTILINE)
    times: Counter[str] = Counter()
    left = [(entry[1], 1)] if entry is not None else []
    while left:  # a computation is never its own caller
        name, n = left.pop()
        times[name] += n
        left += [(inner, n * k) for inner, k in calls.get(name, ())]
    return times


def _bytes(types: str, begun: bool) -> int:
    """The bytes of a result, such as ``(f32[2,4]{1,0}, s8[3])``; what only begins has its operands first."""
    sizes = [_width(kind) * math.prod([int(n) for n in shape.split(",") if n]) for kind, shape in _SHAPE.findall(types)]
    return math.ceil(sum(sizes[len(sizes) // 2 :] if begun and len(sizes) > 1 else sizes))


def _width(kind: str) -> float:
    digits = re.search(r"\d+", kind)
    return int(digits[0]) / 8 if digits is not None else 1


def _numbers(text: str) -> list[int]:
    return [int(n) for n in text.split(",") if n]


def _group(line: str) -> list[int]:
    """The devices of the first group, by their places in the mesh."""
    iota = _IOTA.search(line)
    if iota is not None:
        return _ids(_numbers(iota[2]), iota[3]).reshape(_numbers(iota[1]))[0].tolist()
    mesh = _MESH.search(line)
    if mesh is not None:
        lengths = {name: int(n) for name, n in re.findall(r"'([^']+)'=(\d+)", mesh[1])}
        group = _along(lengths, re.findall(r"'([^']+)'", mesh[4]))
        return _ids(_numbers(mesh[2]), mesh[3])[group].tolist() if mesh[2] else group
    lists = _LISTS.search(line)
    return _numbers(lists[1]) if lists is not None else []


def _ids(shape: Sequence[int], turned: str | None) -> np.ndarray:
    """The numbers of devices one after the other: those of a grid of ``shape``, whose dimensions are turned."""
    grid = np.arange(math.prod(shape)).reshape(shape)
    return (grid.transpose(_numbers(turned)) if turned else grid).flatten()


def _along(lengths: dict[str, int], names: Sequence[str]) -> list[int]:
    """The places of a mesh that differ from its first along these axes alone."""
    places = np.arange(math.prod(lengths.values())).reshape([*lengths.values()])
    return sorted(places[tuple(slice(None) if a in names else 0 for a in lengths)].flatten().tolist())


def _over(group: Sequence[int], axes: dict[str, int]) -> str:
    """The names of the axes that a group of devices lies along, or what is known of it."""
    named = {a: n for a, n in axes.items() if n > 1}
    for count in range(1, len(named) + 1):
        for names in itertools.combinations(named, count):
            if sorted(group) == _along(axes, names):
                return ",".join(names)
    return f"{len(group)} devices" if group else "all"
