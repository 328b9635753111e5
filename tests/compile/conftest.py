"""Compiled functions draw by the counter, eager code on the CPU as PyTorch does; to be compared, both draw by the counter."""

import pytest

import torchlike


@pytest.fixture(autouse=True)
def drawn_by_the_counter():
    torchlike.set_rng("threefry")
    yield
    torchlike.set_rng("torch")
