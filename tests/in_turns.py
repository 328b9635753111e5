"""Test files in several processes, each of which takes the next one when it is done: what ``make test`` runs.

    python tests/in_turns.py -n 2 --options '-m "not compilers"' tests torchlike

runs both folders, each process with these options of pytest. pytest-xdist has every process collect every test, and
sends each by itself: a tenth of the time of small ones. Here a process collects the files that it runs, and no others.
What takes longest comes first, so that the processes end together. One more process runs what mostly waits, for other
processes and for time limits, beside those that compute; where ``--also COMMAND`` is given, after that.
"""

from __future__ import annotations

import argparse
import fcntl
import itertools
import json
import os
import shlex
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.runner import collect_one_node

TESTS = Path(__file__).parent
QUEUE = "TORCHLIKE_TEST_QUEUE"  # for a process that takes files: their folder, and where it tells of them
DEATHS = 5  # of processes; then what made them die is everywhere

# The files that take longest, from 116 seconds down to 6; the others come in the order of their lengths.
LONG = (
    "test_processes", "test_sharding", "test_docs", "test_benchmarks", "test_faults", "test_example_scripts",
    "test_data_parallel", "test_linalg", "test_distributions", "test_grad_scaler_steps", "test_spanning", "test_run",
    "test_loss", "test_distributed", "test_pass_through", "test_binary", "test_rnn", "test_control_flow", "test_remat",
    "test_linear", "test_deep", "test_stale_answers", "test_kernel_store", "test_first_use", "test_unary",
    "test_interrupted", "test_flex_attention", "test_casts", "test_32_bits", "test_kinks_2", "test_workers",
    "test_kinks", "test_dcp", "test_models", "test_conventions_laboratory", "test_matmul", "test_optimizers",
    "test_factors", "test_programs", "test_bodies_outside", "test_conventions", "test_silent", "test_call_cost",
    "test_compile", "test_composite_overloads", "test_plain_pickles",
)  # fmt: skip

# These mostly wait, for processes that they start or for time limits, and leave a processor to others meanwhile.
WAITING = ("test_processes", "test_workers", "test_faults", "test_places", "test_forked", "test_spanning")


class Queue:
    """The files that are not run yet, in a folder that processes share.

    ``list`` has the files, ``next`` says which is the next one, ``taken.PID`` what a process is at.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def fill(self, files: list[str]) -> None:
        self.folder.mkdir()
        (self.folder / "list").write_text("\n".join(files))
        (self.folder / "next").write_text("0")

    def take(self) -> str | None:
        """The next file, which nobody else takes; None if there is none."""
        files = (self.folder / "list").read_text().splitlines()
        with open(self.folder / "next", "r+") as place:
            fcntl.flock(place, fcntl.LOCK_EX)
            i = int(place.read())
            place.seek(0)
            place.write(str(i + 1))
        found = files[i] if i < len(files) else None
        (self.folder / f"taken.{os.getpid()}").write_text(found or "")
        return found

    def left(self) -> bool:
        return int((self.folder / "next").read_text()) < len((self.folder / "list").read_text().splitlines())


# -- a process that runs files -------------------------------------------------------------------------------


class Turns:
    """The plugin of pytest that collects and runs one file after the other."""

    def __init__(self, place: str) -> None:
        folder, _, out = place.rpartition(" ")
        self.queue, self.out = Queue(Path(folder)), int(out)
        self.counts: Counter[str] = Counter()
        self.found: dict[str, list[pytest.Collector]] = {}

    def pytest_collection(self, session: pytest.Session) -> bool:
        """Find the files, not imported yet. Those of tests are named, since pytest ties fixtures to folders."""
        option, roots = session.config.option, session.config.args
        named = [p for p in files(roots) if TESTS in Path(p).parents]
        others = [p for p in roots if TESTS not in (Path(p).resolve(), *Path(p).resolve().parents)]
        doctests = option.doctestmodules
        for paths, option.doctestmodules in ((named, False), (others, doctests)):
            for node in session.perform_collect(paths, genitems=False) if paths else ():
                self.find(session, node)
        session.items = []
        return True

    def find(self, session: pytest.Session, node: pytest.Collector) -> None:
        if not isinstance(node, pytest.Directory):
            self.found.setdefault(str(node.path), []).append(node)
            return
        report = collect_one_node(node)
        node.ihook.pytest_collectreport(report=report)
        for inner in report.result if report.passed else ():
            self.find(session, inner)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run what is taken; a file that cannot be imported is an error, and the next one follows."""
        hook, total = session.config.hook, 0
        while (place := self.queue.take()) is not None:
            start, failed = time.perf_counter(), session.testsfailed
            for path in [p for p in self.found if p == place or p.startswith(f"{place}{os.sep}")]:
                session.items = items = [item for node in self.found.pop(path) for item in session.genitems(node)]
                hook.pytest_collection_modifyitems(session=session, config=session.config, items=items)
                for item, following in itertools.zip_longest(items, items[1:]):
                    hook.pytest_runtest_protocol(item=item, nextitem=following)
                total += len(items)
            seconds, failed = time.perf_counter() - start, session.testsfailed - failed
            told = f"{seconds:7.1f} s  {os.path.relpath(place)}{f': {failed} failed' if failed else ''}\n"
            os.write(self.out, told.encode())
        session.testscollected = total
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """Nothing is written of a test that passes."""
        self.counts[report.outcome] += report.when == "call" or not report.passed
        return (report.outcome if report.when == "call" else "", "", "") if report.passed else None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """The name of what failed, at once; why is told in the end, if the process lives."""
        if report.failed:
            os.write(self.out, f"FAILED {report.nodeid}\n".encode())

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """What tells an end from a death."""
        (self.queue.folder / f"done.{os.getpid()}").write_text(json.dumps(self.counts))


