"""The error of a process, written into the file that its launcher has named."""

import functools
import json
import os
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
FILE = "TORCHELASTIC_ERROR_FILE"


class ErrorHandler:
    """Writes errors into the file that ``TORCHELASTIC_ERROR_FILE`` names; without it does nothing."""

    def initialize(self) -> None:
        """Called before the function begins."""

    def record_exception(self, e: BaseException) -> None:
        """Write an error, with its traceback and the time, as JSON."""
        path = os.environ.get(FILE)
        if path:
            text = "".join(traceback.format_exception(e))
            extra = {"py_callstack": text, "timestamp": str(int(time.time()))}
            Path(path).write_text(json.dumps({"message": {"message": _said(e), "extraInfo": extra}}))


def _said(e: BaseException) -> str:
    return f"{type(e).__name__}: {e}"


def get_error_handler() -> ErrorHandler:
    """What :func:`record` uses."""
    return ErrorHandler()


def message_of(path: Path) -> str:
    """What the file of a process that failed says; nothing where it has not written."""
    try:
        return json.loads(path.read_text())["message"]["message"]
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def record(fn: F, error_handler: ErrorHandler | None = None) -> F:
    """Decorate the main function of a script, so that the launcher can say with which error it ended.

    >>> from torchlike.distributed.elastic.multiprocessing.errors import record
    >>> @record
    ... def main():
    ...     return 3
    >>> main()
    3
    """
    handler = error_handler or get_error_handler()

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        handler.initialize()
        try:
            return fn(*args, **kwargs)
        except SystemExit as left:
            if left.code:
                handler.record_exception(left)
            raise
        except Exception as error:
            handler.record_exception(error)
            raise

    return wrapper  # type: ignore[return-value]
