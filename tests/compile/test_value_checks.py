"""A value check that fails in the last call of a compiled function is told of: by synchronize() and at the end."""

import atexit
import gc

import pytest

import torchlike as torch
from torchlike._executor import value_checks

TABLE = torch.arange(6.0).reshape(3, 2)


def row():
    return torch.compile(lambda i: torch.nn.functional.embedding(i, TABLE) * 2, fullgraph=True)


def called(function, *rows):
    return [function(torch.tensor([k])) for k in rows]


def test_synchronize_raises_what_no_call_has_asked_for():
    function = row()
    called(function, 0, 1)
    torch.cpu.synchronize()
    called(function, 7)
    with pytest.raises(IndexError, match="values that it refuses"):
        torch.cpu.synchronize()
    torch.cpu.synchronize()  # once
    (good,) = called(function, 1)
    assert good.tolist() == [[4.0, 6.0]]


def test_the_next_call_raises_first():
    function = row()
    called(function, 0, 7)
    with pytest.raises(IndexError, match="values that it refuses"):
        called(function, 1)
    torch.cpu.synchronize()


def test_functions_that_nobody_holds_any_more_are_told_of():
    function = row()
    called(function, 0, 1, 9)
    del function
    gc.collect()
    with pytest.raises(IndexError, match="values that it refuses"):
        value_checks.told()
    value_checks.told()


def test_what_is_watched_goes_with_its_function():
    before = len(value_checks._watched)
    function = row()
    called(function, 0)
    torch.cpu.synchronize()
    assert len(value_checks._watched) == before + 1
    del function
    gc.collect()
    assert len(value_checks._watched) == before


def test_the_end_of_the_process_asks(monkeypatch):
    registered = []
    with monkeypatch.context() as patch:
        patch.setattr(value_checks, "_watched", {})
        patch.setattr(atexit, "register", registered.append)
        called(row(), 0)
    atexit.register(value_checks.told)
    assert registered == [value_checks.told]


def error_of(f):
    try:
        f()
    except Exception as error:
        return error
    raise AssertionError("nothing is raised")


F = torch.nn.functional
REFUSED = {
    "index": lambda i: TABLE[i],
    "index_select": lambda i: TABLE.index_select(0, i),
    "take": lambda i: TABLE.take(i + 4),
    "gather": lambda i: TABLE.gather(0, i[None]),
    "scatter": lambda i: TABLE.scatter(0, i[None], 1.0),
    "one_hot": lambda i: F.one_hot(i, 3),
    "cross_entropy": lambda i: F.cross_entropy(TABLE[:1], i),
    "multinomial": lambda i: torch.multinomial(torch.ones(2) * (3 - i), 1),
    "cholesky": lambda i: torch.linalg.cholesky(torch.eye(2) * (2 - i)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_the_error_is_of_the_type_that_eager_code_raises(name):
    function = torch.compile(REFUSED[name])
    called(function, 1, 5)
    errors = [error_of(lambda: REFUSED[name](torch.tensor([5]))), error_of(lambda: called(function, 1))]
    assert len({*map(type, errors)}) == 1 and "found after a compiled program had run" in str(errors[1])


def log_prob(x):
    return torch.distributions.Normal(x, x).log_prob(x)


def mixed(x):
    d = torch.distributions
    chosen = d.MixtureSameFamily(d.Categorical(x), d.Uniform(x - 2, x + 3)).log_prob(x[:, 0])
    matrix = x[:, :2].mT @ x[:, :2] + torch.eye(2)
    counts = d.Geometric(x).log_prob(x.ceil()).sum(-1)
    return chosen + d.MultivariateNormal(x[:, :2], matrix).log_prob(x[:, 1:]) + counts


def aligned(x, lengths):
    scores = x.expand(6, 2, 4).log_softmax(-1)
    return torch.nn.functional.ctc_loss(scores, torch.tensor([[1, 2], [3, 1]]), lengths, torch.tensor([2, 1]))


def test_distributions_are_checked_in_one_program():
    compiled, x = torch.compile(log_prob, fullgraph=True), torch.ones(2)
    compiled(x)
    compiled(-x)
    with pytest.raises(ValueError, match="parameter scale of Normal to satisfy GreaterThan, but found invalid values"):
        torch.cpu.synchronize()
    assert torch.equal(compiled(x), log_prob(x))
    y = torch.rand(2, 3)
    torch.testing.assert_close(torch.compile(mixed, fullgraph=True)(y), mixed(y))


def test_lengths_of_sequences_are_checked_in_one_program():
    compiled, x = torch.compile(aligned, fullgraph=True), torch.rand(6, 2, 4)
    for lengths in ([6, 5], [6, 4], [3, 6]):
        torch.testing.assert_close(compiled(x, torch.tensor(lengths)), aligned(x, torch.tensor(lengths)))
    compiled(x, torch.tensor([6, 7]))
    with pytest.raises(RuntimeError, match="values that it refuses"):
        torch.cpu.synchronize()
