"""Random numbers: distributions, seeds, forms, dtypes, gradients, errors."""

import itertools
import math
import pickle

import numpy as np
import pytest
import torch
from narrow_kit import narrowed
from oracle import check_error, host
from recorded_kit import is_steady
from scipy import stats

import torchlike

N = 20000
LEVEL = 1e-4  # the tests are deterministic: a fixed seed either passes or not


def fits(sample, distribution):
    """Kolmogorov-Smirnov."""
    assert stats.kstest(np.asarray(sample, np.float64).ravel(), distribution.cdf).pvalue > LEVEL


CONTINUOUS = [
    (lambda t: t.rand(N), stats.uniform()),
    (lambda t: t.rand(N, dtype=t.float64), stats.uniform()),
    (lambda t: t.randn(N), stats.norm()),
    (lambda t: t.randn(N, dtype=t.float64), stats.norm()),
    (lambda t: t.randn(N, dtype=t.complex64).real, stats.norm(scale=math.sqrt(0.5))),
    (lambda t: t.randn(N, dtype=t.complex128).imag, stats.norm(scale=math.sqrt(0.5))),
    (lambda t: t.rand(N, dtype=t.complex64).imag, stats.uniform()),
    (lambda t: t.empty(N).uniform_(-2, 3), stats.uniform(-2, 5)),
    (lambda t: t.empty(N).normal_(1, 3), stats.norm(1, 3)),
    (lambda t: t.empty(N).exponential_(2.5), stats.expon(scale=1 / 2.5)),
    (lambda t: t.empty(N).cauchy_(1, 2), stats.cauchy(1, 2)),
    (lambda t: t.empty(N).log_normal_(0.5, 0.7), stats.lognorm(0.7, scale=math.exp(0.5))),
    (lambda t: t.normal(1.0, 2.0, (N,)), stats.norm(1, 2)),
    (lambda t: t.normal(t.ones(N), 2.0), stats.norm(1, 2)),
    (lambda t: t.normal(1.0, t.full((N,), 2.0)), stats.norm(1, 2)),
    (lambda t: t.normal(t.ones(N), t.full((N,), 2.0)), stats.norm(1, 2)),
]


@pytest.mark.parametrize("draw, distribution", CONTINUOUS)
def test_continuous(draw, distribution):
    torchlike.manual_seed(1)
    fits(host(draw(torchlike)), distribution)


DISCRETE = [
    (lambda t: t.randint(7, (N,)), stats.randint(0, 7)),
    (lambda t: t.randint(-3, 4, (N,)), stats.randint(-3, 4)),
    (lambda t: t.empty(N).random_(2, 6), stats.randint(2, 6)),
    (lambda t: t.bernoulli(t.full((N,), 0.3)), stats.bernoulli(0.3)),
    (lambda t: t.empty(N).bernoulli_(0.8), stats.bernoulli(0.8)),
    (lambda t: t.empty(N, dtype=t.int64).bernoulli_(t.full((N,), 0.1)), stats.bernoulli(0.1)),
    (lambda t: t.empty(N).geometric_(0.3), stats.geom(0.3)),
    (lambda t: t.poisson(t.full((N,), 3.5)), stats.poisson(3.5)),
    (lambda t: t.poisson(t.full((N,), 60.0)), stats.poisson(60)),
    (lambda t: t.binomial(t.full((N,), 12.0), t.full((N,), 0.3)), stats.binom(12, 0.3)),
    (
        lambda t: t.multinomial(t.tensor([1.0, 0.0, 3.0, 4.0]), N, True),
        stats.rv_discrete(values=([0, 2, 3], [0.125, 0.375, 0.5])),
    ),
]


@pytest.mark.parametrize("draw, distribution", DISCRETE)
def test_discrete(draw, distribution):
    torchlike.manual_seed(1)
    values, counts = np.unique(host(draw(torchlike)), return_counts=True)
    expected = N * distribution.pmf(values)
    assert expected.sum() > 0.999 * N
    common = expected > 5
    statistic = ((counts - expected)[common] ** 2 / expected[common]).sum()
    assert stats.chi2(max(common.sum() - 1, 1)).sf(statistic) > LEVEL


