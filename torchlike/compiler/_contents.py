"""What a function reads beside attributes, variables and containers, which guards compare by identity.

Here: the contents of sets, arrays and other objects without a dict; the modes of the process; and whether
the function itself changes the Python values that it reads, as a counter does. A program does not do that
again, so such a program serves one call.
"""

import array
import contextlib
import contextvars
import functools
import itertools
import operator
import random
import sys
import types
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from typing import Any

import numpy as np

from torchlike._base.device import default_device
from torchlike._base.state import state
from torchlike._core.anomaly import current as anomaly
from torchlike._core.tensor import Tensor
from torchlike._functions.info import are_deterministic_algorithms_enabled
from torchlike._ops.matmul import precision
from torchlike._transforms.capture import Trace
from torchlike._transforms.guards import Guards
from torchlike._transforms.outputs import Constant
from torchlike._transforms.recording import Unsupported
from torchlike.nn.modules._hooks import _global_any

_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_HIDDEN = (types.FunctionType, types.BuiltinFunctionType, types.ModuleType, type, Tensor)


def modes() -> tuple:
    """The modes that change what operators do, beside those that select a program."""
    return (
        precision(), default_device(), are_deterministic_algorithms_enabled(), state.pack, state.selective,
        anomaly.enabled, anomaly.check_nan, tuple(_global_any),
    )  # fmt: skip


def _mark(x: Any) -> Any:
    """What tells ``x`` from other values: numbers by value, objects by identity."""
    return (type(x), repr(x)) if isinstance(x, _PLAIN) else id(x)


def _bytes(x: Any) -> tuple:
    return (x.dtype, x.shape, x.tobytes()) if x.dtype != object else tuple(map(_mark, x.flat))


def _progress(x: Any) -> Any:
    """How far an iterator is: it changes when a value is taken."""
    if isinstance(x, types.GeneratorType):
        held = [] if x.gi_frame is None else x.gi_frame.f_locals.values()
        return x.gi_frame is None, [_progress(v) if isinstance(v, Iterator) else _mark(v) for v in held]
    return repr(x) if isinstance(x, itertools.count) else operator.length_hint(x, -1)


def _of_variable(variable: contextvars.ContextVar) -> Any:
    try:
        return _mark(variable.get())
    except LookupError:
        return None


def _slots(x: Any) -> tuple:
    names = [s for c in type(x).__mro__ for s in _names(c.__dict__.get("__slots__", ()))]
    return tuple([_mark(getattr(x, name, None)) for name in names])


def _names(slots: Any) -> list[str]:
    return [name for name in ([slots] if isinstance(slots, str) else slots) if name not in ("__dict__", "__weakref__")]


def _content(x: Any) -> Callable[[Any], Any] | None:
    """What gives the contents of ``x`` in a form that can be compared, for objects that need it."""
    if isinstance(x, _HIDDEN):
        return None
    if isinstance(x, set):
        return lambda s: frozenset(map(_mark, s))
    if isinstance(x, np.ndarray):
        return _bytes
    if isinstance(x, bytearray | array.array):
        return bytes
    if isinstance(x, types.MappingProxyType):
        return lambda d: [(k, _mark(v)) for k, v in d.items()]
    if isinstance(x, contextvars.ContextVar):
        return _of_variable
    if isinstance(x, Iterator):
        return _progress
    return _slots if any(map(_names, _slots_of(type(x)))) else None


def _slots_of(cls: type) -> list:
    return [c.__dict__.get("__slots__", ()) for c in cls.__mro__[:-1] if c.__module__.split(".")[0] not in _LIBRARIES]


_LIBRARIES = frozenset((__name__.split(".")[0], "jax", "jaxlib", "numpy", *sys.stdlib_module_names)) - {"__main__"}


