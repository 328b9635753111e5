"""``torchlike run --nproc N SCRIPT`` and ``torch.distributed.run``: processes of one script, kept by a launcher.

Beside it lives jax's coordination service, so that the death of any rank is an error of the others that names it.
"""

import argparse
import contextlib
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import jax

from torchlike._base.home import OURS
from torchlike._base.threads import cores
from torchlike.distributed import _meeting, _rendezvous
from torchlike.distributed._keeper import Keeper
from torchlike.distributed._runtime import DistNetworkError
from torchlike.distributed.elastic.multiprocessing.errors import ProcessFailure, _record
from torchlike.interop.refusing import refusing

__all__ = ["get_args_parser", "main", "parse_args", "parse_min_max_nnodes", "run", "run_script_path"]

__getattr__ = refusing(__name__, "not supported; LaunchConfig of torch.distributed.launcher says what a launch is")

_GRACE = 10.0  # seconds between the polite and the other way to end a process


def get_args_parser() -> argparse.ArgumentParser:
    """The parser of the command line, with the options of torchrun that have a meaning here."""
    parser = argparse.ArgumentParser(prog="python -m torchlike run", allow_abbrev=False, description=__doc__)
    both = _both(parser)
    both("--nproc-per-node", "--nproc", default="1", help="processes on this machine: a number, auto, cpu or gpu")
    both("--nnodes", default="1", help="how many machines, or MIN:MAX that come and go, with c10d")
    both("--node-rank", type=int, default=None, help="the number of this machine; with c10d they are dealt out")
    both("--master-addr", default="", help="the host of machine 0; 127.0.0.1 for one machine")
    both("--master-port", type=int, default=0, help="a port there; for one machine any that is free")
    both("--max-restarts", type=int, default=0, help="how often all processes are started anew when one fails")
    both("--monitor-interval", type=float, default=0.1, help="seconds between looks at the processes")
    both("--standalone", action="store_true", help="one machine, any free port")
    both("--rdzv-backend", choices=("static", "c10d"), default="static", help="c10d: machines need no --node-rank")
    both("--rdzv-endpoint", default="", help="HOST[:PORT] of machine 0")
    both("--rdzv-id", default="", help="a name for the run")
    both("--rdzv-conf", default="", help="with c10d NAME=SECONDS,...: see docs/distributed.md")
    both("--log-dir", default="", help="a folder for what processes write, with --redirects")
    both(
        "-r",
        "--redirects",
        default="0",
        help="what goes to files: 1 stdout, 2 stderr, 3 both; or RANK:WHAT,...",
    )
    both("--local-ranks-filter", default="", help="the local ranks whose output is shown, as 0,1; by default all")
    both("--local-addr", default="", help="without effect")
    both("--start-method", choices=("spawn", "fork", "forkserver"), default="spawn", help="without effect")
    both("--event-log-handler", default="null", help="without effect")
    both("--shutdown-timeout", type=float, default=_GRACE, help="seconds that processes have to end")
    both("--virtual-local-rank", action="store_true", help="LOCAL_RANK is 0 in all processes")
    both("--role", default="default", help="a name for the processes")
    parser.add_argument("-m", "--module", action="store_true", help="SCRIPT is the name of a module")
    both("--no-python", action="store_true", help="SCRIPT is a program, which is run as it is")
    parser.add_argument("training_script", metavar="SCRIPT")
    parser.add_argument("training_script_args", metavar="ARGS", nargs=argparse.REMAINDER)
    return parser


def _both(parser: argparse.ArgumentParser) -> Any:
    """``add_argument`` for names with dashes, which may be written with underscores."""

    def add(*names: str, **options: Any) -> None:
        spellings = [name[:2] + name[2:].replace("-", "_") for name in names]
        told = os.environ.get("PET_" + next(n for n in names if n[:2] == "--")[2:].replace("-", "_").upper())
        if told is not None:  # as torchrun, by which the options may be variables
            options["default"] = told == "1" if options.get("action") == "store_true" else told
        parser.add_argument(*dict.fromkeys([*names, *spellings]), **options)

    return add


def parse_args(args: Sequence[str] | None) -> argparse.Namespace:
    """The options of a command line; leaves by SystemExit on any misuse."""
    parser = get_args_parser()
    options = parser.parse_args(args)
    _demand_outputs(options, parser)
    host, _, port = options.rdzv_endpoint.partition(":")
    options.nnodes_range = low, high = _machines(options, host, port, parser)
    options.nnodes = low
    options.nproc_per_node = _count(options.nproc_per_node, parser)
    options.master_addr = options.master_addr or ("" if options.standalone else host)
    options.master_port = 0 if options.standalone else options.master_port or int(port or 0)
    options.told_rank = options.node_rank
    unnumbered = options.rdzv_backend == "c10d" and options.node_rank is None and bool(options.rdzv_endpoint)
    options.meets = high > 1 and (unnumbered or options.max_restarts > 0)
    options.node_rank = options.node_rank or 0
    if not 0 <= options.node_rank < high:
        parser.error(f"--node-rank {options.node_rank}: expected a number below --nnodes {high}")
    if high > 1 and not unnumbered and not (options.master_addr and options.master_port):
        parser.error("several machines need --master-addr and --master-port, or --rdzv-backend c10d --rdzv-endpoint")
    if high > low and not unnumbered:
        parser.error(f"--nnodes {low}:{high}: machines that come and go need --rdzv-backend c10d and --rdzv-endpoint")
    if options.meets and not unnumbered:
        options.told_rank = options.node_rank
    options.first_rank = options.node_rank * options.nproc_per_node
    options.world_size = options.nproc_per_node * low
    return options


