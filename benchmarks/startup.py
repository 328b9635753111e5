"""Starting: the import over ``import jax``, and the time to the first training step over hand-written JAX.

    python benchmarks/startup.py [--only NAME ...] [--quick]

Fresh processes, from their start until the first loss is on the host: imports, parameters, tracing, compiling. Both
sides keep every compiled program in jax's persistent cache: empty when cold, full when warm. The hand-written step
draws its parameters with ``jax.random``, as torchlike does; the notes tell the ratios to one that leaves it to numpy.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import time

from _jobs import JOBS
from _programs import PROGRAMS
from _rows import Row, command

IMPORT, COLD, WARM = 1.3, 1.5, 1.2  # the targets
CHILD = str(pathlib.Path(__file__).with_name("_first_step.py"))
KEEP_ALL = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0", "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1"}
HAND = "hand-written JAX"


def environment(**more):
    kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONDONTWRITEBYTECODE", "TORCHLIKE_CACHE")}
    return kept | KEEP_ALL | more


def seconds(command_line, env):
    """From the start of a process until the time that it prints, or until its end."""
    start = time.time()
    done = subprocess.run([sys.executable, *command_line], env=env, check=True, stdout=subprocess.PIPE, text=True)
    return (float(done.stdout) if done.stdout else time.time()) - start


def imports(quick):
    found = {name: [] for name in ("jax", "torchlike", None)}
    for _ in range(2 if quick else 7):
        for name, times in found.items():
            times.append(seconds(["-c", f"import {name}" if name else "pass"], environment()))
    jax, ours, nothing = (min(times) for times in found.values())
    title = "less the interpreter's start"
    return [
        Row("import torchlike", "", "import jax", jax, "s", ours / jax, IMPORT),
        Row("import torchlike", title, "import jax", jax - nothing, "s", (ours - nothing) / (jax - nothing)),
    ]


def first_steps(name, budget):
    """{form: (cold, warm) seconds}, the best of one to three rounds, as ``budget`` seconds allow."""
    found = {form: ([], []) for form in ("jax", "compiled", "eager", "jax-numpy")}
    start = time.time()
    for i in range(3):
        if i and time.time() - start > budget * i / (i + 1):
            break
        for form, (cold, warm) in found.items():
            with tempfile.TemporaryDirectory() as folder:
                env = environment(JAX_COMPILATION_CACHE_DIR=folder)
                cold.append(seconds([CHILD, form, name], env))
                warm += [seconds([CHILD, form, name], env) for _ in range(2)]
    return {form: (min(cold), min(warm)) for form, (cold, warm) in found.items()}


def measure(name, quick=False):
    """The rows of the import, or of one program's first step."""
    if name == "import":
        return imports(quick)
    found = first_steps(name, 0 if quick else 50)
    rows = []
    for form in ("compiled", "eager"):
        for i, (cache, target) in enumerate((("cold", COLD), ("warm", WARM))):
            base, ours = found["jax"][i], found[form][i]
            note = f"over one with numpy's random parameters: {ours / found['jax-numpy'][i]:.2f}"
            title = PROGRAMS[name].title
            rows.append(Row(f"first step, {cache}, {form}", title, HAND, base, "s", ours / base, target, note))
    return rows


if __name__ == "__main__":
    command(__doc__, JOBS["startup"], measure)
