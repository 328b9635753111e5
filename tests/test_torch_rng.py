"""Random numbers of the CPU: PyTorch's own, from the same seed and from the same state."""

import math
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from draw_kit import as_numbers, close, same, state

import torchlike
from torchlike._functions import rejection

SIZES = (0, 1, 2, 15, 16, 17, 33, 100, 1000)
EVERY = os.environ.get("TORCHLIKE_EVERY", "0") != "0"
FLOATS = ("float32", "float64", "bfloat16", "float16")
DTYPES = (*FLOATS, "int64", "int32", "int16", "int8", "uint8", "bool")


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
    "Linear of nothing": lambda nn: nn.Linear(0, 4),
    "Conv1d of nothing": lambda nn: nn.Conv1d(0, 4, 3),
    "Linear without bias of nothing": lambda nn: nn.Linear(0, 4, bias=False),
    "Linear to nothing": lambda nn: nn.Linear(4, 0),
}


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
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
