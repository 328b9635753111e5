"""What was run, and how long it took."""

from __future__ import annotations

import contextlib
import math
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from torchlike._functions.info import get_num_threads, set_num_threads
from torchlike.interop.alias import missing_names

__all__ = [
    "Measurement", "TaskSpec", "ordered_unique", "select_unit", "set_torch_threads", "trim_sigfig", "unit_to_english",
]  # fmt: skip

__getattr__ = missing_names(__name__)

_UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1}
_NOISY, _VERY_NOISY = 0.1, 0.25  # interquartile ranges over the median that a measurement warns of
_CLOCK = 25e-9  # seconds that no confidence interval is narrower than
_Z = 1.645  # of the normal distribution: 95 % lie below
_DIGITS = 4  # more are not shown, however narrow the interval


@dataclass(init=True, repr=False, eq=True, frozen=True)
class TaskSpec:
    """What a measurement ran, and how tables name it.

    Args:
        stmt, setup: code, in text. global_setup: of C++. label: names the table. sub_label: the row.
            description: the column. env: tells runs of other machines or versions apart. num_threads: the block.
    """

    stmt: str
    setup: str
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """The label, or the statement without one, and the sub-label."""
        if self.label is not None:
            return self.label + (f": {self.sub_label}" if self.sub_label else "")
        if "\n" not in self.stmt:
            return self.stmt + (f": {self.sub_label}" if self.sub_label else "")
        return f"stmt:{f' ({self.sub_label})' if self.sub_label else ''}\n{textwrap.indent(self.stmt, '  ')}"

    def setup_str(self) -> str:
        """The setup as :meth:`summarize` has it; empty where there is none."""
        if self.setup == "pass" or not self.setup:
            return ""
        return f"setup:\n{textwrap.indent(self.setup, '  ')}" if "\n" in self.setup else f"setup: {self.setup}"

    def summarize(self) -> str:
        """Title, description and setup, on lines of their own."""
        parts = [self.title, self.description or "", self.setup_str()]
        return "\n".join([f"{part}\n" if "\n" in part else part for part in parts if part])


