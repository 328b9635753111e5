"""Times of statements, which wait for what was launched."""

from __future__ import annotations

import enum
import itertools
import textwrap
import time
import timeit
from collections.abc import Callable
from typing import Any, NoReturn

import jax

from torchlike.interop.alias import missing_names
from torchlike.utils.benchmark.utils import common

__all__ = ["Language", "Timer", "timer"]

__getattr__ = missing_names(__name__)

_BLOCKS = 100  # of a run of the least length, so that the time of asking for the time is small in each


def timer() -> float:
    """Seconds, once all that was launched is done."""
    for array in jax.live_arrays():
        array.block_until_ready()
    return time.perf_counter()


class Language(enum.Enum):
    """What statements are written in."""

    PYTHON = 0
    CPP = 1


class Timer:
    """Runs a statement many times and waits for what it launches.

    Args:
        stmt, setup: code, in text. globals: the names that it knows. timer: seconds, by default :func:`timer`.
            label, sub_label, description, env: how tables name it, see :class:`TaskSpec`. num_threads: as
            ``torch.set_num_threads`` takes it, while the statement runs.

    >>> import torchlike as torch
    >>> from torchlike.utils.benchmark import Timer
    >>> Timer("x + 1", globals={"x": torch.ones(3)}).timeit(10).number_per_run
    10
    """

    def __init__(
        self, stmt: str = "pass", setup: str = "pass", global_setup: str = "", timer: Callable[[], float] = timer,
        globals: dict[str, Any] | None = None, label: str | None = None, sub_label: str | None = None,
        description: str | None = None, env: str | None = None, num_threads: int = 1,
        language: Language | str = Language.PYTHON,
    ) -> None:  # fmt: skip
        if not isinstance(stmt, str):
            raise ValueError(f"Timer: stmt has to be text, a str, not {type(stmt).__name__}")
        if language in (Language.CPP, "cpp", "c++"):
            raise NotImplementedError("torch.utils.benchmark.Timer: statements in C++ are not compiled")
        if language not in (Language.PYTHON, "py", "python"):
            raise ValueError(f"Timer: invalid language {language!r}; 'python' is meant")
        if global_setup:
            raise ValueError(f"Timer: global_setup is of C++ only, got {global_setup!r}; move it to setup")
        stmt, setup = (textwrap.dedent(code.removeprefix("\n")).rstrip() for code in (stmt, setup))
        self._globals = dict(globals or {})
        self._timer = timeit.Timer(stmt, setup, timer, self._globals)
        self._task_spec = common.TaskSpec(stmt, setup, global_setup, label, sub_label, description, env, num_threads)

    def _timeit(self, number: int) -> float:
        """Seconds of ``number`` runs, which clocks can tell from none."""
        with common.set_torch_threads(self._task_spec.num_threads):
            return max(self._timer.timeit(number), 1e-9)

    def _measured(self, number: int, times: list[float], **metadata: Any) -> common.Measurement:
        return common.Measurement(number, times, self._task_spec, metadata or None)

    def timeit(self, number: int = 1_000_000) -> common.Measurement:
        """The time of ``number`` runs, after a few that warm up."""
        self._timeit(max(number // 100, 2))
        return self._measured(number, [self._timeit(number)])

    def repeat(self, repeat: int = -1, number: int = -1) -> NoReturn:
        """Not supported: :meth:`blocked_autorange` tells of many blocks."""
        raise NotImplementedError("Timer.repeat: see Timer.blocked_autorange")

    def autorange(self, callback: Callable[[int, float], None] | None = None) -> NoReturn:
        """Not supported: :meth:`blocked_autorange` finds how many runs a block takes."""
        raise NotImplementedError("Timer.autorange: see Timer.blocked_autorange")

    def collect_callgrind(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Not supported: what XLA runs is not in the counts of one process's instructions."""
        raise NotImplementedError("Timer.collect_callgrind: torchlike has no counts of instructions; use timeit")

    def _block(self, min_run_time: float) -> int:
        """How many runs make a hundredth of that time, a power of ten."""
        self._timeit(2)
        return next(n for n in (10**i for i in itertools.count()) if self._timeit(n) >= min_run_time / _BLOCKS)

    def _blocks(self, number: int, callback: Any, enough: Callable[[list[float]], bool]) -> list[float]:
        times: list[float] = []
        while not times or not enough(times):
            times.append(self._timeit(number))
            if callback is not None:
                callback(number, times[-1])
        return times

    def blocked_autorange(
        self, callback: Callable[[int, float], None] | None = None, min_run_time: float = 0.2
    ) -> common.Measurement:
        """Times of blocks of runs that last ``min_run_time`` seconds together."""
        number = self._block(min_run_time)
        return self._measured(number, self._blocks(number, callback, lambda times: sum(times) >= min_run_time))

    def adaptive_autorange(
        self, threshold: float = 0.1, *, min_run_time: float = 0.01, max_run_time: float = 10.0,
        callback: Callable[[int, float], None] | None = None,
    ) -> common.Measurement:  # fmt: skip
        """Times of blocks until the middle half of them spans less than ``threshold`` of their median.

        They last ``min_run_time`` seconds together at least, and not much more than ``max_run_time``.
        """
        number = self._block(min_run_time)

        def enough(times: list[float]) -> bool:
            steady = len(times) > 3 and self._measured(number, times).meets_confidence(threshold)
            return sum(times) >= (min_run_time if steady else max_run_time)

        return self._measured(number, self._blocks(number, callback, enough))
