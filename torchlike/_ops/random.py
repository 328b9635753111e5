"""Random numbers: kernels from the four words of a draw (see ``_base.rng``) to samples.

``words`` (uint32[4]: seed and counter) is a runtime input, so a steady loop never recompiles, and
every kernel is a pure function of it. An array of any other dtype is numbers that were drawn on the host already
(PyTorch's stream, ``_functions/samples.py``): the samples themselves, or uniform ones that are to be compared.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from torchlike._base import result_layouts, rng
from torchlike._base.bits import X64, widest
from torchlike._base.dtypes import from_np
from torchlike._decl.op import op
from torchlike._decl.words import aten, unseen
from torchlike._ops._elementwise import broadcast, round_to

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


def _threefry(key0, key1, x0, x1):
    """Threefry-2x32 with 20 rounds (Salmon et al. 2011) of the counters (x0, x1)."""
    add, xor, left, right = lax.add, lax.bitwise_xor, lax.shift_left, lax.shift_right_logical  # traced 4 times as fast
    keys = (key0, key1, xor(xor(key0, key1), np.uint32(0x1BD11BDA)))
    x0, x1 = add(x0, key0), add(x1, key1)
    for i in range(5):
        for r in _ROTATIONS[i % 2]:
            x0 = add(x0, x1)
            x1 = xor(x0, lax.bitwise_or(left(x1, np.uint32(r)), right(x1, np.uint32(32 - r))))
        x0, x1 = add(x0, keys[(i + 1) % 3]), add(add(x1, keys[(i + 2) % 3]), np.uint32(i + 1))
    return x0, x1


def bits(words, n):
    """``n`` random uint32: the cipher, keyed by the seed, of (number of the draw, index of the element).

    Element i depends on i alone, so it is the same for every length and on every device. One half of
    each block folded into the other compiles eight times as fast as both side by side.
    """
    words = jnp.asarray(words)
    index = lax.iota(np.uint32, n)
    left, right = _threefry(words[0], words[1] ^ words[2], jnp.broadcast_to(words[3], index.shape), index)
    return left ^ right


def numbers(words, shape, dtype, make):
    """The numbers that ``words`` is, or those that ``make(words)`` makes of words, in ``shape`` and ``dtype``."""
    words = jnp.asarray(words)
    return (make(words) if words.dtype == np.uint32 else words.reshape(shape)).astype(dtype)


def uniform01(words, shape, dtype):
    """Samples of [0, 1), all multiples of 2**-(digits of ``dtype``)."""
    dtype = widest(dtype)
    if jnp.asarray(words).dtype != np.uint32:
        return jnp.asarray(words).reshape(shape).astype(dtype)
    n = math.prod(shape)
    if dtype.kind == "c":
        part = uniform01(words, (2, *shape), np.float32 if dtype == np.complex64 else np.float64)
        return lax.complex(part[0], part[1])
    if dtype == np.float64:
        pair = bits(words, 2 * n).astype(np.uint64)
        whole = lax.shift_left(pair[:n], np.uint64(32)) | pair[n:]
        return (lax.shift_right_logical(whole, np.uint64(11)).astype(dtype) * 2.0**-53).reshape(shape)
    digits = jnp.finfo(dtype).nmant + 1
    cut = lax.shift_right_logical(bits(words, n), np.uint32(32 - digits))
    return (cut.astype(np.float32) * np.float32(2.0**-digits)).reshape(shape).astype(dtype)


def gaussian(words, shape, dtype):
    """Samples of the standard normal distribution; complex ones have variance 1 in all."""
    dtype = widest(dtype)
    if jnp.asarray(words).dtype != np.uint32:
        return jnp.asarray(words).reshape(shape).astype(dtype)
    if dtype.kind == "c":
        part = gaussian(words, (2, *shape), np.float32 if dtype == np.complex64 else np.float64)
        return lax.complex(part[0], part[1]) * part.dtype.type(math.sqrt(0.5))
    wide = np.dtype(np.float64 if dtype == np.float64 else np.float32)
    # centres of equal cells of (-1, 1), so that erf_inv is finite and symmetric
    u = uniform01(words, shape, wide)
    step = wide.type(2.0 ** -(jnp.finfo(wide).nmant + 1))
    return (lax.erf_inv(2 * u - 1 + step) * wide.type(math.sqrt(2))).astype(dtype)


def _positive(words, shape, dtype):
    """Uniform samples of (0, 1]."""
    return 1 - uniform01(words, shape, dtype)


def _computed(dtype):
    """The dtype that samples for ``dtype`` are computed in."""
    dtype = np.dtype(dtype)
    return dtype if dtype in (np.float32, np.float64) else np.dtype(np.float32)


def refuse(what, dtype, *, complex_too=False):
    """NotImplementedError for a dtype without this distribution."""
    inexact = dtype.is_floating_point or (dtype.is_complex and not complex_too)
    if not inexact:
        raise NotImplementedError(
            f"\"{what}\" not implemented for '{dtype.scalar_name}': random numbers of this kind need a "
            "floating point dtype"
        )


# ----- new tensors -----


@op("_rand(Tensor words, int[] size, ScalarType dtype) -> Tensor", variants="", vjp={})
def rand(words, size, dtype):
    refuse("check_uniform_bounds", dtype)
    return uniform01(words, size, dtype.np)


@op("_randn(Tensor words, int[] size, ScalarType dtype) -> Tensor", variants="", vjp={})
def randn(words, size, dtype):
    refuse("normal_kernel_cpu", dtype)
    return gaussian(words, size, dtype.np)


def _integers(words, shape, low, span, wide):
    """Uniform integers of [low, low + span) as int64; ``wide`` where span needs more than 32 bits.

    A span of 2**63 and more comes as the negative int64 of the same bits."""
    n = math.prod(shape)
    if not X64:
        return _integers32(bits(words, n), low, span).reshape(shape)
    low = jnp.asarray(low).astype(np.int64)
    if span is None:  # all 2**64 of them
        pair = bits(words, 2 * n).astype(np.uint64)
        return lax.bitcast_convert_type(lax.shift_left(pair[:n], np.uint64(32)) | pair[n:], np.int64).reshape(shape)
    span = jnp.asarray(span).astype(np.int64).astype(np.uint64)
    if wide:
        pair = bits(words, 2 * n).astype(np.uint64)
        offset = (lax.shift_left(pair[:n], np.uint64(32)) | pair[n:]) % span
    else:
        offset = lax.shift_right_logical(bits(words, n).astype(np.uint64) * span, np.uint64(32))
    return (offset.astype(np.int64) + low).reshape(shape)


def _integers32(random, low, span):
    """The same of int32, by 32-bit arithmetic: the high half of the product of 32 random bits and the span."""
    if span is None:
        return lax.bitcast_convert_type(random, np.int32)
    span, low = (jnp.asarray(x).astype(np.int32) for x in (span, low))
    (a, b), (c, d) = ((x >> 16, x & 0xFFFF) for x in (random, lax.bitcast_convert_type(span, np.uint32)))
    middle = a * d + (b * d >> 16)
    high = a * c + (middle >> 16) + (b * c + (middle & 0xFFFF) >> 16)
    return lax.bitcast_convert_type(high, np.int32) + low


@op(
    "_randint(Tensor words, int[] size, ScalarType dtype, Scalar low, Scalar? span, bool wide) -> Tensor",
    variants="",
    vjp={},
)
def randint(words, size, dtype, low, span, wide):
    return numbers(words, size, dtype.np, lambda words: _integers(words, size, low, span, wide))


@op("_randperm(Tensor words, int n, ScalarType dtype) -> Tensor", variants="", vjp={})
def randperm(words, n, dtype):
    if jnp.asarray(words).dtype != np.uint32:
        return jnp.asarray(words).astype(dtype.np)
    order = lax.iota(np.int32 if n < 2**31 else np.int64, n)
    raw = bits(words, 2 * n)
    # a second key for long permutations, where 32 random bits would often tie
    keys = (raw[:n], raw[n:]) if n > 4096 else (raw[:n],)
    return lax.sort((*keys, order), num_keys=len(keys))[-1].astype(dtype.np)


# ----- filling a tensor -----

_NOTHING = {"self": lambda grad: jnp.zeros_like(grad)}


def _fill(schema, node=None):
    return op(schema, vjp=_NOTHING, variants="inplace", node=node)


@_fill("uniform(Tensor self, Tensor words, float low=0, float high=1) -> Tensor")
def uniform(self, words, low, high):
    refuse("check_uniform_bounds", from_np(self.dtype))
    return numbers(words, self.shape, self.dtype, lambda words: _between(words, self, low, high))


def _between(words, self, low, high):
    u = uniform01(words, self.shape, self.dtype)
    kind = u.real.dtype
    low, high = jnp.asarray(low).astype(kind), jnp.asarray(high).astype(kind)
    return u * (high - low) + low


@_fill("normal(Tensor self, Tensor words, float mean=0, float std=1) -> Tensor")
def normal(self, words, mean, std):
    refuse("normal_kernel_cpu", from_np(self.dtype))
    return numbers(words, self.shape, self.dtype, lambda words: _around(words, self, mean, std))


def _around(words, self, mean, std):
    z = gaussian(words, self.shape, self.dtype)
    return z * jnp.asarray(std).astype(z.real.dtype) + jnp.asarray(mean).astype(z.real.dtype)


@_fill("log_normal(Tensor self, Tensor words, float mean=1, float std=2) -> Tensor")
def log_normal(self, words, mean, std):
    refuse("log_normal_cpu", from_np(self.dtype), complex_too=True)
    kind = _computed(self.dtype)

    def sample(words):
        z = gaussian(words, self.shape, kind)
        return jnp.exp(z * jnp.asarray(std).astype(kind) + jnp.asarray(mean).astype(kind))

    return numbers(words, self.shape, self.dtype, sample)


def _continuous(name, dtype):
    if not dtype.is_floating_point:
        raise RuntimeError(
            f"{name} distribution is a continuous probability distribution. dtype must be a floating point "
            "but you "
            f"specified {dtype.scalar_name}"
        )


@_fill("exponential(Tensor self, Tensor words, float lambd=1) -> Tensor")
def exponential(self, words, lambd):
    _continuous("Exponential", from_np(self.dtype))
    kind = _computed(self.dtype)

    def sample(words):
        drawn = -jnp.log(_positive(words, self.shape, kind)) / jnp.asarray(lambd).astype(kind)
        return jnp.where(drawn > 0, drawn, jnp.finfo(kind).eps / 2)

    return numbers(words, self.shape, self.dtype, sample)


@_fill("cauchy(Tensor self, Tensor words, float median=0, float sigma=1) -> Tensor")
def cauchy(self, words, median, sigma):
    _continuous("Cauchy", from_np(self.dtype))
    kind = _computed(self.dtype)

    def sample(words):
        turn = jnp.tan(math.pi * (uniform01(words, self.shape, kind) - 0.5))
        return turn * jnp.asarray(sigma).astype(kind) + jnp.asarray(median).astype(kind)

    return numbers(words, self.shape, self.dtype, sample)


@_fill("geometric(Tensor self, Tensor words, float p) -> Tensor")
def geometric(self, words, p):
    if jnp.iscomplexobj(self) or self.dtype == bool:
        name = from_np(self.dtype).scalar_name
        raise NotImplementedError(f"\"geometric_cpu\" not implemented for '{name}': it needs a real number dtype")
    kind = np.dtype(np.float64)

    def sample(words):
        trials = jnp.ceil(jnp.log(_positive(words, self.shape, kind)) / jnp.log1p(-jnp.asarray(p).astype(kind)))
        return jnp.maximum(trials, 1)

    return numbers(words, self.shape, self.dtype, sample)


@_fill("random.from(Tensor self, Tensor words, Scalar low, Scalar? span, bool wide) -> Tensor")
def random(self, words, low, span, wide):
    if jnp.iscomplexobj(self):
        name = from_np(self.dtype).scalar_name
        raise NotImplementedError(f"\"random_kernel_cpu\" not implemented for '{name}': random_ draws real integers")
    return numbers(words, self.shape, self.dtype, lambda words: _integers(words, self.shape, low, span, wide))


random_to = _fill(
    "random.to(Tensor self, Tensor words, Scalar low, Scalar? span, bool wide) -> Tensor", "RandomBackward1"
)(random.kernel)
random_all = _fill(
    "random(Tensor self, Tensor words, Scalar low, Scalar? span, bool wide) -> Tensor", "RandomBackward2"
)(random.kernel)


# ----- samples with a parameter for each element -----


def _outside(p):
    return ~jnp.all((p >= 0) & (p <= 1))


def _bernoulli(words, shape, p, dtype):
    kind = _computed(p.dtype)
    return happens(words, shape, p.astype(kind), kind).astype(dtype)


def happens(words, shape, p, kind=np.float32):
    """Which elements are chosen, each with probability ``p``: drawn on the host already where ``words`` is bools."""
    if jnp.asarray(words).dtype == bool:
        return jnp.asarray(words).reshape(shape)
    return uniform01(words, shape, kind) < p


def _probable(p):
    if not jnp.issubdtype(p.dtype, jnp.floating):
        name = from_np(p.dtype).scalar_name
        raise NotImplementedError(
            f"\"bernoulli_tensor_cpu_p_\" not implemented for '{name}': probabilities are floating point"
        )


def _bad_p():
    return RuntimeError("Expected p_in >= 0 && p_in <= 1 to be true, but got false: bernoulli takes probabilities")


@op(
    "bernoulli(Tensor self, Tensor words) -> Tensor",
    variants="",
    vjp={"self": lambda grad: jnp.zeros_like(grad)},
    check=lambda self, words: (_outside(self), _bad_p),
)
def bernoulli(self, words):
    _probable(self)
    return _bernoulli(words, self.shape, self, self.dtype)


@op("bernoulli.p(Tensor self, Tensor words, float p) -> Tensor", variants="inplace",
    vjp={"self": lambda grad: jnp.zeros_like(grad)}, node="BernoulliBackward2")  # fmt: skip
def bernoulli_p(self, words, p):
    return _bernoulli(words, self.shape, jnp.asarray(p).astype(np.float32), self.dtype)


@op(
    "bernoulli.Tensor(Tensor self, Tensor words, Tensor p) -> Tensor",
    variants="inplace",
    node="BernoulliBackward1",
    vjp={"self, p": lambda grad, p_aval: (jnp.zeros_like(grad), jnp.zeros(p_aval.shape, p_aval.dtype))},
    check=lambda self, words, p: (_outside(p), _bad_p),
)
def bernoulli_tensor(self, words, p):
    _probable(p)
    if jnp.iscomplexobj(self):
        raise NotImplementedError(
            f"\"bernoulli_tensor_cpu_self_\" not implemented for '{from_np(self.dtype).scalar_name}': draws are real"
        )
    return _bernoulli(words, self.shape, broadcast("bernoulli_", p, self)[0], self.dtype)


def _scaled(words, mean, std, kind):
    mean, std = broadcast("normal", jnp.asarray(mean), jnp.asarray(std))
    z = gaussian(words, mean.shape, kind)
    std, mean = jnp.asarray(std).astype(z.real.dtype), jnp.asarray(mean).astype(kind)
    if jnp.asarray(words).dtype == np.uint32 or jnp.iscomplexobj(z):
        return z * std + mean
    # the product is rounded before the sum, also by processors that have both in one instruction
    if kind.itemsize < 4:
        z, std, mean = (x.astype(np.float32) for x in (z, std, mean))
    return (round_to(z * std, kind) + mean).astype(kind)


def _bad_std():
    return RuntimeError("normal expects all elements of std >= 0.0")


def _normal_kind(x):
    refuse("normal_kernel_cpu", from_np(x.dtype))
    return x.dtype


def _zeros(grad, aval):
    return aten.zeros([*aval.shape], grad)


@op(
    "normal.Tensor_float(Tensor mean, Tensor words, float std=1) -> Tensor",
    out="cast",
    variants="",
    node="NormalBackward1",
    vjp={"mean": lambda grad, mean_aval: _zeros(grad, mean_aval)},
    saved="mean_sym_sizes",
)
def normal_tensor_float(mean, words, std):
    if jnp.asarray(words).dtype != np.uint32:  # numbers that have the deviation already
        std = 1
    return _scaled(words, mean, std, _normal_kind(mean))


@op(
    "normal.float_Tensor(float mean, Tensor words, Tensor std) -> Tensor",
    out="cast",
    variants="",
    node="NormalBackward2",
    vjp={"std": lambda grad, std_aval: _zeros(grad, std_aval)},
    check=lambda mean, words, std: (jnp.any(std < 0), _bad_std),
)
def normal_float_tensor(mean, words, std):
    return _scaled(words, mean, std, _normal_kind(std))


@op(
    "normal.Tensor_Tensor(Tensor mean, Tensor words, Tensor std) -> Tensor",
    out="cast",
    variants="",
    node="NormalBackward3",
    vjp={"mean, std": lambda grad, mean_aval, std_aval: (_zeros(grad, mean_aval), _zeros(grad, std_aval))},
    check=lambda mean, words, std: (jnp.any(std < 0), _bad_std),
    saved="mean_sym_sizes std_sym_sizes",
)
def normal_tensor_tensor(mean, words, std):
    return _scaled(words, mean, std, _normal_kind(mean))


@op(
    "poisson(Tensor self, Tensor words) -> Tensor",
    variants="",
    vjp={"self": lambda grad: jnp.zeros_like(grad)},
    check=lambda self, words: (
        ~jnp.all(self >= 0),
        lambda: RuntimeError("invalid Poisson rate, expected rate to be non-negative"),
    ),
)
def poisson(self, words):
    if not jnp.issubdtype(self.dtype, jnp.floating):
        name = from_np(self.dtype).scalar_name
        raise NotImplementedError(f"\"poisson_cpu\" not implemented for '{name}': rates are floating point")
    if jnp.asarray(words).dtype != np.uint32:  # samples
        return words.reshape(self.shape).astype(self.dtype)
    return jax.random.poisson(rng.key(words), self.astype(_computed(self.dtype)), dtype=np.int64).astype(self.dtype)


@op(
    "binomial(Tensor count, Tensor prob, Tensor words) -> Tensor",
    variants="",
    vjp={"count, prob": lambda grad, count_aval, prob_aval: (_zeros(grad, count_aval), _zeros(grad, prob_aval))},
    check=lambda count, prob, words: (
        jnp.any(count < 0) | _outside(prob),
        lambda: RuntimeError("binomial expects counts >= 0 and probabilities of [0, 1]"),
    ),
)
def binomial(count, prob, words):
    if count.dtype != prob.dtype or not jnp.issubdtype(prob.dtype, jnp.floating):
        raise RuntimeError(
            f"Found dtype {from_np(prob.dtype)} but expected {from_np(count.dtype)}: binomial takes two "
            "floating point tensors"
        )
    if jnp.asarray(words).dtype != np.uint32:  # samples
        return words.astype(count.dtype)
    kind = _computed(count.dtype)
    drawn = jax.random.binomial(rng.key(words), count.astype(kind), prob.astype(kind), dtype=kind)
    return drawn.astype(count.dtype)


def _no_distribution(self, words, num_samples, replacement):
    bad = ~jnp.all((self >= 0) & (self < jnp.inf)) | jnp.any(jnp.sum(self, -1) <= 0)
    return bad, lambda: RuntimeError(
        "invalid multinomial distribution: the probability tensor contains either `inf`, `nan` or element < "
        "0, or the sum "
        "of probabilities <= 0"
    )


@op(
    "multinomial(Tensor self, Tensor words, int num_samples, bool replacement) -> Tensor",
    variants="",
    vjp={},
    check=_no_distribution,
)
def multinomial(self, words, num_samples, replacement):
    """Indices drawn by weight: the cumulative sum is searched, or without replacement the largest
    ``weight / exponential`` are taken (exponential races)."""
    weights = self.astype(_computed(self.dtype))
    words = jnp.asarray(words)
    if jnp.issubdtype(words.dtype, jnp.signedinteger):
        return words.reshape(*self.shape[:-1], num_samples)
    if words.dtype != np.uint32:  # exponential samples
        return _greatest(self / words.reshape(self.shape).astype(self.dtype), num_samples)
    if not replacement:
        race = weights / -jnp.log(_positive(words, self.shape, weights.dtype) * (1 - 2.0**-24))
        return _greatest(race, num_samples)
    total = jnp.cumsum(weights, -1)
    shape = (*self.shape[:-1], num_samples)
    point = uniform01(words, shape, weights.dtype) * total[..., -1:]
    below = jnp.sum(total[..., None, :] <= point[..., None], -1) if self.shape[-1] <= 64 else _search(total, point)
    last = self.shape[-1] - 1 - jnp.argmax((weights > 0)[..., ::-1], -1)
    return jnp.minimum(below, last[..., None]).astype(np.int64)


def _greatest(race, n):
    """The places of the ``n`` greatest numbers of each row; XLA sorts the row for more than one."""
    if n == 1:
        return jnp.argmax(race, -1, keepdims=True).astype(np.int64)
    return lax.top_k(race, n)[1].astype(np.int64)


def _search(total, point):
    if total.ndim == 1:
        return jnp.searchsorted(total, point, side="right")
    return jax.vmap(lambda t, p: jnp.searchsorted(t, p, side="right"))(total, point)


# ----- dropout -----


def _keeps(input, words, p, channels):
    """Which elements stay, each with probability 1 - p; with ``channels`` > 0, one choice for each position
    of the first ``channels`` dimensions."""
    name = from_np(input.dtype).scalar_name
    if jnp.iscomplexobj(input):
        raise NotImplementedError(f"\"bernoulli_scalar_cpu_\" not implemented for '{name}': dropout takes real tensors")
    if not jnp.issubdtype(input.dtype, jnp.floating):
        raise RuntimeError(f"result type Float can't be cast to the desired output type {name} (dropout)")
    shape = input.shape if not channels else input.shape[:channels] + (1,) * (input.ndim - channels)
    return stays(words, shape, p)


def stays(words, shape, p):
    """Which elements stay where each is dropped with probability ``p``."""
    if jnp.asarray(words).dtype == bool:
        return jnp.asarray(words).reshape(shape)
    return uniform01(words, shape, np.float32) >= jnp.asarray(p).astype(np.float32)


def _noise(keep, p, dtype):
    return jnp.where(keep, 1 / (1 - jnp.asarray(p).astype(np.float64)), 0).astype(dtype)


def _dropped(x, keep, p):
    return x * unseen(lambda keep, p: _noise(keep, p, x.dtype), keep, p)


@op(
    "dropout(Tensor input, Tensor words, float p, int channels) -> (Tensor result, Tensor mask)",
    variants="",
    layout=result_layouts.like_first,
    nondiff=(1,),
    node="MulBackward",
    vjp={"input": lambda grads, mask, p: _dropped(grads[0], mask, p)},
    saved={"self": lambda: None, "other": lambda mask, p: mask * (1 / (1 - p) if p < 1 else 0.0)},
    edges=lambda: (0, 1),
)
def dropout(input, words, p, channels):
    """The elements that stay, scaled by 1 / (1 - p), zeros in place of the others; and which stay. p < 1."""
    keep = _keeps(input, words, p, channels)
    return _dropped(input, keep, p), keep


SELU_BOUND = 1.7580993408473766  # -SELU(-inf)


@op(
    "alpha_dropout(Tensor input, Tensor words, float p, int channels) -> (Tensor result, Tensor scale, Tensor shift)",
    variants="",
    layout=result_layouts.like_first,
    nondiff=(1, 2),
    node="AddBackward",
    vjp={"input": lambda grads, scale: grads[0] * scale},
    saved={"alpha": lambda: 1},
)
def alpha_dropout(input, words, p, channels):
    """``input * scale + shift``: dropped elements take SELU's lower bound, then all are scaled and shifted
    so that mean 0 and variance 1 stay (Klambauer et al. 2017, section "Alpha dropout")."""
    keep = _keeps(input, words, p, channels)
    p = jnp.asarray(p).astype(np.float64)
    a = 1 / jnp.sqrt((SELU_BOUND**2 * p + 1) * (1 - p))
    scale = jnp.where(keep, a, 0).astype(input.dtype)
    shift = (jnp.where(keep, 0, -a * SELU_BOUND) + a * SELU_BOUND * p).astype(input.dtype)
    return input * scale + shift, scale, shift