def _demand_outputs(options: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Read what goes where: ``redirects`` is then {local rank: 0 to 3}, whose default is under None."""
    try:
        pairs = [part.split(":") for part in options.redirects.split(",")]
        wanted = {None if len(pair) == 1 else int(pair[0]): int(pair[-1]) for pair in pairs}
        shown = {int(rank) for rank in options.local_ranks_filter.split(",") if rank}
    except ValueError:
        parser.error(f"--redirects {options.redirects}, --local-ranks-filter {options.local_ranks_filter}: see --help")
    if not set(wanted.values()) <= {0, 1, 2, 3}:
        parser.error(f"--redirects {options.redirects}: expected 0, 1, 2 or 3, or RANK:NUMBER,...")
    if any(wanted.values()) and not options.log_dir:
        parser.error("--redirects needs --log-dir")
    options.redirects, options.local_ranks_filter = wanted, shown


def _machines(
    options: argparse.Namespace, host: str, port: str, parser: argparse.ArgumentParser
) -> tuple[int, int]:  # fmt: skip
    """The least and the largest number of machines; 1 and 1 where nobody else can meet this one."""
    low, _, high = options.nnodes.partition(":")
    if not low.isdigit() or int(low) < 1 or (high and (not high.isdigit() or int(high) < int(low))):
        parser.error(f"--nnodes {options.nnodes}: expected a number, or MIN:MAX")
    nowhere = not host or (port == "0" and host in ("localhost", "127.0.0.1", "::1"))
    if options.standalone or (low == "1" and nowhere and options.master_addr in ("", "localhost", "127.0.0.1", "::1")):
        return 1, 1
    return int(low), int(high or low)


def _count(text: str, parser: argparse.ArgumentParser) -> int:
    if text.isdigit() and int(text) > 0:
        return int(text)
    if text == "cpu":
        return os.cpu_count() or 1
    if text in ("gpu", "auto"):
        return jax.local_device_count() if text == "gpu" or jax.default_backend() != "cpu" else os.cpu_count() or 1
    parser.error(f"--nproc-per-node {text}: expected a number, auto, cpu or gpu")


def parse_min_max_nnodes(nnodes: str) -> tuple[int, int]:
    """The least and the largest number of machines of ``"MIN:MAX"``, or of one number."""
    parts = nnodes.split(":")
    if len(parts) > 2:
        raise RuntimeError(f'nnodes={nnodes} is not in "MIN:MAX" format')
    return int(parts[0]), int(parts[-1])


def run_script_path(training_script: str, *training_script_args: str) -> None:
    """Run a script in this process, as its main module, with these arguments."""
    sys.argv = [training_script, *training_script_args]
    runpy.run_path(training_script, run_name="__main__")


def main(args: Sequence[str] | None = None) -> None:
    """Run a command line; leaves by SystemExit with status 1 if a process failed."""
    sys.exit(run(parse_args(args)))


def run(options: argparse.Namespace) -> int:
    """Start the processes, start them anew as often as ``--max-restarts`` says, and give the exit status."""
    return 0 if last_failure(options) is None else 1


def last_failure(options: argparse.Namespace) -> ProcessFailure | None:
    """As :func:`run`; who failed, if that was the end."""
    if not options.meets:
        return _last_failure(options, options.rdzv_id or str(uuid.uuid4()))
    try:
        with _meeting.met(options) as meeting:
            return _last_failure_of(meeting)
    except TimeoutError as error:
        return _elsewhere(str(error))
    except DistNetworkError as error:
        return _elsewhere(f"the launcher where all meet is gone: {error}")


def _last_failure(options: argparse.Namespace, name: str) -> ProcessFailure | None:
    for attempt in range(options.max_restarts + 1):
        failed = _attempt(options, name, attempt)
        if failed is None:
            return None
        left = options.max_restarts - attempt
        then = f"; starting anew ({left} of {options.max_restarts} restarts left)" if left else ""
        _announce(f"{failed.message}{then}")
    return failed


def _last_failure_of(meeting: _meeting.Meeting) -> ProcessFailure | None:
    """Take part in each round of several machines."""
    own = None
    for options in meeting.rounds():
        own = _attempt(options, options.rdzv_id, options.attempt, meeting.is_over)
        if why := meeting.tell("" if own is None else own.message):
            _announce(why)
    why = meeting.end()
    return _elsewhere(why, own) if why else None


def _elsewhere(why: str, own: ProcessFailure | None = None) -> ProcessFailure:
    """What ended the run, if no process of this machine did."""
    _announce(why)
    return own or ProcessFailure(-1, 0, 1, "", why)


def _announce(why: str) -> None:
    print(f"torchlike run: {why}", file=sys.stderr, flush=True)


def _attempt(
    options: argparse.Namespace, name: str, attempt: int, is_over: Callable[[], bool] = lambda: False
) -> ProcessFailure | None:  # fmt: skip
    """Run all processes once; who failed. They are ended where it ``is_over``."""
    host, port = options.master_addr or "127.0.0.1", options.master_port or _free_port()
    size = options.world_size
    address = f"{host}:{port}"
    keeper = Keeper(address, size) if size > 1 and options.node_rank == 0 else None
    shared = {
        "MASTER_ADDR": host, "MASTER_PORT": str(port), "WORLD_SIZE": str(size), "ROLE_WORLD_SIZE": str(size),
        "LOCAL_WORLD_SIZE": str(options.nproc_per_node), "GROUP_WORLD_SIZE": str(options.nnodes),
        "GROUP_RANK": str(options.node_rank), "ROLE_NAME": options.role, "TORCHELASTIC_RUN_ID": name,
        "TORCHELASTIC_RESTART_COUNT": str(attempt), "TORCHELASTIC_MAX_RESTARTS": str(options.max_restarts),
        _rendezvous.SERVICE: address,
    }  # fmt: skip
    if options.nproc_per_node > 1:
        shared["OMP_NUM_THREADS"] = os.environ.get("OMP_NUM_THREADS", "1")
        # how many threads XLA computes with: else each process would take all cores
        threads = max(1, cores() // options.nproc_per_node)
        shared["NPROC"] = os.environ.get("NPROC", str(threads))
    processes: list[subprocess.Popen] = []
    try:
        with tempfile.TemporaryDirectory() as errors, _ending(processes, options.shutdown_timeout):
            for i in range(options.nproc_per_node):
                rank = str(options.first_rank + i)
                local = "0" if options.virtual_local_rank else str(i)
                own = {"RANK": rank, "LOCAL_RANK": local, "ROLE_RANK": rank, _record.FILE: f"{errors}/{i}"}
                with _outputs(options, name, attempt, i) as files:
                    processes.append(subprocess.Popen(_command(options), env={**os.environ, **shared, **own}, **files))
            return _watched(processes, options, Path(errors), is_over)
    finally:
        if keeper is not None and options.nnodes == 1:  # processes of other machines may need it
            keeper.end()


@contextlib.contextmanager
def _outputs(options: argparse.Namespace, name: str, attempt: int, local: int) -> Iterator[dict[str, Any]]:
    """Where a process writes to, as options of ``Popen``: files LOG_DIR/RUN/ATTEMPT/RANK/stdout.log, or nowhere."""
    bits = options.redirects.get(local, options.redirects.get(None, 0))
    hidden = bool(options.local_ranks_filter) and local not in options.local_ranks_filter
    with contextlib.ExitStack() as stack:
        found: dict[str, Any] = {}
        for bit, stream in ((1, "stdout"), (2, "stderr")):
            if bits & bit:
                folder = Path(options.log_dir, name, f"attempt_{attempt}", str(local))
                folder.mkdir(parents=True, exist_ok=True)
                found[stream] = stack.enter_context((folder / f"{stream}.log").open("wb"))
            elif hidden:
                found[stream] = subprocess.DEVNULL
        yield found


def _command(options: argparse.Namespace) -> list[str]:
    if options.no_python:
        return [options.training_script, *options.training_script_args]
    module = ["-m"] if options.module else []
    ours = [sys.executable, "-u", "-m", OURS, "run"]
    return [*ours, *module, options.training_script, *options.training_script_args]


def _watched(
    processes: list[subprocess.Popen], options: argparse.Namespace, errors: Path, is_over: Callable[[], bool]
) -> ProcessFailure | None:  # fmt: skip
    """Wait until all have ended well, or one has not. ``errors``: a folder with what processes say of theirs."""
    while True:
        codes = [process.poll() for process in processes]
        for i, code in enumerate(codes):
            if code:
                rank = options.first_rank + i
                how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
                said = _record.message_of(errors / str(i))
                why = f": {said}" if said else ""
                text = f"{options.training_script} FAILED: rank {rank} (process {processes[i].pid}) ended {how}{why}"
                return ProcessFailure(i, processes[i].pid, code, str(errors / str(i)), text)
        if None not in codes or is_over():
            return None
        time.sleep(options.monitor_interval)


@contextlib.contextmanager
def _ending(processes: list[subprocess.Popen], seconds: float) -> Iterator[None]:
    """Whatever happens, also a signal to the launcher, no process is left."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    kept = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for process in processes:
            if process.poll() is None:
                process.terminate()
        end = time.monotonic() + seconds
        for process in processes:
            try:
                process.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for number, handler in kept.items():
            signal.signal(number, handler)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


if __name__ == "__main__":
    main()
