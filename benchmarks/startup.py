"""Import time over ``import jax``, and the time to the first training step with a cold and a warm cache."""

import os
import subprocess
import sys
import tempfile
import time

from _timing import table

FIRST_STEP = """
import time; start = time.perf_counter()
import torchlike as torch
from torchlike import nn
model = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 10))
optimizer = torch.optim.Adam(model.parameters())
x, y = torch.randn(128, 784), torch.randint(0, 10, (128,))
loss = nn.functional.cross_entropy(model(x), y); loss.backward(); optimizer.step()
print(loss.item() and time.perf_counter() - start)
"""


def seconds(code, env):
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], env=env, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main():
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    imports = {name: [] for name in ("jax", "torchlike")}
    for _ in range(7):
        for name, found in imports.items():
            found.append(seconds(f"import {name}", env))
    base, ours = min(imports["jax"]), min(imports["torchlike"])
    empty = min(seconds("pass", env) for _ in range(3))
    table("import, best of 7 processes (target: 1.30 of import jax)", ["", "seconds", "over jax"],
          [["import jax", base, 1.0], ["import torchlike", ours, ours / base],
           ["the same less the interpreter's start", ours - empty, (ours - empty) / (base - empty)]])  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        env["TORCHLIKE_CACHE"] = folder
        cold = seconds(FIRST_STEP, env)
        warm = min(seconds(FIRST_STEP, env) for _ in range(3))
    table(
        "process start to the first training step of an MLP",
        ["", "seconds"],
        [["cold cache", cold], ["warm cache", warm]],
    )


if __name__ == "__main__":
    main()
