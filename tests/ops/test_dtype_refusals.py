"""Numbers and outputs whose dtype an operator does not take, against PyTorch."""

import operator

import pytest
import torch
from both import agree, agree_error, attempt

import torchlike

EXACT = [
    "abs", "neg", "floor", "ceil", "round", "trunc", "sgn", "sign", "frac", "signbit", "isposinf", "nan_to_num", "amax",
    "amin", "msort", "conj_physical", "inverse",
]  # fmt: skip


@pytest.mark.parametrize("wanted", ["float64", "complex64"])
@pytest.mark.parametrize("name", EXACT)
def test_outputs_of_another_dtype(name, wanted):
    agree_error(lambda t: getattr(t, name)(t.eye(2), out=t.empty(0, dtype=getattr(t, wanted))), "(?i)dtype|type|out")


PAIRS = [
    lambda t, out: t.matmul(t.ones(2, 2), t.ones(2, 2), out=out),
    lambda t, out: t.addmm(t.ones(2, 2), t.ones(2, 2), t.ones(2, 2), out=out),
    lambda t, out: t.dot(t.ones(2), t.ones(2), out=out),
    lambda t, out: t.heaviside(t.ones(2), t.ones(2), out=out),
    lambda t, out: t.lerp(t.ones(2), t.ones(2), t.ones(2), out=out),
    lambda t, out: t.quantile(t.ones(2), 0.5, out=out),
    lambda t, out: t.all(t.ones(2), out=out),
    lambda t, out: t.linalg.solve(t.eye(2), t.ones(2), out=out),
    lambda t, out: t.logcumsumexp(t.ones(2), 0, out=out),
]


@pytest.mark.parametrize("f", PAIRS)
def test_outputs_of_another_dtype_of_more_inputs(f):
    agree_error(lambda t: f(t, t.empty(0, dtype=t.float64)), "(?i)dtype|type|out|double")


def test_outputs_that_are_cast():
    agree(lambda t: t.all(t.ones(2), out=t.empty(0, dtype=t.uint8)))
    agree(lambda t: t.sin(t.ones(2), out=t.empty(0, dtype=t.float64)))
    agree(lambda t: t.abs(t.ones(2, dtype=t.complex64), out=t.empty(0)))
    agree(lambda t: t.lerp(t.ones(2), t.zeros(2), 0.5, out=t.empty(0, dtype=t.float64)))


FACTORS = [
    (lambda t, x: t.add(x.bool(), x.bool(), alpha=1.5), "argument alpha must not be a floating point number"),
    (lambda t, x: x.bool().add_(x.bool(), alpha=1j), "argument alpha must not be"),
    (lambda t, x: t.add(x.int(), x.int(), alpha=1j), "argument alpha must not be a floating point number"),
    (lambda t, x: t.add(x, x, alpha=True), "Boolean alpha only supported for Boolean results"),
    (lambda t, x: t.addr(t.ones(2, 2), x, x, beta=True), "Boolean beta only supported for Boolean results"),
    (lambda t, x: t.addr(t.ones(2, 2).int(), x.int(), x.int(), alpha=1.5), "alpha must not be a floating point number"),
    (lambda t, x: t.addcmul(x.bool(), x.bool(), x.bool()), "not implemented for 'Bool'"),
    (lambda t, x: t.addcmul(x, x, x, value=1j), "without overflow"),
    (lambda t, x: t.addcdiv(x, x, x, value=1j), "without overflow"),
    (lambda t, x: t.addcdiv(x.int(), x.int(), x.int()), "Integer division.+is no longer supported"),
]


@pytest.mark.parametrize(("f", "match"), FACTORS)
def test_factors(f, match):
    agree_error(lambda t: f(t, t.ones(2)), match)


SPARSE = [lambda x, y: x.add_(y), lambda x, y: x.mul_(y), lambda x, y: x.sub_(y)]


@pytest.mark.parametrize("f", SPARSE)
def test_sparse_results_are_cast_in_place(f):
    agree(lambda t: f(t.tensor([1, 0, 2], dtype=t.uint8).to_sparse(), t.tensor([1, 0, 2]).to_sparse()).to_dense())
    agree_error(lambda t: f(t.ones(2).byte().to_sparse(), t.ones(2).to_sparse()), "result type Float")


WITHOUT_GRADIENT = [
    lambda t, x: x.sum(dtype=t.int64),
    lambda t, x: x.sum((0, 1), dtype=t.bool),
    lambda t, x: t.prod(x, dtype=t.int32),
    lambda t, x: t.cumsum(x, 0, dtype=t.int64),
    lambda t, x: x.cumprod(0, dtype=t.uint8),
    lambda t, x: x.nansum(0, dtype=t.int64),
    lambda t, x: t.masked.sum(x, dtype=t.int64),
]


@pytest.mark.parametrize("f", WITHOUT_GRADIENT)
def test_integers_take_no_gradient(f):
    agree_error(lambda t: f(t, t.ones(2, 3, requires_grad=True)), "Autograd not support dtype: (Long|Bool|Int|Byte)")
    agree_error(lambda t: t.func.grad(lambda x: f(t, x).sum().float())(t.ones(2, 3)), "Autograd not support dtype")
    agree(lambda t: f(t, t.ones(2, 3)))
    agree(lambda t: f(t, t.ones(2, 3, requires_grad=True).detach()))
    agree(lambda t: t.no_grad()(f)(t, t.ones(2, 3, requires_grad=True)))


