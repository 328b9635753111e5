"""Arguments of the wrong kind: the type of PyTorch's error, and no result where PyTorch gives none."""

import math

import numpy as np
import pytest
import torch

import torchlike
from tests.both import agree, agree_error

MANY = [
    lambda t: t.chunk(t.ones(4), 2, t.tensor([0, 0])),
    lambda t: t.broadcast_to(t.ones(6), 6), lambda t: t.reshape(t.ones(6), 6), lambda t: t.empty_strided(3, 1),
    lambda t: t.reshape(t.ones(6), t.tensor([2, 3])), lambda t: t.tensor([None], dtype=t.float32),
    lambda t: t.tensor(None, dtype=t.int64), lambda t: t.tensor([1, {}], dtype=t.bool),
    lambda t: t.tensor([[1, None]], dtype=t.complex64),
    lambda t: t.unbind(t.ones(4), t.tensor([0, 0])),
    lambda t: t.ones(4).split(2, t.tensor([0, 0])),
    lambda t: t.ones(4, 4).flatten(t.tensor([0, 0])),
    lambda t: t.unique(t.ones(4), dim=0.5 + 1),
    lambda t: t.nn.functional.grid_sample(None, t.ones(1, 2, 2, 2)),
    lambda t: t.nn.functional.grid_sample(t.ones(1, 1, 2, 2), [1]),
    lambda t: t.nn.functional.adaptive_max_pool1d(None, 2),
    lambda t: t.nn.functional.adaptive_max_pool1d([1.0], 2, True),
    lambda t: t.nn.functional.max_pool2d(t.ones(1, 4, 4), 2, padding=None),
    lambda t: t.nn.functional.avg_pool1d(t.ones(1, 4), 2, padding=None),
    lambda t: t.nn.functional.pad(t.ones(1, 4), (1, 1), 1),
    lambda t: t.nn.functional.gaussian_nll_loss(t.ones(2), t.ones(2), True),
    lambda t: t.nn.functional.gaussian_nll_loss(t.ones(2), t.ones(2), 1),
    lambda t: t.native_batch_norm(None, None, None, None, None, True, 0.1, 0.1),
    lambda t: t.native_layer_norm([1.0], [1], None, None, 0.1),
    lambda t: t.native_group_norm(t.ones(2, 3), "a", None, 2, 3, 1, 1, 0.1),
    lambda t: t._softmax_backward_data(1, t.ones(2), 0, t.float32),
    lambda t: t.meshgrid(t.ones(2), t.ones(2), indexing=1),
    lambda t: t.linalg.lstsq(t.ones(2, 2), t.ones(2, 2), driver=1),
    lambda t: t.linalg.matrix_norm(t.ones(2, 2), "fro", 1),
    lambda t: t.linalg.tensorinv(t.ones(1, 1), ind=True),
    lambda t: t.repeat_interleave(t.ones(2), t.tensor([1, 2]), output_size=3.0),
    lambda t: t.abs(t.ones(2), out=[t.ones(2)]),
    lambda t: t.add(t.ones(2), 1, out=[t.ones(2)]),
    lambda t: t.addmm(t.ones(2, 2), t.ones(2, 2), t.ones(2, 2), out=(t.ones(2, 2),)),
]  # fmt: skip


@pytest.mark.parametrize("f", MANY)
def test_another_kind(f):
    agree_error(f, "(?i)must be|expected|received|dim|match|interpreted")


VALUES = [
    lambda t: t.func.jvp(t.igamma, (t.ones(2), t.ones(2)), (t.ones(2), t.ones(2))),
    lambda t: t.ones(4).sum(10**30),
    lambda t: t.chunk(t.ones(4), 2, -(10**30)),
    lambda t: t.nn.functional.mse_loss(t.ones(2), t.ones(2), reduction=["mean"]),
    lambda t: t.nn.functional.dropout(t.ones(2), math.nan),
    lambda t: t.repeat_interleave(t.ones(2), 2, output_size=3),
    lambda t: t._chunk_cat([t.ones(1, 2), t.ones(1, 2, 1)], -1, 1),
    lambda t: t.ldexp(t.ones(2), t.tensor([True, False])),
]


@pytest.mark.parametrize("f", VALUES)
def test_another_value(f):
    agree_error(f, "Overflow|valid|between|Invalid|non-negative|Bool|forward AD")