class Before:
    """What a function reads of Python, noted before it is traced.

    Attributes:
        guards: on objects. lists: (list, what it held). checks: (getter, value) of contents.
        drawn: the states of Python's random generators.
    """

    def __init__(self, function: Callable, leaves: list, name: str) -> None:
        self.guards = Guards()
        self.guards.reach(function, name)
        self.guards.reach([x for x in leaves if not isinstance(x, Tensor)], "the arguments")
        found = {id(x): (x, _content(x)) for x in self.guards._kept}
        self.checks: list[tuple[Callable, Any]] = [(modes, modes())]
        self.checks += [(functools.partial(get, x), get(x)) for x, get in found.values() if get is not None]
        self.lists = [(x, list(x)) for x, _ in self.guards.lists.values()]
        self.guards.finish()
        self.drawn = random.getstate(), np.random.get_state(legacy=False)

    def settle(self, trace: Trace) -> None:
        """Add what the program takes for granted to what ``trace`` recorded.

        Raises:
            Unsupported: the function drew numbers that only Python can draw, returns what only Python can make, or
                writes to views among its arguments that overlap.
        """
        record = trace.record
        reason = _bound_result(trace) or _overlapping(trace)
        if reason is not None:
            record.rewind()
            raise Unsupported(reason)
        python, numpy = random.getstate(), np.random.get_state(legacy=False)
        if python != self.drawn[0] or not _same(numpy, self.drawn[1]):
            record.rewind()
            random.setstate(self.drawn[0])
            np.random.set_state(self.drawn[1])
            raise Unsupported("draws from random or numpy.random, which a program would not do again; use torch.rand")
        with self._without_appended():
            changed = self.guards.failed()
        if changed is None:
            record.checks += self.checks
        else:
            record.checks.append((lambda: changed, None))  # never equal: the program is for this call only

    @contextlib.contextmanager
    def _without_appended(self) -> Iterator[None]:
        """Let lists forget what was appended to them: it may be a log, and is appended while tracing only."""
        grown = [(x, list(x)[len(old) :]) for x, old in self.lists if len(x) > len(old) and _begins(x, old)]
        for x, more in grown:
            for _ in more:
                x.pop()
        try:
            yield
        finally:
            for x, more in grown:
                x.extend(more)


def _bound_result(trace: Trace) -> str | None:
    """What is wrong with a result that is no tensor and serves one call only."""
    for made in trace.result:
        if isinstance(made, Constant) and _is_bound(made.value, trace.positions):
            if isinstance(made.value, Coroutine):
                made.value.close()
            return f"returns a {type(made.value).__name__}, which a program does not make anew"
    return None


def _overlapping(trace: Trace) -> str | None:
    """What is wrong if a view is an argument, and its memory is written and seen by other ways too."""
    groups: dict[int, list[int]] = {}
    for i, x in enumerate(trace.leaves):
        if isinstance(x, Tensor):
            groups.setdefault(id(x._storage), []).append(i)
    written = {i for i, _ in trace.arg_writes}
    outside, read = {id(s) for s, _ in trace.writes}, {id(s) for s in trace.sources}
    for key, group in groups.items():
        views = [trace.leaves[i]._view for i in group]
        if not any(view is not None and view.steps for view in views):
            continue
        others = len(group) > 1 or key in outside or key in read
        if others and (key in outside or written.intersection(group)):
            return "writes to memory of which an argument is a view, and which it is given in another way too"
    return None


def _is_bound(value: Any, arguments: dict[int, int]) -> bool:
    """Whether a result that is no tensor serves one call only: it is used up, or holds that call's arguments."""
    if isinstance(value, Iterator | Awaitable | AsyncIterator):
        return True
    if isinstance(value, _PLAIN) or not arguments:
        return False
    held = Guards()
    held.reach(value, "")
    return any(id(t) in arguments for t, _ in held.tensors)


def _begins(x: Any, old: list) -> bool:
    return all(a is b for a, b in zip(x, old, strict=False))


def _same(a: dict, b: dict) -> bool:
    one, other = a["state"], b["state"]
    return one.get("pos") == other.get("pos") and np.array_equal(one.get("key"), other.get("key"))