def test_integers_take_no_gradient_of_mapped_calls():
    x = torchlike.ones(2, 3)
    agree_error(lambda t: t.func.vmap(t.func.grad(lambda a: a.sum(dtype=t.int64)))(t.ones(2, 3)), "Autograd not")
    rows = torchlike.func.vmap(lambda row: row.sum(dtype=torchlike.int64))
    with pytest.raises(RuntimeError, match="Autograd not support dtype: Long"):
        torchlike.func.jvp(rows, (x,), (x,))
    assert torchlike.func.jvp(torchlike.func.vmap(lambda row: row > 1), (x,), (x,))[1].tolist() == [[0] * 3] * 2


def test_integers_take_no_tangent():
    ones = torchlike.ones(3)
    with pytest.raises(RuntimeError, match="Autograd not support dtype: Long"):
        torchlike.func.jvp(lambda x: x.sum(dtype=torchlike.int64), (ones,), (ones,))
    agree(lambda t: t.func.jvp(lambda x: x.to(t.int64), (t.ones(3),), (t.ones(3),)))


BOOLS = [
    lambda t, x: t.gcd(x.long(), True),
    lambda t, x: t.hypot(True, x),
    lambda t, x: x.atan2(True),
    lambda t, x: x.fmax(other=False),
    lambda t, x: x.atan2_(True),
    lambda t, x: t.maximum(x, True, out=t.empty(0)),
    lambda t, x: t.ldexp(x, True),
    lambda t, x: t.logical_and(x, True),
    lambda t, x: t.eq(True, x),
    lambda t, x: t.mm(x, True),
    lambda t, x: t.addcmul(True, x, x),
    lambda t, x: t.addcmul(x, True, x),
    lambda t, x: x.addcdiv(x, True),
    lambda t, x: x.addcmul_(x, True),
    lambda t, x: t.where(True, x, x),
    lambda t, x: t.where(True, 1, 2),
    lambda t, x: t.isclose(x, True),
    lambda t, x: t.allclose(x, True),
    lambda t, x: t.clamp(True, x, x),
    lambda t, x: t.clamp(True, 0, 1),
    lambda t, x: t.repeat_interleave(True, 2),
    lambda t, x: t.nn.functional.dropout(True, training=False),
    lambda t, x: t.nn.functional.alpha_dropout(True),
    lambda t, x: t.nn.functional.cosine_similarity(x, True, 0),
    lambda t, x: t.nn.functional.pairwise_distance(True, x),
    lambda t, x: t.nn.functional.poisson_nll_loss(True, x),
    lambda t, x: t.nn.functional.hinge_embedding_loss(x, True),
    lambda t, x: t.nn.functional.soft_margin_loss(x, True),
    lambda t, x: t.nn.functional.linear(x, x, True),
    lambda t, x: t.nn.functional.layer_norm(x, (2,), True),
    lambda t, x: t.nn.functional.rms_norm(x, (2,), True),
    lambda t, x: t.nn.functional.batch_norm(x[None], x, x, True),
    lambda t, x: t.nn.functional.embedding(True, x[None]),
    lambda t, x: t.nn.functional.relu(True),
    lambda t, x: t.nn.functional.softplus(True),
    lambda t, x: t.nn.functional.pad(True, (1, 1)),
    lambda t, x: t.nn.functional.prelu(x, True),
    lambda t, x: t.nn.functional.conv1d(x[None], x[None, None], True),
    lambda t, x: t.linalg.matrix_rank(True),
    lambda t, x: t.linalg.pinv(True),
    lambda t, x: t.linalg.lstsq(x[None], True),
    lambda t, x: t.cdist(True, x[None]),
    lambda t, x: t.clip(True, 0, 1),
    lambda t, x: t.vmap(lambda y: t.mm(y, True))(x[None, None]),
]


@pytest.mark.parametrize("f", BOOLS)
def test_bools_are_no_tensors(f):
    agree_error(lambda t: f(t, t.ones(2)), "must be Tensor, not bool|got \\(.*bool")


@pytest.mark.parametrize("x", [2, 2.5])
def test_numbers_are_no_tensors(x):
    agree_error(lambda t: t.clamp(x, 0, 1), "clamp")
    agree_error(lambda t: t.linalg.pinv(x), "linalg_pinv")
    agree_error(lambda t: t.linalg.matrix_rank(x, rtol=0.1), "linalg_matrix_rank")
    agree(lambda t: (t.where(t.ones(2) > 0, True, False), t.add(True, t.ones(2)), t.ones(2).clamp(False, True)))


