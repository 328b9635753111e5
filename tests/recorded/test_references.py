"""Reference counts are measured; where they do not tell who holds a value, nothing is overwritten."""

import itertools

import pytest

import torchlike as torch
from torchlike._executor import fused, recorded, references, trie

CALLS = itertools.count()
COUNTS = {
    "as in CPython": (lambda v, count: count(v), True),
    "references lent to calls": (lambda v, count: count(v) - 1, True),
    "all alike": (lambda v, count: 1, False),
    "immortal": (lambda v, count: 1 << 31, False),
    "never the same": (lambda v, count: count(v) + next(CALLS), False),
    "two for each holder": (lambda v, count: 2 * count(v), False),
}


@pytest.mark.parametrize("name", COUNTS)
def test_a_count_is_believed_if_a_holder_is_one_more(monkeypatch, name):
    found, believed = COUNTS[name]
    original = references.getrefcount
    monkeypatch.setattr(references, "getrefcount", lambda v: found(v, original))
    assert bool(references.in_list()) is bool(references.in_slot()) is believed


def test_here_they_are_believed():
    assert references.ONE and references.TWO == references.ONE + 1 and references.SLOT


@pytest.fixture
def without(monkeypatch):
    for module, names in ((recorded, ("ONE", "TWO", "SLOT")), (fused, ("TWO", "SLOT"))):
        for name in names:
            monkeypatch.setattr(module, name, 0)


def test_without_them_traces_overwrite_nothing(recorded, without):
    w = torch.ones(64, 64)
    for i in range(trie.HOT + trie.AGAIN + 4):
        w.mul_(0.5).add_(1)
        before = w._storage.value
        torch._executor.recorded.cut()
        assert w._storage.value is before and w[0, 0].item() == 2 - 0.5 ** (i + 1)
    assert trie.TRIE.programs and not any(program.donated for program in trie.TRIE.programs)


def test_without_them_optimizers_overwrite_nothing(without):
    p = torch.nn.Parameter(torch.ones(64, 64))
    p.grad = torch.ones(64, 64)
    optimizer = torch.optim.SGD([p], lr=0.5)
    before = [p._storage.value for _ in range(3) if optimizer.step() is None]
    assert [float(fused.settled(v)[0, 0]) for v in before] == [0.5, 0.0, -0.5]
