"""Tensors that processes share: what one of them writes, the others read."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import torchlike
from torchlike._core.tensor import process_memory

SCRIPT = Path(__file__).parent / "processes_script.py"


@pytest.mark.once
@pytest.mark.skipif(os.name != "posix", reason="processes cannot be given each other's files here")
def test_what_processes_see_of_each_other():
    command = {t: [sys.executable, "-W", "ignore", str(SCRIPT), t] for t in ("torch", "torchlike")}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    runs = {t: subprocess.Popen(words, **pipes) for t, words in command.items()}
    said = {t: p.communicate(timeout=240) for t, p in runs.items()}
    assert said["torch"][0].count("\n") == 34, said["torch"]
    assert said["torchlike"][0] == said["torch"][0], said["torchlike"][1]


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
