"""Which tests `make test` leaves to `make test-all`: those that run nothing which the others do not run.

    make sample

runs every test once, under coverage.py, and writes ``tests/sample.txt``. What a test runs is, first, each branch of
the package's code that it takes, and then each kernel that it calls (the operator, and which static arguments it
has), since a kernel's code runs only where it is traced for the first time. The quickest case of each test function
runs at any rate, and every example, and whatever is quick. To these, others are added greedily, by how much that is
new they run for each second that they take, until everything is run by one; then again until everything is run by
two, as long as they take no more than a given part of the time of all. A test that ``sample.txt`` does not know runs:
those that came after it are not left out. With ``--fewer`` only what ``make test`` runs now is run, and chosen from.
"""

from __future__ import annotations

import argparse
import gc
import heapq
import os
import pickle
import resource
import subprocess
import sys
import tempfile
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import sampling
from in_turns import TESTS

FOLDER = "TORCHLIKE_SAMPLE"  # for the processes that run tests: where they write what each of them ran
PACKAGE = TESTS.parent / "torchlike"
PART = 0.28  # of the time of all tests, which those that are chosen may take
ALWAYS = "tests/test_docs.py::"  # tests that all run: every example of the documentation does
QUICK = 0.012  # seconds: a test that takes less runs at any rate, as half of them do in a thirtieth of all time
TIMES = 2  # that each branch and kernel is run, if time allows


# -- a process that runs tests: what each of them runs ---------------------------------------------------------


class Ran(NamedTuple):
    """What one test ran."""

    name: str
    seconds: float
    features: Any  # indices of what it ran
    failed: bool  # as some do under coverage.py: what else they would run is not known, and they are kept


class Kernels(dict):
    """The compiled kernels of one operator, which notes what is asked for."""

    def __init__(self, name: str, found: dict, asked: set) -> None:
        super().__init__(found)
        self.name, self.asked = name, asked

    def get(self, static: Any, default: Any = None) -> Any:
        self.asked.add((self.name, static))
        return super().get(static, default)

    def __getitem__(self, static: Any) -> Any:
        self.asked.add((self.name, static))
        return super().__getitem__(static)


def kind(static: Any) -> Any:
    """A static argument without its size: what a kernel's code may branch on, mostly."""
    if isinstance(static, tuple):
        return tuple(map(kind, static)) if len(static) < 6 else len(static)
    number = isinstance(static, int | float | complex) and not isinstance(static, bool)
    return type(static).__name__ if number else str(static)[:40]


class Recorder:
    """The plugin of pytest that notes what each test runs; `-p make_sample` registers it where FOLDER is set."""

    def __init__(self, folder: str) -> None:
        self.place = Path(folder, f"{os.getpid()}.pickle")
        self.names: dict[Any, int] = {}
        self.rows: list[Ran] = []
        self.asked: set[tuple[str, Any]] = set()
        self.failed: set[str] = set()
        import coverage  # an extra of its own

        self.coverage = coverage.Coverage(
            source=[str(PACKAGE)], data_file=None, branch=True, config_file=False, messages=False
        )
        self.coverage.start()
        self.watch_kernels()

    def watch_kernels(self) -> None:
        from torchlike._decl.derive import Kernel  # after the start: what its import runs is of no test

        def watch(kernel: Any) -> None:
            if type(getattr(kernel, "kernels", None)) is dict:
                kernel.kernels = Kernels(kernel.name, kernel.kernels, self.asked)

        for made in gc.get_objects():
            if issubclass(type(made), Kernel):  # what asks for attributes wakes lazy objects of others
                watch(made)
        init = Kernel.__init__

        def watched(kernel: Any, *args: Any, **kwargs: Any) -> None:
            init(kernel, *args, **kwargs)
            watch(kernel)

        Kernel.__init__ = watched

    def take(self) -> set[int]:
        """What ran since the last time."""
        ran: set[Any] = set()
        for path, arcs in list(self.coverage._collector.data.items()):
            ran.update([(path, arc) for arc in list(arcs)])
            arcs.clear()
        ran.update([(name, kind(static)) for name, static in list(self.asked)])
        self.asked.clear()
        return {self.names.setdefault(x, len(self.names)) for x in ran}

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.take()
        start = spent()
        try:
            return (yield)
        finally:
            seconds = spent() - start
            self.rows.append(Ran(item.nodeid, seconds, array("i", sorted(self.take())), item.nodeid in self.failed))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self.place.write_bytes(pickle.dumps((self.names, self.rows)))


