"""Warnings stand at the line of the program that they are about."""

import warnings

import pytest
import torch

import torchlike

CASES = {
    "float": lambda t: float(t.ones((), requires_grad=True) * 2),
    "discarded": lambda t: t.ones(2, dtype=t.complex64).to(t.float32),
    "softmax": lambda t: t.nn.functional.softmax(t.ones(2, 2)),
    "upsample": lambda t: t.nn.functional.upsample(t.ones(1, 1, 2), 4),
    "dropout2d": lambda t: t.nn.functional.dropout2d(t.ones(2, 2)),
    "kl_div": lambda t: t.nn.functional.kl_div(t.ones(2), t.ones(2)),
    "mse_loss": lambda t: t.nn.functional.mse_loss(t.ones(2), t.ones(2, 1)),
    "gumbel": lambda t: t.nn.functional.gumbel_softmax(t.ones(2, 2), eps=1e-3),
}


@pytest.mark.parametrize("name", CASES)
def test_a_warning_stands_at_the_users_line_in_each_call(name):
    lines = {}
    for library in (torchlike, torch):
        library.set_warn_always(True)
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                for _ in range(3):
                    CASES[name](library)
        finally:
            library.set_warn_always(False)
        lines[library] = [(w.filename, w.lineno, w.category) for w in caught]
    assert lines[torchlike] == lines[torch] and lines[torch]
