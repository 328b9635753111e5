"""``elastic_launch``: a function or a command in several processes, which know their ranks from the environment."""

from __future__ import annotations

import dataclasses
import pickle
import sys
import tempfile
from collections.abc import Callable
from multiprocessing import spawn
from pathlib import Path
from typing import Any

from torchlike.distributed import run
from torchlike.distributed.elastic.multiprocessing.errors import ChildFailedError
from torchlike.distributed.launcher import _entry

__all__ = ["LaunchConfig", "elastic_launch", "launch_agent"]


@dataclasses.dataclass
class LaunchConfig:
    """How many processes there are, and how they are watched; as the options of ``torchlike run``.

    Attributes:
        min_nodes, max_nodes: how many machines, of which each calls this; with ``rdzv_backend="c10d"`` where not 1.
        nproc_per_node: how many processes. max_restarts: how often all are started anew where one fails.
        monitor_interval: seconds between looks at them. run_id, role: what their environment says.
        rdzv_endpoint: HOST:PORT where they meet; any free port where it is empty or the port is 0.
        rdzv_backend, rdzv_configs: with "c10d" the times of ``--rdzv-conf``.
        local_addr, rdzv_timeout, metrics_cfg, event_log_handler, start_method: accepted; they are started as by
            "spawn".
    """

    min_nodes: int
    max_nodes: int
    nproc_per_node: int
    logs_specs: Any = None
    run_id: str = ""
    role: str = "default_role"
    rdzv_endpoint: str = ""
    rdzv_backend: str = "etcd"
    rdzv_configs: dict[str, Any] = dataclasses.field(default_factory=dict)
    rdzv_timeout: int = -1
    max_restarts: int = 3
    monitor_interval: float = 0.1
    start_method: str = "spawn"
    log_line_prefix_template: str | None = None
    metrics_cfg: dict[str, str] = dataclasses.field(default_factory=dict)
    local_addr: str | None = None
    event_log_handler: str = "null"


class elastic_launch:
    """Called with arguments it runs a function in each process, or a command: ``elastic_launch(config, f)(*args)``.

    Gives {rank: what the function returned}, None for commands. The function must be one that can be pickled, and a
    main module that calls this one under ``if __name__ == "__main__"``.

    Raises:
        ChildFailedError: a process failed, and no restart was left.
        NotImplementedError: several machines with another rendezvous than c10d, or ``logs_specs``.

    >>> from torchlike.distributed.launcher import LaunchConfig, elastic_launch
    >>> elastic_launch(LaunchConfig(1, 1, 2), "true")()
    {0: None, 1: None}
    """

    def __init__(self, config: LaunchConfig, entrypoint: Callable[..., Any] | str | None) -> None:
        self._config, self._entrypoint = config, entrypoint

    def __call__(self, *args: Any) -> dict[int, Any]:
        return launch_agent(self._config, self._entrypoint, list(args))


def launch_agent(config: LaunchConfig, entrypoint: Callable[..., Any] | str | None, args: list[Any]) -> dict[int, Any]:
    """See :class:`elastic_launch`."""
    if config.max_nodes != 1 and (config.rdzv_backend != "c10d" or not config.rdzv_endpoint):
        raise NotImplementedError("elastic_launch(): several machines need rdzv_backend='c10d' and an rdzv_endpoint")
    if config.logs_specs is not None:
        raise NotImplementedError("elastic_launch(): logs_specs is not supported; torchlike run has --log-dir")
    if entrypoint is None:
        raise ValueError("elastic_launch(): there is no entrypoint")
    ranks = range(config.nproc_per_node)
    if isinstance(entrypoint, str):
        _launch(config, ["--no-python", entrypoint, *map(str, args)], entrypoint)
        return dict.fromkeys(ranks)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "call").write_bytes(_main_module() + pickle.dumps((entrypoint, tuple(args))))
        _launch(config, [_entry.__file__, name], getattr(entrypoint, "__qualname__", str(entrypoint)))
        return dict(pickle.loads((folder / str(rank)).read_bytes()) for rank in ranks)


def _main_module() -> bytes:
    """What a process needs to find what this one's main module defines."""
    data = spawn.get_preparation_data("elastic_launch")
    data.pop("authkey", None)  # of multiprocessing's own children
    data["sys_argv"] = [*sys.argv]
    return pickle.dumps(data)


def _launch(config: LaunchConfig, command: list[str], name: str) -> None:
    host, _, port = config.rdzv_endpoint.rpartition(":")
    where = [f"--master-addr={host}", f"--master-port={port}"] if host and port.isdigit() and int(port) else []
    if config.max_nodes > 1:
        times = ",".join(f"{name}={value}" for name, value in config.rdzv_configs.items())
        where = ["--rdzv-backend=c10d", f"--rdzv-endpoint={config.rdzv_endpoint}", f"--rdzv-conf={times}"]
    options = run.parse_args([
        f"--nnodes={config.min_nodes}:{config.max_nodes}",
        f"--nproc-per-node={config.nproc_per_node}", f"--max-restarts={config.max_restarts}", f"--role={config.role}",
        f"--monitor-interval={config.monitor_interval}", *([f"--rdzv-id={config.run_id}"] if config.run_id else []),
        *where, *command,
    ])  # fmt: skip
    failure = run.last_failure(options)
    if failure is not None:
        failure.message = failure.message.partition(" FAILED: ")[2]
        raise ChildFailedError(name, {failure.local_rank: failure})
