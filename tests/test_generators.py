"""Generators and their states, forks, the counter's stream, and what torch.utils.data draws."""

import numpy as np
import pytest
import torch
from draw_kit import as_numbers, close, same, state
from oracle import host

import torchlike

# ----- generators and their states -----


def test_states_travel():
    """After any draws, the state of either library continues the stream in the other."""
    draws = [lambda t: t.randn(3), lambda t: t.rand(700), lambda t: t.randn(1), lambda t: t.randn(17)]
    for t, other in ((torch, torchlike), (torchlike, torch)):
        t.manual_seed(-7)
        for draw in draws:
            draw(t)
            other.set_rng_state(other.from_numpy(state(t).copy()))
            assert other.initial_seed() == t.initial_seed() == 2**64 - 7
            assert state(other).tobytes() == state(t).tobytes()
        np.testing.assert_array_equal(as_numbers(t.randn(5)), as_numbers(other.randn(5)))


def test_generators():
    def run(t):
        g = t.Generator(device="cpu").manual_seed(2**40 + 3)
        kept = g.get_state()
        first = t.rand(3, generator=g), t.randn(3, generator=g), t.randperm(5, generator=g)
        x = t.empty(3).uniform_(generator=g), t.empty(3).normal_(generator=g), t.multinomial(t.ones(3), 2, generator=g)
        h = t.Generator()
        h.set_state(g.get_state())
        again = g.clone_state()
        g.set_state(kept)
        return [*first, *x, t.rand(1, generator=g), t.rand(1, generator=h), t.rand(1, generator=again), g.get_state()]

    same(run)
    assert torchlike.Generator().get_state().shape == (5056,)


def test_the_counter_is_part_of_the_state():
    """Programs draw by the counter; a state holds both."""
    f = torchlike.compile(lambda: torchlike.rand(3))
    torchlike.manual_seed(0)
    torchlike.rand(2)
    kept = torchlike.get_rng_state()
    first = f(), torchlike.rand(2), f()
    torchlike.set_rng_state(kept)
    second = f(), torchlike.rand(2), f()
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(host(a), host(b))
    assert not np.array_equal(host(first[0]), host(first[2]))


def test_bad_states():
    for bytes_ in (5055, 17):
        with pytest.raises(RuntimeError, match=f"{bytes_}"):
            torch.set_rng_state(torch.zeros(bytes_, dtype=torch.uint8))
        with pytest.raises(RuntimeError, match=f"5056 or 16 bytes, but found {bytes_}"):
            torchlike.set_rng_state(torchlike.zeros(bytes_, dtype=torchlike.uint8))
    before = state(torchlike)
    for t in (torch, torchlike):
        with pytest.raises(RuntimeError, match="Invalid mt19937 state"):
            t.set_rng_state(t.zeros(5056, dtype=t.uint8))
    assert (state(torchlike) == before).all()


def test_fork():
    def run(t):
        with t.random.fork_rng():
            t.manual_seed(9)
            inner = t.randn(3)
        return inner, t.randn(3)

    same(run)


def test_checkpoint_draws_the_same_again():
    def run(t, reentrant):
        x = t.ones(40, requires_grad=True)
        f = t.nn.functional.dropout
        y = t.utils.checkpoint.checkpoint(lambda x: f(x * 2, 0.5) * t.rand(40), x, use_reentrant=reentrant)
        between = t.rand(3)
        y.sum().backward()
        return y, between, x.grad, t.rand(3)

    for reentrant in (False, True):
        found = []
        for t in (torch, torchlike):
            t.manual_seed(0)
            found.append([as_numbers(x) for x in run(t, reentrant)])
        for a, b in zip(*found, strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-6)
        np.testing.assert_allclose(found[1][0], found[1][2], rtol=1e-6)


