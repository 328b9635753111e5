"""Compilation for people: a line on a terminal while it takes long, and ``torchlike.explain()``."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, NamedTuple

PATIENCE = 2.0  # seconds before a compilation is told of
STEP = 1.0  # seconds between two looks


class Made(NamedTuple):
    """A program that was made.

    Attributes:
        seconds: how long it took to make and to run once. why: what had changed since the last one, or None.
        operations: how many equations it has.
    """

    seconds: float
    why: str | None
    operations: int


class Notice:
    """A context in which a function is compiled: where that takes long, a terminal shows what goes on.

    Attributes:
        phase: what is done now. shown: whether a line was written.
    """

    def __init__(self, what: str) -> None:
        self.what, self.phase, self.displayed = what, "running its Python code", False
        self.over = threading.Event()

    def __enter__(self) -> Notice:
        self.start = time.perf_counter()
        if watched():
            threading.Thread(target=self._tell, name="torchlike notice", daemon=True).start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.over.set()
        if self.displayed:
            self._write(f"{'compiled' if kind is None else 'gave up'} after {self._seconds():.0f} s", "\n")

    def _tell(self) -> None:
        wait = PATIENCE
        while not self.over.wait(wait):
            self.displayed, wait = True, STEP
            self._write(f"{self.phase}, {self._seconds():.0f} s", "")

    def _seconds(self) -> float:
        return time.perf_counter() - self.start

    def _write(self, text: str, end: str) -> None:
        """Write the line anew."""
        try:
            print(f"\r\x1b[Ktorchlike: torch.compile of {self.what}: {text}", end=end, file=sys.stderr, flush=True)
        except (OSError, ValueError):  # it is closed
            self.over.set()


def watched() -> bool:
    """Whether somebody looks at what is written to ``sys.stderr``."""
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):
        return False


def line_of(function: Any, made: list[Made], eager: str | None, broken: bool) -> list[str]:
    """The report of one function."""
    seconds = sum([m.seconds for m in made])
    count = f"{len(made)} program{'s' if len(made) != 1 else ''}"
    lines = [f"{function}: {count}" + (f", {seconds:.1f} s" if made else "")]
    for i, m in enumerate(made, 1):
        why = "first call" if m.why is None else f"{m.why} had changed"
        lines.append(f"    {i}. {m.operations} operations, {m.seconds:.2f} s: {why}")
    if eager is not None:
        lines.append(f"    {'runs in pieces' if broken else 'runs in eager code'}: {eager}")
    return lines


def report(functions: Callable[[], list[Any]]) -> None:
    """Print what was compiled, how often and why again: a part of each function that ``torch.compile`` made.

    Functions that were not called yet are left out. ``torchlike.explain()`` is its name for users.
    """
    found = [f for f in functions() if f.made or f.eager is not None]
    lines = [line for f in found for line in line_of(f.described(), f.made, f.eager, f.broken)]
    print("\n".join(lines) if lines else "Nothing was compiled: no function of torch.compile has been called.")
