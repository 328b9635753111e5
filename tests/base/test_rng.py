"""Generators against PyTorch's, and the keys made of their draws."""

import copy
import pickle
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from torchlike._base import rng
from torchlike._base.device import device

jax.config.update("jax_enable_x64", True)

SEEDS = [0, 3, -1, -5, 2**32, 2**63, 2**64 - 1, -(2**63)]
BAD_SEEDS = [2**64, -(2**63) - 1, 1.5, 1.0, "1", True, None, np.int64(3)]


def key_data(words):
    return tuple(np.asarray(jax.random.key_data(rng.key(words))).tolist())


def draws(generator, count=3):
    return [generator.draw().tolist() for _ in range(count)]


@pytest.mark.parametrize("seed", SEEDS)
def test_seed(seed):
    g = rng.Generator()
    assert g.manual_seed(seed) is g
    assert g.initial_seed() == torch.Generator().manual_seed(seed).initial_seed()
    words = g.draw().astype(object)
    assert (words[0] << 32 | words[1], words[2] << 32 | words[3]) == (seed % 2**64, 0)


@pytest.mark.parametrize("seed", BAD_SEEDS, ids=repr)
def test_bad_seed_changes_nothing(seed):
    g = rng.Generator().manual_seed(7)
    g.draw()
    with pytest.raises((ValueError, RuntimeError, TypeError)) as theirs:
        torch.Generator().manual_seed(seed)
    with pytest.raises(theirs.type, match="manual_seed"):
        g.manual_seed(seed)
    assert (g.initial_seed(), g.counter) == (7, 1)


def test_no_seed_given():
    assert rng.Generator().initial_seed() == torch.Generator().initial_seed()
    assert draws(rng.Generator()) == draws(rng.Generator())


def test_seed_is_fresh():
    g = rng.Generator()
    g.draw()
    first, second = g.seed(), g.seed()
    assert first != second == g.initial_seed() and g.counter == 0


def test_default_generator_starts_anywhere():
    assert isinstance(rng.default_generator, rng.Generator)
    assert rng.default_generator.device == device("cpu")
    assert rng.default_generator.initial_seed() != rng.Generator().initial_seed()


def test_draws_count():
    g = rng.Generator().manual_seed(5)
    words = g.draw()
    assert words.dtype == np.uint32 and words.shape == (4,)
    assert draws(g, 2) == [[0, 5, 0, 1], [0, 5, 0, 2]] and g.counter == 3
    assert draws(g.manual_seed(5), 1) == [[0, 5, 0, 0]]


def test_counter_is_64_bits():
    g = rng.Generator().manual_seed(1)
    g.set_state(np.array([1, 2**32 - 1], "<u8").view(np.uint8))
    assert draws(g, 2) == [[0, 1, 0, 2**32 - 1], [0, 1, 1, 0]]
    g.set_state(np.array([1, 2**64 - 1], "<u8").view(np.uint8))
    assert draws(g, 2) == [[0, 1, 2**32 - 1, 2**32 - 1], [0, 1, 0, 0]]


def test_state_goes_back():
    g = rng.Generator().manual_seed(4)
    g.draw()
    state = g.get_state()
    after = draws(g)
    g.manual_seed(9).set_state(state)
    assert g.initial_seed() == 4 and draws(g) == after
    assert state.dtype == np.uint8 and state.ndim == 1


def test_state_is_a_copy():
    g = rng.Generator().manual_seed(4)
    state = g.get_state()
    state[:] = 0
    assert g.initial_seed() == 4
    h = rng.Generator()
    state = np.repeat(g.get_state(), 2)[::2]
    h.set_state(state)
    assert h.initial_seed() == 4