# -- the process that starts them ----------------------------------------------------------------------------


def files(paths: list[str]) -> list[str]:
    """What is taken at once: a file of tests; what lies in a folder of the package, whose doctests are quick."""
    found: list[Path] = []
    for path in [Path(p).resolve() for p in paths]:
        if path.is_file():
            found.append(path)
        elif TESTS in (path, *path.parents):
            found += path.rglob("test_*.py")
        else:
            found += [p for p in path.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()]
    place = {name: i for i, name in enumerate(LONG)}
    sizes = {p: p.stat().st_size for p in found}
    return [str(p) for p in sorted(sizes, key=lambda p: (place.get(p.stem, len(place)), -sizes[p], str(p)))]


class Runs:
    """Processes that take from one queue, and what became of them."""

    def __init__(self, folder: Path, options: list[str], roots: list[str]) -> None:
        self.queues = {name: Queue(folder / name) for name in ("computing", "waiting")}
        self.options, self.roots = options, roots
        self.lock, self.counts, self.fine, self.deaths = threading.Lock(), Counter[str](), True, 0

    def say(self, text: str, fine: bool = True) -> None:
        with self.lock:
            self.fine &= fine
            sys.stdout.write(text)
            sys.stdout.flush()

    def also(self, command: str) -> None:
        done = subprocess.run(command, shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        ended = "" if done.returncode == 0 else f"{command}: exit status {done.returncode}\n"
        self.say(done.stdout + ended, not done.returncode)

    def fill(self, found: list[str]) -> None:
        waiting = [p for p in found if Path(p).stem in WAITING]
        self.queues["waiting"].fill(waiting)
        self.queues["computing"].fill([p for p in found if p not in waiting])

    def files(self, queue: Queue) -> None:
        """Run files until none is left, in another process if one dies."""
        while queue.left() and self.deaths < DEATHS:
            with tempfile.TemporaryFile("w+") as log:
                out = os.dup(1)
                env = {**os.environ, QUEUE: f"{queue.folder} {out}"}
                env.pop("PYTHONDONTWRITEBYTECODE", None)  # a hundred processes import the package
                command = [sys.executable, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider", "-n", "0"]
                process = subprocess.Popen(
                    [*command, *self.options, *self.roots], stdout=log, stderr=log, env=env, pass_fds=[out]
                )
                os.close(out)
                status = process.wait()
                log.seek(0)
                self.ended(queue.folder, process.pid, status, log.read())

    def ended(self, folder: Path, pid: int, status: int, log: str) -> None:
        done, taken = [folder / f"{name}.{pid}" for name in ("done", "taken")]
        if done.exists():
            self.counts.update(json.loads(done.read_text()))
        else:
            self.deaths += 1
            place = taken.read_text() if taken.exists() else "its start"
            log += f"\nDIED with exit status {status} in {place}, whose tests count as failed\n"
        self.say(log.lstrip("\n"), done.exists() and status in (0, pytest.ExitCode.NO_TESTS_COLLECTED))


def lanes(runs: Runs, n: int, commands: list[str]) -> Iterator[threading.Thread]:
    """A thread for each process at a time: those that compute help with what waits when they are done."""
    computing, waiting = runs.queues.values()

    def lane(first: list[str], queues: list[Queue]) -> None:
        for command in first:
            runs.also(command)
        for queue in queues:
            runs.files(queue)

    for _ in range(n):
        yield threading.Thread(target=lane, args=([], [computing, waiting]))
    if commands or waiting.left():
        yield threading.Thread(target=lane, args=(commands, [waiting]))


def main() -> int:
    parser = argparse.ArgumentParser(description="Run test files in several processes.")
    parser.add_argument("-n", type=int, default=2, help="how many processes that compute")
    parser.add_argument("--also", action="append", default=[], help="a command, beside them")
    parser.add_argument("--options", default="", help="options of pytest")
    parser.add_argument("paths", nargs="+")
    args = parser.parse_args()
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        runs = Runs(Path(folder), shlex.split(args.options), args.paths)
        runs.fill(files(args.paths))
        threads = list(lanes(runs, args.n, args.also))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if any(queue.left() for queue in runs.queues.values()):
            runs.say(f"{runs.deaths} processes died: the other files were not run\n", fine=False)
    counts = ", ".join(f"{n} {outcome}" for outcome, n in sorted(runs.counts.items()))
    runs.say(f"{counts or 'no tests'} in {time.perf_counter() - start:.0f} s\n", fine=runs.counts["passed"] > 0)
    return 0 if runs.fine else 1


if __name__ == "__main__":
    sys.exit(main())
