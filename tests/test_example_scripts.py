"""The scripts in examples/ print the same losses on both libraries from the same seed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import pytorchs

EXAMPLES = Path(__file__).parents[1] / "examples"
# script: (arguments, how many losses are compared, to what relative error: bfloat16 rounds elsewhere in the two)
SCRIPTS = {
    "verse.py": (["--steps", "5"], 5, 1e-4),
    "vae.py": (["--epochs", "1", "--out", "OUT"], 14, 1e-4),
    "waves.py": (["--steps", "5", "--out", "OUT"], 5, 1e-4),
    "wgan.py": (["--steps", "3", "--dtype", "float32", "--out", "OUT"], 6, 1e-3),
}
RUN = """
import json, runpy, sys
if sys.argv[1] == "torchlike":
    import lowering_kit, torchlike; torchlike.install_as_torch()
import matplotlib; matplotlib.use("Agg")
found = {}
for path, arguments in json.loads(sys.argv[2]).items():
    found[path] = runpy.run_path(path)["main"](arguments)
print(); print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def losses(tmp_path_factory):
    """{library: {script: losses}}; each library runs all scripts in one process."""
    out = str(tmp_path_factory.mktemp("out"))
    calls = {str(EXAMPLES / s): [out if a == "OUT" else a for a in args] for s, (args, _, _) in SCRIPTS.items()}
    path = os.pathsep.join([os.environ["PYTHONPATH"], str(Path(__file__).parent), *sys.path])
    env = os.environ | {"PYTHONPATH": path}

    def run(library):
        command = [sys.executable, "-c", RUN, library, json.dumps(calls)]
        done = subprocess.run(command, stdout=subprocess.PIPE, env=env, check=True)
        return {Path(path).name: told for path, told in json.loads(done.stdout.splitlines()[-1]).items()}

    files = [EXAMPLES / name for name in SCRIPTS]
    expected = pytorchs.given("examples", [*files, json.dumps(list(SCRIPTS.items()))], lambda: run("torch"))
    return {"torchlike": run("torchlike"), "torch": expected}


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_losses_are_pytorchs(losses, script):
    _, n, tolerance = SCRIPTS[script]
    ours, theirs = (losses[library][script] for library in ("torchlike", "torch"))
    assert len(ours) == len(theirs) == n
    np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=1e-5)
