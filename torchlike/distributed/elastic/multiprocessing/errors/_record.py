"""The error of a process, written into the file that its launcher has named."""

import dataclasses
import functools
import json
import os
import signal
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
FILE = "TORCHELASTIC_ERROR_FILE"


@dataclasses.dataclass
class ProcessFailure:
    """A process that failed. ``exitcode``: less than 0 where a signal ended it. ``message``: all of this in words."""

    local_rank: int
    pid: int
    exitcode: int
    error_file: str
    message: str
    timestamp: int = dataclasses.field(default_factory=lambda: int(time.time()))

    def signal_name(self) -> str:
        """The signal that ended it, or "<N/A>"."""
        return signal.Signals(-self.exitcode).name if self.exitcode < 0 else "<N/A>"


class ChildFailedError(Exception):
    """A process of those that were started has failed. ``failures``: {rank: :class:`ProcessFailure`}."""

    def __init__(self, name: str, failures: dict[int, ProcessFailure]) -> None:
        self.name, self.failures = name, failures
        super().__init__(f"{name} FAILED: {'; '.join([f.message for f in failures.values()])}")

    def get_first_failure(self) -> tuple[int, ProcessFailure]:
        """The rank of the process that failed first, and how."""
        return min(self.failures.items(), key=lambda item: item[1].timestamp)


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
