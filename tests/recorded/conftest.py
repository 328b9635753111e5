"""The fixture of these tests."""

import pytest

import torchlike as torch
from torchlike._base.state import state
from torchlike._executor.trie import TRIE


@pytest.fixture
def recorded():
    """Recorded execution, with a fresh recorder that knows no programs, for one test."""
    TRIE.reset()
    with torch.set_execution("immediate"), torch.set_execution("recorded"):
        yield state
