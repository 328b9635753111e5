"""What torchlike tells of its own work: loggers below "torchlike", which TORCHLIKE_LOG or ``set_logs`` switch on.

TORCHLIKE_LOG is read once, at import: a list such as "graph_breaks,recompiles", or "all".
"""

import logging
import os
import sys
from collections.abc import Iterable
from typing import Any

CATEGORIES = {
    "compile": "each program that is made, and functions that run in eager code",
    "graph_breaks": "why a function cannot be one program, with the user's lines that lead there",
    "recompiles": "which guard failed or which argument differs, when a function is traced again",
    "guards": "what a new program takes for granted",
}
COMPILE, GRAPH_BREAKS, RECOMPILES, GUARDS = (logging.getLogger(f"torchlike.{name}") for name in CATEGORIES)

# PyTorch's names of components, which have a level, and of artifacts, which are on or off.
_COMPONENTS = frozenset(
    "all dynamo aot autograd dynamic inductor distributed c10d ddp fsdp dtensor onnx export".split()
)
_ARTIFACTS = frozenset(
    "bytecode aot_graphs aot_joint_graph ddp_graphs graph graph_code graph_code_verbose graph_breaks side_effects "
    "graph_sizes guards recompiles recompiles_verbose trace_source trace_call trace_bytecode output_code kernel_code "
    "schedule perf_hints pre_grad_graphs post_grad_graphs ir_pre_fusion ir_post_fusion onnx_diagnostics fusion overlap "
    "cudagraphs sym_node compiled_autograd compiled_autograd_verbose cudagraph_static_inputs benchmarking autotuning "
    "incremental graph_region_expansion inductor_metrics hierarchical_compile compute_dependencies caching".split()
)
_OURS = {"graph_breaks": GRAPH_BREAKS, "guards": GUARDS, "recompiles": RECOMPILES, "recompiles_verbose": RECOMPILES}


class _Stderr(logging.Handler):
    """Writes each line with its category to whatever ``sys.stderr`` is at that time."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            lines = self.format(record).splitlines()
            print(*(f"[{record.name}] {line}" for line in lines), sep="\n", file=sys.stderr)
        except Exception:
            self.handleError(record)


_root, _handler = logging.getLogger("torchlike"), _Stderr()


def _loggers() -> list[logging.Logger]:
    return [logging.getLogger(f"torchlike.{name}") for name in CATEGORIES]


def _write(wanted: dict[logging.Logger, int]) -> None:
    """Give these loggers a level, all others none, and write to stderr if there is anything to write."""
    for logger in _loggers():
        logger.setLevel(wanted.get(logger, logging.NOTSET))
    _root.removeHandler(_handler)
    if wanted:
        _root.addHandler(_handler)


def enable(names: Iterable[str]) -> None:
    """Write these categories of log lines to stderr, and no others.

    Raises:
        ValueError: a name that is no category.
    """
    chosen = [name.strip() for name in names if name.strip()]
    unknown = [name for name in chosen if name not in CATEGORIES and name != "all"]
    if unknown:
        raise ValueError(
            f"TORCHLIKE_LOG: there is no log called {', '.join(map(repr, unknown))}; expected a list of: all, "
            f"{', '.join(CATEGORIES)}"
        )
    loggers = _loggers() if "all" in chosen else [logging.getLogger(f"torchlike.{name}") for name in chosen]
    _write(dict.fromkeys(loggers, logging.DEBUG))


def set_logs(*, modules: dict[str, int | bool] | None = None, **chosen: Any) -> None:
    """Choose what is logged to stderr, under PyTorch's names; whatever is not named is switched off.

    ``graph_breaks``, ``guards`` and ``recompiles`` are artifacts: on or off. ``dynamo`` and ``all`` are levels
    of ``logging`` for what compilation reports. PyTorch's other names are accepted and change nothing.

    Args:
        modules: {name of a logger: level}.

    Raises:
        TypeError: a name that PyTorch does not have. ValueError: an artifact that is no bool, a level that is none.

    >>> import torchlike as torch
    >>> torch._logging.set_logs(graph_breaks=True, recompiles=True)
    >>> torch._logging.set_logs()
    """
    wanted: dict[logging.Logger, int] = {}
    for name, value in chosen.items():
        if name in _ARTIFACTS:
            if not isinstance(value, bool):
                raise ValueError(f"Expected bool to enable artifact {name}, received {value}")
            if value and name in _OURS:
                wanted[_OURS[name]] = logging.DEBUG
        elif name not in _COMPONENTS:
            raise TypeError(f"set_logs() got an unexpected keyword argument '{name}'")
        elif value is not None:
            wanted |= dict.fromkeys(_component(name), _level(name, value))
    for name, value in (modules or {}).items():
        logging.getLogger(name).setLevel(logging.DEBUG if value is True else value)
    _write(wanted)


def _component(name: str) -> list[logging.Logger]:
    return _loggers() if name == "all" else [COMPILE] if name == "dynamo" else []


def _level(name: str, value: Any) -> int:
    if value not in logging._levelToName:
        levels = ",".join(map(str, logging._levelToName))
        raise ValueError(f"Unrecognized log level for log {name}: {value}, valid level values are: {levels}")
    return value


enable(os.environ.get("TORCHLIKE_LOG", "").split(","))
