"""Random numbers of the CPU: PyTorch's own, from the same seed and from the same state."""

import math
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from oracle import host

import torchlike
from torchlike._functions import rejection

SIZES = (0, 1, 2, 15, 16, 17, 33, 100, 1000)
EVERY = os.environ.get("TORCHLIKE_EVERY", "0") != "0"
FLOATS = ("float32", "float64", "bfloat16", "float16")
DTYPES = (*FLOATS, "int64", "int32", "int16", "int8", "uint8", "bool")


def as_numbers(x):
    """A tensor of either library as an array that numpy can compare."""
    if isinstance(x, torch.Tensor | torchlike.Tensor):
        x = host(x.detach())
    return np.asarray(x, np.float64) if x.dtype.kind not in "biuc" and x.dtype.itemsize < 4 else np.asarray(x)


def state(t):
    return host(t.get_rng_state())


def same(draw, seed=3, ulps=0):
    """``draw(t)`` gives the same numbers, up to ``ulps`` roundings, and leaves the generators in the same state."""
    found = []
    for t in (torch, torchlike):
        t.manual_seed(seed)
        found.append((draw(t), state(t)))
    (expected, before), (got, after) = found
    compare(expected, got, ulps)
    if not ulps:  # a normal sample that is kept may differ by a rounding
        assert before.tobytes() == after.tobytes()
    kept = slice(5024, 5032)
    assert np.delete(before, kept).tobytes() == np.delete(after, kept).tobytes()


def compare(expected, got, ulps=0):
    if isinstance(expected, list | tuple):
        assert len(expected) == len(got)
        for a, b in zip(expected, got, strict=True):
            compare(a, b, ulps)
        return
    if not isinstance(expected, torch.Tensor):
        assert expected == got
        return
    assert str(expected.dtype) == str(got.dtype).replace("torchlike", "torch")
    assert tuple(expected.shape) == tuple(got.shape)
    assert expected.stride() == got.stride()
    a, b = as_numbers(expected), as_numbers(got)
    if not ulps:
        np.testing.assert_array_equal(b, a)
    else:
        np.testing.assert_array_max_ulp(np.asarray(a, a.dtype), np.asarray(b, a.dtype), ulps)


def of(name):
    return lambda t: getattr(t, name)


# ----- draws: PyTorch's numbers, bit by bit -----

FACTORIES = {
    "rand": lambda t, n, d: t.rand(n, dtype=d),
    "randn": lambda t, n, d: t.randn(n, dtype=d),
    "uniform_": lambda t, n, d: t.empty(n, dtype=d).uniform_(),
    "uniform_(a, b)": lambda t, n, d: t.empty(n, dtype=d).uniform_(0.1, 0.3),
    "uniform_(-a, a)": lambda t, n, d: t.empty(n, dtype=d).uniform_(-1 / math.sqrt(7), 1 / math.sqrt(7)),
    "normal_": lambda t, n, d: t.empty(n, dtype=d).normal_(),
    "normal_(m, s)": lambda t, n, d: t.empty(n, dtype=d).normal_(0.1, 0.02),
    "normal": lambda t, n, d: t.normal(0.1, 0.02, (n,), dtype=d),
    "log_normal_": lambda t, n, d: t.empty(n, dtype=d).log_normal_(0.1, 0.3),
    "exponential_": lambda t, n, d: t.empty(n, dtype=d).exponential_(1.7),
    "cauchy_": lambda t, n, d: t.empty(n, dtype=d).cauchy_(0.3, 1.7),
    "bernoulli": lambda t, n, d: t.bernoulli(t.full((n,), 0.3, dtype=d)),
    "bernoulli(p)": lambda t, n, d: t.bernoulli(t.empty(n, dtype=d), 0.3),
    "normal(tensor, s)": lambda t, n, d: t.normal(t.full((n,), 0.1, dtype=d), 0.02),
    "normal(m, tensor)": lambda t, n, d: t.normal(0.1, t.full((n,), 0.02, dtype=d)),
    "normal(tensor, tensor)": lambda t, n, d: t.normal(t.full((n, 1), 0.1, dtype=d), t.full((1, 3), 0.02, dtype=d)),
    "dropout": lambda t, n, d: t.nn.functional.dropout(t.ones(n, dtype=d), 0.3),
    "rand_like": lambda t, n, d: t.rand_like(t.empty(n, dtype=d)),
    "randn_like": lambda t, n, d: t.randn_like(t.empty(n, dtype=d)),
}
# float64 from logarithms and the like of more than 256 numbers, which numpy may round otherwise than the C library
LOGARITHMS = {"randn", "randn_like", "normal_", "normal_(m, s)", "normal", "log_normal_", "exponential_", "cauchy_"}
LOGARITHMS |= {"normal(tensor, s)", "normal(m, tensor)", "normal(tensor, tensor)"}


