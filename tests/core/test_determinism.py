"""What deterministic algorithms ask for: memory with a known content, and refusals of operators that have none."""

import contextlib

import pytest
from both import agree
from story_kit import said

import torchlike
from torchlike._executor import kernels


@contextlib.contextmanager
def deterministic(t, fill=True, **how):
    t.use_deterministic_algorithms(True, **how)
    t.utils.deterministic.fill_uninitialized_memory = fill
    try:
        yield
    finally:
        t.use_deterministic_algorithms(False)
        t.utils.deterministic.fill_uninitialized_memory = True


DTYPES = "bool uint8 int8 int16 int32 int64 uint16 uint64 float16 bfloat16 float32 float64 complex64 complex128".split()
FILLED = {
    "empty": lambda t: [t.empty(2, dtype=getattr(t, d)) for d in DTYPES],
    "empty_like": lambda t: (t.empty_like(t.ones(2, 3).t()), t.empty_like(t.ones(2), dtype=t.int16)),
    "of a tensor": lambda t: (t.ones(1).new_empty(2), t.ones(1).new(2), t.ones(1).new_empty_strided((2, 3), (1, 2))),
    "strided": lambda t: (t.empty_strided((2, 2), (4, 1)), t.empty_permuted((2, 3), (1, 0))),
    "of old": lambda t: (t.Tensor(2, 2), t.IntTensor(3), t.Tensor()),
    "resized": lambda t: (t.ones(2, 2).resize_(3, 3), t.arange(3).resize_(5), t.ones(3)[1:].resize_(4)),
    "in a format": lambda t: t.empty(1, 2, 2, 2, memory_format=t.channels_last),
    "of blocks": lambda t: t.empty_like(t.ones(4, 4).to_sparse_csr()).values(),
    "none": lambda t: t.empty(0),
    "known": lambda t: (t.zeros(2), t.ones(2).new_zeros(2), t.zeros_like(t.ones(2))),
}


@pytest.mark.parametrize("make", FILLED.values(), ids=FILLED)
def test_memory_that_nothing_was_written_to(make):
    def case(t):
        with deterministic(t):
            return make(t)

    agree(case)


def test_only_where_it_is_asked_for():
    def case(t):
        with deterministic(t, warn_only=True):
            warned = t.empty(2)
        with deterministic(t, fill=False):
            unfilled.append(t.empty(2).isnan().all())
            return warned, said(lambda: setattr(t.utils.deterministic, NAME, 3), "a bool")

    unfilled = []  # ours, and PyTorch's, which is whatever its memory holds
    agree(case)
    assert not unfilled[0]


NAME = "fill_uninitialized_memory"
PUTS = {
    "put": lambda t: t.put(t.ones(3), t.tensor([0, 0]), t.tensor([0.0, 1.0])),
    "put_": lambda t: t.ones(3).put_(t.tensor([0, 0]), t.tensor([0.0, 1.0])),
    "accumulating": lambda t: t.ones(3).put_(t.tensor([0, 0]), t.tensor([0.0, 1.0]), accumulate=True),
}


@pytest.mark.parametrize("call", PUTS.values(), ids=PUTS)
def test_put_has_no_deterministic_algorithm(call):
    def case(t):
        with deterministic(t):
            return said(lambda: call(t), "put_ does not have a deterministic implementation")

    agree(case)
    agree(call)


def test_index_put_is_another():
    agree(lambda t: t.zeros(3).index_put_((t.tensor([0, 0]),), t.ones(2), accumulate=True))


def levels(n, monkeypatch):
    """How the kernels of a sum of products of ``n`` numbers are compiled, in the first call and in the last of many."""
    used = []
    key = kernels.Miss._key
    monkeypatch.setattr(kernels.Miss, "_key", lambda self, level, call: used.append(level) or key(self, level, call))
    with torchlike.set_execution("immediate"):
        x = torchlike.ones(n)
        for _ in range(kernels.CALLS + 1):
            torchlike.addcmul(x, x, x)
    return [level for level in used if level in ("quickly", "well")]


@pytest.mark.once
def test_kernels_stay_as_they_are(monkeypatch):
    # Sizes that no other test has: kernels begin anew with them.
    with deterministic(torchlike), monkeypatch.context() as patch:
        assert set(levels(1013, patch)) == {"well"}
    assert levels(1019, monkeypatch)[-2:] == ["quickly", "well"]
