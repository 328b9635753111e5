"""32-bit mode (``JAX_ENABLE_X64=0``): programs work, dtypes are what values are, nothing is narrowed unseen."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings

import jax
import numpy as np
import pytest
import torch
from both import attempt
from narrow_kit import wide_pytorch

import torchlike
from torchlike import nn
from torchlike._base.bits import X64

F = nn.functional
narrow_only = pytest.mark.skipif(X64, reason="32-bit mode only: make test-32 runs it")

SAID = """
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import torchlike as torch
    assert not caught, caught
    %s
told = [str(w.message) for w in caught if w.category is UserWarning and "Explicitly" not in str(w.message)]
assert len(told) == 1 and "64 bits are asked for by " in told[0] and "torch.int64 is torch.int32" in told[0], told
assert caught[-1].filename == "<string>", caught[-1].filename
"""


@pytest.mark.parametrize("line", [
    "assert torch.long is torch.int64 is torch.int32 and torch.double is torch.float32",
    "assert torch.ones(2).long().dtype is torch.ones(2).double().long().dtype",
    "assert torch.ones(2).type('torch.LongTensor').dtype is torch.int32",
])  # fmt: skip
def test_one_warning(line):
    """In a process of its own: the warning is given once in the life of one."""
    run = [sys.executable, "-c", SAID % line]
    done = subprocess.run(run, capture_output=True, text=True, env=os.environ | {"JAX_ENABLE_X64": "0"})
    assert done.returncode == 0, done.stderr


@narrow_only
def test_kinds():
    t = torchlike
    made = (t.arange(3), t.tensor([1]), t.zeros(2).long(), t.ones(2, 2).argmax(), t.tensor([2, 1]).sort().indices,
            t.tensor([True]).sum(), t.from_numpy(np.arange(2)), t.randint(5, (2,)), t.nonzero(t.ones(2)))  # fmt: skip
    assert {x.dtype for x in made} == {t.int32}
    assert {x.jax().dtype.name for x in made} == {"int32"}
    assert t.zeros(2, dtype=t.float64).dtype is t.float32 and t.ones(2).double().numpy().dtype == np.float32
    assert t.zeros(2, dtype=t.complex128).dtype is t.complex64
    assert repr(t.arange(2)) == "tensor([0, 1])" and t.iinfo(t.long).max == 2**31 - 1


def unpooled(functional, x):
    return functional.max_unpool1d(*functional.max_pool1d(x, 2, return_indices=True), 2)


def grid_sample(t):
    return t.nn.functional.grid_sample


CALLS = {
    "cross_entropy": lambda t, x, y: t.nn.functional.cross_entropy(x, y),
    "nll_loss": lambda t, x, y: t.nn.functional.nll_loss(x.log_softmax(1), y, ignore_index=1),
    "multi_margin_loss": lambda t, x, y: t.nn.functional.multi_margin_loss(x, y),
    "embedding": lambda t, x, y: t.nn.functional.embedding(y, x.t()),
    "index": lambda t, x, y: x[:, y],
    "index_put": lambda t, x, y: t.zeros(4, 5).index_put((y, y), x[:, 0], accumulate=True),
    "gather": lambda t, x, y: x.gather(1, y[:, None]),
    "scatter": lambda t, x, y: t.zeros(4, 5).scatter(1, y[:, None], x[:, :1]),
    "index_select": lambda t, x, y: x.index_select(1, y),
    "index_add": lambda t, x, y: t.zeros(4, 5).index_add(0, y, x),
    "topk": lambda t, x, y: x.topk(2).values,
    "sort": lambda t, x, y: x.sort(1, descending=True).values,
    "max_pool2d": lambda t, x, y: t.nn.functional.max_pool2d(x[None, None], 2),
    "max_unpool": lambda t, x, y: unpooled(t.nn.functional, x[None]),
    "adaptive_max_pool2d": lambda t, x, y: t.nn.functional.adaptive_max_pool2d(x[None, None], 2),
    "avg_pool2d": lambda t, x, y: t.nn.functional.avg_pool2d(x[None, None], 2),
    "median": lambda t, x, y: x.median(1).values,
    "cummax": lambda t, x, y: x.cummax(1).values,
    "interpolate": lambda t, x, y: t.nn.functional.interpolate(x[None, None], scale_factor=2, mode="bilinear"),
    "grid_sample": lambda t, x, y: grid_sample(t)(x[None, None], x[None, :2, None, :2], "bilinear", "zeros", True),
    "ctc_loss": lambda t, x, y: t.nn.functional.ctc_loss(x[:, None].log_softmax(-1), t.tensor([[1, 2]]), (4,), (2,)),
    "quantile": lambda t, x, y: x.quantile(0.3, 1),
    "svd": lambda t, x, y: t.linalg.svdvals(x**3),
    "lstm": lambda t, x, y: x @ t.arange(15.0).reshape(5, 3),
    "fft": lambda t, x, y: t.fft.rfft(x).abs(),
}  # fmt: skip
INTEGERS = {
    "one_hot": lambda t, x, y: t.nn.functional.one_hot(y, 6),
    "argmax": lambda t, x, y: (x.argmax(1), x.argsort(1), x.topk(2).indices, x.kthvalue(2).indices),
    "bincount": lambda t, x, y: (t.bincount(y), t.unique(y, return_counts=True), y.cumsum(0), y.sum(), y.prod()),
    "searchsorted": lambda t, x, y: t.searchsorted(t.arange(5.0), x.detach()),
    "nonzero": lambda t, x, y: (t.nonzero(x > 0), t.where(x > 0), (x > 0).count_nonzero()),
    "floats to integers": lambda t, x, y: ((x * 7).long(), (x * 7).int(), (x.abs() * 50).to(t.uint8)),
    "factories": lambda t, x, y: (t.arange(2, 9, 3), t.full((2,), 7), t.tril_indices(3, 3), t.zeros(2).long()),
    "arithmetic": lambda t, x, y: (y * 3, y // 2, y % 2, y << 2, y * 2.5, y > 1, -y, y**2),
}


def made(t):
    values = np.sin(np.arange(20.0, dtype=np.float32)).reshape(4, 5)
    return t.tensor(values.tolist(), requires_grad=True), t.tensor([0, 2, 1, 3])


@narrow_only
@pytest.mark.parametrize("name", CALLS)
def test_values_and_gradients(name):
    def f(t):
        x, y = made(t)
        out = CALLS[name](t, x, y)
        (out.sum() * 2).backward()
        return [out.detach().numpy(), x.grad.numpy()]

    for ours, theirs in zip(f(torchlike), f(torch), strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-5)


@narrow_only
@pytest.mark.parametrize("name", INTEGERS)
def test_integers(name):
    def f(t):
        out = INTEGERS[name](t, *made(t))
        flat = [out] if isinstance(out, t.Tensor) else [x for o in out for x in ([o] if isinstance(o, t.Tensor) else o)]
        return [x.detach().numpy() for x in flat]

    for ours, theirs in zip(f(torchlike), f(torch), strict=True):
        assert ours.dtype == (np.int32 if theirs.dtype == np.int64 else theirs.dtype)
        np.testing.assert_array_equal(ours, theirs)


@narrow_only
@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "NAdam", "RAdam", "LBFGS"])
def test_training(name):
    def losses(t, wrap=lambda f: f):
        t.manual_seed(0)
        x, y = made(t)
        w = (t.arange(15.0).reshape(5, 3) / 10).requires_grad_()
        opt = getattr(t.optim, name)([w], lr=0.1)
        model = wrap(lambda x, y: t.nn.functional.cross_entropy((x @ w).relu() @ t.ones(3, 5), y))

        def closure():
            opt.zero_grad()
            loss = model(x.detach(), y)
            loss.backward()
            return loss

        return [opt.step(closure).item() for _ in range(4)]

    theirs = losses(torch)
    np.testing.assert_allclose(losses(torchlike), theirs, rtol=1e-4)
    np.testing.assert_allclose(losses(torchlike, torchlike.compile), theirs, rtol=1e-4)


@narrow_only
def test_loading_data_and_modules():
    data = torchlike.utils.data.TensorDataset(torchlike.arange(6.0), torchlike.arange(6))
    batches = list(torchlike.utils.data.DataLoader(data, batch_size=4, shuffle=True))
    assert sorted(torchlike.cat([y for _, y in batches]).tolist()) == list(range(6))
    assert all(torchlike.equal(x.long(), y) for x, y in batches)
    model = nn.Sequential(nn.Embedding(6, 4), nn.Dropout(), nn.BatchNorm1d(4), nn.Linear(4, 2))
    model(torchlike.arange(6)).sum().backward()
    assert model.double()[3].weight.dtype is torchlike.float32


@narrow_only
def test_transforms():
    x, y = made(torchlike)
    grads = torchlike.func.vmap(torchlike.func.grad(F.cross_entropy), (0, 0))(x.detach(), y)
    theirs, labels = made(torch)
    expected = torch.func.vmap(torch.func.grad(torch.nn.functional.cross_entropy), (0, 0))(theirs.detach(), labels)
    np.testing.assert_allclose(grads.numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)
    assert torchlike.func.hessian(lambda v: v.sin().sum())(x.detach()[0]).dtype is torchlike.float32


@narrow_only
def test_what_does_not_fit_is_refused():
    t = torchlike
    for f, error, words in (
        (lambda: t.tensor(2**40), RuntimeError, "without overflow"),
        (lambda: t.full((2,), 2**40), RuntimeError, "without overflow"),
        (lambda: t.tensor(1) * 2**40, OverflowError, "int32"),
        (lambda: t.from_numpy(np.array([1, 2**40])), OverflowError, "1099511627776 do not fit into int32"),
        (lambda: t.randint(2**40, (2,)), RuntimeError, "out of bounds"),
    ):
        got = attempt(f)
        assert isinstance(got, error) and words in str(got), got
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert t.from_numpy(np.array([1.5, np.inf, 1e300])).tolist() == [1.5, np.inf, np.inf]


DRAWS = """
import torchlike as t
for stream in ("torch", "threefry"):
    t.set_rng(stream)
    t.manual_seed(0)
    print(t.randint(0, 1000, (6,)).tolist(), t.randint(-2**31, 2**31 - 2, (6,)).tolist(), t.randperm(7).tolist(),
          t.rand(3).tolist(), t.empty(4, dtype=t.int16).random_(-5, 6).tolist())
