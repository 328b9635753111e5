"""What goes wrong in a step of a checkpoint, on any rank."""

from typing import Any

__all__ = ["CheckpointException"]


class CheckpointException(BaseException):
    """A step of a checkpoint failed on some ranks. ``failures``: for each of them the error and its traceback."""

    def __init__(self, msg: str, failures: dict[int, Any]) -> None:
        super().__init__(msg, failures)
        self._failures = failures

    @property
    def failures(self) -> dict[int, Any]:
        """{rank: (error, traceback)}"""
        return self._failures

    def __str__(self) -> str:
        lines = [f"CheckpointException ranks:{self._failures.keys()}"]
        for rank, (error, trace) in self._failures.items():
            text = "".join(trace.format()) if trace is not None else ""
            lines.append(f"Traceback (most recent call last): (RANK {rank})\n{text}{type(error).__name__}: {error}")
        return "\n".join(lines)
