"""Warnings stand at the line of the program that they are about."""

import subprocess
import sys
import warnings

import pytest
import pytorchs
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
    "std": lambda t: t.ones(1).std(),
    "var of a dim": lambda t: t.var(t.ones(2, 3), 0, correction=2.5),
    "std_mean of nothing": lambda t: t.std_mean(t.ones(0, 3), (1,), unbiased=True),
    "cov": lambda t: t.cov(t.ones(2, 1)),
    "corrcoef": lambda t: t.corrcoef(t.ones(2, 1)),
    "cross": lambda t: t.cross(t.ones(3), t.ones(3)),
    "qr": lambda t: t.qr(t.eye(2)),
    "cholesky": lambda t: t.cholesky(t.eye(2)),
    "triangular_solve": lambda t: t.triangular_solve(t.eye(2), t.eye(2)),
    "lu": lambda t: t.lu(t.eye(2)),
    "lu_solve": lambda t: t.lu_solve(t.eye(2), *t.linalg.lu_factor(t.eye(2))),
    "chain_matmul": lambda t: t.chain_matmul(t.eye(2), t.eye(2), t.eye(2)),
    "stft": lambda t: t.stft(t.ones(8), 4, return_complex=True),
    "istft": lambda t: t.istft(t.ones(3, 9, dtype=t.complex64), 4),
    "scatter": lambda t: t.zeros(3).scatter(0, t.tensor([0]), t.ones(1), reduce="add"),
    "scatter_": lambda t: t.zeros(3).scatter_(0, t.tensor([0]), t.ones(1), reduce="multiply"),
    "index_reduce": lambda t: t.zeros(3).index_reduce(0, t.tensor([0]), t.ones(1), "mean"),
    "where": lambda t: t.where(t.ones(2, dtype=t.uint8), t.ones(2), t.ones(2)),
    "same": lambda t: t.nn.functional.conv1d(t.ones(1, 1, 4), t.ones(1, 1, 2), padding="same"),
    "T of no dimension": lambda t: t.tensor(2.0).T,
    "mT of no dimension": lambda t: t.tensor(2.0).mT,
    "adjoint of no dimension": lambda t: t.tensor(2.0).adjoint(),
    "sdp_kernel": lambda t: t.backends.cuda.sdp_kernel(),
    "gumbel": lambda t: t.nn.functional.gumbel_softmax(t.ones(2, 2), eps=1e-3),
}

OF_PYTHON = {"chain_matmul", "lu", "sdp_kernel", "stft"}  # whose lines PyTorch says are its own


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
    if name in OF_PYTHON:
        assert all(file == __file__ for file, *_ in lines[torchlike])
        lines = {library: [category for *_, category in found] for library, found in lines.items()}
    assert lines[torchlike] == lines[torch] and lines[torch]


NAMES = ("torch", "torchlike")


def _without_grad(t, mode, kind):
    with mode():
        return kind(t.ones((), requires_grad=True))


QUIET = {
    "float without gradients": lambda t: _without_grad(t, t.no_grad, float),
    "complex in inference": lambda t: _without_grad(t, t.inference_mode, complex),
    "negative correction": lambda t: t.zeros(3).std(correction=-1),
    "enough": lambda t: (t.ones(2).std(), t.ones(1).var(correction=0), t.cov(t.ones(2, 2))),
    "meta": lambda t: t.ones(1, device="meta").std(),
    "dim": lambda t: t.cross(t.ones(3), t.ones(3), dim=0),
    "a number": lambda t: t.zeros(3).scatter_(0, t.tensor([0]), 2.0, reduce="add"),
    "window": lambda t: t.stft(t.ones(8), 4, window=t.ones(4), return_complex=True),
}


@pytest.mark.parametrize("name", QUIET)
def test_what_is_not_warned_of(name):
    for library in (torchlike, torch):
        library.set_warn_always(True)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                QUIET[name](library)
        finally:
            library.set_warn_always(False)


def test_some_are_said_once():
    code = """
import sys, warnings
torch = __import__(sys.argv[1])
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for _ in range(3):
        torch.cross(torch.ones(3), torch.ones(3)), torch.qr(torch.eye(2)), torch.ones(2, 2, 2).T, torch.ones(1).std()
print(sorted(str(w.message)[:16] for w in caught))
"""

    def run(library):
        return subprocess.run([sys.executable, "-c", code, library], capture_output=True, text=True).stdout

    ours = run("torchlike")
    assert ours == pytorchs.same("warned once", [code], ours, lambda: run("torch")) and len(eval(ours)) == 6