def test_failed_calls_draw_nothing():
    torchlike.manual_seed(0)
    before = state(torchlike)
    calls = [
        lambda t: t.rand(3, dtype=t.int32), lambda t: t.randn(3, dtype=t.int64),
        lambda t: t.empty(3, dtype=t.int32).uniform_(), lambda t: t.empty(4, 1).expand(4, 3).normal_(),
        lambda t: t.empty(3).uniform_(2, 1), lambda t: t.normal(t.zeros(2), t.ones(3)),
        lambda t: t.multinomial(t.tensor([1.0, -1.0]), 3, True),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises((RuntimeError, NotImplementedError)):
            call(torchlike)
    at_most_the_counter = np.delete(state(torchlike), slice(5016, 5024))
    assert (at_most_the_counter == np.delete(before, slice(5016, 5024))).all()


# ----- the counter's stream -----


@pytest.fixture
def threefry():
    torchlike.set_rng("threefry")
    yield
    torchlike.set_rng("torch")


def test_set_rng(threefry):
    torchlike.manual_seed(0)
    first, g = host(torchlike.rand(4)), torchlike.Generator()
    torchlike.manual_seed(0)
    np.testing.assert_array_equal(host(torchlike.compile(lambda: torchlike.rand(4))()), first)
    assert g.stream == "threefry" and torchlike.get_rng_state().shape == (16,)
    torchlike.set_rng("torch")
    np.testing.assert_array_equal(host(torchlike.rand(4)), torch.rand(4, generator=torch.Generator().manual_seed(0)))
    with pytest.raises(ValueError, match="one of torch, threefry, not 'philox'"):
        torchlike.set_rng("philox")


def test_order_of_samples_by_the_counter(threefry):
    torchlike.manual_seed(0)
    sampler = torchlike.utils.data.RandomSampler(range(10))
    first, second = list(sampler), list(sampler)
    torchlike.manual_seed(0)
    assert sorted(first) == list(range(10)) and first != second and list(sampler) == first


def test_compiled_functions_repeat():
    """A seed gives the same numbers each run; the stream goes on from call to call."""
    f = torchlike.compile(lambda x: torchlike.nn.functional.dropout(x, 0.5))
    runs = []
    for _ in range(2):
        torchlike.manual_seed(0)
        runs.append([host(f(torchlike.ones(30))) for _ in range(3)])
    for a, b in zip(*runs, strict=True):
        np.testing.assert_array_equal(a, b)
    assert not np.array_equal(runs[0][0], runs[0][1])


def test_vmap_and_grad():
    torchlike.manual_seed(0)
    x = torchlike.vmap(lambda x: x + torchlike.rand(3), randomness="different")(torchlike.zeros(2))
    assert not (x[0] == x[1]).any()

    def grads(t):
        return t.func.grad(lambda x: (t.nn.functional.dropout(x, 0.5) * t.rand(20)).sum())(t.ones(20))

    close(grads)


# ----- data -----


def orders(t):
    data, items = t.utils.data, range(10)
    g = t.Generator().manual_seed(4)
    yield [list(s) for s in data.random_split(items, [3, 7])]
    yield [list(s) for s in data.random_split(items, [0.5, 0.5], generator=g)]
    for options in ({}, {"num_samples": 25}, {"replacement": True, "num_samples": 40}, {"generator": g}):
        yield list(data.RandomSampler(items, **options))
    yield list(data.RandomSampler(items, True, 32, generator=g))
    yield list(data.SubsetRandomSampler(items))
    yield list(data.SubsetRandomSampler(items, generator=g))
    for n, replacement in ((5, True), (1, True), (2, False)):
        yield list(data.WeightedRandomSampler([0.1, 0.2, 0.7], n, replacement))
    yield list(data.DistributedSampler(items, 2, 0, seed=3))
    for options in ({}, {"shuffle": True}, {"shuffle": True, "generator": g}):
        yield [x.tolist() for x in data.DataLoader(list(items), batch_size=3, **options)]
    yield [x.tolist() for x in data.DataLoader(list(items), batch_size=3, shuffle=True, generator=g)]
    yield t.rand(2), t.rand(2, generator=g)


def test_orders_of_samples():
    same(lambda t: list(orders(t)))


def test_samplers_draw_at_their_first_sample():
    def run(t):
        data, found = t.utils.data, []
        for sampler in (
            data.RandomSampler(range(10)), data.RandomSampler(range(10), True), data.SubsetRandomSampler(range(10)),
            data.WeightedRandomSampler([0.1] * 9, 5), data.WeightedRandomSampler([0.1] * 9, 5, False),
        ):  # fmt: skip
            samples = iter(sampler)
            t.manual_seed(7)
            found += [next(samples), t.rand(1), next(samples), t.rand(1)]
        return found

    same(run)


class Seeds:
    """Each sample is the seed of the worker that reads it."""

    def __init__(self, t):
        self.t = t

    def __len__(self):
        return 4

    def __getitem__(self, i):
        return self.t.utils.data.get_worker_info().seed


def test_seeds_of_workers():
    torch.manual_seed(0)
    base = int(torch.empty((), dtype=torch.int64).random_())
    torchlike.manual_seed(0)
    loader = torchlike.utils.data.DataLoader(Seeds(torchlike), batch_size=None, num_workers=2)
    assert [int(x) for x in loader] == [base, base + 1, base, base + 1]


FILLS = {
    "uniform_": (),
    "normal_": (),
    "random_": (),
    "bernoulli_": (),
    "cauchy_": (),
    "exponential_": (),
    "geometric_": (0.5,),
}
REFUSED = {
    "leaf": lambda t: t.ones(3, requires_grad=True),
    "view of a leaf": lambda t: t.ones(3, requires_grad=True)[:2],
    "expanded": lambda t: t.ones(3).expand(2, 3),
    "inference": lambda t: inference(t),
}


def inference(t):
    with t.inference_mode():
        return t.ones(3)


@pytest.mark.parametrize("kind", REFUSED)
@pytest.mark.parametrize("name", FILLS)
def test_what_a_refused_fill_draws(name, kind):
    def run(t):
        with pytest.raises(RuntimeError):
            getattr(REFUSED[kind](t), name)(*FILLS[name])
        return t.rand(2)

    same(run)
