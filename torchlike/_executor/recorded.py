"""Recorded execution: calls are appended to a trace, which runs as one program once it has come back often enough.

Each thread has its recorder. A trace is cut where a number is needed, at the end of an optimizer's step, after a
module was called without grad, and at a limit of length. Everything about a trace follows from its list of calls,
to which one append adds a call: an exception or signal between two bytecodes leaves it whole.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterable
from sys import getrefcount
from typing import TYPE_CHECKING, Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from torchlike._base import exhausted
from torchlike._base.bits import demand_x64
from torchlike._base.frames import user_frame
from torchlike._base.state import State, state
from torchlike._executor.pending import Array, Kind, Pending, all_settled, pending, settled, trace_state_clean
from torchlike._executor.references import ONE, SLOT, TWO
from torchlike._executor.trie import DONATED, HOT, NUMBERS, TRIE, arguments_of, kind

if TYPE_CHECKING:
    from torchlike._decl.derive import Kernel
    from torchlike._decl.typed import Static, Value, Values
    from torchlike._executor.trie import TraceProgram
    from torchlike._executor.typed import Calls

LENGTH = 1000  # calls of one trace
HELD = 1 << 28  # bytes of inputs that one trace keeps alive
PATIENCE = 3


class Recorder:
    """The trace of one thread.

    Attributes:
        hot: how often a trace runs call by call before it is compiled. patience: how often a line is waited for
            before its value checks are looked at later. length: calls of one trace. on_read: called when a value
            is needed, before the trace is cut.
        calls: (kernel, key, new inputs, results, point, slots so far). The key names each argument: the slot of a
            value of this trace, or the kind of a new input, which takes the next slot.
        index: {id of a value: its slot}. running: the calls that are being run. taken: how many calls another
            thread has run, when it needed a value. limit: the number of calls at which to cut.
        watched: value checks whose flags have not been looked at. inside: whether a module is being called without
            grad, at whose end the trace is cut. mode: how the user's code has asked for its calls to be run.
    """

    def __init__(
        self,
        hot: int = HOT,
        patience: int = PATIENCE,
        length: int = LENGTH,
        on_read: Callable[[], object] | None = None,
    ) -> None:
        self.hot, self.patience, self.length, self.on_read = hot, patience, length, on_read
        self.calls: list = []
        self.index: dict = {}
        self.flushing: Any = None  # a list of calls, while they run
        self.results: list = []
        self.taken, self.held, self.bound, self.limit = 0, 0, HELD, length
        self.watched: list = []
        self.lines: dict = {}
        self.inside, self.mode = False, MODES[1]
        self.lock = threading.RLock()
        self.thread = threading.get_ident()

    # -- recording -------------------------------------------------------------------------------
    def record(self, kernel: Callable[..., Any], values: Values, name: str) -> Any:
        """The results of ``kernel(*values)``, to be computed later; at once if it cannot be recorded."""
        calls, index = self.calls, self.index
        last = calls[-1] if calls else None
        point, end = (TRIE.root, 0) if last is None else last[4:]
        key: Any = [kernel]
        new, seen = [], {}
        for v in values:
            slot = index.get(id(v))
            if slot is None and v is not None:
                slot = _enter(v, new, end, seen)
                if slot is None:
                    return kernel(*all_settled(values))
            key.append(slot)
        key = tuple(key)
        following = point.after.get(key)
        if following is None:
            following = TRIE.grow(point, key, kernel, values, name)
            if following is None:
                return kernel(*all_settled(values))
        outs = tuple([pending(kind, self) for kind in following.outs])
        n = end + len(new)
        call = (kernel, key, new, outs, following, n + len(outs))
        if calls is not self.calls or (calls[-1] if calls else None) is not last:
            return self.record(kernel, values, name)  # a finalizer or a signal's handler has recorded meanwhile
        calls.append(call)
        for v in new:
            if v.__class__ not in NUMBERS:  # two numbers that are one object now may differ the next time
                index[id(v)] = end
            end += 1
        for v in outs:
            index[id(v)] = n
            n += 1
        if len(calls) >= self.limit or (new and self._heavy(key)):
            held = [*outs]  # somebody is about to hold them
            self.cut()
            del held
        if following.single:
            return outs[0]
        # a tuple of the caller's own: what holds the trace's tuple does not show as a reference to its values
        return (*outs,) if following.tree is None else jax.tree.unflatten(following.tree, outs)

    def _heavy(self, key: tuple[Any, ...]) -> bool:
        """Whether the inputs that only the trace keeps alive are too large together, with those of a new call."""
        for k in key:
            if k.__class__ is Kind:
                self.held += k.nbytes
        if self.held <= self.bound:
            return False
        alone = sum([v.nbytes for call in self.calls for v, n in _counted(call[2]) if n <= ONE and _large(v)])
        self.bound = self.held + HELD - alone  # count again when it may have come to so much
        return alone > HELD

    def watch(self, bad: Pending, op: Kernel, static: Static, values: Values) -> None:
        """Raise the error of a value check: now where line and shapes are new, else at the next cut or read."""
        frame = user_frame()
        code, line = (None, 0) if frame is None else (frame.f_code, frame.f_lineno)
        self.watched.append((bad, op, static, [_small(v) for v in values], code, line))
        if len(self.lines) > 10_000:
            self.lines.clear()
        where = (code, line, op, static, *map(kind, values))
        seen = self.lines[where] = self.lines.get(where, 0) + 1
        if seen <= self.patience:
            self.cut()
            self.examine(None)

    def examine(self, remark: str | None = " [found after later calls had been recorded; the call is at {}]") -> None:
        """Raise the error of the first value check that has failed, of those already computed."""
        watched, self.watched = self.watched, []
        for i, (bad, op, static, values, code, line) in enumerate(watched):
            if bad.array is None:
                self.watched.append(watched[i])
            elif bool(bad.array):
                self.watched += watched[i + 1 :]
                where = remark and remark.format(f"{code.co_filename}:{line}" if code else "an unknown line")
                raise _verdict(op, static, all_settled(values), where)

    def around(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """``function(*args, **kwargs)``, with a cut behind it; calls inside of it cut nothing."""
        self.inside = True
        try:
            result = function(*args, **kwargs)
        finally:
            self.inside = False
        self.cut()
        return result

    # -- running ---------------------------------------------------------------------------------
    def settle(self, value: Pending) -> None:
        """Compute ``value``, which this recorder has recorded."""
        if threading.get_ident() == self.thread:
            if self.on_read is not None:
                self.on_read()
            self.cut()
            if self.watched:
                self.examine()
        else:
            self._take(value)

    def cut(self) -> None:
        """Run the trace and begin a new one."""
        if self.calls:
            demand_x64(jax.config.jax_enable_x64)
        if self.watched:
            self.examine()
        with self.lock:
            while self.flushing or self.calls:
                if self.flushing is None:
                    self.flushing = self.calls
                if self.calls is self.flushing:
                    self.calls, self.index, self.limit = [], {}, self.length
                    self.held, self.bound = 0, HELD
                self._finish()

    def _finish(self) -> None:
        """Run ``running``; a signal leaves it to be run again, an error fails what it was to compute."""
        calls = self.flushing
        try:
            if trace_state_clean():
                self._run(calls)
            else:  # jax traces around us, but everything recorded is known
                with jax.ensure_compile_time_eval():
                    self._run(calls)
        except Exception as error:
            found = exhausted.told(error)
            _fail(calls, found)
            self.flushing, self.results, self.taken = None, [], 0
            raise found from found.__cause__
        self.flushing, self.results, self.taken = None, [], 0

    def _run(self, calls: Calls) -> None:
        if self.taken:
            _step(calls, self.taken)
            return
        live = _live(calls)
        if len(self.results) < 2:
            program = None
            if len(calls) > 1 or len(calls[0][3]) > 1:
                slots = tuple([s for s, _ in live])
                program = TRIE.program(calls[-1][4], calls, slots, lambda: _free(calls), self.hot)
            if program is None:
                del live
                _step(calls)
                return
            self.results = [program.live]
            # no bytecode between the run, which may overwrite inputs, and the keeping of its results
            self.results.extend(itertools.starmap(program.run, (_inputs(calls, program),)))
        found = dict(zip(*self.results, strict=True))
        for slot, value in live:
            value.array, value.recorder = found[slot], None

    def _take(self, value: Pending) -> None:
        """Compute all that was recorded so far, for another thread; the trace goes on."""
        with self.lock:
            if value.array is None and self.flushing is not None:
                self._finish()
            if value.array is None:
                calls = list(self.calls)
                self.limit = 0
                _step(calls, self.taken, every=True)
                self.taken = len(calls)


def _enter(v: Value, new: list[Any], end: int, seen: dict[int, int]) -> Any:
    """The key of an argument that is new to the trace, which is appended to ``new``; None if it cannot be recorded."""
    cls = v.__class__
    if cls in NUMBERS:
        if cls is int and v >= 2**63:
            return None
        new.append(v)
        return cls
    slot = seen.get(id(v))
    if slot is not None:
        return slot
    if cls is Pending:
        settled(v)
    entered = kind(v)
    if entered is cls:
        return None
    seen[id(v)] = end + len(new)
    new.append(v)
    return entered


def _live(calls: Calls) -> list[tuple[int, Pending]]:
    """[(slot, value)] of the results that somebody still holds."""
    live = []
    for _, _, _, outs, _, end in calls:
        slot = end - len(outs)
        for count in map(getrefcount, outs):
            if count > ONE:
                live.append((slot, outs[slot - end]))
            slot += 1
    return live


def _free(calls: Calls) -> list[tuple[int, Kind]]:
    """(position, kind) of the large inputs that nobody else holds."""
    position, free = 0, []
    for _, _, new, _, _, _ in calls:
        for v, n in _counted(new):
            if n <= ONE and v.__class__ is Pending and v.kind.nbytes >= DONATED and getrefcount(v.array) <= SLOT:
                free.append((position, v.kind))
            position += 1
    return free


def _counted(values: Values) -> Iterable[tuple[Any, int]]:
    """Pairs of values and their references, counted before anything here holds them."""
    return zip(values, [*map(getrefcount, values)], strict=True)


def _large(v: Value) -> bool:
    return v.__class__ in (Pending, Array) and v.nbytes >= DONATED


def _inputs(calls: Calls, program: TraceProgram) -> list[Any]:
    """What a trace reads; a number that stays the same is an array from its second time on.

    What may be overwritten is copied if somebody else holds it.
    """
    new = [v for call in calls for v in call[2]]
    counts = [*map(getrefcount, new)]
    arrays = [v.array if v.__class__ is Pending else v for v in new]
    for i, (before, array) in program.numbers.items():
        v = new[i]
        if v is not before and (v != before or (not v and str(v) != str(before))):  # 0.0 and -0.0 are equal
            program.numbers[i] = v, None
            continue
        if array is None:
            array = jax.device_put(v)
            program.numbers[i] = before, array
        arrays[i] = array
    for i in program.donated:
        v, arrays[i] = new[i], None
        alone = counts[i] <= TWO and v.__class__ is Pending and getrefcount(v.array) <= SLOT
        arrays[i] = v.array if alone else jnp.array(settled(v))
    return arrays


def _step(calls: Calls, start: int = 0, every: bool = False) -> None:
    """Run the calls from ``start`` on, one by one; values that nobody holds are dropped after their last use."""
    last = {} if every else _last_uses(calls)
    env: list = []
    for i, (kernel, key, new, outs, point, _) in enumerate(calls):
        if i < start:
            env += [v.array if v.__class__ is Pending else v for v in (*new, *outs)]
            continue
        arguments, fresh = arguments_of(key, env, iter(all_settled(new)))
        try:
            results = kernel(*arguments)
        except Exception as error:
            if point.line:
                error.add_note(f"in {point.name}(), recorded at {point.line}")
            raise
        env += fresh
        env += [results] if point.single else jax.tree.leaves(results)
        for n, v, array in zip([*map(getrefcount, outs)], outs, env[len(env) - len(outs) :], strict=True):
            if every or n > ONE:
                v.array, v.recorder = array, None
        for slot in last.get(i, ()):
            env[slot] = None


def _last_uses(calls: Calls) -> dict[int, list[int]]:
    """{number of a call: slots that no later call reads}."""
    last: dict[int, int] = {}
    for i, (_, key, new, outs, _, end) in enumerate(calls):
        for slot in range(end - len(outs) - len(new), end):
            last[slot] = i
        for k in key:
            if k.__class__ is int:
                last[k] = i
    found: dict[int, list] = {}
    for slot, i in last.items():
        found.setdefault(i, []).append(slot)
    return found


class Failed:
    """Takes the place of the recorder of values whose computation raised."""

    __slots__ = ("error",)

    def __init__(self, error: Exception) -> None:
        self.error = error

    def settle(self, value: Pending) -> NoReturn:
        """Say why there is no value."""
        raise RuntimeError(f"this tensor was not computed: {type(self.error).__name__}: {self.error}")


def _fail(calls: Calls, error: Exception) -> None:
    failed = Failed(error)
    for call in calls:
        for v in call[3]:
            if v.array is None:
                v.recorder = failed


def _small(value: Value) -> Any:
    """What a value check keeps of an argument: large inputs are left free to be overwritten."""
    if value.__class__ is Pending and value.kind.nbytes >= DONATED and value.dtype.kind not in "biu":
        return value.kind
    return value


def _verdict(op: Kernel, static: Static, values: Values, where: str | None) -> Exception:
    """The exception of a value check that failed."""
    values = [np.zeros(v.shape, v.dtype) if v.__class__ is Kind else v for v in values]
    error = op.examine(static, values)[1]
    error = error() if callable(error) else error
    if where:
        error.args = (f"{error.args[0] if error.args else error}{where}",)
    return error


class Default:
    """How threads that begin now execute."""

    recorded = False


def _first() -> Recorder | None:
    """The recorder of a thread that begins; None if it executes at once."""
    return Recorder() if Default.recorded else None


def switch(name: str, default: bool = False) -> None:
    """Let this thread, and with ``default`` those that begin later, execute so. What is recorded runs first."""
    recorder = state.recorder
    if recorder is not None and name == "immediate":
        recorder.cut()
        recorder.examine()
    if default:
        Default.recorded = name == "recorded"
    if (recorder is None) == (name == "recorded"):
        state.recorder = Recorder() if recorder is None else None


def cut() -> None:
    """Run what this thread has recorded."""
    recorder = state.recorder
    if recorder is not None:
        recorder.cut()


MODES = ("immediate", "recorded")
_asked = os.environ.get("TORCHLIKE_EXECUTION") or "immediate"
if _asked not in MODES:
    raise ValueError(f"TORCHLIKE_EXECUTION is {_asked!r}, but must be one of {', '.join(MODES)}")
State.first_recorder = staticmethod(_first)
switch(_asked, default=True)
