"""The tests of this folder, with jax's second CPU in the place of a GPU."""

import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
# The others ask for what a GPU alone has, or compute on one device only, as they do on the CPU.
CHOSEN = "places or where_it_is or two_places or copies or files or forked or batches or data_parallel or cannot_read"


def test_on_a_second_cpu():
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), os.environ["PYTHONPATH"], *filter(None, sys.path)])}
    line = [sys.executable, "-m", "pytest", "-q", "-p", "second_cpu", "-p", "no:cacheprovider", "-k", CHOSEN]
    files = [str(HERE / name) for name in ("test_accelerator_places.py", "test_accelerator_programs.py")]
    done = subprocess.run([*line, *files], env=env, capture_output=True, text=True, cwd=HERE.parent.parent)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert int(re.search(r"(\d+) passed", done.stdout)[1]) > 90 and "skipped" not in done.stdout, done.stdout[-3000:]
