"""Arguments of the wrong kind: the type of PyTorch's error, and no result where PyTorch gives none."""

import math

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