@pytest.mark.parametrize("state, error, match", [
    (np.zeros(3, np.uint8), RuntimeError, "16 bytes, but found 3"),
    (np.zeros(0, np.uint8), RuntimeError, "but found 0"),
    (np.zeros(16, np.int8), TypeError, "ByteTensor.*int8"),
    (np.zeros(16), TypeError, "ByteTensor.*float64"),
    (3, TypeError, "ByteTensor.*int"),
    (None, TypeError, "ByteTensor.*NoneType"),
])  # fmt: skip
def test_bad_state_changes_nothing(state, error, match):
    g = rng.Generator().manual_seed(7)
    with pytest.raises(error, match=match):
        g.set_state(state)
    assert g.initial_seed() == 7


@pytest.mark.parametrize("clone", [
    lambda g: g.clone_state(), copy.copy, copy.deepcopy, lambda g: pickle.loads(pickle.dumps(g)),
])  # fmt: skip
def test_copies_go_their_own_way(clone):
    g = rng.Generator().manual_seed(5)
    g.draw()
    h = clone(g)
    assert h is not g and h.device == g.device and draws(h) == draws(g)
    g.manual_seed(6)
    assert h.initial_seed() == 5


@pytest.mark.parametrize("given", [None, "cpu", "cpu:0", device("cpu")])
def test_device(given):
    assert rng.Generator(given).device is device("cpu")


@pytest.mark.parametrize("bad", ["foo", "meta", "mps", "cuda:4096"])
def test_device_refused(bad):
    with pytest.raises(RuntimeError, match=bad):
        rng.Generator(bad)


@pytest.mark.parametrize("call", [lambda g: g.get_offset(), lambda g: g.set_offset(4)])
def test_offset_is_not_for_the_cpu(call):
    with pytest.raises(RuntimeError, match="CPU Generator does not use offset"):
        call(torch.Generator())
    with pytest.raises(RuntimeError, match="CPU Generator does not use offset"):
        call(rng.Generator())


def test_no_attributes_of_ones_own():
    with pytest.raises(AttributeError):
        rng.Generator().foo = 1


def test_threads_get_different_draws():
    g = rng.Generator().manual_seed(1)
    seen = []
    threads = [threading.Thread(target=lambda: seen.extend(draws(g, 500))) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(words[3] for words in seen) == list(range(2000)) and g.counter == 2000


def test_keys_are_distinct():
    seeds, counters = [0, 1, 2, 2**32, 2**63, 2**64 - 1], [*range(40), 2**32, 2**32 + 1, 2**40, 2**64 - 1]
    words = np.array([[s >> 32, s % 2**32, c >> 32, c % 2**32] for s in seeds for c in counters], np.uint32)
    data = jax.vmap(lambda w: jax.random.key_data(rng.key(w)))(words)
    assert len(np.unique(np.asarray(data), axis=0)) == len(words)


def test_key_is_typed_and_traceable():
    words = np.array([1, 2, 3, 4], np.uint32)
    assert jnp.issubdtype(rng.key(words).dtype, jax.dtypes.prng_key)
    eager = jax.random.uniform(rng.key(words), (5,))
    assert jnp.array_equal(eager, jax.jit(lambda w: jax.random.uniform(rng.key(w), (5,)))(words))
    with jax.default_prng_impl("rbg"):
        assert key_data(words) == key_data(jnp.asarray(words))
        assert "fry" in str(rng.key(words).dtype)


def test_key_is_the_same_in_every_release():
    """A seed must mean the same numbers tomorrow: Threefry-2x32-20's published test vectors (Random123)."""
    assert key_data(np.zeros(4, np.uint32)) == (0x6B200159, 0x99BA4EFE)
    assert key_data(np.full(4, 2**32 - 1, np.uint32)) == (0x1CB996FC, 0xBB002BE7)


def test_streams_look_independent():
    """Neighbouring draws of neighbouring seeds are uncorrelated, to five standard errors."""
    words = np.array([[0, s, 0, c] for s in range(4) for c in range(4)], np.uint32)
    x = np.asarray(jax.vmap(lambda w: jax.random.normal(rng.key(w), (4096,)))(words))
    correlation = np.corrcoef(x) - np.eye(len(x))
    assert np.abs(correlation).max() < 5 / np.sqrt(x.shape[1])
