"""The first run of many small programs: with nothing compiled before, and with everything.

    python benchmarks/cold.py [--only NAME ...] [--quick]

Five vision models, an LSTM, a transformer and 40 operators at three shapes, forward, backward and update, in a fresh
process: processor time from its start to its end, in units of what jax takes, in the same round, to compile 40 single
additions. ``kernels`` is the memory that kernels of an operator for many
shapes take.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from _jobs import JOBS
from _rows import Row, command

COLD, WARM, BEFORE = 11.0, 3.0, 0.5  # the targets
SHAPES = 250  # of which each makes some six kernels
MEBIBYTES = 2700.0  # what these kernels took when jax.jit made each of them, before there was a store
CHILD = str(pathlib.Path(__file__).with_name("_first_run.py"))
UNIT = "jax: 40 additions"


def run(kind, folder, *names):
    """What the process of ``kind`` tells, with the kernels kept in ``folder``."""
    env = os.environ | {"TORCHLIKE_CACHE": folder, "TORCHLIKE_EXECUTION": "immediate"}
    done = subprocess.run([sys.executable, CHILD, kind, *names], env=env, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def rounds(quick):
    """[(unit, PyTorch, cold, warm)] in seconds."""
    names = ["recurrent"] if quick else []
    found = []
    for _ in range(1 if quick else 3):
        with tempfile.TemporaryDirectory() as folder:
            parts = ("jax", []), ("torch", names), ("torchlike", names), ("torchlike", names), ("jax", [])
            first, *times, last = (run(kind, folder, *chosen)["seconds"] for kind, chosen in parts)
            found.append(((first + last) / 2, *times))
    return found


def programs(quick):
    found = rounds(quick)
    unit = statistics.median([r[0] for r in found])
    torch, cold, warm = (statistics.median([r[i] / r[0] for r in found]) for i in (1, 2, 3))
    title = "an LSTM" if quick else "7 models, 40 operators"
    note = f"torch {torch:.2f}"
    return [
        Row("first run, cold", title, UNIT, unit, "s", cold, COLD, note),
        Row("first run, warm", title, UNIT, unit, "s", warm, WARM, note),
    ]


def memory(quick):
    with tempfile.TemporaryDirectory() as folder:
        found = run("torchlike", folder, "many")["added"]
    title, ratio = f"kernels for {SHAPES} shapes", found / MEBIBYTES
    return [Row("memory", title, "each by jax.jit", MEBIBYTES, "MiB", ratio, BEFORE)]


def measure(name, quick=False):
    """The rows of the programs, or of the memory of many kernels."""
    return programs(quick) if name == "programs" else memory(quick)


if __name__ == "__main__":
    command(__doc__, JOBS["cold"], measure)
