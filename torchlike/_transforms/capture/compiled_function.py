"""Compiled functions: a program for each kind of arguments, found by its guards, traced when there is none."""

from __future__ import annotations

import copy
import functools
import threading
import weakref
from collections.abc import Callable
from operator import is_
from typing import TYPE_CHECKING, Any

import jax

from torchlike._base.dtypes import get_default_dtype
from torchlike._base.frames import user_frames, warn
from torchlike._base.logs import COMPILE
from torchlike._base.state import AUTOCAST, CAPTURE, DISPATCH, LEVELS, state
from torchlike._base.tracing import trace_state_clean
from torchlike._core.autograd.anomaly import current as anomaly
from torchlike._core.tensor.tensor import Tensor
from torchlike._executor.recorded import cut
from torchlike._transforms.capture import graph_breaks
from torchlike._transforms.capture.calling import Stale, Unsettled
from torchlike._transforms.capture.capture import Trace
from torchlike._transforms.capture.given import joints
from torchlike._transforms.capture.guards import Guards
from torchlike._transforms.capture.kinds import kind_of, same_kind
from torchlike._transforms.capture.numbers import NUMBERS, ArgumentNumbers, Unknown
from torchlike._transforms.capture.program import Moved, Program
from torchlike._transforms.capture.recording import Unsupported
from torchlike._transforms.capture.sharing import Sharing
from torchlike._transforms.capture.structure import flatten_call
from torchlike._transforms.interpreter.changes import Again
from torchlike._transforms.interpreter.run import Interpreter

if TYPE_CHECKING:
    from torchlike._transforms.interpreter.reads import Reads

LIMIT = 8  # programs of one function before it is left to eager execution
_PATIENCE = 2  # calls that may set something up in Python, as first calls do, before a function runs in pieces
_SPENT = 4  # programs that undo what they rely on, before their function runs in pieces
_SHARED = "which tensors have a .grad, or which of them the arguments are or share memory with,"
_OTHERS = CAPTURE | LEVELS | DISPATCH
_EAGER = object()  # the reason of a function that was given up


class Unfit(RuntimeError):
    """``fullgraph=True``: the function cannot be one program."""


