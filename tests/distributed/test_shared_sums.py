"""Means in memory that processes share, with threads for processes."""

import threading
import time
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from torchlike.distributed import _runtime, _shared_sums

SHAPES = ((3, 2), (), (0, 4), (5000,), (7,))


@pytest.fixture
def said(monkeypatch, tmp_path):
    """What processes tell each other."""
    told = {}

    def awaited(key, limit, ranks, late):
        while key not in told:
            time.sleep(0.001)
        return told[key]

    monkeypatch.setattr(_runtime, "put", told.__setitem__)
    monkeypatch.setattr(_runtime, "awaited", awaited)
    monkeypatch.setattr(_shared_sums, "folder", lambda: tmp_path)
    yield told
    assert not [*tmp_path.iterdir()], "no name of memory is left"


def group_of(rank, size):
    return SimpleNamespace(
        rank=lambda: rank, size=lambda: size, ranks=range(10, 10 + size), shared=iter("0"), seconds=lambda: 9.0,
        key=lambda *parts: "/".join(["torchlike", "group", *parts]),
    )  # fmt: skip


def arrays_of(rank, step, dtype):
    return [jax.numpy.asarray((np.arange(np.prod(s)).reshape(s) % 9 + rank) * 2.0**step, dtype) for s in SHAPES]


def together(size, work):
    """What ``work(sums, rank)`` gives of each of some processes."""
    found = [None] * size

    def run(rank):
        buckets = [_shared_sums.Bucket(SHAPES, dtype) for dtype in ("f", "D")]
        try:
            found[rank] = work(_shared_sums.SharedSums(group_of(rank, size), buckets), rank)
        except Exception as error:
            found[rank] = error

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


@pytest.mark.parametrize("size", [2, 3, 5])
def test_means(size, said):
    def work(sums, rank):
        assert sums.usable()
        means = []
        for step in range(3):
            time.sleep(0.003 * (rank == step))  # each is the last once
            means += [sums.mean(n, arrays_of(rank, step, "fD"[n]), size) for n in (1, 0)]
        return means

    found = together(size, work)
    expected = [[sum(xs) / size for xs in zip(*[arrays_of(r, step, d) for r in range(size)], strict=True)]
                for step in range(3) for d in "Df"]  # fmt: skip
    for rank, means in enumerate(found):
        for own, first, right in zip(means, found[0], expected, strict=True):
            for mine, same, x in zip(own, first, right, strict=True):
                assert mine.dtype == x.dtype and mine.shape == x.shape, rank
                np.testing.assert_allclose(mine, x, rtol=1e-6)
                np.testing.assert_array_equal(mine, same)  # all processes have one mean


def test_a_mean_of_numbers_whose_sum_is_too_large(said):
    large = [x * 0 + 3e38 for x in arrays_of(0, 0, "f")]
    found = together(2, lambda sums, rank: sums.usable() and sums.mean(0, large, 2))
    assert [float(means[1]) for means in found] == [np.float32(3e38)] * 2


def test_too_little_memory_for_one_is_too_little_for_all(said, monkeypatch):
    reserve = _shared_sums.os.posix_fallocate

    def reserved(descriptor, begin, length):
        if threading.current_thread().name == "rank 1":
            raise OSError(28, "No space left on device")
        reserve(descriptor, begin, length)

    def work(sums, rank):
        threading.current_thread().name = f"rank {rank}"
        return sums.usable()

    monkeypatch.setattr(_shared_sums.os, "posix_fallocate", reserved)
    assert together(3, work) == [False] * 3


def test_who_ends_is_named(said, monkeypatch):
    monkeypatch.setattr(_shared_sums, "_LOOK", 0.05)
    monkeypatch.setattr(_shared_sums, "_GRACE", 0.01)
    monkeypatch.setattr(_runtime, "ended", list)

    def work(sums, rank):
        assert sums.usable()
        return rank or sums.mean(0, arrays_of(0, 0, "f"), 2)

    assert str(together(2, work)[0]) == "Connection closed by rank 11, which ended"


def test_who_ends_before_is_named(said, monkeypatch):
    def awaited(*args):
        raise _runtime.DistBackendError("rank 11 has ended")

    monkeypatch.setattr(_runtime, "awaited", awaited)
    found = together(1, lambda sums, rank: sums.usable())
    assert isinstance(found[0], ConnectionError) and str(found[0]) == "Connection lost: rank 11 has ended"
