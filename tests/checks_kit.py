"""Checks in a process of their own, where jax is told to make eight devices of the CPU: a script of many checks."""

import os
import subprocess
import sys
import traceback
from pathlib import Path

DEVICES = 8
# What is compiled for several devices runs a few times here: half of the time of a test's processes was LLVM's.
CHEAPLY = (
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true "
    "--xla_cpu_parallel_codegen_split_count=1"
)


class Checks(dict):
    """{name: check}; calling it adds one. As a script ``run`` prints a line for each, and what went wrong."""

    def __call__(self, f):
        self[f.__name__] = f
        return f

    def run(self) -> None:
        for name in sys.argv[1:] or self:
            try:
                self[name]()
            except BaseException:
                print(f"FAILED {name}\n{traceback.format_exc()}", flush=True)
            else:
                print(f"passed {name}", flush=True)


def told(script: Path) -> dict[str, str]:
    """What a script says of each check: nothing, or what went wrong."""
    flags = f"{CHEAPLY} --xla_force_host_platform_device_count={DEVICES} {os.environ.get('XLA_FLAGS', '')}"
    paths = os.pathsep.join([os.environ["PYTHONPATH"], str(script.parent), str(script.parent.parent), *sys.path])
    env = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu", "PYTHONPATH": paths}
    run = subprocess.run([sys.executable, str(script)], env=env, capture_output=True, text=True)
    found = {}
    for part in run.stdout.replace("\npassed ", "\0passed ").replace("\nFAILED ", "\0FAILED ").split("\0"):
        result, _, rest = part.strip().partition(" ")
        found[rest.split("\n")[0]] = "" if result == "passed" else part
    return found | {"exit": run.stderr} if run.returncode else found