class CompiledFunction:
    """A function that runs as one program; see ``torch.compile``.

    Attributes:
        programs: {kind of arguments: [(guards, program)]}.
        kinds: {kind: whether arguments are of it, as straight code, or None}. latest: that of the latest call, with its
            programs and the one of them that ran, or None.
        arguments: gives the numbers among the arguments of the call. live: {structure of the arguments: the positions
            of numbers that were others in another call, which are inputs of programs from then on}. static: the
            structures with which the function is no program that way.
        eager: why it is no single program any more, or None. broken: whether it then runs in pieces. lines: where
            they end.
    """

    dynamic: bool | None = None  # whether numbers among the arguments are inputs; None: once they have changed
    _interpreted = "function"  # what a capture of another function runs in place of this object

    def __init__(self, function: Any, fullgraph: bool = False, limit: int | None = None) -> None:
        self.function, self.fullgraph, self.limit = function, fullgraph, limit or LIMIT
        self.compiling = threading.RLock()  # two threads that call it for the first time trace it once
        functools.update_wrapper(self, function, updated=())
        self.reset()
        _compiled.add(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> CompiledFunction:
        made = type(self)(copy.deepcopy(self.function, memo), self.fullgraph, self.limit)
        made.dynamic = self.dynamic
        return made

    def reset(self) -> None:
        """Forget every program."""
        self.eager: str | None = None
        self.programs, self.count, self.single, self.broken = {}, 0, 0, False
        self.changes, self.moving, self.fixed = 0, set(), set()
        self.lines, self.spent = set(), 0
        self.latest: tuple[Any, Any, Any] | None = None
        self.kinds: dict[Any, Any] = {}
        self.arguments = ArgumentNumbers()
        self.live: dict[Any, frozenset[int]] = {}
        self.static: set[Any] = set()

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if state.function_modes or not Switch.on or anomaly.enabled or (state.active & _OTHERS and _under_others()):
            return self.function(*args, **kwargs)
        if not trace_state_clean():  # it becomes a part of jax's program, with what that must know of detach()
            return self.function(*args, **kwargs)
        if self.broken:
            return graph_breaks.run(self.function, args, kwargs, self.lines)
        if self.eager is not None:
            return self.function(*args, **kwargs)
        cut()
        latest = self.latest
        if latest is not None and not kwargs and latest[0](args):
            if latest[2].hold is not None:
                try:
                    return latest[2].ahead(args)
                except Stale:
                    latest[2].waste()
                except Unsettled:
                    pass  # it waits below
            try:
                for guards, program in latest[1]:
                    if guards.hold() and program.holds(args):
                        return program([*args], (args, kwargs))
            except Moved:
                return self(*args, **kwargs)
            except Unknown:
                return self.function(*args, **kwargs)
        try:
            leaves, tree = flatten_call(args, kwargs)
        except RecursionError:
            return self._endless(args, kwargs)
        aliases = _aliases(leaves)
        modes = state.grad, state.inference, get_default_dtype(), state.autocast, state.active & AUTOCAST
        modes = *modes, state.overrides_off
        joined = None if not kwargs and _are(leaves, args) else joints((args, kwargs))
        key = (tree, tuple(map(kind_of, leaves)), aliases, *modes, joined)
        try:
            return self._run(key, leaves, tree, args, kwargs)
        except Moved:
            return self(*args, **kwargs)
        except Unknown:  # which the function may be prepared for
            return self.function(*args, **kwargs)

    def _endless(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call whose arguments have no flat form: in pieces, and the next one is looked at again."""
        if self.fullgraph:
            return self._break(Unsupported("is given a container that holds itself"), args, kwargs)
        return graph_breaks.run(self.function, args, kwargs, self.lines)

    def _run(self, key: Any, leaves: list[Any], tree: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        found = self.programs.get(key, ())
        for guards, program in found:
            if guards.hold() and program.holds(leaves):
                self._remember(key, leaves, None if kwargs or not _are(leaves, args) else found, guards, program)
                return program(leaves, (args, kwargs))
        arguments = self.arguments
        before, arguments.leaves = arguments.leaves, leaves
        try:
            if tree in self.live:
                for guards, program in self.programs.get(arguments.live_key(key, self.live[tree]), ()):
                    if guards.hold() and program.holds(leaves):
                        return program(leaves, (args, kwargs))
            return self._find(key, leaves, tree, args, kwargs)
        finally:
            arguments.leaves = before

    def _find(self, key: Any, leaves: list[Any], tree: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The call with a program that another thread has just made, a new one, or none."""
        with self.compiling:
            exact, key = key, self._with_numbers(key)
            failed = None
            for guards, program in self.programs.get(key, ()):
                failed = guards.failed() or (None if program.holds(leaves) else _SHARED)
                if failed is None:
                    return program(leaves, (args, kwargs))
                self.moving |= guards.moved()
            result, error = self._new(key, leaves, tree, failed, (args, kwargs))
            if key is not exact and error is not None and error is not _EAGER:  # as it was before there were inputs
                self.static.add(tree)
                self.live.pop(tree, None)
                result, error = self._new(exact, leaves, tree, failed, (args, kwargs))
        if error is None:
            return result
        return self.function(*args, **kwargs) if error is _EAGER else self._break(error, args, kwargs)

    def _with_numbers(self, key: Any) -> Any:
        """The key of a call whose numbers that change are inputs."""
        tree, kinds = key[:2]
        if self.dynamic is not False and tree not in self.static:
            others = [] if self.dynamic else [k[1] for k in self.programs if k[0] == tree]
            positions = [i for i, kind in enumerate(kinds) if kind[0] in NUMBERS and self._changes(i, kind, others)]
            if positions:
                self.live[tree] = self.live.get(tree, frozenset()).union(positions)
        return self.arguments.live_key(key, self.live[tree]) if tree in self.live else key

    def _changes(self, position: int, kind: Any, others: list[Any]) -> bool:
        """Whether a number among the arguments is another one than in a former call."""
        found = [k[position] for k in others]
        return bool(self.dynamic) or any([k[0] is kind[0] and k != kind for k in found])

    def _remember(self, key: Any, leaves: list[Any], found: Any, guards: Guards, program: Program) -> None:
        """Let the next call look here first."""
        if key not in self.kinds:
            self.kinds[key] = None if found is None else same_kind(key, leaves)
        same = self.kinds[key]
        self.latest = None
        if same is not None:
            program.look_ahead(guards.hold)
            self.latest = same, found, program

    def _new(self, key: Any, leaves: list[Any], tree: Any, failed: Any, given: Any) -> tuple[Any, Any]:
        """(what the first call of a new program returns, why there is none)."""
        if failed is not None:
            COMPILE.info("recompiling %s: %s has changed", self._name(), failed)
        if self.count >= self.limit:
            self._give_up(f"it was compiled {self.limit} times; last, {failed or 'its arguments'} changed")
            return None, _EAGER
        try:
            interpreter, trace = self._traced(self.arguments.standing(key), tree, key[-1])
        except Exception as error:
            return None, error
        try:
            program, guards = self._program(trace, interpreter), self._guards(trace, interpreter.reads, leaves)
        except Exception as error:
            trace.abandon()
            return None, error
        del trace, interpreter
        self.count += 1
        spends = program.effects is not None and not self.fullgraph
        if program.again:
            self.programs.setdefault(key, []).append((guards, program))
        else:
            self.single += 1
            if self.single > 2:
                self._give_up("it keeps tensors that it made, beyond what it returns")
        result = program(leaves, given, first=True)
        if spends and not (guards.hold() and flatten_call(*given)[1] == tree):
            self._spend()
        return result, None

    def _spend(self) -> None:
        """A program has changed what it relies on: if that goes on, the function runs in pieces."""
        self.spent += 1
        if self.spent == _SPENT:
            self.eager, self.broken = "each of its calls changes what the next one relies on", True

    def _traced(self, leaves: list[Any], tree: Any, joined: Any) -> tuple[Interpreter, Trace]:
        """(the interpreter, the trace) of the function."""
        patient = not self.fullgraph and self.changes + 1 < _PATIENCE
        sharing: Sharing | None = Sharing()
        while True:
            try:
                with self._interpreter(patient) as interpreter:
                    trace = Trace(interpreter, leaves, tree, sharing, joined)
                trace.left = interpreter.left
                sharing = trace.sharing.better(leaves, interpreter.reads.tensors())
                if sharing is None:
                    return interpreter, trace
                trace.record.rewind()
                trace.abandon()
            except Again as numbers:
                self.moving |= numbers.moving
                self.fixed |= numbers.fixed

    def _interpreter(self, patient: bool) -> Interpreter:
        return Interpreter(self.function, self.moving, self.fixed, patient)

    def _program(self, trace: Trace, interpreter: Interpreter) -> Any:
        return Program(trace)

    def _guards(self, trace: Trace, reads: Reads, leaves: list[Any]) -> Guards:
        died = functools.partial(_forget, weakref.ref(self))
        return Guards(reads, trace.record.checks, [x for x in leaves if not isinstance(x, Tensor)], died)

    def _break(self, error: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The function cannot be traced: run it in eager, which raises the error if it is the user's."""
        reason = _reason(error)
        where = _user_line(error)
        postponed = getattr(error, "postponed", False)
        if self.fullgraph and not postponed:
            result_error = Unfit(f"torch.compile(fullgraph=True): {self._name()} is not one program: {where}{reason}")
            raise result_error from error
        result = graph_breaks.run(self.function, args, kwargs, self.lines)
        if postponed:
            return result
        self.changes += 1
        if getattr(error, "transient", False) and self.changes < _PATIENCE:
            return result
        self.eager, self.broken = f"{where}{reason}", True
        COMPILE.info("%s runs in pieces: %s", self._name(), self.eager)
        return result

    def _give_up(self, reason: str) -> None:
        self.eager = reason
        warn(f"torch.compile: {self._name()} runs in eager from now on: {reason}")

    def _name(self) -> str:
        return getattr(self.function, "__qualname__", type(self.function).__name__)


def _forget(function: Callable[[], CompiledFunction | None], dead: weakref.ref) -> None:
    """An object that programs of ``function()`` took for granted has died: nobody will ask for them again."""
    found = function()
    if found is None:
        return
    found.latest = None
    for key, pairs in list(found.programs.items()):
        left = [(guards, program) for guards, program in pairs if not guards.mortals.stood_for(dead)]
        if len(left) < len(pairs):
            found.programs[key] = left


_compiled: weakref.WeakSet = weakref.WeakSet()


def compiled_functions() -> list[CompiledFunction]:
    """Every compiled function that somebody holds."""
    return list(_compiled)


def reset_all() -> None:
    """Forget the programs of every compiled function."""
    for function in list(_compiled):
        function.reset()


class Switch:
    """Whether compiled functions use their programs."""

    on = True


def _reason(error: BaseException) -> str:
    if isinstance(error, Unsupported):
        return f"it {error}"
    if isinstance(error, jax.errors.JAXTypeError):
        return "it needs the value of a tensor while it is traced (item, bool, numpy, a shape that depends on values)"
    return f"{type(error).__name__}: {error}"


def _are(leaves: list[Any], args: tuple[Any, ...]) -> bool:
    """Whether the arguments are the leaves themselves, in no containers."""
    return len(leaves) == len(args) and all(map(is_, leaves, args))


def _under_others() -> bool:
    """Whether a capture, a transform or a mode is to see the function's own calls."""
    return state.capture is not None or bool(state.levels) or bool(state.dispatch_modes)


def _aliases(leaves: list[Any]) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """For each tensor argument, the first that shares its storage, and the first that is it; None if none does.

    The same pattern means the same aliasing.
    """
    tensors = [x for x in leaves if isinstance(x, Tensor)]
    storages = [id(x._storage) for x in tensors]
    if len(set(storages)) == len(storages):
        return None
    numbers = list(map(id, tensors))
    return tuple([storages.index(x) for x in storages]), tuple([numbers.index(x) for x in numbers])


def _user_line(error: BaseException) -> str:
    """Where in the user's code the error arose."""
    return "".join([f"{f.filename}:{f.lineno}: {f.line}: " for f in user_frames(error)[-1:]])