"""


def test_both_modes_draw_the_same_numbers():
    wide, narrow = (
        subprocess.run(
            [sys.executable, "-c", DRAWS], capture_output=True, text=True, env=os.environ | {"JAX_ENABLE_X64": bits}
        )
        for bits in "10"
    )
    assert wide.stdout == narrow.stdout != "" and not wide.returncode, narrow.stderr


@narrow_only
def test_random_integers():
    """Every number of the range, as often as the others."""
    torchlike.manual_seed(3)
    drawn = torchlike.randint(-2, 7, (9000,)).numpy()
    counts = np.bincount(drawn + 2, minlength=9)
    assert len(counts) == 9 and abs(counts - 1000).max() < 150
    lowest, highest = torchlike.iinfo(torchlike.int32).min, torchlike.iinfo(torchlike.int32).max
    everything = torchlike.randint(lowest, highest, (1000,)).double()
    assert everything.min() < -1e9 and everything.max() > 1e9
    assert 0.4 < torchlike.rand(1000, dtype=torchlike.float64).mean() < 0.6
    assert 1.5 < torchlike.empty(2000).geometric_(0.5).mean() < 2.5


@narrow_only
@pytest.mark.parametrize("kind", ["float64", "int64", "complex128", "float32"])
@pytest.mark.parametrize("options", [{}, {"_use_new_zipfile_serialization": False}], ids=["zip", "old"])
def test_checkpoints_of_64_bits(kind, options, tmp_path):
    values = np.arange(6).reshape(2, 3)
    with wide_pytorch():
        wide = torch.from_numpy(values.astype(kind))
        torch.save({"x": wide, "part": wide[1:], "t": wide.t()}, tmp_path / "x.pt", **options)
    loaded = torchlike.load(tmp_path / "x.pt")
    assert loaded["x"].tolist() == values.tolist() and loaded["part"].tolist() == values[1:].tolist()
    assert loaded["t"].tolist() == values.T.tolist() and loaded["x"].dtype.itemsize <= 8
    loaded["x"][1, 0] = 9
    assert loaded["part"][0, 0] == 9 and loaded["t"][0, 1] == 9


@narrow_only
def test_checkpoints_that_cannot_be_read(tmp_path):
    with wide_pytorch():
        torch.save(torch.tensor([2**40]), tmp_path / "large.pt")
        torch.save(torch.tensor([1], dtype=torch.uint64), tmp_path / "unsigned.pt")
    with pytest.raises(OverflowError, match="1099511627776 do not fit into int32"):
        torchlike.load(tmp_path / "large.pt")
    with pytest.raises(NotImplementedError, match="torch.uint64, and jax runs with 32 bits"):
        torchlike.load(tmp_path / "unsigned.pt")


@pytest.mark.skipif(not X64, reason="64-bit mode only: the default")
def test_jax_with_its_own_defaults():
    x = torchlike.arange(3)
    with torchlike.x64(False):
        assert jax.random.normal(jax.random.key(0), (2,)).dtype == np.float32
        for f in (lambda: x + 1, lambda: torchlike.tensor([1]), lambda: torchlike.ones(2), lambda: x.double(),
                  lambda: jax.jit(lambda t: (t * 2).jax())(x)):  # fmt: skip
            with pytest.raises(RuntimeError, match=r"torchlike computes with 64 bits.*JAX_ENABLE_X64=0"):
                f()
        with torchlike.x64(True):
            assert (x + 1).dtype is torchlike.int64
    assert (x + 1).tolist() == [1, 2, 3]
    assert torchlike.x64(False)(lambda: jax.numpy.ones(1).dtype)() == np.float32


@narrow_only
def test_64_bits_cannot_be_switched_on_later():
    with pytest.raises(RuntimeError, match="imported with JAX_ENABLE_X64=0"):
        torchlike.x64(True)