def test_multinomial_without_replacement():
    torchlike.manual_seed(1)
    weights = torchlike.tensor([[1.0, 2.0, 3.0, 0.0]] * 4000)
    drawn = host(torchlike.multinomial(weights, 3))
    assert (np.sort(drawn, 1) == [0, 1, 2]).all()  # the zero weight comes last, all others once
    first = np.bincount(drawn[:, 0], minlength=4) / 4000
    np.testing.assert_allclose(first, [1 / 6, 1 / 3, 1 / 2, 0], atol=0.03)
    second = np.bincount(drawn[drawn[:, 0] == 2][:, 1], minlength=4)
    np.testing.assert_allclose(second / second.sum(), [1 / 3, 2 / 3, 0, 0], atol=0.04)


def test_multinomial_of_many_classes():
    weights = torchlike.rand(3, 500)
    drawn = torchlike.multinomial(weights, 4000, replacement=True)
    assert drawn.shape == (3, 4000) and drawn.dtype is torchlike.int64
    found = np.bincount(host(drawn)[1], minlength=500) / 4000
    np.testing.assert_allclose(found, host(weights)[1] / host(weights)[1].sum(), atol=0.006)


def test_randperm():
    for n in (0, 1, 7, 10000):
        assert sorted(host(torchlike.randperm(n))) == list(range(n))
    draws = np.stack([host(torchlike.randperm(4)) for _ in range(600)])
    np.testing.assert_allclose([(draws[:, i] == j).mean() for i in range(4) for j in range(4)], 0.25, atol=0.08)


def test_samples_are_independent():
    torchlike.manual_seed(1)
    a, b = host(torchlike.randn(N)), host(torchlike.randn(N))
    for lagged in (np.corrcoef(a, b)[0, 1], np.corrcoef(a[1:], a[:-1])[0, 1], np.corrcoef(a**2, b**2)[0, 1]):
        assert abs(lagged) < 4 / math.sqrt(N)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_half_open(dtype):
    x = torchlike.rand(N, dtype=getattr(torchlike, dtype)).double()
    assert 0 <= x.min().item() and x.max().item() < 1
    assert torchlike.empty(N, dtype=getattr(torchlike, dtype)).exponential_().min().item() > 0
    assert torchlike.randn(N, dtype=getattr(torchlike, dtype)).isfinite().all()


def test_random_covers_the_dtype():
    for name, top in [("uint8", 255), ("int8", 127), ("bool", 1), ("float16", 2**11), ("float32", 2**24)]:
        x = host(torchlike.empty(N, dtype=getattr(torchlike, name)).random_()).astype(np.float64)
        assert x.min() >= 0 and 0.98 * top <= x.max() <= top
    wide = host(torchlike.empty(1000, dtype=torchlike.int64).random_())
    assert wide.min() >= 0 and wide.max() > 2**62
    both = host(torchlike.empty(1000, dtype=torchlike.int64).random_(-(2**63), None))
    assert both.min() < -(2**61) and both.max() > 2**61
    high = host(torchlike.randint(2**40, 2**41, (1000,)))
    assert high.min() >= 2**40 and high.max() < 2**41


# ----- seeds -----


def test_a_seed_gives_the_same_numbers():
    def draw():
        return [
            host(x)
            for x in (
                torchlike.rand(3),
                torchlike.randn(2, 2),
                torchlike.randint(9, (4,)),
                torchlike.randperm(5),
            )
        ]

    torchlike.manual_seed(7)
    first, between = draw(), torchlike.get_rng_state()
    second = draw()
    torchlike.manual_seed(7)
    for a, b in zip(first, draw(), strict=True):
        np.testing.assert_array_equal(a, b)
    torchlike.set_rng_state(between)
    for a, b in zip(second, draw(), strict=True):
        np.testing.assert_array_equal(a, b)
    assert not np.array_equal(first[0], second[0])


def test_element_by_element_the_numbers_do_not_depend_on_the_length():
    torchlike.manual_seed(3)
    long = host(torchlike.rand(100))
    torchlike.manual_seed(3)
    np.testing.assert_array_equal(host(torchlike.rand(7)), long[:7])


FIXED = {
    "rand": [0.9476670622825623, 0.9785798788070679, 0.33229148387908936],
    "randn": [0.1604391187429428, 0.36732861399650574, 1.3287549018859863],
    "randint": [59, 46, 23, 22],
    "randperm": [5, 1, 3, 4, 0, 2],
}


