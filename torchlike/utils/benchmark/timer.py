"""Times of statements, which wait for what was launched."""

from __future__ import annotations

import statistics
import time
import timeit
from collections.abc import Callable
from typing import Any

import jax

from torchlike.interop.alias import missing_names

__all__ = ["Measurement", "Timer", "timer"]

__getattr__ = missing_names(__name__)


def timer() -> float:
    """Seconds, once all that was launched is done."""
    for array in jax.live_arrays():
        array.block_until_ready()
    return time.perf_counter()


class Measurement:
    """Times of runs of a statement.

    Attributes:
        times: seconds of one run, a number for each block of runs. number_per_run: runs in a block.
    """

    def __init__(self, number_per_run: int, raw_times: list[float], label: str) -> None:
        self.number_per_run, self.raw_times, self.title = number_per_run, raw_times, label

    @property
    def times(self) -> list[float]:
        return [seconds / self.number_per_run for seconds in self.raw_times]

    @property
    def median(self) -> float:
        """The median of the times, in seconds."""
        return statistics.median(self.times)

    @property
    def mean(self) -> float:
        """Their mean."""
        return statistics.fmean(self.times)

    @property
    def iqr(self) -> float:
        """The range that the middle half of the times spans."""
        if len(self.times) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.times, n=4)
        return high - low

    def __repr__(self) -> str:
        runs = f"{len(self.times)} blocks of {self.number_per_run} runs"
        return f"<torch.utils.benchmark.Measurement>\n{self.title}\n  Median: {self.median * 1e6:.2f} us, {runs}"


class Timer:
    """Runs a statement many times and waits for what it launches.

    Args:
        stmt, setup: code, in text. globals: the names that it knows. timer: seconds, by default :func:`timer`.
            label, sub_label, description, env: a title. num_threads: accepted; XLA chooses.

    >>> import torchlike as torch
    >>> from torchlike.utils.benchmark import Timer
    >>> Timer("x + 1", globals={"x": torch.ones(3)}).timeit(10).number_per_run
    10
    """

    def __init__(
        self, stmt: str = "pass", setup: str = "pass", global_setup: str = "", timer: Callable[[], float] = timer,
        globals: dict[str, Any] | None = None, label: str | None = None, sub_label: str | None = None,
        description: str | None = None, env: str | None = None, num_threads: int = 1, language: Any = None,
    ) -> None:  # fmt: skip
        if global_setup or language not in (None, "py", "python"):
            raise NotImplementedError("torch.utils.benchmark.Timer: statements in C++ are not compiled")
        self._title = ": ".join(part for part in (label or stmt, sub_label, description, env) if part)
        self._timer = timeit.Timer(stmt, setup, timer, globals)

    def timeit(self, number: int = 1_000_000) -> Measurement:
        """The time of ``number`` runs, after a few that warm up."""
        self._timer.timeit(max(number // 100, 2))
        return Measurement(number, [self._timer.timeit(number)], self._title)

    def blocked_autorange(self, callback: Any = None, min_run_time: float = 0.2) -> Measurement:
        """Times of blocks of runs that last ``min_run_time`` seconds together."""
        self._timer.timeit(2)
        number = 1
        while self._timer.timeit(number) < min_run_time / 100 and number < 1 << 20:
            number *= 2
        times: list[float] = []
        while sum(times) < min_run_time:
            times.append(self._timer.timeit(number))
            if callback is not None:
                callback(number, times[-1])
        return Measurement(number, times, self._title)

    adaptive_autorange = blocked_autorange
