"""What compiled functions draw on the CPU: PyTorch's numbers, made before each call, in eager code's order."""

import numpy as np
import pytest
import torch as pytorch

import torchlike
from torchlike._executor.spread import USED


def numbers(m, f, compiled, calls=3):
    """What ``f(m, x)`` gives call after call from a seed, and where the generator is then."""
    run = torchlike.compile(lambda x: f(m, x), fullgraph=True) if compiled else lambda x: f(m, x)
    m.manual_seed(3)
    x = m.arange(12.0).reshape(3, 4) / 10
    found = [[t.detach().numpy() for t in run(x)] for _ in range(calls)]
    return found, m.get_rng_state().numpy(), m.rand(2).numpy()


def same(f, calls=3):
    """Compiled, ``f`` gives what it gives in PyTorch's eager code, and leaves the generator where that does."""
    (ours, state, after), (theirs, there, following) = (
        numbers(torchlike, f, True, calls),
        numbers(pytorch, f, False, calls),
    )
    for a, b in zip(ours, theirs, strict=True):
        for p, q in zip(a, b, strict=True):
            np.testing.assert_allclose(p, q, rtol=1e-6, atol=1e-7)
    assert (state == there).all() and (after == following).all()


DRAWS = {
    "dropout": lambda m, x: [m.nn.functional.dropout(x, 0.3)],
    "dropout in place": lambda m, x: [m.nn.functional.dropout(x * 1, 0.3, inplace=True)],
    "dropout of channels": lambda m, x: [m.nn.functional.dropout1d(x[None], 0.4)],
    "alpha dropout": lambda m, x: [m.nn.functional.alpha_dropout(x, 0.4)],
    "transposed": lambda m, x: [m.nn.functional.dropout(x.t(), 0.3), m.rand_like(x.t())],
    "rand": lambda m, x: [m.rand(3, 4) + x, m.rand(())],
    "randn": lambda m, x: [m.randn(40), m.randn(3), m.randn(1)],
    "bfloat16": lambda m, x: [m.rand(5, dtype=m.bfloat16).float()],
    "float64": lambda m, x: [m.randn(5, dtype=m.float64), m.rand(5, dtype=m.float64)],
    "complex": lambda m, x: [m.view_as_real(m.randn(5, dtype=m.complex64))],
    "like": lambda m, x: [m.rand_like(x), m.randn_like(x), m.randint_like(x, 5)],
    "integers": lambda m, x: [m.randint(0, 9, (7,)), m.randperm(6), m.empty(4).random_(3)],
    "filled": lambda m, x: [m.empty(40).normal_(1, 2), m.empty(4).uniform_(-1, 1), m.empty(3).exponential_(2)],
    "others": lambda m, x: [m.empty(4).cauchy_(), m.empty(4).geometric_(0.3), m.empty(4).log_normal_()],
    "bernoulli": lambda m, x: [m.bernoulli(x / 2), m.empty(4).bernoulli_(0.2), m.bernoulli(x, 0.5)],
    "normal of tensors": lambda m, x: [m.normal(x, 1.0), m.normal(x, x + 1)],
    "gumbel": lambda m, x: [m.nn.functional.gumbel_softmax(x, dim=-1)],
    "gumbel transposed": lambda m, x: [m.nn.functional.gumbel_softmax(x.t(), dim=-1)],
    "without replacement": lambda m, x: [m.multinomial(m.ones(5), 2), m.multinomial(m.ones(5), 1)],
    "attention": lambda m, x: [m.nn.functional.scaled_dot_product_attention(x, x, x, dropout_p=0.5)],
    "nobody reads it": lambda m, x: [m.rand(3)[:0].sum() + x, m.rand(2)] if m.rand(5) is not None else None,
    "init": lambda m, x: [m.nn.init.xavier_normal_(m.empty(3, 4))],
    "between": lambda m, x: [m.nn.functional.dropout(m.nn.functional.dropout(x) + m.rand(3, 4), 0.2)],
}


@pytest.mark.parametrize("name", DRAWS)
def test_draws(name):
    same(DRAWS[name])


def _again(m, x):
    with m.random.fork_rng():
        first = m.rand(2)
    return [first, m.rand(2), m.rand(1)]


