"""What recorded execution has seen: a trie of calls, and the programs of the traces that came back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from torchlike._base.device import stays
from torchlike._base.frames import user_line
from torchlike._executor import shifted
from torchlike._executor.chains import Pieces, ends
from torchlike._executor.pending import Array, Kind, Pending, kind_of, place_of

if TYPE_CHECKING:
    from jax.core import ShapedArray
    from jax.tree_util import PyTreeDef

    from torchlike._decl.typed import Value, Values
    from torchlike._executor.typed import Calls

HOT = 3  # how often a trace is run call by call before it is compiled
POINTS = 20_000  # points kept; beyond, those that lead to no program are forgotten
PROGRAMS = 256  # programs kept; beyond, the one unused for longest is forgotten
VARIANTS = 4  # programs of one trace, which differ in what is still referenced at its end
AGAIN = 16  # at which run a program is made anew, if inputs are free that somebody held when it was made
DONATED = 4096  # bytes from which an input is overwritten if nobody else holds it

NUMBERS = frozenset({float, int, bool, complex})


class Point:
    """A call, as the last one of a trace.

    Attributes:
        after: {key of a call: the point it leads to}. outs: kinds of the call's results. single: whether it
            has one result, not a tuple. tree: structure of the results where they are nested, else None.
        name: the operator's, line: the user's line that made the call first, both for errors.
        seen: how often a trace ended here. programs: {which results were referenced: program}.
    """

    __slots__ = ("after", "outs", "single", "tree", "name", "line", "visits", "programs")

    def __init__(
        self,
        outs: tuple[Kind, ...] = (),
        single: bool = True,
        tree: PyTreeDef | None = None,
        name: str = "",
        line: str = "",
    ) -> None:
        self.after: dict = {}
        self.outs, self.single, self.tree, self.name, self.line = outs, single, tree, name, line
        self.visits = 0
        self.programs: dict = {}


class Trie:
    """All traces seen, of all threads."""

    def __init__(self) -> None:
        self.root = Point()
        self.results: dict = {}
        self.size = 0
        self.programs: list[TraceProgram] = []
        self.clock = 0

    def reset(self) -> None:
        """Forget everything."""
        self.__init__()

    def grow(
        self, point: Point, key: tuple[Any, ...], kernel: Callable[..., Any], values: Values, name: str
    ) -> Point | None:
        """The point that a call leads to from ``point``; None if the call cannot be recorded."""
        found = self._results_of(kernel, values)
        if found is None:
            return None
        if self.size >= POINTS:
            self._prune()
        self.size += 1
        point.after[key] = new = Point(*found, name, user_line())  # type: ignore[call-arg]
        return new

    def _results_of(self, kernel: Callable[..., Any], values: Values) -> Any:
        """(kinds of the results, whether it is just one, structure), by tracing the kernel once for each kind."""
        kinds = tuple([kind(v) for v in values])
        place = place_of([k for k in kinds if k.__class__ is Kind])
        if place is None:
            return None
        key = (kernel, kinds, place)
        found = self.results.get(key)
        if found is None:
            abstract = [k.abstract if k.__class__ is Kind else v for k, v in zip(kinds, values, strict=True)]
            leaves, tree = jax.tree.flatten(kernel.eval_shape(*abstract))
            single = jax.tree_util.treedef_is_leaf(tree)
            nested = None if single or tree == jax.tree.structure((0,) * len(leaves)) else tree
            outs = tuple([kind_of(_aval(s), place) for s in leaves])
            if len(self.results) > POINTS:
                self.results.clear()
            found = self.results[key] = outs, single, nested
        return found

    def _prune(self) -> None:
        """Forget the points that lead to no program."""
        order, stack = [], [self.root]
        while stack:
            point = stack.pop()
            order.append(point)
            stack.extend(point.after.values())
        useful = set()
        for point in reversed(order):
            point.after = {k: p for k, p in point.after.items() if id(p) in useful}
            if point.programs or point.after:
                useful.add(id(point))
        self.size = len(useful)

    def program(
        self,
        point: Point,
        calls: Calls,
        live: tuple[int, ...],
        free: Callable[[], Sequence[tuple[int, Kind]]],
        hot: int,
    ) -> TraceProgram | None:
        """The program of a trace that ends at ``point``, whose results ``live`` are wanted; None if there is none.

        ``free``: the inputs that nobody else holds, asked for when a program is made. ``hot``: how often a trace is
        run call by call first.
        """
        programs = point.programs
        found = programs.get(live)
        if found is None:
            if point.visits < hot:
                point.visits += 1
                return None
            if len(programs) >= VARIANTS:
                wanted = set(live)
                return next((p for p in programs.values() if wanted <= p.wanted), None)
            found = programs[live] = TraceProgram(calls, live, free())
            self._keep(found)
        self.clock += 1
        found.used, found.runs = self.clock, found.runs + 1
        if found.runs == AGAIN and found.whole and len(_donated(calls, live, now_free := free())) > len(found.donated):
            self.programs.remove(found)
            found = programs[live] = TraceProgram(calls, live, now_free)
            found.used, found.runs = self.clock, AGAIN
            self._keep(found)
        return found

    def _keep(self, program: TraceProgram) -> None:
        while len(self.programs) >= PROGRAMS:
            oldest = min(self.programs, key=lambda p: p.used)
            self.programs.remove(oldest)
            oldest.point.programs.pop(oldest.live, None)
        self.programs.append(program)


class TraceProgram:
    """A whole trace as one compiled function of its inputs.

    Attributes:
        point: where its trace ends. live: the slots of its results. donated: the positions of the inputs that it
            may overwrite. numbers: {position of a number: (it, the array made of it last)}. used: when it ran last.
        runs: how often it ran. whole: whether it is one program, not several that run one after the other.
    """

    __slots__ = ("point", "live", "wanted", "donated", "numbers", "used", "runs", "run", "whole")

    def __init__(self, calls: Calls, live: tuple[int, ...], free: Sequence[tuple[int, Kind]]) -> None:
        self.point, self.live, self.wanted, self.used, self.runs = calls[-1][4], live, set(live), 0, 0
        inputs = [v for call in calls for v in call[2]]
        self.numbers = {i: (None, None) for i, v in enumerate(inputs) if v.__class__ in NUMBERS}
        stops = ends(calls, live)
        self.whole = len(stops) == 1
        self.donated = _donated(calls, live, free) if self.whole else ()
        steps = [(call[0], call[1]) for call in calls]
        run = jax.jit(shifted.apart(replay(steps, live)), donate_argnums=self.donated, keep_unused=stays())
        self.run = run if self.whole else Pieces(calls, live, stops)


def _donated(calls: Calls, live: Sequence[int], free: Sequence[tuple[int, Kind]]) -> tuple[int, ...]:
    """Which of the ``free`` inputs a result can take the place of."""
    if not free:
        return ()
    kinds = [k for call in calls for k in (*[None] * len(call[2]), *[o.kind for o in call[3]])]
    room: dict = {}
    for slot in live:
        room[kinds[slot]] = room.get(kinds[slot], 0) + 1
    donated = []
    for position, kind in free:
        if room.get(kind, 0):
            room[kind] -= 1
            donated.append(position)
    return tuple(donated)


def replay(steps: Sequence[Any], live: Sequence[int]) -> Callable[..., Any]:
    """The function of a trace's inputs that makes the calls again and returns the results ``live``."""

    def run(*inputs: Any) -> list[Any]:
        given, env = iter(inputs), []
        for kernel, key in steps:
            arguments, fresh = arguments_of(key, env, given)
            out = kernel(*arguments)
            env += fresh
            env += jax.tree.leaves(out)
        return [env[slot] for slot in live]

    return run


def arguments_of(key: tuple[Any, ...], env: list[Any], given: Iterator[Any]) -> tuple[list[Any], list[Any]]:
    """(arguments of a call, those of them that are new inputs)."""
    start, fresh, arguments = len(env), [], []
    for k in key[1:]:
        if k.__class__ is int:
            arguments.append(env[k] if k < start else fresh[k - start])
        elif k is None:
            arguments.append(None)
        else:
            fresh.append(next(given))
            arguments.append(fresh[-1])
    return arguments, fresh


def kind(value: Value) -> Any:
    """What of an argument a trace depends on; its class where nothing else is known."""
    cls = value.__class__
    if cls is Pending:
        return value.kind
    if cls is Array:
        return kind_of(value.aval, value.sharding)
    if issubclass(cls, np.ndarray):
        return value.shape, value.dtype
    return cls


def _aval(s: jax.ShapeDtypeStruct) -> ShapedArray:
    return jax.core.ShapedArray(s.shape, s.dtype, weak_type=s.weak_type)


TRIE = Trie()
