"""Processes of one job compile each program once, and not again in the next run."""

import json
import os
from collections import Counter
from pathlib import Path

import jax
import pytest
from process_kit import finished, started

from torchlike._executor import shared_cache


def of_each_rank(folder, name):
    """(what it compiled, what it computed) of each rank."""
    done = finished(started("shared_script.py", folder / f"{name}.RANK", TORCHLIKE_CACHE=str(folder / "cache")))
    for status, out, err in done:
        assert status == 0, out + err
    return zip(*[json.loads((folder / f"{name}.{rank}").read_text()) for rank in range(2)], strict=True)


@pytest.mark.once
@pytest.mark.skipif(not jax.__version__.startswith("0.10."), reason="jax keeps programs in a way of its own")
def test_programs_are_compiled_once(tmp_path):
    (first, second), computed = of_each_rank(tmp_path, "cold")
    same = [[1, 3, 5, 7], [2, 2, 2], [0, 2, 4, 6, 8, 10]]
    assert computed == ([*same, 1, None], [*same, 4, -5])
    names = Counter(first + second)
    assert names["jit__lambda"] == 2 and names["jit_reduce_of_1"] == 1 and names["jit_broadcast_of_1"] == 2, names
    again, found = of_each_rank(tmp_path, "warm")
    assert (again, found) == (([], []), computed)


@pytest.mark.once
@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="files that are open are not listed here")
def test_where_no_turn_can_be_taken(monkeypatch, tmp_path):
    monkeypatch.setattr(shared_cache, "_folder", lambda: Path("/nowhere/at/all"))
    with shared_cache._turn("a"):
        pass
    monkeypatch.setattr(shared_cache, "_folder", lambda: tmp_path)
    monkeypatch.setattr(shared_cache, "PATIENCE", 0.05)
    with shared_cache._turn("a"), shared_cache._turn("a"):  # the first never ends
        (place,) = tmp_path.iterdir()
    with place.open() as file:
        assert shared_cache._locked(file, 0)
    with shared_cache._turn("a"):
        copy = os.dup(next(int(n) for n in os.listdir("/proc/self/fd") if _leads_to(n, place)))
    with place.open() as file:
        assert shared_cache._locked(file, 0)  # what a forked process has open keeps nobody out
    os.close(copy)


def _leads_to(number, place):
    try:
        return os.readlink(f"/proc/self/fd/{number}") == str(place)
    except OSError:
        return False
