"""What goes wrong between processes is an error that names the rank, in time; and the launcher starts them anew."""

import importlib
import json
import os
import re
import socket
import subprocess
import sys
import threading

import pytest
import pytorchs
from both import agree
from process_kit import HERE, ended, finished, free_port, started
from story_kit import said

from torchlike.distributed import _keeper, _pulse, _rendezvous, _runtime, run
from torchlike.distributed.run import parse_args

FAULTS = {
    "killed": (
        {},
        {
            "killed: rank 0": r"gradients of bucket 0 \(number \d+ of the group of ranks 0, 1\): after .* of 20 sec.* "
            r"rank 1 died or did not take part \(.*Connection",
            "again: rank 0": "all_reduce .*: an earlier collective failed: gradients of bucket 0",
        },
    ),
    "first_killed": ({}, {"killed: rank 1": r"gradients of bucket 0 .*: after .* of 20 seconds rank 0 died or did"}),
    "dropped": ({}, {"dropped: rank 0": "DistBackendError: all_reduce .* of 6 seconds rank 1 died or did not"}),
    "gone": (
        {},
        {
            "received: rank 0": "recv: rank 1 sent nothing: after .* of 20 seconds rank 1 has ended",
            "of any: rank 0": "DistBackendError: recv: rank 1 sent nothing before they ended",
            "begun: rank 0": "recv: rank 1 sent nothing: after .* of 20 seconds rank 1 has ended",
            "object: rank 0": "all_gather_object .*: rank 1 gave nothing: after .* of 20 seconds rank 1 has ended",
            "checkpoint: rank 0": "DistBackendError: .* of 20 seconds rank 1 has ended",
            "pipeline: rank 0": "stage 1 on rank 1 did not hand on the gradients of part 0: after .* rank 1 has ended",
            "barrier: rank 0": r"DistBackendError: barrier \(number \d\): after .* of 20 seconds rank 1 has ended",
        },
    ),
    "of_a_mesh": (
        {},
        {
            "whole of a mesh: rank 0": "DistBackendError: tensors over several processes: rank 1 died or did not take",
            "of a mesh: rank 0": "DistBackendError: tensors over several processes: rank 1 died or did not take part",
        },
    ),
    "late": ({}, {"late: rank 0": "compiled function .*: after [12].. of 2 seconds rank 1 died or did not take part"}),
    "first_time": (
        {},
        {
            "kinds: rank 0": "mismatch .* Rank 0 .* all_reduce .*, but rank 1 .* broadcast",
            "programs: rank 1": r"mismatch .* Rank 1 .*compiled .*float32\[6\].*, but rank 0 .*float32\[4\]",
            "sizes: rank 0": r"mismatch .* of \[\[1\], \[2\]\] float32\[2\], but rank 1 .* all_gather gather",
            "parts: rank 0": "all_to_all: rank 0 expects 2 of rank 1, which sends 1",
            "parts: rank 1": "all_to_all: rank 0 expects 2 of rank 1, which sends 1",
            "fine: rank 1": "no error",
            "asymmetric: rank 0": r"mismatch .* Rank 0 .*float32\[2\], but rank 1 .* all_reduce .*float32\[7\]",
            "asymmetric: rank 1": r"mismatch .* Rank 1 .*float32\[7\], but rank 0 .* (another one|all_reduce .*\[2\])",
        },
    ),
    "swapped": (
        {},
        {
            "swapped: rank 0": r"mismatch .* Rank 0 .*float32\[3\], but rank 1 .* all_reduce .*float32\[5000\]",
            "swapped: rank 1": r"mismatch .* Rank 1 .*float32\[5000\], but rank 0 .* all_reduce .*float32\[3\]",
            "again: rank 1": "DistBackendError: all_reduce .*: an earlier collective failed: Detected mismatch",
        },
    ),
    "mismatches": (
        {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"},
        {
            "shapes: rank 0": r"mismatch .* Rank 0 .*all_reduce .*float32\[2\], but rank 1 .*float32\[3\]",
            "dtypes: rank 1": r"mismatch .* Rank 1 .*all_reduce .*int32\[2\], but rank 0 .*float32\[2\]",
            "order: rank 0": "mismatch .* Rank 0 .* broadcast .*, but rank 1 .* all_reduce",
            "programs: rank 1": r"mismatch .* Rank 1 .*compiled .*float32\[6\].*, but rank 0 .*float32\[4\]",
            "root: rank 0": "mismatch .* Rank 0 .* broadcast.0.*, but rank 1 .* broadcast.1",
            "fine: rank 1": "no error",
            "models: rank 1": r"same model across all ranks, but parameter 'weight' of Rank 0 is .*\[2, 2\], while .* "
            r"of rank 1 is .*\[2, 3\]",
            "more parameters: rank 0": "same model across all ranks, but Rank 0 has 2 params, while rank 1 .* 4 params",
            "nothing sent: rank 0": "recv: rank 1 sent nothing within 2 seconds; rank 1 waits for rank 0",
            "another message: rank 1": r"recv: rank 0 sent a message of float32\[3\] for a tensor of float32\[2\]",
            "barrier: rank 0": "barrier .*: rank 1 did not arrive within 1 seconds",
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_faults(name):
    environment, expected = FAULTS[name]
    found = "".join(out for _, out, _ in finished(started("faults_script.py", name, **environment)))
    for begin, rest in expected.items():
        lines = [line for line in found.splitlines() if line.startswith(f"{begin},")]
        assert len(lines) == 1 and re.search(rest, lines[0]), (begin, lines or found)
        assert "no error" in lines[0] or float(re.search(r", ([\d.]+) s,", lines[0])[1]) < 15


def test_nobody_else_comes():
    first, second = started("faults_script.py", "alone")
    ended(second)
    ((status, out, _),) = finished([first])
    assert status == 1
    assert re.search("DistNetworkError: init_process_group: rank 0 of 2 met not all of rank 1 at 127.0.0.1:", out), out


@pytest.fixture
def listening():
    """A socket that shares its port, as gRPC's do."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        held.bind(("127.0.0.1", 0))
        held.listen()
        yield held


def test_a_port_of_another_program(listening, monkeypatch):
    monkeypatch.setattr(_keeper, "_LEAVING", 0.1)
    with pytest.raises(OSError, match=r"127.0.0.1:\d+ is in use by another program \(EADDRINUSE\)"):
        _keeper.Keeper(f"127.0.0.1:{listening.getsockname()[1]}", 2)


def test_the_keeper_of_the_run_before_goes(listening):
    threading.Timer(0.2, listening.close).start()
    _keeper.Keeper(f"127.0.0.1:{listening.getsockname()[1]}", 2).end()


def test_a_keeper_goes_with_the_last_that_was_connected(monkeypatch):
    seen = iter([2, 1, 0])
    monkeypatch.setattr(_keeper, "_connections", lambda port: next(seen))
    _keeper._keep(1, 2, -1)
    assert next(seen, "all were asked") == "all were asked"


def test_nobody_comes_to_a_mesh():
    first, second = started("faults_script.py", "late_on_a_mesh")
    try:
        _, err = first.communicate(timeout=60)
    finally:
        ended(second)
    assert first.returncode == 1
    assert "after 3 seconds rank 1 died or did not take part in what tensors over several processes need" in err, err


SCRIPT = """
import os, sys
import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record
x = torch.ones(3) * 2  # before the group
dist.init_process_group(os.environ.get("BACKEND"))
x = x * (dist.get_rank() + 1)
dist.all_reduce(x)
attempt = os.environ["TORCHELASTIC_RESTART_COUNT"]
rank, where = os.environ["RANK"], torch.__file__.split("/")[-2]
line = f"attempt {attempt} rank {rank} {os.environ['LOCAL_RANK']} {x.tolist()} {where} {sys.argv[1:]}"
sys.stdout.write(line + chr(10))  # at once: another process writes there too
@record
def main():
    if os.environ["RANK"] == "1" and attempt == "0":
        raise ValueError("the first attempt")
    dist.barrier()
main()
dist.destroy_process_group()
"""


def test_the_launcher(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    logs = ["--log-dir", "logs", "-r", "1:2", "--rdzv-id", "id"]
    options = ["--standalone", "--nproc_per_node=2", "--max-restarts", "1", *logs]
    command = ["-m", "torchlike", "run", *options, "script.py", "-x"]
    done = subprocess.run(
        [sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, timeout=240, env=dict(os.environ)
    )
    assert done.returncode == 0, done.stderr[-3000:]
    for rank in range(2):
        assert f"attempt 1 rank {rank} {rank} [6.0, 6.0, 6.0] torchlike ['-x']" in done.stdout
    why = "with exit code 1: ValueError: the first attempt"
    assert re.search(rf"FAILED: rank 1 .* {why}; starting anew \(1 of 1 restarts left\)", done.stderr)
    assert "ValueError: the first attempt" in (tmp_path / "logs/id/attempt_0/1/stderr.log").read_text()
    assert not (tmp_path / "logs/id/attempt_0/0").exists()


def test_the_launcher_under_its_name_in_pytorch(tmp_path):
    said = "os.environ['RANK'] + torch.__file__.split('/')[-2] + ' '"
    (tmp_path / "script.py").write_text(f"import os, sys, torch; sys.stdout.write({said})")
    command = [sys.executable, "-m", "torchlike", "run", "-m", "torch.distributed.run", "--nproc_per_node", "2"]
    done = subprocess.run([*command, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-3000:]
    assert sorted(done.stdout.split()) == ["0torchlike", "1torchlike"]


SPAWN = """
import sys
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
where = "cuda" if torch.cuda.is_available() and torch.cuda.device_count() else torch.accelerator.current_accelerator()
def work(rank, size, port):
    dist.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=size)
    x = torch.ones(2) * (rank + 1)
    dist.all_reduce(x)
    sys.stdout.write(f"rank {rank} {x.tolist()} {torch.__file__.split('/')[-2]}" + chr(10))
    dist.destroy_process_group()
if __name__ == "__main__":
    mp.spawn(work, args=(2, int(sys.argv[1])), nprocs=2)
"""


def test_spawned_processes(tmp_path):
    """In which `torch` is what it is here."""
    (tmp_path / "script.py").write_text(SPAWN)
    command = [sys.executable, "-m", "torchlike", "run", "script.py", str(free_port())]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=240, env=dict(os.environ))
    assert done.returncode == 0, done.stderr[-3000:]
    assert {f"rank {rank} [3.0, 3.0] torchlike" for rank in range(2)} <= set(done.stdout.splitlines())


def test_which_processes_are_seen_to_have_ended():
    here, other = _pulse.Pulse("127.0.0.1:1"), _pulse.Pulse("127.0.0.1:1")
    assert not here.has_ended(other.place) and not here.has_ended(b"")
    host, port, machine = json.loads(other.place)
    elsewhere = json.dumps([host, port, machine + "x"]).encode()
    other.close()
    assert here.has_ended(other.place) and not here.has_ended(elsewhere)
    far = json.dumps(["0.0.0.0", port, "another machine"]).encode()  # refused, by whomever
    assert not here.has_ended(far)
    here._reached.add("0.0.0.0")
    assert here.has_ended(far)
    here.close()
    assert _pulse.Pulse("nowhere.invalid:1").place == b""


class Late:
    """A connection to a service at whose barrier few of the ranks are, of which it names two."""

    def wait_at_barrier(self, *args):
        count = f"# of tasks that reached the barrier: 2/{len(args[2])}."
        late = "The first task at the barrier: 0. Some timed out task names:\n3\n1\n\n\nRPC: Barrier"
        raise RuntimeError(f"DEADLINE_EXCEEDED: Barrier timed out.\n{count}\n{late}")


@pytest.mark.parametrize(("size", "late"), [(5, "ranks 1, 3, 4"), (4, "ranks 1, 3")])
def test_all_that_are_late_are_named(size, late, monkeypatch):
    said, there = {}, {"b/late/2"}
    monkeypatch.setattr(_runtime, "client", Late)
    monkeypatch.setattr(_runtime, "put", said.__setitem__)
    monkeypatch.setattr(_runtime, "is_set", lambda key: key in there or key in said)
    monkeypatch.setattr(_runtime.connection, "world", _rendezvous.World(0, size, "", True))
    with pytest.raises(RuntimeError, match=f"^barrier: {late} did not arrive within 1 seconds"):
        _runtime.wait_for_all("b", range(size), 1.0, "barrier")


def meeting(port, *more):
    return parse_args(["--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}", *more, "a.py"])


def test_numbers_that_are_given_count():
    named = meeting(7000, "--nnodes=2", "--node-rank=1")
    assert (named.meets, named.node_rank, named.master_port) == (False, 1, 7000)


STATIC = ["--master-addr=head", "--master-port=1"]
MISUSES = {
    "no number": (["--nproc", "x", "a.py"], "--nproc-per-node x: expected a number, auto, cpu or gpu"),
    "no address": (["--nnodes", "2", "a.py"], "several machines need --master-addr and --master-port"),
    "machines that come and go": (["--nnodes", "2:3", *STATIC, "a.py"], "--nnodes 2:3: machines that come and go need"),
    "from elsewhere": (["--nnodes", "1:3", "--rdzv-endpoint", "head:1", "a.py"], "machines that come and go need"),
    "fewer than least": (["--nnodes", "3:1", "a.py"], "--nnodes 3:1: expected a number, or MIN:MAX"),
    "too many": (["--node-rank", "2", "a.py"], "--node-rank 2: expected a number below --nnodes 1"),
    "no such output": (["--log-dir", "x", "-r", "4", "a.py"], "--redirects 4: expected 0, 1, 2 or 3"),
    "no folder for it": (["-r", "0:3", "a.py"], "--redirects needs --log-dir"),
    "no script": (["--nproc", "2"], "the following arguments are required: SCRIPT"),
}


def test_options_may_be_variables(monkeypatch):
    monkeypatch.setenv("PET_NPROC_PER_NODE", "3")
    monkeypatch.setenv("PET_STANDALONE", "1")
    found = parse_args(["a.py"])
    assert (found.nproc_per_node, found.standalone, parse_args(["--nproc", "2", "a.py"]).nproc_per_node) == (3, True, 2)


@pytest.mark.parametrize("text", ["1", "2:4", "a", "1:2:3", ""])
def test_numbers_of_machines(text):
    agree(lambda t: said(lambda: importlib.import_module(f"{t.__name__}.distributed.run").parse_min_max_nnodes(text)))


def test_what_of_the_launcher_is_refused():
    for name in ("config_from_args", "determine_local_world_size"):
        with pytest.raises(NotImplementedError, match=f"torch.distributed.run.{name}: not supported; LaunchConfig"):
            getattr(run, name)([])


def test_machines_of_which_this_is_the_only_one():
    for options in ([], ["--standalone"], ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"]):
        assert parse_args(["--nnodes", "1:4", *options, "a.py"]).nnodes == 1
    assert parse_args(["--nnodes", "2:4", "--standalone", "a.py"]).nnodes == 1


@pytest.mark.parametrize("name", MISUSES)
def test_misuses(name, capsys):
    arguments, message = MISUSES[name]
    with pytest.raises(SystemExit) as left:
        parse_args(arguments)
    assert left.value.code == 2 and message in capsys.readouterr().err


def test_functions_started_from_python():
    script = HERE / "launch_script.py"

    def run(t):
        command = [sys.executable, str(script), t]
        return subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=120).stdout.splitlines()[-1]

    ours = run("torchlike")
    theirs = pytorchs.same(script.name, [script], ours, lambda: run("torch"))
    assert ours == theirs and '"told"' not in ours and "ChildFailedError" in ours
