"""Uncaught errors as the user's own lines and our message: frames of this package and of jax are left out.

``TORCHLIKE_TRACEBACK=full`` shows all frames.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_OURS = _PACKAGE, "<torchlike", "<frozen runpy>"
_IN_NOTEBOOKS = Exception, KeyboardInterrupt
_NOTE = "JAX has removed its internal frames"  # of jax's remark below the message


def full() -> bool:
    """Whether the user wants to see every frame."""
    return os.environ.get("TORCHLIKE_TRACEBACK", "").lower() == "full"


def install() -> None:
    """Have uncaught errors of this process shown so. A second call does nothing."""
    if not getattr(sys.excepthook, "shortens", False):
        sys.excepthook = _shortening(sys.excepthook)
    if not getattr(threading.excepthook, "shortens", False):
        show = threading.excepthook

        def in_thread(args: Any) -> None:
            if args.exc_value is not None:
                error = args.exc_value
                shorten(error)
                args = threading.ExceptHookArgs((args.exc_type, error, error.__traceback__, args.thread))
            show(args)

        in_thread.shortens, in_thread.before = True, show
        threading.excepthook = in_thread
    shell = _notebook()
    if shell is not None and not shell.custom_exceptions:  # else the user shows them as he likes
        shell.set_custom_exc(_IN_NOTEBOOKS, _in_notebook)


def _notebook() -> Any:
    """IPython's shell of this process, if there is one: it shows errors itself."""
    module = sys.modules.get("IPython")
    return None if module is None else module.get_ipython()


def _in_notebook(shell: Any, kind: type, error: BaseException, trace: TracebackType, tb_offset: Any = None) -> None:
    """Show an error of a cell."""
    shorten(error)
    shell.showtraceback((kind, error, error.__traceback__), tb_offset=tb_offset)


def uninstall() -> None:
    """Put back the hooks that :func:`install` found, where they are still its own."""
    for module in (sys, threading):
        if getattr(module.excepthook, "shortens", False):
            module.excepthook = module.excepthook.before
    if (shell := _notebook()) is not None and shell.custom_exceptions is _IN_NOTEBOOKS:
        shell.set_custom_exc((), None)


def _shortening(show: Callable) -> Callable:
    def hook(kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> None:
        shorten(value)
        show(kind, value, value.__traceback__)

    hook.shortens, hook.before = True, show
    return hook


def shorten(error: BaseException, seen: frozenset[int] = frozenset()) -> None:
    """Take our frames and jax's out of an error and of those that it came from."""
    if full() or id(error) in seen:
        return
    seen |= {id(error)}
    trace = _without_ours(error.__traceback__)
    if trace is not None or isinstance(error, SyntaxError):  # else it is of an exit handler of ours: all is shown
        error.__traceback__ = trace
    if notes := getattr(error, "__notes__", None):
        notes[:] = [note for note in notes if _NOTE not in note]
    if (cause := error.__cause__) is not None:
        if _all_ours(cause.__traceback__):
            error.__cause__ = None  # which also suppresses the context
        else:
            shorten(cause, seen)
    elif (context := error.__context__) is not None and not error.__suppress_context__:
        if _all_ours(context.__traceback__):
            error.__suppress_context__ = True
        else:
            shorten(context, seen)


def _frames(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _ours(trace: TracebackType) -> bool:
    file, name = trace.tb_frame.f_code.co_filename, trace.tb_frame.f_globals.get("__name__", "")
    return file.startswith(_OURS) or str(name).partition(".")[0] in ("jax", "jaxlib")


def _all_ours(trace: TracebackType | None) -> bool:
    return all(_ours(frame) for frame in _frames(trace))


def _without_ours(trace: TracebackType | None) -> TracebackType | None:
    """The user's part of a traceback."""
    below: TracebackType | None = None
    for frame in reversed([frame for frame in _frames(trace) if not _ours(frame)]):
        below = TracebackType(below, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return below
