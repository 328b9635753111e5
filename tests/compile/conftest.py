"""Exported programs draw by the counter; here eager code does so too, since the two are compared."""

import pytest

import torchlike


@pytest.fixture(autouse=True)
def drawn_by_the_counter(request):
    if not request.module.__name__.rpartition(".")[2].startswith("test_export"):
        yield
        return
    torchlike.set_rng("threefry")
    yield
    torchlike.set_rng("torch")
