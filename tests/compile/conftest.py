"""Compiled functions draw by the counter; here eager code does so too, since the two are compared."""

import pytest

import torchlike


@pytest.fixture(autouse=True)
def drawn_by_the_counter():
    torchlike.set_rng("threefry")
    yield
    torchlike.set_rng("torch")