def spent() -> float:
    """The seconds of processors that this process and those that it waited for have taken."""
    both = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return sum(used.ru_utime + used.ru_stime for used in both)


def pytest_configure(config: pytest.Config) -> None:
    if FOLDER in os.environ:
        config.pluginmanager.register(Recorder(os.environ.pop(FOLDER)))


# -- the process that chooses ----------------------------------------------------------------------------------


def read(folder: Path) -> list[Ran]:
    """What all processes wrote, with one numbering of what ran."""
    names: dict[Any, int] = {}
    tests = []
    for path in sorted(folder.glob("*.pickle")):
        own, rows = pickle.loads(path.read_bytes())
        number = np.array([names.setdefault(x, len(names)) for x in own], np.int32)
        tests += [row._replace(features=number[np.asarray(row.features, np.int32)]) for row in rows]
    return tests


def chosen(tests: list[Ran], part: float) -> set[int]:
    """The tests to run: see the module's first lines."""
    limit = part * sum(test.seconds for test in tests)
    counts = np.zeros(1 + max(int(test.features.max(initial=0)) for test in tests), np.int32)
    picked: set[int] = set()
    total = 0.0

    def pick(i: int) -> None:
        nonlocal total
        picked.add(i)
        total += tests[i].seconds
        counts[tests[i].features] += 1

    for i in {*at_any_rate(tests)}:
        pick(i)
    for times in range(1, TIMES + 1):
        waiting = [(-float("inf"), i) for i in range(len(tests)) if i not in picked]
        while waiting:
            _, i = heapq.heappop(waiting)
            worth = -np.count_nonzero(counts[tests[i].features] < times) / (tests[i].seconds + 1e-3)
            if waiting and worth > waiting[0][0]:
                heapq.heappush(waiting, (worth, i))
            elif worth < 0 and total + tests[i].seconds <= limit:
                pick(i)
    everything = np.unique(np.concatenate([test.features for test in tests]))
    for times in range(1, TIMES + 1):
        print(f"run {times} times: {np.count_nonzero(counts[everything] >= times) / everything.size:.2%}")
    print(f"{len(picked)} of {len(tests)} tests, {total / limit * part:.1%} of their time")
    return picked


def at_any_rate(tests: list[Ran]) -> Iterator[int]:
    """The quickest case of each test, examples, what is quick, and what failed: what else it would run is not known."""
    quickest: dict[str, int] = {}
    for i, test in enumerate(tests):
        if test.failed or test.seconds < QUICK or test.name.startswith(ALWAYS):
            yield i
        function = test.name.partition("[")[0]
        if test.seconds < tests[quickest.setdefault(function, i)].seconds:
            quickest[function] = i
    yield from quickest.values()


def main() -> None:
    parser = argparse.ArgumentParser(description="Choose the tests that `make test` runs.")
    parser.add_argument("-n", type=int, default=2, help="how many processes")
    parser.add_argument("--part", type=float, default=PART, help="of the time of all tests, that those chosen take")
    parser.add_argument("--folder", type=Path, help="where what tests ran is kept; those that are there are not run")
    parser.add_argument("--fewer", action="store_true", help="run and choose from those that `make test` runs now")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = args.folder or Path(made)
        if not any(folder.glob("*.pickle")):
            folder.mkdir(exist_ok=True)
            command = [sys.executable, str(TESTS / "in_turns.py"), "-n", str(args.n)]
            command += ["--options", '-p make_sample -m "not compilers"', str(TESTS)]
            path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
            env = {**os.environ, FOLDER: str(folder.resolve()), "PYTHONPATH": path}
            env |= {} if args.fewer else {"TORCHLIKE_EVERY": "1"}
            subprocess.run(command, env=env, cwd=TESTS.parent)
        tests = read(folder)
    if not tests:
        sys.exit("no test has run: nothing is chosen")
    kept = chosen(tests, args.part)
    sampling.write([test.name for i, test in enumerate(tests) if i not in kept], more=args.fewer)


if __name__ == "__main__":
    main()
