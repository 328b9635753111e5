"""Functions and commands started from Python: a script for PyTorch and torchlike.

    python launch_script.py LIBRARY

Prints what it found as JSON.
"""

import importlib
import json
import os
import sys

NAMES = (
    "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "ROLE_RANK", "ROLE_NAME", "GROUP_WORLD_SIZE",
    "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS",
)  # fmt: skip


def summed(a, b):
    return a + b + 10 * int(os.environ["RANK"]), {name: os.environ[name] for name in NAMES}


def failing(text):
    raise ValueError(text)


def main(library):
    api = importlib.import_module(f"{library}.distributed.launcher.api")
    config = {"min_nodes": 1, "max_nodes": 1, "rdzv_backend": "c10d", "rdzv_endpoint": "localhost:0", "run_id": "x"}
    two = api.LaunchConfig(**config, nproc_per_node=2, monitor_interval=0.05)
    one = api.LaunchConfig(**config, nproc_per_node=1, monitor_interval=0.05, max_restarts=0)
    found = [sorted(api.elastic_launch(two, summed)(1, 2).items())]
    try:
        api.elastic_launch(one, failing)("told")
    except Exception as error:
        rank, failure = error.get_first_failure()
        said = [type(error).__name__, error.name, rank, [*error.failures], "ValueError: told" in str(error)]
        found.append([*said, failure.local_rank, failure.exitcode, failure.signal_name()])
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
