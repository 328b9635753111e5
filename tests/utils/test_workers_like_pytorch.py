"""What workers of a DataLoader say of threads, and what is said of too many of them."""

import os

import pytest
import torch as pytorch

import torchlike


class Threads:
    def __init__(self, m):
        self.m = m

    def __len__(self):
        return 2

    def __getitem__(self, i):
        return self.m.get_num_threads()


def test_a_worker_has_one_thread():
    before = torchlike.get_num_threads()
    loader = torchlike.utils.data.DataLoader(Threads(torchlike), num_workers=1)
    assert [x.tolist() for x in loader] == [[1], [1]]
    assert torchlike.get_num_threads() == before


def test_threads_are_remembered():
    for m in (torchlike, pytorch):
        before = m.get_num_threads()
        try:
            m.set_num_threads(3)
            assert m.get_num_threads() == 3
            with pytest.raises(RuntimeError, match="positive"):
                m.set_num_threads(0)
            assert m.get_num_threads() == 3
        finally:
            m.set_num_threads(before)


@pytest.mark.parametrize("m", [torchlike, pytorch], ids=["torchlike", "PyTorch"])
def test_too_many_workers(m):
    cores = len(os.sched_getaffinity(0))
    words = (
        rf"will create {cores + 1} worker processes in total. Our suggested max number .* is {cores}, which is smaller"
    )
    with pytest.warns(UserWarning, match=words):
        m.utils.data.DataLoader([1, 2], num_workers=cores + 1)