@pytest.fixture
def sizes(execution):
    """The lengths at which PyTorch draws in other ways; what a recording adds does not depend on them."""
    return SIZES if execution == "immediate" or EVERY else (0, 17, 1000)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", FACTORIES)
def test_floats(name, dtype, sizes):
    for n in sizes:
        ulps = 4 if dtype == "float64" and n > 128 and name in LOGARITHMS else 0
        same(lambda t, n=n: FACTORIES[name](t, n, getattr(t, dtype)), ulps=ulps)


INTEGERS = {
    "random_": lambda t, n, d: t.empty(n, dtype=d).random_(),
    "random_(to)": lambda t, n, d: t.empty(n, dtype=d).random_(2),
    "bernoulli_": lambda t, n, d: t.empty(n, dtype=d).bernoulli_(0.3),
    "bernoulli_(tensor)": lambda t, n, d: t.empty(n, dtype=d).bernoulli_(t.full((n,), 0.3)),
    "bernoulli_(float64)": lambda t, n, d: t.empty(n, dtype=d).bernoulli_(t.full((n,), 0.3, dtype=t.float64)),
    "randint": lambda t, n, d: t.randint(2, (n,), dtype=d),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", INTEGERS)
def test_all_dtypes(name, dtype, sizes):
    for n in sizes:
        same(lambda t, n=n: INTEGERS[name](t, n, getattr(t, dtype)))


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != "bool"])
def test_geometric(dtype, sizes):
    for n in sizes:
        same(lambda t, n=n: t.empty(n, dtype=getattr(t, dtype)).geometric_(0.3))


RANGES = [(0, 10), (-5, 10), (0, 2**28 - 1), (0, 2**28), (-7, 2**31), (0, 2**32), (0, 2**62), (-(2**63), 2**63 - 1)]


@pytest.mark.parametrize("bounds", RANGES, ids=str)
def test_ranges(bounds):
    for n in (1, 17, 1000):
        same(lambda t, n=n: t.randint(*bounds, (n,)))
        same(lambda t, n=n: t.empty(n, dtype=t.int64).random_(*bounds))


def test_ranges_that_end_with_the_dtype():
    same(lambda t: t.empty(20, dtype=t.int64).random_(-(2**63), None))
    same(lambda t: t.empty(20, dtype=t.int64).random_(5, None))
    same(lambda t: t.empty(20, dtype=t.int32).random_(5, None))
    same(lambda t: t.empty(20, dtype=t.float16).random_(3, None))


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex(dtype):
    for n in (0, 1, 7, 8, 20, 100):
        same(lambda t, n=n: t.rand(n, dtype=getattr(t, dtype)))
        same(lambda t, n=n: t.randn(n, dtype=getattr(t, dtype)), ulps=0)