def test_numbers_of_a_seed_are_fixed():
    """A change of these numbers changes every result that users recorded with a seed."""
    g = torchlike.Generator()
    g.stream = "threefry"  # PyTorch's stream: tests/test_torch_rng.py
    g.manual_seed(0)
    np.testing.assert_allclose(host(torchlike.rand(3, generator=g)), FIXED["rand"], rtol=1e-6)
    np.testing.assert_allclose(host(torchlike.randn(3, generator=g)), FIXED["randn"], rtol=1e-5)
    assert host(torchlike.randint(100, (4,), generator=g)).tolist() == FIXED["randint"]
    assert host(torchlike.randperm(6, generator=g)).tolist() == FIXED["randperm"]


def test_generators():
    g, h = torchlike.Generator().manual_seed(5), torchlike.Generator().manual_seed(5)
    state = torchlike.get_rng_state()
    a, b = torchlike.rand(4, generator=g), torchlike.rand(4, generator=h)
    np.testing.assert_array_equal(host(a), host(b))
    assert host(torchlike.get_rng_state() == state).all(), "the default generator was not touched"
    saved = g.get_state()
    assert saved.dtype is torchlike.uint8 and saved.ndim == 1
    c = torchlike.randn(2, generator=g)
    assert g.set_state(saved) is g
    np.testing.assert_array_equal(host(torchlike.randn(2, generator=g)), host(c))
    copies = g.clone_state(), pickle.loads(pickle.dumps(g))
    expected = host(torchlike.rand(2, generator=g))
    for copy in copies:
        np.testing.assert_array_equal(host(torchlike.rand(2, generator=copy)), expected)
    assert isinstance(torchlike.default_generator, torchlike.Generator)
    assert torchlike.manual_seed(3) is torchlike.default_generator and torchlike.initial_seed() == 3


def test_fork_rng():
    before = torchlike.get_rng_state()
    with torchlike.random.fork_rng():
        torchlike.rand(3)
        torchlike.manual_seed(9)
    assert host(torchlike.get_rng_state() == before).all()
    with torchlike.random.fork_rng(enabled=False):
        torchlike.rand(3)
    assert not host(torchlike.get_rng_state() == before).all()


def test_seed():
    torchlike.seed()
    assert torchlike.initial_seed() == torchlike.random.initial_seed() != 0


SEED_ERRORS = [
    (lambda t: t.manual_seed("a"), "invalid literal"),
    (lambda t: t.manual_seed(2**70), "overflow"),
    (lambda t: t.set_rng_state(t.zeros(3)), "ByteTensor"),
    (lambda t: t.Generator().set_state(t.zeros(3, dtype=t.uint8)), "state"),
    (lambda t: t.rand(2, generator=3), "generator"),
]


@pytest.mark.parametrize("f, match", SEED_ERRORS)
def test_seed_errors(f, match):
    check_error(lambda t: f(t), match=match)


# ----- forms -----