@dataclass(init=True, repr=False)
class Measurement:
    """Times of runs of a statement.

    Args:
        number_per_run: runs in a block. raw_times: seconds of each block. task_spec: what was run. metadata: kept.

    >>> from torchlike.utils.benchmark import Measurement, TaskSpec
    >>> m = Measurement(10, [1e-5, 1.02e-5, 1.01e-5], TaskSpec("x + 1", "pass"))
    >>> m.median, m.significant_figures
    (1.01e-06, 1)
    """

    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec
    metadata: dict[Any, Any] | None = None

    def __getattr__(self, name: str) -> Any:
        """What the task says: ``stmt``, ``label``, ``num_threads``, ..."""
        if name.startswith("_") or name == "task_spec":  # before copies and pickles have one
            raise AttributeError(name)
        return getattr(self.task_spec, name)

    @property
    def times(self) -> list[float]:
        """Seconds of one run, a number for each block."""
        return [seconds / self.number_per_run for seconds in self.raw_times]

    @property
    def median(self) -> float:
        """The median of the times, in seconds."""
        return self._quantile(50)

    @property
    def mean(self) -> float:
        """Their mean."""
        return float(np.mean(self._filled()))

    @property
    def iqr(self) -> float:
        """The range that the middle half of the times spans."""
        return self._quantile(75) - self._quantile(25)

    @property
    def significant_figures(self) -> int:
        """Digits of the median that one may trust, 1 to 4.

        From the half-width of a 90 % confidence interval of the mean of the times between the quartiles, as if they
        were normally distributed, and not below what clocks tell apart.
        """
        times = np.sort(self._filled())
        middle = times[(self._quantile(25) <= times) & (times <= self._quantile(75))]
        middle = middle if len(middle) > 1 else times
        interval = max(_Z * float(np.std(middle)) / math.sqrt(len(middle)), _CLOCK)
        return min(max(math.floor(-math.log10(interval / self.median)), 1), _DIGITS)

    @property
    def has_warnings(self) -> bool:
        """Whether the middle half of the times spans more than a tenth of the median."""
        return self.iqr / self.median > _NOISY

    def meets_confidence(self, threshold: float = _NOISY) -> bool:
        """Whether the middle half of the times spans less than this part of the median."""
        return self.iqr / self.median < threshold

    @property
    def title(self) -> str:
        """That of the task."""
        return self.task_spec.title

    @property
    def env(self) -> str | None:
        """That of the task."""
        return self.task_spec.env or None

    @property
    def as_row_name(self) -> str:
        """What names its row of a table: the sub-label, or the statement."""
        return self.sub_label or self.stmt or "[Unknown]"

    def _filled(self) -> list[float]:
        if not self.raw_times:
            raise ValueError("torch.utils.benchmark.Measurement: raw_times is empty: nothing was measured")
        return self.times

    def _quantile(self, percent: int) -> float:
        return float(np.percentile(self._filled(), percent))

    def __repr__(self) -> str:
        unit, scale = select_unit(self.median)
        n, threads = len(self.times), self.num_threads
        lines = [f"{super().__repr__()}", self.task_spec.summarize()]
        lines.append(f"  {'Median: ' if n > 1 else ''}{self.median / scale:.2f} {unit}")
        low, high = [self._quantile(q) / scale for q in (25, 75)]
        if n > 3:
            lines.append(f"  IQR:    {self.iqr / scale:.2f} {unit} ({low:.2f} to {high:.2f})")
        runs = f"{self.number_per_run} runs {'per measurement' if n > 1 else ''}"
        lines.append(f"  {n} measurement{'s' * (n > 1)}, {runs}, {threads} thread{'s' * (threads > 1)}")
        if self.has_warnings:
            share = self.iqr / self.median
            grave = "This suggests significant environmental influence."
            slight = "This could indicate system fluctuation."
            lines.append(f"  WARNING: Interquartile range is {share * 100:.1f}% of the median measurement.")
            lines.append(f"           {grave if share > _VERY_NOISY else slight}")
        return "\n".join(lines)

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """One measurement for each task, of the times of all; each time stands for one run."""
        by_task: dict[TaskSpec, list[float]] = {}
        for measurement in measurements:
            by_task.setdefault(measurement.task_spec, []).extend(measurement.times)
        return [Measurement(1, times, task) for task, times in by_task.items()]


def select_unit(t: float) -> tuple[str, float]:
    """(ns, us, ms or s; seconds of it) in which a time is 1 or more, if it can be.

    >>> select_unit(2e-5)
    ('us', 1e-06)
    """
    return next((u for u in reversed(_UNITS.items()) if t >= u[1]), ("ns", _UNITS["ns"]))


def unit_to_english(u: str) -> str:
    """The name of one of those units: ``us`` is a microsecond."""
    return {"ns": "nanosecond", "us": "microsecond", "ms": "millisecond", "s": "second"}[u]


def trim_sigfig(x: float, n: int) -> float:
    """``x`` rounded to ``n`` digits that count, ties to even ones; what 32 bits do not tell from a tie is one.

    >>> trim_sigfig(123.456, 2)
    120.0
    """
    scale = 10.0 ** (math.ceil(math.log10(x)) - n)
    return float(np.round(np.float32(x / scale))) * scale


def ordered_unique(elements: Iterable[Any]) -> list[Any]:
    """The elements without repetitions, in the order in which they come first."""
    return list(dict.fromkeys(elements))


@contextlib.contextmanager
def set_torch_threads(n: int) -> Iterator[None]:
    """A number of threads, as ``torch.set_num_threads`` takes it, for a block of code."""
    before = get_num_threads()
    set_num_threads(n)
    try:
        yield
    finally:
        set_num_threads(before)
