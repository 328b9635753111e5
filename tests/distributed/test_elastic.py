"""Launchers of several machines: they meet, start anew together, go on without one that is gone or with one more."""

import contextlib
import os
import re
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from process_kit import free_port

import torchlike
from torchlike.distributed import _meeting
from torchlike.distributed.run import parse_args

pytestmark = pytest.mark.once
QUICK = "--rdzv-conf=last_call_timeout=0.3,keep_alive_interval=0.1,keep_alive_max_attempt=50,join_timeout=20"


def meeting(port, *more):
    return parse_args(["--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}", *more, "a.py"])


def until_over(machine):
    end = time.monotonic() + 20
    while not machine.is_over():
        assert time.monotonic() < end
        time.sleep(0.01)


def of(options):
    return options.node_rank, options.nnodes, options.first_rank, options.world_size, options.attempt


def test_launchers_that_are_told_no_number():
    options = meeting(free_port(), "--nnodes=3", "--rdzv-id=a", "--nproc=2")

    def run(_):
        with _meeting.met(options) as machine:
            (found,) = [(o, machine.tell(""))[0] for o in machine.rounds()]
            return *of(found), found.master_port, found.master_addr, found.rdzv_id

    with ThreadPoolExecutor(3) as pool:
        found = sorted(pool.map(run, range(3)))
    assert [x[:5] for x in found] == [(0, 3, 0, 6, 0), (1, 3, 2, 6, 0), (2, 3, 4, 6, 0)]
    assert {x[5:] for x in found} == {(found[0][5], "127.0.0.1", "a")}


def test_launchers_that_do_not_meet():
    with _meeting.met(meeting(free_port(), "--nnodes=2", "--rdzv-conf=timeout=3,join_timeout=0.1")) as machine:
        assert not list(machine.rounds())
        assert re.search(r"TimeoutError: 1 of 2 machines came to 127.0.0.1:\d+ within 0.1 seconds", machine.end())
    kept = torchlike.distributed.TCPStore("127.0.0.1", 0, is_master=True)
    kept.add("none/machines", 1)
    with pytest.raises(RuntimeError, match=rf"^127.0.0.1:{kept.port} has met the 2 machines of --nnodes already"):
        with _meeting.met(meeting(kept.port, "--nnodes=2")):
            pass


@contextlib.contextmanager
def two(*more, second=()):
    """Two machines in a first round: (the machines, their rounds)."""
    port = free_port()
    with contextlib.ExitStack() as stack:
        machines = [
            stack.enter_context(_meeting.met(meeting(port, QUICK, "--rdzv-id=a", *more, *own))) for own in ((), second)
        ]
        rounds = [machine.rounds() for machine in machines]
        yield machines, rounds
        threads = [threading.Thread(target=machine.close) for machine in machines]  # who keeps the store waits
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def both(rounds):
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda one: of(next(one)), rounds))


def told(machines, *failures):
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda machine, failure: machine.tell(failure), machines, failures))


def test_all_start_anew_where_one_fails():
    with two("--nnodes=2", "--max-restarts=1", second=["--nproc=3"]) as (machines, rounds):
        assert both(rounds) == [(0, 2, 0, 4, 0), (1, 2, 1, 4, 0)]
        assert told(machines, "", "it broke") == ["it broke; starting anew (0 of 1 restarts left)"] * 2
        assert both(rounds) == [(0, 2, 0, 4, 1), (1, 2, 1, 4, 1)]
        assert told(machines, "", "it broke again") == ["", ""]
        assert [list(rest) for rest in rounds] == [[], []] and machines[1].end() == "it broke again"


def test_machines_that_come_and_go():
    port = free_port()
    options = meeting(port, QUICK, "--nnodes=1:2", "--rdzv-id=a")
    with _meeting.met(options) as first:
        rounds = first.rounds()
        assert of(next(rounds)) == (0, 1, 0, 1, 0)
        with _meeting.met(meeting(port, QUICK, "--nnodes=1:2", "--rdzv-id=a", "--max-restarts=1")) as second:
            until_over(first)
            assert first.tell("") == "another machine has come; starting anew (0 of 0 restarts left)"
            assert both([rounds, second.rounds()]) == [(0, 2, 0, 2, 0), (1, 2, 1, 2, 0)]
            second._pulse.close()  # as if it had been killed
            until_over(first)
            assert first.tell("because of it") == "machine 1 of 2 is gone; starting anew (0 of 0 restarts left)"
        assert of(next(rounds)) == (0, 1, 0, 1, 0)
        assert first.tell("") == "" and not list(rounds) and first.end() == ""


SCRIPT = """#!/bin/sh
echo "rank $RANK of $WORLD_SIZE, machine $GROUP_RANK, attempt $TORCHELASTIC_RESTART_COUNT"
if [ $RANK$TORCHELASTIC_RESTART_COUNT = 10 ]; then until [ -e "$0.printed" ]; do sleep 0.1; done; exit 3; fi
if [ $RANK$TORCHELASTIC_RESTART_COUNT = 00 ]; then touch "$0.printed"; exec sleep 100; fi
"""


def test_two_launchers(tmp_path):
    """With numbers that are told, too; whose process waits for the other's is ended."""
    script = tmp_path / "script.sh"
    script.write_text(SCRIPT)
    script.chmod(0o755)
    where = ["--nnodes=2", "--master-addr=127.0.0.1", f"--master-port={free_port()}", "--max-restarts=1"]
    command = [sys.executable, "-m", "torchlike", "run", *where, "--no-python"]
    launchers = [
        subprocess.Popen(
            [*command, f"--node-rank={i}", str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=dict(os.environ),
        )
        for i in range(2)
    ]  # fmt: skip
    said = [launcher.communicate(timeout=120) for launcher in launchers]
    for i, (launcher, (out, err)) in enumerate(zip(launchers, said, strict=True)):
        assert launcher.returncode == 0, err[-3000:]
        assert out.splitlines() == [f"rank {i} of 2, machine {i}, attempt {attempt}" for attempt in range(2)]
        assert re.search(r"rank 1 .* ended with exit code 3; starting anew \(0 of 1 restarts left\)", err)


def test_functions_on_two_machines(tmp_path):
    """One launcher for each in this process would share its signals: each has a process."""
    (tmp_path / "main.py").write_text(MAIN)
    command = [sys.executable, "main.py", str(free_port())]
    launchers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path) for _ in range(2)]
    found = [launcher.communicate(timeout=120)[0] for launcher in launchers]
    assert sorted(found) == ["{0: '0 of 2'}\n", "{1: '1 of 2'}\n"]


MAIN = """
import os, sys
from torchlike.distributed.launcher import LaunchConfig, elastic_launch
def work():
    return f"{os.environ['RANK']} of {os.environ['WORLD_SIZE']}"
if __name__ == "__main__":
    place = {"rdzv_backend": "c10d", "rdzv_endpoint": f"127.0.0.1:{sys.argv[1]}", "run_id": "a"}
    print(elastic_launch(LaunchConfig(1, 2, 1, rdzv_configs={"last_call_timeout": 60}, **place), work)())
"""
