"""Calls of code that is not interpreted: from the user's line, and with an eye on what it calls back."""

from __future__ import annotations

import gc
import inspect
import os
import signal
import sys
import types
import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from torchlike._transforms.capture.recording import Unsupported
from torchlike._transforms.interpreter.trust import unseen

if TYPE_CHECKING:
    from types import FrameType, FunctionType

_template = (lambda f, args, kwargs: f(*args, **kwargs)).__code__
_units = len(_template.co_code) // 2
# "no columns, the same line" for every eight code units: the form of PEP 626 tables that has no carets
_table = b"".join(bytes([0x80 | 13 << 3 | min(8, _units - i) - 1, 0]) for i in range(0, _units, 8))
_doors: set[types.CodeType] = set()  # code objects of doors


def door(code: types.CodeType, line: int, namespace: dict[str, Any]) -> FunctionType:
    """A function that calls others, as from ``line`` of ``code``: tracebacks and warnings show that."""
    made = _template.replace(
        co_filename=code.co_filename, co_name=code.co_name, co_qualname=code.co_qualname, co_firstlineno=line,
        co_linetable=_table,
    )  # fmt: skip
    _doors.add(made)
    return types.FunctionType(made, namespace)


class Net:
    """Ends the trace where Python code that should be interpreted runs without being so."""

    def __init__(self) -> None:
        self.missed: str | None = None
        self.closes = False  # whether the call itself is one of a generator's methods
        self.dying: set[FrameType] = set()  # frames of generators that are being deleted

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any] | None:
        code = frame.f_code
        if event != "call" or code in _doors or not unseen(code, frame.f_globals.get("__name__") or ""):
            return None
        if _apart(frame, self.dying):
            return None
        if code.co_flags & inspect.CO_GENERATOR:
            frame.f_trace_opcodes = True
            return self.resumed
        return self.miss(frame)

    def resumed(self, frame: FrameType, event: str, argument: Any) -> None:
        """What a generator does first: one that is deleted, which may happen at any time, only meets its end."""
        del frame.f_trace
        frame.f_trace_opcodes = False
        if event == "exception" and argument[0] is GeneratorExit and not self.closes:
            self.dying.add(frame)
        else:
            self.miss(frame)

    def miss(self, frame: FrameType) -> NoReturn:
        """End the trace before ``frame`` runs."""
        code = frame.f_code
        self.missed = f"{code.co_qualname} ({code.co_filename}:{code.co_firstlineno})"
        raise Unsupported(self.reason())

    def reason(self) -> str:
        """Why the trace ends."""
        return f"has {self.missed} called by a function that cannot be looked into"

    def call(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """``function(*args, **kwargs)``, under this net."""
        before = sys.gettrace()
        self.closes = isinstance(getattr(function, "__self__", None), types.GeneratorType)
        sys.settrace(self)
        try:
            result = function(*args, **kwargs)
        finally:
            sys.settrace(before)
            self.dying.clear()
            if self.missed is not None:
                raise Unsupported(self.reason())
        return result


_KERNELS = tuple([os.path.join("torchlike", name) + os.sep for name in ("_library", "_decl", "_executor")])


def _apart(frame: FrameType, dying: set[FrameType]) -> bool:
    """Whether a frame runs on behalf of an import or an interruption, or is the kernel of an operator."""
    interruptions = _interruptions()
    while frame is not None and frame.f_code not in _doors:
        filename = frame.f_code.co_filename
        if filename.startswith("<frozen importlib") or any([part in filename for part in _KERNELS]):
            return True
        if frame.f_code.co_name == "__del__" or frame.f_code in interruptions or _of_a_death(frame):
            return True
        if frame in dying:
            return True
        frame = frame.f_back
    return False


def _of_a_death(frame: FrameType) -> bool:
    """Whether a frame is that of a weak reference's callback: it is given the reference, which is dead."""
    given = [frame.f_locals.get(name) for name in frame.f_code.co_varnames[: min(2, frame.f_code.co_argcount)]]
    return any([isinstance(x, weakref.ref) and x() is None for x in given])


def _interruptions() -> set[types.CodeType]:
    """The code that runs between any two instructions of a function: of the collector, finalizers and signals."""
    handlers = [signal.getsignal(number) for number in signal.valid_signals()]
    called = [getattr(f, "__func__", f) for f in (*gc.callbacks, *handlers)]
    return {f.__code__ for f in (*called, weakref.finalize.__call__) if isinstance(f, types.FunctionType)}


class open_net:
    """A context, below a net, in which code is interpreted again."""

    def __enter__(self) -> None:
        self.before = sys.gettrace()
        if self.before is not None:
            sys.settrace(None)

    def __exit__(self, *exc: object) -> None:
        if self.before is not None:
            sys.settrace(self.before)