@pytest.mark.parametrize("n", [0, 1, 2, 17, 1000, 30_000])
def test_permutations(n):
    same(lambda t: t.randperm(n))
    same(lambda t: t.randperm(n, dtype=t.int32))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_multinomial(dtype):
    weights = [[0.1, 0.0, 2.0, 0.7, 1.0], [3.0, 1.0, 0.0, 0.2, 0.5]]
    for n, replacement in ((1, True), (1, False), (3, False), (2, True), (100, True)):
        same(lambda t, n=n, r=replacement: t.multinomial(t.tensor(weights, dtype=getattr(t, dtype)), n, r))
        same(lambda t, n=n, r=replacement: t.multinomial(t.tensor(weights[0], dtype=getattr(t, dtype)), n, r))
    columns = [list(column) for column in zip(*weights, strict=True)]
    same(lambda t: t.multinomial(t.tensor(columns, dtype=getattr(t, dtype)).t(), 2))


def test_large():
    """Where compiled code makes the numbers."""
    for n in (40_000, 100_001):
        same(lambda t, n=n: (t.randn(n), t.empty(n).normal_(0.1, 0.02), t.rand(n), t.randn(3)))


# ----- the order in which tensors are filled -----

TARGETS = {
    "transposed": lambda t: t.empty(5, 7).t(),
    "small": lambda t: t.empty(2, 3).t(),
    "every second column": lambda t: t.empty(5, 8)[:, ::2],
    "every second row": lambda t: t.empty(10, 4)[::2],
    "rows": lambda t: t.empty(10, 4)[2:8],
    "permuted": lambda t: t.empty(3, 4, 5).permute(2, 0, 1),
    "channels last": lambda t: t.empty(2, 3, 4, 4).to(memory_format=t.channels_last),
    "no dimensions": lambda t: t.empty(()),
    "complex": lambda t: t.empty(5, 7, dtype=t.complex64).t(),
}
FILLS = {
    "uniform_": lambda x: x.uniform_(),
    "normal_": lambda x: x.normal_(),
    "random_": lambda x: x.random_(100),
    "exponential_": lambda x: x.exponential_(),
    "bernoulli_": lambda x: x.bernoulli_(0.4),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("fill", FILLS)
def test_order(fill, target):
    if target == "complex" and fill not in ("uniform_", "normal_"):
        return

    def run(t):
        x = TARGETS[target](t)
        FILLS[fill](x)
        return x

    same(run)


def test_order_of_new_tensors():
    def like(t, name):
        return getattr(t, name)(t.empty(5, 7).t())

    for name in ("rand_like", "randn_like"):
        same(lambda t, name=name: like(t, name))
    same(lambda t: t.randint_like(t.empty(5, 7).t(), 9))
    same(lambda t: t.randn_like(t.empty(2, 3, 4, 4), memory_format=t.channels_last))
    same(lambda t: t.nn.functional.dropout(t.ones(5, 7).t(), 0.3))
    same(lambda t: t.bernoulli(t.full((5, 7), 0.4).t()))
    same(lambda t: t.empty(5, 7).t().bernoulli_(t.full((7, 5), 0.4)))
    same(lambda t: t.rand(7, 5, out=t.empty(5, 7).t()))
    same(lambda t: t.normal(t.zeros(5, 7).t(), 1.0))


# ----- functions that draw -----

FUNCTIONS = {
    "dropout2d": lambda t: t.nn.functional.dropout2d(t.ones(4, 3, 2, 2), 0.3),
    "alpha_dropout": lambda t: t.nn.functional.alpha_dropout(t.ones(20), 0.3, True) > 0.5,
    "feature_alpha_dropout": lambda t: t.nn.functional.feature_alpha_dropout(t.ones(5, 4, 3), 0.3, True) > 0.5,
    "native_dropout": lambda t: t.native_dropout(t.ones(20), 0.3, True)[1],
    "gumbel_softmax": lambda t: t.nn.functional.gumbel_softmax(t.zeros(3, 4), hard=True),
    "rrelu": lambda t: t.nn.functional.rrelu(t.tensor([-1.0, 1, -2, 3, -1, -1]), 0.1, 0.3, True),
    "attention": lambda t: t.nn.functional.scaled_dot_product_attention(*[t.ones(1, 2, 3, 4)] * 3, dropout_p=0.5),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name):
    same(FUNCTIONS[name])


def close(draw):
    found = []
    for t in (torch, torchlike):
        t.manual_seed(5)
        found.append((as_numbers(draw(t)), state(t).tobytes()))
    np.testing.assert_allclose(found[1][0], found[0][0], rtol=2e-5, atol=1e-6)
    assert found[0][1] == found[1][1]


def recurrent(t, kind="LSTM", packed=False, **options):
    net = getattr(t.nn, kind)(3, 4, 3, dropout=0.5, **options)
    x = t.randn(5, 2, 3)
    if packed:
        x = t.nn.utils.rnn.pack_padded_sequence(x, t.tensor([5, 3]))
    out = net(x)[0]
    return out.data if packed else out


NETWORKS = {
    "lstm": recurrent,
    "gru": lambda t: recurrent(t, "GRU", bidirectional=True),
    "rnn, batch first": lambda t: recurrent(t, "RNN", batch_first=True),
    "projected": lambda t: recurrent(t, proj_size=2),
    "packed": lambda t: recurrent(t, packed=True),
    "multi head": lambda t: t.nn.MultiheadAttention(8, 2, dropout=0.5)(*[t.randn(4, 2, 8)] * 3)[0],
    "multi head, zeros": lambda t: t.nn.MultiheadAttention(8, 2, dropout=0.5, add_zero_attn=True, add_bias_kv=True)(
        *[t.randn(4, 2, 8)] * 3, need_weights=False
    )[0],
    "encoder": lambda t: t.nn.TransformerEncoderLayer(8, 2, 16, 0.3)(t.randn(4, 2, 8)),
    "decoder": lambda t: t.nn.TransformerDecoderLayer(8, 2, 16, 0.3)(t.randn(4, 2, 8), t.randn(3, 2, 8)),
}


@pytest.mark.filterwarnings("ignore:LSTM with projections")
@pytest.mark.parametrize("name", NETWORKS)
def test_networks(name):
    close(NETWORKS[name])


def test_backward_of_dropout():
    def grads(t):
        x = t.ones(20, requires_grad=True)
        (t.nn.functional.dropout(x, 0.3) * t.rand(20)).sum().backward()
        return x.grad

    close(grads)


# ----- modules -----

MODULES = {
    "Linear": lambda nn: nn.Linear(5, 7),
    "Bilinear": lambda nn: nn.Bilinear(3, 4, 5),
    "Conv1d": lambda nn: nn.Conv1d(3, 4, 3),
    "Conv2d": lambda nn: nn.Conv2d(4, 8, 3, groups=2),
    "Conv3d": lambda nn: nn.Conv3d(2, 3, 2),
    "ConvTranspose1d": lambda nn: nn.ConvTranspose1d(3, 4, 3),
    "ConvTranspose2d": lambda nn: nn.ConvTranspose2d(3, 4, 3),
    "ConvTranspose3d": lambda nn: nn.ConvTranspose3d(2, 3, 2),
    "Embedding": lambda nn: nn.Embedding(10, 7, padding_idx=2),
    "EmbeddingBag": lambda nn: nn.EmbeddingBag(10, 7),
    "LSTM": lambda nn: nn.LSTM(3, 4, 2, bidirectional=True),
    "LSTM, projected": lambda nn: nn.LSTM(3, 4, 2, proj_size=2),
    "GRU": lambda nn: nn.GRU(3, 4, 2),
    "RNN": lambda nn: nn.RNN(3, 4, 2),
    "LSTMCell": lambda nn: nn.LSTMCell(3, 4),
    "GRUCell": lambda nn: nn.GRUCell(3, 4),
    "RNNCell": lambda nn: nn.RNNCell(3, 4),
    "MultiheadAttention": lambda nn: nn.MultiheadAttention(8, 2),
    "MultiheadAttention, kdim": lambda nn: nn.MultiheadAttention(8, 2, kdim=5, vdim=6, add_bias_kv=True),
    "TransformerEncoderLayer": lambda nn: nn.TransformerEncoderLayer(8, 2, 16),
    "TransformerDecoderLayer": lambda nn: nn.TransformerDecoderLayer(8, 2, 16),
    "Transformer": lambda nn: nn.Transformer(8, 2, 1, 2, 16, batch_first=True),
    "BatchNorm2d": lambda nn: nn.BatchNorm2d(3),
    "PReLU": lambda nn: nn.PReLU(4),
    "AdaptiveLogSoftmaxWithLoss": lambda nn: nn.AdaptiveLogSoftmaxWithLoss(16, 20, [5, 10]),
    "Linear, float64": lambda nn: nn.Linear(5, 7, dtype=nn.Linear(1, 1).weight.double().dtype),
    "weight_norm": lambda nn: nn.utils.parametrizations.weight_norm(nn.Linear(5, 7)),
    "spectral_norm": lambda nn: nn.utils.parametrizations.spectral_norm(nn.Linear(5, 7)),
}


@pytest.mark.parametrize("name", MODULES)
def test_modules_start_with_the_same_numbers(name):
    found = []
    for t in (torch, torchlike):
        t.manual_seed(1)
        module = MODULES[name](t.nn)
        found.append(({k: as_numbers(v) for k, v in module.state_dict().items()}, state(t).tobytes()))
    (expected, before), (got, after) = found
    assert list(expected) == list(got)
    for key, value in expected.items():
        if name in ("spectral_norm", "weight_norm"):  # some entries are computed from what was drawn
            np.testing.assert_allclose(got[key], value, rtol=1e-4)
        else:
            np.testing.assert_array_equal(got[key], value)
    assert before == after


INITS = {
    "uniform_": lambda i, w: i.uniform_(w, -1, 2),
    "normal_": lambda i, w: i.normal_(w, 0.5, 0.02),
    "trunc_normal_": lambda i, w: i.trunc_normal_(w, std=0.02),
    "trunc_normal_, cut": lambda i, w: i.trunc_normal_(w, 0.5, 1, -1, 1),
    "trunc_normal_, narrow": lambda i, w: i.trunc_normal_(w, 0, 5, -0.1, 0.1),
    "trunc_normal_, far": lambda i, w: i.trunc_normal_(w, 0, 1, 1, 3),
    "xavier_uniform_": lambda i, w: i.xavier_uniform_(w, 1.5),
    "xavier_normal_": lambda i, w: i.xavier_normal_(w),
    "kaiming_uniform_": lambda i, w: i.kaiming_uniform_(w, a=math.sqrt(5)),
    "kaiming_normal_": lambda i, w: i.kaiming_normal_(w, mode="fan_out"),
    "sparse_": lambda i, w: i.sparse_(w, 0.4),
    "orthogonal_": lambda i, w: i.orthogonal_(w),
}


@pytest.mark.parametrize("name", INITS)
def test_init(name):
    def run(t):
        return INITS[name](t.nn.init, t.empty(9, 7))

    if name == "orthogonal_":  # computed from what was drawn
        close(run)
    else:
        same(run)


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


# ----- samples by rejection -----


def spread(t, low, high, n=60, dtype="float32"):
    return t.linspace(low, high, n, dtype=t.float64).to(getattr(t, dtype))


REJECTED = {
    "poisson": lambda t: t.poisson(spread(t, 0, 25)),
    "poisson, double": lambda t: t.poisson(spread(t, 0, 2000, dtype="float64")),
    "poisson, half": lambda t: t.poisson(spread(t, 0, 20, dtype="bfloat16")),
    "poisson, turned": lambda t: t.poisson(spread(t, 0, 25).reshape(6, 10).t()),
    "poisson, generator": lambda t: t.poisson(spread(t, 1, 12), generator=t.Generator().manual_seed(3)),
    "poisson, empty": lambda t: t.poisson(t.ones(0, 3)),
    "binomial": lambda t: t.binomial(spread(t, 0, 59), t.tensor(0.4)),
    "binomial, probabilities": lambda t: t.binomial(t.full((60,), 100.0), spread(t, 0, 1)),
    "binomial, many": lambda t: t.binomial(t.full((60,), 5000.0, dtype=t.float64), spread(t, 0, 1, dtype="float64")),
    "normal afterwards": lambda t: (t._standard_gamma(t.ones(3, dtype=t.float64)), t.randn(3)),
}


@pytest.mark.parametrize("name", REJECTED)
def test_samples_by_rejection(name):
    same(REJECTED[name])


def test_samples_by_rejection_that_are_rounded():
    for dtype in ("float32", "float64"):
        close(lambda t, dtype=dtype: t._standard_gamma(spread(t, 0.01, 50, dtype=dtype)))
    close(lambda t: t._sample_dirichlet(spread(t, 0.1, 5).reshape(12, 5)))


def test_gradients_of_gamma_samples():
    def run(t):
        x = spread(t, 0.5, 5, dtype="float64").requires_grad_()
        t._standard_gamma(x).sum().backward()
        return x.grad, t.func.grad(lambda x: t._standard_gamma(x).sum())(x.detach())

    found = []
    for t in (torch, torchlike):
        t.manual_seed(5)
        found.append(np.concatenate([as_numbers(x) for x in run(t)]))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-4)