FORMS = """
rand(2, 3)
rand((2, 3))
rand([])
rand(0, 2)
rand(size=(2,))
rand(2, dtype=T.float64)
rand(2, dtype=T.bfloat16)
rand(2, requires_grad=True)
rand(2, out=T.empty(0))
rand(2, out=T.empty(2, dtype=T.float64))
rand(2, device='cpu')
rand(2, device='meta')
randn(2, dtype=T.complex64)
randn(1, 2, generator=T.Generator())
randn(3, out=T.empty(5))
randint(5, (2,))
randint(1, 5, (2,))
randint(high=5, size=(2,))
randint(low=1, high=5, size=(2,))
randint(5, (2,), dtype=T.float32)
randint(0, 2, (2,), dtype=T.uint8)
randint(5, (), device='meta')
randint(0, 5, (2,), requires_grad=True, dtype=T.float32)
randint(3, (2,), out=T.empty(0, dtype=T.int32))
randperm(5)
randperm(5, dtype=T.float32)
randperm(0)
randperm(4, out=T.empty(0, dtype=T.int32))
rand_like(X)
rand_like(X.t())
rand_like(X, dtype=T.float64, requires_grad=True)
rand_like(X.t().expand(2, 3, 2))
randn_like(X.t(), memory_format=T.contiguous_format)
randint_like(X, 5)
randint_like(X, 2, 5)
randint_like(X, 5, dtype=T.int8)
rand_like(X, device='meta')
normal(0.0, 1.0, (2,))
normal(T.tensor(1.0), T.tensor(2), (2, 3))
normal(T.tensor(True), 2.0, size=(4,), dtype=T.float64)
normal(0.5, std=T.tensor(2.0, dtype=T.float64), size=(2,), out=T.empty(2))
normal(T.zeros(()), T.ones(()), (20,), device='cpu', requires_grad=True)
normal(X, 1.0)
normal(0.0, X)
normal(X, X)
normal(X)
normal(X, T.ones(3, dtype=T.float64))
normal(T.zeros(2), T.ones(2, 1))
normal(X, 1.0, out=T.empty(2, 3))
bernoulli(X)
bernoulli(X.t())
bernoulli(X, 0.5)
bernoulli(X, out=T.empty(0))
poisson(X)
poisson(X.double())
multinomial(X, 2)
multinomial(X[0], 2)
multinomial(X, 5, True)
multinomial(X[0], 2, out=T.empty(0, dtype=T.int64))
binomial(T.full((3,), 10.0), X[0])
""".strip().split("\n")


@pytest.mark.parametrize("form", FORMS)
def test_forms(form):
    def made(t):
        return eval(f"T.{form}", {"T": t, "X": t.full((2, 3), 0.5)})

    got, wanted = made(torchlike), made(torch)
    for fact in ("dtype", "device"):
        assert str(getattr(got, fact)) == narrowed(str(getattr(wanted, fact)))
    assert tuple(got.shape) == tuple(wanted.shape) and got.stride() == wanted.stride()
    assert got.requires_grad == wanted.requires_grad and got.is_leaf == wanted.is_leaf


ERRORS = """
rand(2, dtype=T.int64)=check_uniform_bounds.* 'Long'
randn(2, dtype=T.bool)=normal_kernel.* 'Bool'
rand()=size
rand(-1)=negative dimension -1
rand(2.0)=tuple of ints, not float
randint(5, 2)='size' .*tuple of ints, not int
randint(5, 5, (2,))='from' to be less than 'to', but got from=5 >= to=5
randint(0, 300, (2,), dtype=T.uint8)=to - 1 is out of bounds
randint(5.0, (2,))='high' .*must be int, not float
randint(5, (2,), requires_grad=True)=floating point and complex
randperm(-1)=negative dimension -1
randperm(300, dtype=T.uint8)=overflow
randperm(5.0)='n' .*must be int, not float
rand_like(X.long())='Long'
normal(0.0, 1.0)=size
normal(X, 1.0, (2,))='mean' .*must be .*, not Tensor
normal(0.0, T.tensor(1.0, requires_grad=True), (2,))='std' .*requires grad
normal(X, 1.0, dtype=T.float64)=go with a size
normal(X, -1.0)=std >= 0.0, but found std -1
normal(X, -X)=all elements of std >= 0
normal(T.zeros(2), T.ones(3))=must match
normal(X.long(), X)='Long'
bernoulli(X * 3)=p_in >= 0 && p_in <= 1
bernoulli(X.long())='Long'
poisson(-X)=rate to be non-negative
poisson(X.long())='Long'
multinomial(X, 5)=without replacement \\(5 of 3\\)
multinomial(X, 0)=n_sample <= 0
multinomial(-X, 1)=inf.*nan.*< 0
multinomial(X * 0, 1)=sum of probabilities <= 0
multinomial(X[None], 1)=1 or 2 dim
multinomial(X.long(), 1)=floating-point dtypes for input, got: Long
multinomial(T.tensor([float('nan'), 1.0]), 2, True)=nan
binomial(X, 0.5)=prob.*must be Tensor, not float
""".strip().split("\n")


@pytest.mark.parametrize("line", ERRORS)
def test_errors(line):
    call, match = line.rsplit(")=", 1)[0] + ")", line.rsplit(")=", 1)[1]
    check_error(lambda t: eval(f"T.{call}", {"T": t, "X": t.full((2, 3), 0.5)}), match=match)


