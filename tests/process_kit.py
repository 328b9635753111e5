"""Two processes of a script, of PyTorch or torchlike."""

import contextlib
import json
import os
import random
import socket
import subprocess
import sys
from pathlib import Path

from checks_kit import CHEAPLY

HERE = Path(__file__).parent / "distributed"
SIZE = 2


def free_port():
    """A port that nobody listens at, below those that systems give out: it is used some time later."""
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("", port))
            return port


def started(script, *arguments, **environment):
    """The processes, one for each rank, which write to pipes."""
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(SIZE), **environment}
    shared["XLA_FLAGS"] = f"{CHEAPLY} {environment.get('XLA_FLAGS', os.environ.get('XLA_FLAGS', ''))}"
    shared["OMP_NUM_THREADS"] = "1"  # PyTorch's threads wait by spinning
    command = [sys.executable, str(HERE / script), *map(str, arguments)]
    return [
        subprocess.Popen(
            [part.replace("RANK", str(rank)) for part in command], text=True, cwd=HERE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **shared, "RANK": str(rank)},
        )
        for rank in range(SIZE)
    ]  # fmt: skip


def finished(processes, seconds=240):
    """(exit status, stdout, stderr) of each."""
    try:
        return [(p.returncode, *texts) for p in processes for texts in [p.communicate(timeout=seconds)]]
    finally:
        for p in processes:
            ended(p)


def ended(process):
    """Kill a process, and close what it wrote to."""
    process.kill()
    process.wait()
    process.stdout.close()
    process.stderr.close()


def _run(scripts, t, folder):
    ports = [word for script in scripts for word in (script, free_port())]
    return finished(started("all_scripts.py", t, folder / f"{t}.RANK", *ports))


def results(scripts, t, folder):
    """What the cases of scripts gave with a library: {script: [{case: result} of each rank]}."""
    done = _run(scripts, t, folder)
    if t == "torch" and any([status for status, *_ in done]):
        done = _run(scripts, t, folder)  # now and then gloo ends a barrier with another collective's error
    for status, out, err in done:
        assert status == 0, f"{out[-2000:]}{err[-4000:]}"
    texts = {script: [folder / f"{t}.{i}.{script}" for i in range(SIZE)] for script in scripts}
    return {script: [json.loads(text.read_text()) for text in texts[script]] for script in scripts}
