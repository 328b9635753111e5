"""Functions that cannot be one program, run in pieces: each piece ends where Python needs a value."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from torchlike._base.frames import user_line
from torchlike._base.logs import GRAPH_BREAKS
from torchlike._base.state import state
from torchlike._executor.execution import get_execution
from torchlike._executor.recorded import Recorder

LENGTH = 5000  # calls of one piece


class _Pieces(threading.local):
    """The recorder of the pieces that a thread runs, and the lines that ended one."""

    def __init__(self) -> None:
        self.recorder = Recorder(hot=1, patience=0, length=LENGTH, on_read=self._ended)
        self.lines = set()

    def _ended(self) -> None:
        line = user_line()
        if line not in self.lines:
            self.lines.add(line)
            GRAPH_BREAKS.info("graph break at %s: Python needs a value here; the next piece begins after it", line)


_pieces = _Pieces()


def run(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], lines: set[Any]) -> Any:
    """``function(*args, **kwargs)`` in eager code whose operators are compiled in as few pieces as possible.

    ``lines``: those at which a piece of this function has ended, each of which is logged once.
    """
    before, recorder = (state.recorder, _pieces.lines), _pieces.recorder
    recorder.mode = get_execution()
    state.recorder, _pieces.lines = recorder, lines
    try:
        result = function(*args, **kwargs)
    finally:
        state.recorder, _pieces.lines = before
        _end(recorder)  # after an error, too: a value check of an earlier call that has failed comes before it
    return result


def _end(recorder: Recorder) -> None:
    """Run the last piece; its value checks raise in this call, not in whatever is called next."""
    recorder.cut()
    if recorder.watched:
        recorder.examine()