# ----- in place -----

FILLS = """
uniform_()
uniform_(2, 3)
uniform_(to=2)
uniform_(**{'from': -1})
normal_(1, 2)
normal_(mean=1, std=2)
bernoulli_()
bernoulli_(0.3)
bernoulli_(T.full((2, 3), 0.5))
random_()
random_(3)
random_(1, 5)
random_(to=3)
random_(**{'from': 1, 'to': 3})
exponential_()
exponential_(lambd=2.0)
log_normal_()
log_normal_(mean=1, std=2)
cauchy_()
cauchy_(median=0, sigma=1)
geometric_(0.3)
geometric_(p=0.5)
""".strip().split("\n")


@pytest.mark.parametrize("form", FILLS)
def test_fills(form):
    def made(t):
        leaf = t.ones(3, 2, requires_grad=True)
        x = leaf * 1
        view = x.t()
        out = eval(f"V.{form}", {"T": t, "V": view})
        assert out is view and view._version == 1
        x.sum().backward()
        return type(view.grad_fn).__name__, type(x.grad_fn).__name__, x, leaf.grad

    got, wanted = made(torchlike), made(torch)
    assert got[:2] == wanted[:2]
    assert not host(got[3]).any() and not wanted[3].any(), "nothing of the old values is left"
    assert not host(got[2] == 1).all() or "geometric" in form or "bernoulli" in form


FILL_ERRORS = """
uniform_(2, 1)=from=2 > to=1
normal_(0, -1)=found std -1
exponential_(0)=lambda > 0.0, but found lambda=0
geometric_(0)=p to be in \\(0, 1\\), but got p=0
geometric_(1)=got p=1
log_normal_(0, 0)=std > 0.0, but found std=0
cauchy_(0, 0)=sigma > 0.0, but found sigma=0
bernoulli_(2)=got p=2
bernoulli_(T.full((2, 3), 2.0))=p_in
random_(5, 2)=from=5 >= to=2
random_(2.5)=int
long().uniform_()='Long'
long().normal_()='Long'
long().log_normal_()='Long'
long().exponential_()=Exponential distribution is a continuous .* Long
long().cauchy_()=Cauchy distribution is a continuous
byte().random_(300)=out of bounds
uniform_(from_=2)=from_
expand(4, 2, 3).uniform_()=single memory location
requires_grad_().normal_()=a leaf Variable that requires grad
""".strip().split("\n")


@pytest.mark.parametrize("line", FILL_ERRORS)
def test_fill_errors(line):
    call, match = line.rsplit(")=", 1)[0] + ")", line.rsplit(")=", 1)[1]
    check_error(lambda t, x: eval(f"X.{call}", {"T": t, "X": x}), np.full((2, 3), 0.5), match=match)


def test_gradients_of_samples_are_zero():
    for draw in (
        lambda t, m, s: t.normal(m, s),
        lambda t, m, s: t.bernoulli(m),
        lambda t, m, s: t.poisson(s),
        lambda t, m, s: t.normal(m, 1.0),
        lambda t, m, s: t.normal(0.0, s),
    ):
        grads = []
        for t in (torchlike, torch):
            m, s = (t.full((2,), 0.5, requires_grad=True) for _ in range(2))
            out = draw(t, m, s)
            out.sum().backward()
            grads.append([type(out.grad_fn).__name__] + [None if x.grad is None else x.grad.tolist() for x in (m, s)])
        assert grads[0] == grads[1]


# ----- compiled and traced -----


def test_new_seeds_do_not_compile_again():
    x = torchlike.ones(5)

    def work(i):
        torchlike.manual_seed(i)
        (
            torchlike.rand(5),
            torchlike.randperm(5),
            x.clone().uniform_(0, i + 1.5),
            torchlike.nn.functional.dropout(x, 0.1 + i / 100),
        )
        torchlike.randint(i + 1, (5,))

    work(0)
    seeds = itertools.count(1)
    assert is_steady(lambda: work(next(seeds)))


def test_meta_tensors():
    x = torchlike.empty(2, 3, device="meta")
    assert x.uniform_().is_meta and torchlike.bernoulli(x).is_meta and torchlike.nn.functional.dropout(x).is_meta