def test_lists_of_outputs_stay_lists():
    agree(lambda t: (out := [t.empty(3), t.empty(3)], t.unbind_copy(t.ones(2, 3), out=out))[0])


MEANS = [[1e6, -1e6, 3.0], [40000.0, 40000.0, 1.0], [1e-7, 1.0, 2049.0, 2049.0]]


@pytest.mark.parametrize("numbers", MEANS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "complex64"])
def test_means_are_rounded_once(numbers, dtype):
    """Rounding the elements to the output's dtype first would make them infinite."""
    agree(
        lambda t: (
            t.mean(t.tensor(numbers), out=t.empty((), dtype=getattr(t, dtype))),
            t.mean(t.tensor([numbers]), 1, out=t.empty(1, dtype=getattr(t, dtype))),
        )
    )


@pytest.mark.parametrize(
    ("x", "e"),
    [
        ("float32", "float16"), ("float16", "float16"), ("bfloat16", "float16"), ("float64", "float32"),
        ("float32", "float64"), ("int64", "float16"), ("complex64", "float32"), ("float16", "int64"),
    ],
)  # fmt: skip
def test_powers_of_two_in_the_exponents_dtype(x, e):
    """The power may be infinite or zero there, where the product would be neither."""
    agree(
        lambda t: t.ldexp(
            t.tensor([1e-3, 3.0, -1e-3, 7.0]).to(getattr(t, x)), t.tensor([17.0, -3, -20, 2]).to(getattr(t, e))
        )
    )


def test_infinite_tolerances():
    numbers = [complex(1, 1), complex(math.nan, 1), 0j, 0j, complex(math.inf, 0), 1j]
    others = [complex(2, 1), 1, 0j, 1j, 1j, complex(math.inf, 0)]
    agree(
        lambda t: [
            t.isclose(t.tensor(numbers), t.tensor(others, dtype=t.complex64), rtol=r, atol=a)
            for r in (0.1, math.inf)
            for a in (0.0, math.inf)
        ]
    )


@pytest.mark.parametrize("f", ["eigh", "eigvalsh"])
def test_eigenvalues_that_are_not_found(f):
    agree_error(lambda t: getattr(t.linalg, f)(t.full((4, 4), math.nan)), "failed to converge")
    agree_error(lambda t: getattr(t.linalg, f)(t.full((2, 4, 4), math.nan)), "failed to converge")
    agree(lambda t: getattr(t.linalg, f)(t.full((1, 1), math.nan)))


def test_infinite_matrices_have_no_singular_values():
    """Nor do LAPACK's iterations end for some of them."""
    bad = torchlike.eye(3) + 0.5
    bad[0, 0] = math.inf
    for f in (torchlike.linalg.svd, torchlike.linalg.svdvals, torchlike.linalg.pinv):
        with pytest.raises(torchlike.linalg.LinAlgError, match="non-finite"):
            f(bad)


def many(t, *numbers):
    """A tensor of 65 dimensions, more than numpy's arrays have."""
    return t.tensor(numbers).reshape((1,) * 3 + (-1,) + (1,) * 61)


MANY_DIMENSIONS = [
    lambda t: many(t, 1.0, 3.0)[many(t, 1, 0) > 0],
    lambda t: many(t, 2.0, 1.0, 2.0).unique(dim=3).flatten(),
    lambda t: [x.flatten() for x in t.unique_consecutive(many(t, 2, 2, 1), True, True, dim=3)],
    lambda t: t.isin(many(t, 1, 2, 3), t.tensor([1, 3])).flatten(),
    lambda t: many(t, 2.5).item(),
    lambda t: str(many(t, 2.5)),
]


@pytest.mark.parametrize("f", MANY_DIMENSIONS)
def test_more_dimensions_than_numpy_knows(f):
    ours, theirs = f(torchlike), f(torch)
    assert str(ours) == str(theirs)


