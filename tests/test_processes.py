"""Tensors that processes share: what one of them writes, the others read."""

import functools
import os
import subprocess
import sys
from pathlib import Path

import pytest
import pytorchs

import torchlike
from torchlike._core.tensor import process_memory

SCRIPT = Path(__file__).parent / "processes_script.py"


@pytest.mark.once
@pytest.mark.skipif(os.name != "posix", reason="processes cannot be given each other's files here")
def test_what_processes_see_of_each_other():
    command = [sys.executable, "-W", "ignore", str(SCRIPT)]
    run = functools.partial(subprocess.run, capture_output=True, text=True, timeout=240)
    ours = run([*command, "torchlike"])
    theirs = pytorchs.same(SCRIPT.name, [SCRIPT], ours.stdout, lambda: run([*command, "torch"]).stdout)
    assert theirs.count("\n") == 34, theirs
    assert ours.stdout == theirs, ours.stderr


def test_shared_memory_in_one_process():
    x = torchlike.arange(6.0).reshape(2, 3)
    y = x[:, 1:].share_memory_()
    assert x.is_shared() and not torchlike.ones(2).is_shared() and not x.clone().is_shared()
    y += 1
    x.requires_grad_().mul(2).sum().backward()
    assert x.tolist() == [[0, 2, 3], [3, 5, 6]] and x.grad.tolist() == [[2] * 3] * 2
    array = y.detach().numpy()
    array[0, 0] = 8
    assert x[0, 1] == 8 and x.is_shared()


def test_where_memory_cannot_be_shared(monkeypatch):
    monkeypatch.setattr(process_memory, "POSSIBLE", False)
    torchlike.set_warn_always(True)
    try:
        with pytest.warns(UserWarning, match="other processes get copies of the tensor"):
            assert torchlike.ones(2).share_memory_().is_shared()
    finally:
        torchlike.set_warn_always(False)