def _checkpointed(m, x):
    w = x * 1
    w.requires_grad_()
    y = m.utils.checkpoint.checkpoint(lambda t: m.nn.functional.dropout(t, 0.5).exp(), w, use_reentrant=False)
    return [y, m.autograd.grad(y.sum(), w)[0]]


@pytest.mark.parametrize("f", [_again, _checkpointed], ids=["a state that is put back", "a checkpoint"])
def test_drawn_again(f):
    same(f)


def test_training_step():
    """Dropout, its gradient and the optimizer in one program."""
    losses = []
    for m in (torchlike, pytorch):
        m.manual_seed(0)
        model = m.nn.Sequential(m.nn.Linear(4, 8), m.nn.ReLU(), m.nn.Dropout(0.3), m.nn.Linear(8, 2))
        optimizer = m.optim.Adam(model.parameters(), 0.01)

        def step(x, model=model, optimizer=optimizer):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        run = m.compile(step) if m is torchlike else step
        losses.append([run(m.randn(6, 4)).item() for _ in range(5)])
    np.testing.assert_allclose(*losses, rtol=1e-5)


def test_recurrent():
    found = []
    for m in (torchlike, pytorch):
        m.manual_seed(0)
        lstm, x = m.nn.LSTM(3, 4, num_layers=3, dropout=0.5, bidirectional=True), m.ones(5, 2, 3)
        run = m.compile(lstm) if m is torchlike else lstm
        found.append([run(x)[0].detach().numpy() for _ in range(2)])
    np.testing.assert_allclose(*found, rtol=1e-5, atol=1e-6)


def test_pieces():
    """A function that breaks draws each number once."""

    def f(m, x):
        y = m.nn.functional.dropout(x)
        return [y if y.sum().item() > 0 else -y, m.rand(3)]

    run = torchlike.compile(lambda x: f(torchlike, x))
    for m, g in ((torchlike, run), (pytorch, lambda x: f(pytorch, x))):
        m.manual_seed(1)
        found = [[t.numpy() for t in g(m.ones(3, 4))] for _ in range(3)], m.get_rng_state().numpy()
        if m is torchlike:
            ours = found
    assert all((a == b).all() for p, q in zip(ours[0], found[0], strict=True) for a, b in zip(p, q, strict=True))
    assert (ours[1] == found[1]).all()


def test_a_generator_of_its_own():
    found = []
    for m in (torchlike, pytorch):
        g = m.Generator().manual_seed(4)
        f = lambda x, m=m, g=g: x + m.rand(3, generator=g)  # noqa: E731
        run = m.compile(f, fullgraph=True) if m is torchlike else f
        found.append([run(m.zeros(3)).numpy() for _ in range(3)] + [g.get_state().numpy()])
    assert all((a == b).all() for a, b in zip(*found, strict=True))


def test_values_spread_elsewhere_in_the_process_change_nothing():
    before = list(USED)
    USED[:] = [True]
    try:
        torchlike.manual_seed(0)
        got = torchlike.compile(lambda: torchlike.rand(2))()
    finally:
        USED[:] = before
    assert got.tolist() == [0.49625658988952637, 0.7682217955589294]


def test_other_streams_go_on_in_programs():
    torchlike.set_rng("threefry")
    try:
        torchlike.manual_seed(0)
        eager = torchlike.rand(3)
        torchlike.manual_seed(0)
        assert torchlike.equal(torchlike.compile(lambda: torchlike.rand(3))(), eager)
    finally:
        torchlike.set_rng("torch")


def test_maps_inside_draw_from_the_counter():
    """What a map draws is made in the program, and leaves PyTorch's stream where it was."""
    before = torchlike.get_rng_state()[:5016].clone()
    draw = torchlike.compile(
        lambda x: torchlike.vmap(lambda row: row + torchlike.rand(2), randomness="different")(x), fullgraph=True
    )
    a, b = draw(torchlike.zeros(3, 2)), draw(torchlike.zeros(3, 2))
    assert not torchlike.equal(a, b)
    assert torchlike.equal(torchlike.get_rng_state()[:5016], before)


def test_a_seed_within_is_not_one_program():
    def f(x):
        torchlike.manual_seed(7)
        return x + torchlike.rand(3)

    pytorch.manual_seed(7)
    expected = pytorch.rand(3).numpy()
    run = torchlike.compile(f)
    assert all((run(torchlike.zeros(3)).numpy() == expected).all() for _ in range(2))