def test_many_samples_by_rejection():
    """They are the counter's: docs/porting.md says from how many on."""
    page = (Path(__file__).parents[1] / "docs" / "porting.md").read_text()
    assert f"more than {rejection.MOST:,} of them" in page
    before = np.delete(state(torchlike), slice(5016, 5024))
    assert abs(float(torchlike.poisson(torchlike.full((rejection.MOST + 1,), 4.0)).mean()) - 4) < 0.1
    assert (np.delete(state(torchlike), slice(5016, 5024)) == before).all()


SAMPLED = {
    "Normal": lambda d, v: d.Normal(v(0.5), v(2.0)),
    "Uniform": lambda d, v: d.Uniform(v(0.5), v(2.0)),
    "Exponential": lambda d, v: d.Exponential(v(2.0)),
    "Laplace": lambda d, v: d.Laplace(v(0.5), v(2.0)),
    "Gumbel": lambda d, v: d.Gumbel(v(0.5), v(2.0)),
    "Cauchy": lambda d, v: d.Cauchy(v(0.5), v(2.0)),
    "LogNormal": lambda d, v: d.LogNormal(v(0.5), v(0.3)),
    "Categorical": lambda d, v: d.Categorical(v([0.1, 0.2, 0.7])),
    "Multinomial": lambda d, v: d.Multinomial(10, v([0.1, 0.2, 0.7])),
    "Bernoulli": lambda d, v: d.Bernoulli(v(0.3)),
    "Geometric": lambda d, v: d.Geometric(v(0.3)),
    "Poisson": lambda d, v: d.Poisson(v([3.0, 30.0])),
    "Binomial": lambda d, v: d.Binomial(9, v([0.4, 0.8])),
    "NegativeBinomial": lambda d, v: d.NegativeBinomial(9.0, v(0.4)),
    "Gamma": lambda d, v: d.Gamma(v(2.0), v(0.5)),
    "Beta": lambda d, v: d.Beta(v(2.0), v(0.5)),
    "Chi2": lambda d, v: d.Chi2(v(3.0)),
    "StudentT": lambda d, v: d.StudentT(v(3.0)),
    "FisherSnedecor": lambda d, v: d.FisherSnedecor(v(3.0), v(4.0)),
    "Dirichlet": lambda d, v: d.Dirichlet(v([0.5, 2.0, 3.0])),
    "InverseGamma": lambda d, v: d.InverseGamma(v(2.0), v(0.5)),
    "LKJCholesky": lambda d, v: d.LKJCholesky(3, v(0.5)),
    "MultivariateNormal": lambda d, v: d.MultivariateNormal(v([0.5, 0.2]), v([[1.0, 0.2], [0.2, 1.0]])),
    "RelaxedOneHotCategorical": lambda d, v: d.RelaxedOneHotCategorical(v(0.5), v([0.3, 0.7])),
}


@pytest.mark.parametrize("name", SAMPLED)
def test_distributions(name):
    close(lambda t: SAMPLED[name](t.distributions, t.tensor).sample((20,)))


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
