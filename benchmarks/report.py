"""Run the benchmarks, each name in a process of its own, and print one table of every ratio with its target.

    python benchmarks/report.py [--only SCRIPT[:NAME] ...] [--quick] [--write] [--table]

What was measured is kept in build/benchmarks, so that a part can be measured again: the table is of everything kept
that this machine has measured with these versions. ``--write`` puts it into docs/benchmarks.md; ``--table`` measures
nothing anew. ``--quick`` only sees that all of it runs: small, and nothing is kept.
"""

import argparse
import importlib.metadata
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile

from _jobs import JOBS
from _rows import load, markdown, text

HERE = pathlib.Path(__file__).parent
KEPT, PAGE = HERE.parent / "build" / "benchmarks", HERE.parent / "docs" / "benchmarks.md"
BEGIN, END = "<!-- written by benchmarks/report.py --write -->", "<!-- end of what report.py wrote -->"
PACKAGES = ("jax", "jaxlib", "numpy", "torch")


def processor():
    """The model of the CPU, as the system names it."""
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def accelerator():
    """The GPU's name, or None."""
    if shutil.which("nvidia-smi") is None:
        return None
    query = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    done = subprocess.run(query, stdout=subprocess.PIPE, text=True, check=False)
    return done.stdout.splitlines()[0].strip() if done.returncode == 0 and done.stdout else None


def _version(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "none"


def machine():
    """In words: where the figures come from, and what was measured."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    versions = ", ".join(f"{p} {_version(p)}" for p in PACKAGES)
    parts = [f"{processor()}, {cores} cores ({platform.machine()})", accelerator(), platform.system()]
    return "; ".join([*filter(None, parts), f"Python {platform.python_version()}, {versions}"])


def jobs(only):
    """[(script, name)] of what was asked for: SCRIPT or SCRIPT:NAME, everything without any."""
    found = [(script, name) for script, names in JOBS.items() for name in names]
    if not only:
        return found
    asked = [tuple(x.split(":")) for x in only]
    unknown = [":".join(x) for x in asked if not any(job[: len(x)] == x for job in found)]
    if unknown:
        raise SystemExit(f"no such benchmark: {', '.join(unknown)}; there are {', '.join(map(':'.join, found))}")
    return [job for job in found if any(job[: len(x)] == x for x in asked)]


def run(script, name, quick):
    """The rows that one process measures, or None if it fails."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "rows.json"
        line = [sys.executable, str(HERE / f"{script}.py"), "--only", name, "--json", str(path)]
        done = subprocess.run(line + ["--quick"] * quick, capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"{script}:{name} failed:\n{done.stderr[-3000:]}", flush=True)
            return None
        return load(path)


def kept_path(script, name):
    return KEPT / f"{script}-{name}.json"


def keep(script, name, rows):
    KEPT.mkdir(parents=True, exist_ok=True)
    content = {"machine": machine(), "rows": [vars(row) for row in rows]}
    kept_path(script, name).write_text(json.dumps(content, indent=1) + "\n")


def kept():
    """Every row kept of this machine and these versions, in order; what is kept of others is named."""
    rows, here = [], machine()
    for script, name in jobs(()):
        path = kept_path(script, name)
        if not path.exists():
            continue
        content = json.loads(path.read_text())
        if content["machine"] == here:
            rows += load(content["rows"])
        else:
            print(f"left out: {script}:{name}, measured on {content['machine']}")
    return rows


def summary(rows):
    verdicts = [row.verdict.split(";")[0] for row in rows if row.target is not None and row.ratio is not None]
    return f"{verdicts.count('met')} targets met, {verdicts.count('missed')} missed"


def write(rows):
    """Put the table between the marks of the page."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise SystemExit(f"{PAGE} lacks the lines {BEGIN!r} and {END!r}")
    PAGE.write_text(f"{before}{BEGIN}\n\n{machine()}: {summary(rows)}.\n\n{markdown(rows)}\n\n{END}{after}")


def others():
    """The scripts that print tables of their own."""
    return [p for p in sorted(HERE.glob("[a-z]*.py")) if p.stem not in JOBS and p.stem != "report"]


def warn_if_busy():
    """Other programs make the figures worse, PyTorch's most: its threads wait for each other."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0
    if load > 1:
        print(f"warning: the machine is busy (load {load:.1f}): the figures will be off", flush=True)


def measured(only, quick):
    """(the rows of this run, whether everything ran)."""
    rows, fine = [], True
    if not quick:
        warn_if_busy()
    for script, name in jobs(only):
        print(f"{script}:{name}", flush=True)
        found = run(script, name, quick)
        fine = fine and found is not None
        if found:
            rows += found
            if not quick:
                keep(script, name, found)
                print(text(found), flush=True)
    for path in () if only or quick else others():
        print(path.name, flush=True)
        fine = subprocess.run([sys.executable, str(path)], check=False).returncode == 0 and fine
    return rows, fine


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=(), metavar="SCRIPT[:NAME]")
    for flag in ("--quick", "--write", "--table"):
        parser.add_argument(flag, action="store_true")
    options = parser.parse_args()
    rows, fine = ([], True) if options.table else measured(options.only, options.quick)
    rows = rows if options.quick else kept()
    print(f"\n{machine()}\n{text(rows)}\n{'small: the figures mean nothing' if options.quick else summary(rows)}")
    if options.write and not options.quick:
        write(rows)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
