"""The fixture of these tests."""

import pytest

import torchlike as torch
from torchlike._base.state import state


@pytest.fixture
def recorded():
    """Recorded execution, with a fresh recorder, for one test."""
    with torch.set_execution("immediate"), torch.set_execution("recorded"):
        yield state
