"""What a dispatch mode sees is what it sees in PyTorch: the operators of scripts, and their arguments."""

from __future__ import annotations

import pytest
from dispatch_cases import BACKWARD, DERIVATIVES, FORWARD, KEPT, NAMED, NETWORKS, RARER, REORDERED
from dispatch_kit import same_calls


@pytest.mark.parametrize("script", [*FORWARD, *BACKWARD])
def test_calls_and_their_arguments(script):
    same_calls(script)


@pytest.mark.parametrize("script", [*NAMED, *RARER, *DERIVATIVES])
def test_calls(script):
    same_calls(script, arguments=False)


@pytest.mark.parametrize("script", NETWORKS)
def test_calls_of_a_training_step(script):
    same_calls(script, arguments=False)


@pytest.mark.parametrize("script", REORDERED)
def test_calls_of_a_training_step_in_another_order(script):
    same_calls(script, arguments=False, order=False)


@pytest.mark.parametrize("script", KEPT)
def test_what_derivatives_keep_is_detached_or_copied(script):
    same_calls(script, arguments=False)