# Calls that were answered in silence, or refused by another exception than PyTorch's.
REFUSED = [
    lambda t: t.ones(4).reshape(2, 2, zzz=1), lambda t: t.ones(4).reshape(2, 2, shape=(4,)),
    lambda t: t.ones(4).view(2, 2, dtype=t.int32), lambda t: t.ones(4).view(2, 2, size=(4,)),
    lambda t: t.ones(4).flip(7, dims=(0,)), lambda t: t.ones(4, 2).permute(1, dims=(1, 0)),
    lambda t: t.ones(4, 1).flatten(0, 1.0), lambda t: t.ones(4, 1).flatten(True),
    lambda t: t.ones(4, 1).expand(True, 4), lambda t: t.ones(2, 3).sum((True, 0)),
    lambda t: t.nn.functional.layer_norm(t.ones(1, 3), (1.0, 3)),
    lambda t: t.nn.functional.rms_norm(t.ones(1, 3), (True, 3)),
    lambda t: t.nn.functional.ctc_loss(t.ones(5, 1, 4), t.tensor([[1, 2]]), [5.0], [2]),
    lambda t: t.nn.functional.ctc_loss(t.ones(5, 1, 4), t.tensor([[1, 2]]), [5], [2.5]),
    lambda t: t.nn.functional.adaptive_avg_pool1d(t.ones(1, 2, 4), (None,)),
    lambda t: t.tensordot(t.ones(2, 2), t.ones(2, 2), dims=(0, 1)),
    lambda t: t.tensordot(t.ones(2, 2), t.ones(2, 2), dims=1.0),
    lambda t: t.tensordot(t.ones(2, 2), t.ones(2, 2), dims=(1,)),
    lambda t: t.linalg.matrix_rank(t.ones(2, 2), 7, atol=1.0),
    lambda t: t.meshgrid(t.ones(2), t.ones(2).numpy(), indexing="ij"),
    lambda t: t.cartesian_prod(t.ones(2), t.ones(2).numpy()),
    lambda t: t.masked_select(t.ones(2), t.ones(2).bool().numpy()),
    lambda t: t.nn.functional.layer_norm(t.ones(1, 3).int(), (3,), t.ones(3)),
    lambda t: t.nn.functional.group_norm(t.ones(1, 4, 2).bool(), 2, t.ones(4)),
    lambda t: t.nn.functional.softmin(t.tensor([True]), 0),
    lambda t: t.nn.functional.soft_margin_loss(t.tensor([1]), t.tensor([1.0])),
    lambda t: t.nn.functional.hinge_embedding_loss(t.tensor([True]), t.tensor([1.0])),
    lambda t: t.bitwise_and(1, True), lambda t: t.bitwise_or(True, False),
    *[lambda t, name=name: getattr(t.ones(2).cfloat(), name)(0) for name in ("max", "argmax", "argmin")],
    *[lambda t, name=name: getattr(t.ones(2).cfloat(), name)() for name in ("deg2rad", "rad2deg", "frexp")],
    lambda t: t.cov(t.tensor([True, False])),
]  # fmt: skip


@pytest.mark.parametrize("f", REFUSED)
def test_refused_as_there(f):
    agree_error(f, "")


@pytest.mark.parametrize("name", ["xlogy", "atan2", "fmod", "copysign", "nextafter", "clamp_min", "remainder"])
def test_in_place_calls_say_first_what_cannot_be_held(name):
    agree_error(lambda t: getattr(t.ones(2), name + "_")(t.ones(2).cfloat()), "can't be cast")


@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_left_shift", "lcm", "gcd"])
def test_in_place_calls_on_integers_say_first_what_cannot_be_held(name):
    agree_error(lambda t: getattr(t.ones(2).int(), name + "_")(t.ones(2)), "can't be cast")


LATER_BOOLS = [
    lambda t: t.ones(4, 1).expand(4, True), lambda t: t.ones(2, 3).sum((0, True)), lambda t: t.ones(6).reshape(6, True),
    lambda t: t.ones(2, 3).flip((0, True)), lambda t: t.nn.functional.pad(t.ones(1, 3), (1, True)),
    lambda t: t.nn.functional.conv2d(t.ones(1, 1, 4, 4), t.ones(1, 1, 2, 2), stride=(2, True)),
]  # fmt: skip


@pytest.mark.parametrize("f", LATER_BOOLS)
def test_bools_are_ints_after_the_first(f):
    agree(f)


