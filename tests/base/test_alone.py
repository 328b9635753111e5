"""Whether another thread may touch tensors."""

import io

import pytest
from tqdm import tqdm

from torchlike._base import threads


@pytest.mark.parametrize(("running", "alone"), [(0, True), (1, True), (2, False)])
def test_the_thread_that_draws_bars_touches_none(running, alone, monkeypatch):
    assert list(tqdm(range(2), file=io.StringIO())) == [0, 1]
    monkeypatch.setattr(threads, "others", lambda: running)
    assert tqdm.monitor.is_alive() and threads.alone() is alone


def test_one_thread_that_is_another(monkeypatch):
    monkeypatch.setattr(tqdm, "monitor", None)
    monkeypatch.setattr(threads, "others", lambda: 1)
    assert not threads.alone()
