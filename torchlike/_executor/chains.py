"""Traces in which many results are computed one from the other: as several programs, so that XLA fuses few at a time.

XLA computes a result that is cheap again in every result that needs it: in a row of n results, n * n / 2 operations.
And it takes time that grows with the square of how many inputs of the results' shape it fuses: a row of 1,000 products
with 1,000 inputs was compiled in 28 s, one of 64 in 0.3 s.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

import jax

from torchlike._base.device import stays
from torchlike._executor import shifted

if TYPE_CHECKING:
    from torchlike._decl.typed import Values
    from torchlike._executor.typed import Calls

RESULT, INPUT = 4, 1  # what a wanted result counts on a way, and an input of the shape of what is computed with it
LONG = 64 * RESULT  # the longest way of a trace that is one program
PIECE = 16 * RESULT  # that of a piece


def ends(calls: Calls, live: Sequence[int]) -> list[int]:
    """The numbers of calls at which the pieces of a trace end; the last of them alone where it is one program."""
    wanted = set(live)
    longest, _ = _walk(calls, wanted, (RESULT + INPUT) * (len(calls) + 1))
    return [len(calls)] if longest <= LONG else [*_walk(calls, wanted, PIECE)[1], len(calls)]


def _walk(calls: Calls, wanted: Collection[int], most: int) -> tuple[int, list[int]]:
    """(the longest way, calls before which a piece ends so that none has a way longer than ``most``).

    A way leads from call to call; what counts on it are wanted results, and inputs that XLA fuses.
    """
    depths: list[int] = []  # of each slot, what counts on the longest way to it
    stops, longest = [], 0
    for i, (_, key, new, outs, _, _) in enumerate(calls):
        depth = max([depths[k] for k in key if k.__class__ is int and k < len(depths)], default=0)
        if depth >= most:
            stops.append(i)
            depths, depth = [0] * len(depths), 0
        depths += [0] * len(new)
        if new and outs[0].kind in key:
            depth += INPUT
        depths += [depth + RESULT * (slot in wanted) for slot in range(len(depths), len(depths) + len(outs))]
        longest = max(longest, depth + RESULT)
    return longest, stops


class Pieces:
    """A trace as a function of its inputs, which runs one program after the other.

    ``parts``: (program, slots it reads, slots it gives, slots that nothing reads afterwards).
    """

    def __init__(self, calls: Calls, live: Sequence[int], stops: Sequence[int]) -> None:
        self.live, self.inputs, self.parts = live, [], []
        spans, end = [], 0
        for _, _, new, outs, _, _ in calls:
            start = end + len(new)
            self.inputs += range(end, start)
            end = start + len(outs)
            spans.append((start - len(new), start, end))
        last = _last_readers(calls, spans, stops, live)
        for number, (a, b) in enumerate(itertools.pairwise([0, *stops])):
            reads, gives = _borders(calls[a:b], spans[a:b], number, last)
            gone = [s for s in (*reads, *gives) if last.get(s) == number]
            self.parts.append((_program(calls[a:b], spans[a:b], reads, gives), reads, gives, gone))

    def __call__(self, *inputs: Any) -> list[Any]:
        env = dict(zip(self.inputs, inputs, strict=True))
        for program, reads, gives, gone in self.parts:
            env.update(zip(gives, program(*[env[s] for s in reads]), strict=True))
            for slot in gone:
                env.pop(slot, None)
        return [env[s] for s in self.live]


def _last_readers(
    calls: Calls, spans: Sequence[tuple[int, int, int]], stops: Sequence[int], live: Sequence[int]
) -> dict[int, int]:
    """{slot: the number of the last piece that reads it}; that of none for results of the trace."""
    last, number = {}, 0
    for i, (call, (new, outs, _)) in enumerate(zip(calls, spans, strict=True)):
        number += i >= stops[number]
        for slot in (*range(new, outs), *[k for k in call[1] if k.__class__ is int]):
            last[slot] = number
    return last | dict.fromkeys(live, len(stops))


def _borders(
    calls: Calls, spans: Sequence[tuple[int, int, int]], number: int, last: dict[int, int]
) -> tuple[list[int], list[int]]:
    """The slots that a piece reads, and those it gives."""
    first, made = spans[0][0], [s for _, outs, end in spans for s in range(outs, end)]
    before = [k for call in calls for k in call[1] if k.__class__ is int and k < first]
    new = [s for start, outs, _ in spans for s in range(start, outs)]
    return [*dict.fromkeys([*before, *new])], [s for s in made if last.get(s, -1) > number]


def _program(
    calls: Calls, spans: Sequence[tuple[int, int, int]], reads: Sequence[int], gives: Sequence[int]
) -> Callable[..., Any]:
    """The compiled function of a piece; pieces that do the same share it."""
    local = {slot: i for i, slot in enumerate(reads)}
    steps = []
    for call, (new, outs, end) in zip(calls, spans, strict=True):
        fresh = iter(range(new, outs))
        key = [None if k is None else local[k if k.__class__ is int else next(fresh)] for k in call[1][1:]]
        steps.append((call[0], tuple(key)))
        for slot in range(outs, end):
            local[slot] = len(local)
    return _compiled(tuple(steps), tuple([local[s] for s in gives]))


def _compiled(steps: tuple[Any, ...], gives: tuple[int, ...]) -> Callable[..., Any]:
    found = _programs.get((steps, gives))
    if found is None:
        if len(_programs) > KEPT:
            _programs.clear()
        run = shifted.apart(lambda *values: _replayed(steps, gives, values))
        found = _programs[steps, gives] = jax.jit(run, keep_unused=stays())
    return found


def _replayed(steps: Sequence[Any], gives: Sequence[int], values: Values) -> list[Any]:
    env = list(values)
    for kernel, key in steps:
        env += jax.tree.leaves(kernel(*[None if k is None else env[k] for k in key]))
    return [env[slot] for slot in gives]


KEPT = 256  # programs of pieces kept
_programs: dict = {}