WRAPPING = [
    lambda t, u: t.nn.functional.softsign(u(0, 5, 255)),
    lambda t, u: t.nn.functional.margin_ranking_loss(t.tensor([1.0]), t.tensor([3.0]), u(1)),
    lambda t, u: t.nn.functional.cosine_embedding_loss(u(1, 200), t.tensor([1.0, 2.0]), t.tensor(1.0)),
    lambda t, u: t.nn.functional.cosine_embedding_loss(u(1, 200), u(3, 200), t.tensor(1)),
    lambda t, u: t.nn.functional.multilabel_soft_margin_loss(t.tensor([1.0, 2.0]), u(0, 248)),
]


@pytest.mark.parametrize("f", WRAPPING)
def test_bytes_wrap_where_they_do_in_pytorch(f):
    agree(lambda t: f(t, lambda *x: t.tensor(x if len(x) > 1 else x, dtype=t.uint8)))


@pytest.mark.parametrize("base", [1, 1.0, 0, 2, 1 + 0j])
def test_powers_of_numbers_to_complex_limits(base):
    agree(lambda t: t.pow(base, t.tensor([complex(math.nan, 0), complex(math.inf, 0), 1j])))


OVERLAPPED = [
    lambda t, out: t.expand_copy(t.ones(5, 1), (5, 5), out=out(5, 5)),
    lambda t, out: t.alias_copy(t.ones(5), out=out(5)),
    lambda t, out: t.diagonal_copy(t.ones(5, 5), 2, out=out(3)), lambda t, out: t.t_copy(t.ones(2, 3), out=out(3, 2)),
]  # fmt: skip


@pytest.mark.parametrize("f", OVERLAPPED)
def test_copies_refuse_an_expanded_output(f):
    agree_error(lambda t: f(t, lambda *shape: t.zeros(1).expand(shape)), "single memory location")


@pytest.mark.parametrize("name", ["lt", "le", "gt", "ge"])
def test_comparisons_of_complex_numbers_in_place(name):
    agree_error(lambda t: getattr(t.ones(2), name + "_")(t.ones(2).cfloat()), "not implemented")


def test_another_dtype_is_told_before_one_that_is_not_factored():
    agree_error(lambda t: t.linalg.solve(t.eye(2).half(), t.ones(2)), "same dtype")
    agree_error(lambda t: t.cholesky_solve(t.ones(2, 1), t.eye(2).half()), "same dtype")


@pytest.mark.parametrize("dtype", ["float16", "int64"])
@pytest.mark.parametrize("name", ["linalg.cholesky", "linalg.eigh", "linalg.lu_factor", "linalg.qr", "cholesky"])
def test_kernels_that_lack_a_dtype(name, dtype):
    agree_error(lambda t: eval(f"t.{name}")(t.eye(2, dtype=getattr(t, dtype))), "(?i)not implemented|expected")


@pytest.mark.parametrize("other", ["a", [1], np.ones(2), object()], ids=str)
def test_a_result_type_is_of_numbers(other):
    agree_error(lambda t: t.result_type(other, 1), "argument|invalid combination")
    agree_error(lambda t: t.result_type(t.ones(2), other), "argument|invalid combination")
    agree_error(lambda t: t.result_type(t.float32, 1), "argument|invalid combination")


@pytest.mark.parametrize("number", [np.float32(1), np.int64(1), np.float64(2), np.bool_(True)], ids=repr)
def test_a_result_type_of_numpy_numbers(number):
    results = [[str(t.result_type(number, 1)), str(t.result_type(t.ones(2), number))] for t in (torchlike, torch)]
    assert results[0] == results[1]


@pytest.mark.parametrize("layout", ["strided", 1])
def test_a_layout_is_no_name(layout):
    agree_error(lambda t: t.zeros(2, layout=layout), "layout")
    agree_error(lambda t: t.ones_like(t.ones(2), layout=layout), "layout")


def test_a_base_is_a_number():
    agree_error(lambda t: t.logspace(0, 1, 2, base="a"), "base")


def test_rows_of_batches_are_demanded():
    agree_error(lambda t: t.nn.functional.batch_norm(t.ones(3), None, None, training=True), "batch_norm|out of range")


@pytest.mark.parametrize("name", ["cat", "concat", "stack", "sum", "softmax", "squeeze"])
def test_a_dimension_is_given_once(name):
    def twice(t):
        x = [t.ones(2), t.ones(2)] if name in ("cat", "concat", "stack") else t.ones(2, 3)
        return getattr(t, name)(x, dim=0, axis=0)

    agree_error(twice, "axis|invalid combination")
