"""Pickles of tensors, as datasets and caches hold them: each library reads what the other wrote."""

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import torchlike as tl
from torchlike._core.conversion.loaded import loaded_bytes

SCRIPT = str(Path(__file__).parent / "pickled_script.py")
pytestmark = pytest.mark.once


def run(library, target, *sources):
    """What a process of that library reads in each file, a line for each; it writes its own pickles to ``target``."""
    under = ["-m", "torchlike", "run"] if library == "torchlike" else []
    command = [sys.executable, *under, SCRIPT, *map(str, (target, *sources))]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_each_library_reads_the_pickles_of_the_other(tmp_path):
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    run("torch", theirs)
    [read] = run("torchlike", ours, theirs)
    assert run("torch", "-", theirs, ours) == [read] * 2
    assert run("torchlike", "-", ours) == [read]
    made = pickle.loads(ours.read_bytes())
    assert [name for name, data in made.items() if b"torchlike" in data] == []


def test_storages_without_a_class_of_old():
    """Their pickles, and all those of before, hold the bytes beside the dtype; PyTorch cannot read its own of these."""
    assert loaded_bytes(np.arange(3.0).tobytes(), tl.float64, "cpu").tolist() == [0.0, 1.0, 2.0]
    for kind in (tl.uint16, tl.float8_e4m3fn):
        x = pickle.loads(pickle.dumps(tl.ones(2, dtype=kind)))
        assert x.dtype is kind and x.float().tolist() == [1.0, 1.0]
    assert pickle.loads(pickle.dumps(tl.ones(2).untyped_storage())).tolist() == [0, 0, 128, 63] * 2


def test_functions_by_the_class_that_holds_them_in_pytorch():
    assert tl._C._VariableFunctionsClass.relu is tl.relu
    with pytest.raises(AttributeError, match="no_such"):
        tl._C._VariableFunctionsClass.no_such  # noqa: B018