def test_results_written_into_outputs_have_names():
    empty = lambda t, *kinds: tuple([t.empty(0, dtype=k) for k in kinds])  # noqa: E731
    agree(lambda t: type(t.svd(t.eye(2), out=empty(t, *[t.float32] * 3))).__name__)
    kinds = lambda t: (t.float32, t.float32, t.int64, t.float32)  # noqa: E731
    agree(lambda t: type(t.linalg.lstsq(t.eye(2), t.eye(2), out=empty(t, *kinds(t)))).__name__)


def test_a_memory_format_is_given_by_its_name():
    agree_error(lambda t: t.ones(2).is_contiguous(0), "is_contiguous\\(\\) takes")
    agree_error(lambda t: t.ones(2).contiguous(t.contiguous_format), "contiguous\\(\\) takes")
    agree_error(lambda t: t.ones(2).is_contiguous(memory_format=0), "must be torch.memory_format, not int")


def test_nansum_of_complex_results():
    agree_error(lambda t: t.ones(2).nansum(dtype=t.complex64), "nansum|complex")
    agree_error(lambda t: t.ones(2, dtype=t.complex64).nansum(dtype=t.int64), "nansum.+complex")
    agree_error(lambda t: t.ones(2).nanmean(dtype=t.complex64), "nansum|complex")
    agree_error(lambda t: t.ones(2, dtype=t.complex64).nanmean(dtype=t.float32), "nansum.+complex")


SHORTER = [(a, b) for a in ("float16", "bfloat16", "float32", "float64", "complex64", "complex128")
           for b in ("float16", "bfloat16", "float32", "float64", "complex64", "complex128", "int64")]  # fmt: skip


@pytest.mark.parametrize("name", ["linalg.vector_norm", "norm", "linalg.norm"])
def test_norms_in_a_dtype_that_does_not_hold_their_numbers(name):
    assert [_norm(torchlike, name, *kinds) for kinds in SHORTER] == [_norm(torch, name, *kinds) for kinds in SHORTER]


def _norm(t, name, given, asked):
    f, x = operator.attrgetter(name)(t), t.tensor([3.0, 4.0]).to(getattr(t, given))
    y = attempt(lambda: f(x, dtype=getattr(t, asked)))
    return type(y).__name__ if isinstance(y, Exception) else (str(y.dtype)[-9:], y.item())


@pytest.mark.parametrize("name", ["complex", "polar"])
def test_a_number_for_a_tensor_beside_an_output(name):
    agree_error(lambda t: getattr(t, name)(t.ones(2), 3, out=t.empty(2, dtype=t.complex64)), "must be Tensor, not int")


REFUSED = [
    lambda t, F: t.trace(t.ones(2, 2, dtype=t.bool)),
    lambda t, F: t.mvlgamma(t.ones(2, dtype=t.bool), 1),
    lambda t, F: t.linalg.vander(t.ones(2, dtype=t.bool)),
    lambda t, F: t.linalg.vander(t.ones(2, dtype=t.half)),
    lambda t, F: F.conv1d(t.ones(1, 1, 2, dtype=t.bool), t.ones(1, 1, 2, dtype=t.bool)),
    lambda t, F: F.conv_transpose2d(t.ones(1, 1, 2, 2, dtype=t.int32), t.ones(1, 1, 2, 2, dtype=t.int32)),
    lambda t, F: F.local_response_norm(t.ones(1, 2, 3, dtype=t.int32), 2),
    lambda t, F: F.pad(t.ones(1, 2, 3, dtype=t.bool), (1, 1), mode="reflect"),
    lambda t, F: t.ones(2, dtype=t.bool).scatter_reduce(0, t.tensor([0]), t.ones(2, dtype=t.bool), "mean"),
    lambda t, F: t.ones(2, 2).bool().index_reduce(0, t.tensor([0]), t.ones(1, 2).bool(), "mean"),
    lambda t, F: t.ones(2).cfloat().index_reduce(0, t.tensor([0]), t.ones(1).cfloat(), "prod"),
    lambda t, F: F.bilinear(*[t.ones(2).bool()] * 2, t.ones(1, 2, 2).bool()),
    lambda t, F: t.normal(t.zeros(2), t.ones(2, dtype=t.complex64)),
    lambda t, F: F.interpolate(t.ones(1, 1, 2, dtype=t.uint8), scale_factor=2, mode="linear"),
]


@pytest.mark.parametrize("f", REFUSED)
def test_inputs_that_have_no_kernel(f):
    agree_error(lambda t: f(t, t.nn.functional), "not implemented for|boolean|non-complex|[Vv]ander")


CORNERS = [
    lambda t, F, x: F.grid_sample(x, t.zeros(1, 1, 1, 2), align_corners=1),
    lambda t, F, x: t.grid_sampler(x, t.zeros(1, 1, 1, 2), 0, 0, 1),
    lambda t, F, x: F.affine_grid(t.ones(1, 2, 3), (1, 1, 2, 2), align_corners=0),
]


@pytest.mark.parametrize("f", CORNERS)
def test_numbers_for_bools(f):
    agree_error(lambda t: f(t, t.nn.functional, t.ones(1, 1, 2, 2)), "'align_corners'.* must be bool, not int")


def test_complex_deviations():
    agree_error(lambda t: t.normal(t.zeros(2), t.ones(2, dtype=t.complex64)), "non-complex")
