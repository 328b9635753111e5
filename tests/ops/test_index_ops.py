"""gather, scatter, index_add and their kin, masks and embeddings, against PyTorch."""

import math

import numpy as np
import pytest
from both import agree_error
from oracle import check, check_error

import torchlike

X = np.arange(12.0).reshape(3, 4) - 5.5
SRC = np.random.RandomState(0).randn(3, 4)
AT = np.array([[0, 1], [1, 0]])
TWICE = np.array([[0, 0, 2], [1, 1, 1]])
ROWS = np.array([2, 0])
SCALAR = np.array(3.0)
MASK = X > 0
ZEROS = np.where(np.abs(X) < 2, 0.0, X)
FORMS = {
    "index_select": (X, 0, ROWS), "gather": (X, 1, AT), "take": (X, AT), "take_along_dim": (X, AT[:1].T, 0),
    "scatter": (X, 1, AT, SRC[:2, :2]), "scatter_add": (X, 1, TWICE, SRC[:2, :3]), "index_add": (X, 0, ROWS, SRC[:2]),
    "index_copy": (X, 0, ROWS, SRC[:2]), "index_fill": (X, 1, ROWS, 2.5), "put": (X, AT, SRC[:2, :2]),
    "masked_fill": (X, MASK, 9.0), "masked_scatter": (X, MASK, SRC), "select_scatter": (X, SRC[0], 0, 1),
    "diagonal_scatter": (X, SRC[0, :3]), "slice_scatter": (X, SRC[:2], 0, 1, 3),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_functions_and_methods(name):
    check(lambda t, x, *a: getattr(t, name)(x, *a), *FORMS[name])
    check(
        lambda t, x, *a: getattr(x.mT.clone().mT * 1, name)(*a), *FORMS[name], gradgrad=False, jit=False, stride=False
    )


@pytest.mark.parametrize(
    "name", [n for n in FORMS if n[:6] in ("scatte", "index_", "put", "masked") and n != "index_select"]
)
def test_in_place(name):
    def f(t, x, *a):
        y = x * 1
        z = y[:]
        assert getattr(z, name + "_")(*a) is z
        return y, z

    check(f, *FORMS[name], gradgrad=False)


@pytest.mark.parametrize(
    "name", ["gather", "index_select", "take", "scatter", "scatter_add", "index_add", "index_copy"]
)
def test_out(name):
    check(
        lambda t, x, *a: getattr(t, name)(x, *a, out=t.zeros(0, dtype=t.float64)), *FORMS[name], grad=False, jit=False
    )


@pytest.mark.parametrize("f", [
    lambda t, x: t.gather(x, 1, t.tensor([[0, 0, 3]])), lambda t, x: t.gather(x, -1, t.tensor([[3], [2], [1]])),
    lambda t, x: t.gather(x, 0, t.tensor([[0]], dtype=t.int32)),
    lambda t, x: t.gather(x, 0, t.empty(0, 4, dtype=t.int64)),
    lambda t, x: t.gather(x, 1, t.empty(0, dtype=t.int64)), lambda t, x: t.gather(x[0], 0, t.tensor(2)),
    lambda t, x: t.gather(x[0, 0], 0, t.tensor([0, 0])), lambda t, x: t.gather(x[0, 0], 0, t.tensor(0)),
    lambda t, x: t.index_select(x, 1, t.tensor([0, 0, 3], dtype=t.int32)),
    lambda t, x: t.index_select(x, 1, t.tensor(2)),
    lambda t, x: t.index_select(x[:, :0], 0, t.tensor([1, 0])),
    lambda t, x: t.index_select(x, 0, t.tensor([], dtype=t.int64)),
    lambda t, x: t.index_select(x[0, 0], 0, t.tensor([0])),
    lambda t, x: t.take(x, t.tensor([[-1, 0], [11, -12]])), lambda t, x: t.take(x, t.tensor([], dtype=t.int64)),
    lambda t, x: t.take(x.mT, t.tensor([1, 2])), lambda t, x: t.take_along_dim(x, t.tensor([5, 0])),
    lambda t, x: t.take_along_dim(x, t.tensor([[0, -1]]), 1),
    lambda t, x: t.take_along_dim(x, t.tensor([[9], [1], [0]]), dim=1),
    lambda t, x: t.take_along_dim(x, x.argsort(1), 1), lambda t, x: x.narrow_copy(1, 1, 2),
    lambda t, x: t.unravel_index(t.tensor([5, 7]), (3, 4)), lambda t, x: t.unravel_index(t.tensor([[3]]), 7),
    lambda t, x: t.unravel_index(t.tensor([3, 101], dtype=t.uint8), (2, 300)),
])  # fmt: skip
def test_reading(f):
    check(f, X, gradgrad=False)


@pytest.mark.parametrize("f", [
    lambda t, x, s: t.scatter(x, 1, t.tensor(AT), 5), lambda t, x, s: t.scatter(x, -1, t.tensor(AT), 2.5),
    lambda t, x, s: t.scatter(x, 1, index=t.tensor(AT), src=s[1:, :2]),
    lambda t, x, s: x.scatter(1, t.tensor(AT), value=1),
    lambda t, x, s: t.scatter(x, 0, t.tensor([[2, 1, 0, 1]]), s[:1]),
    lambda t, x, s: t.scatter(x, 0, t.empty(0, 4, dtype=t.int64), s[:0]),
    lambda t, x, s: t.scatter(x[0], 0, t.tensor([1]), s[0, :1]),
    lambda t, x, s: t.scatter(x[0, 0], 0, t.tensor([0]), 1.0),
    lambda t, x, s: t.scatter_add(x, 0, t.tensor(TWICE[:, :2]), s[:2, :2]),
    lambda t, x, s: x.scatter_add(0, t.tensor([[0, 1]] * 3), s[:, :2]),
    lambda t, x, s: t.index_add(x, 1, t.tensor([0, 0, 3]), s[:, :3]),
    lambda t, x, s: t.index_add(x, 0, t.tensor([1]), s[:1], alpha=-2),
    lambda t, x, s: t.index_add(x[0, 0], 0, t.tensor(0), s[0, 0]),
    lambda t, x, s: t.index_add(x, 0, t.tensor(1), s[:1]),
    lambda t, x, s: t.index_copy(x, 1, t.tensor([3, 1]), s[:, :2]),
    lambda t, x, s: t.index_copy(x[0, 0], 0, t.tensor([0]), s[0, :1]),
    lambda t, x, s: t.index_fill(x, 0, t.tensor([-1, 0]), 7), lambda t, x, s: t.index_fill(x, 1, t.tensor(1), s[0, 0]),
    lambda t, x, s: t.index_fill(x, 0, t.tensor([1, 1]), s[0, 0]),
    lambda t, x, s: t.put(x, t.tensor([0, -1]), s[0, :2]),
    lambda t, x, s: t.put(x, t.tensor([3, 3]), s[0, :2], accumulate=True),
    lambda t, x, s: t.as_strided_scatter(x.detach(), s[:2, :2], (2, 2), (1, 2)),
    lambda t, x, s: t.slice_scatter(x, s[:, :2], 1, 0, None, 2), lambda t, x, s: t.diagonal_scatter(x, s[0, :2], 2),
])  # fmt: skip
def test_writing(f):
    check(f, X, SRC, gradgrad=False)


def test_writing_twice_differentiated():
    check(lambda t, x, s: t.index_copy(x * x, 0, t.tensor(ROWS), s[:2] * s[:2]), X, SRC)
    check(lambda t, x, s: t.scatter(x * x, 1, t.tensor(AT), s[:2, :2] * s[:2, :2]), X, SRC)


@pytest.mark.parametrize("include", [True, False])
@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
def test_scatter_reduce(reduce, include):
    """Ties and zeros among the numbers that meet, int32 indices, a src larger than the index."""
    for x, s in ((X, SRC), (ZEROS, np.round(SRC)), (np.ones((3, 4)), np.ones((3, 4)))):
        check(lambda t, x, s: t.scatter_reduce(x, 1, t.tensor(TWICE), s[:2, :3], reduce, include_self=include), x, s)
    near = np.array([[1.0, np.nan, np.inf, 2.0], [0.0, -0.0, -np.inf, 1.0], [5.0, 5.0, 5.0, 5.0]])
    check(
        lambda t, x, s: x.scatter_reduce(0, t.tensor(AT.astype("int32")), s[:2, :2], reduce, include_self=include),
        near,
        near,
        grad=False,
    )
    check(
        lambda t, x: t.scatter_reduce(x, 0, t.tensor([0, 0, 1]), x, reduce, include_self=include), np.array([-4, 3, 1])
    )


@pytest.mark.parametrize("reduce", ["prod", "mean", "amax", "amin"])
def test_index_reduce(reduce):
    for include in (True, False):
        check(lambda t, x, s: t.index_reduce(x, 0, t.tensor([1, 1]), s[:2], reduce, include_self=include), X, SRC)  # noqa: B023


def test_what_the_index_does_not_reach():
    """PyTorch cannot differentiate where ``src`` is larger than the index; here the rest gets zeros."""
    check(lambda t, x, s: (t.scatter(x, 1, t.tensor(AT), s), t.scatter_add(x, 1, t.tensor(AT), s)), X, SRC, grad=False)
    s = torchlike.tensor(SRC, requires_grad=True)
    torchlike.scatter(torchlike.tensor(X), 1, torchlike.tensor(AT), s).sum().backward()
    assert s.grad.tolist() == [[1.0, 1.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0], [0.0] * 4]


def test_scatter_with_a_reduction():
    for reduce in ("add", "multiply"):
        check(lambda t, x, s: t.scatter(x, 1, t.tensor(TWICE), s, reduce=reduce), X, SRC, grad=False)  # noqa: B023
        check(lambda t, x: (x * 1).scatter_(1, t.tensor(TWICE), 3, reduce=reduce), X, grad=False)  # noqa: B023


@pytest.mark.parametrize("dtype", ["bool", "int32", "uint8", "float16", "complex128"])
def test_dtypes(dtype):
    x, s = (X > 0).astype(dtype), (SRC > 0).astype(dtype)
    check(lambda t, x, s: [
        t.scatter_add(x, 1, t.tensor(TWICE), s), t.index_add(x, 0, t.tensor(ROWS), s[:2]), t.gather(x, 1, t.tensor(AT)),
        t.scatter(x, 1, t.tensor(AT), 1), x.index_fill(0, t.tensor([0]), 1), t.put(x, t.tensor([1]), s[0, :1], True),
        x.masked_fill(t.tensor(MASK), 1), t.scatter_reduce(x, 1, t.tensor(AT), s, "prod"),
    ], x, s, grad=False, jit=False)  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("number", [-math.inf, math.inf, math.nan, 3e38, -3, 10**18, 1e300, True])
def test_numbers_that_fill(dtype, number):
    x = X.astype(dtype)
    if dtype == "float16" and 65504 < abs(number) < math.inf or dtype == "float32" and 3.5e38 < abs(number) < math.inf:
        agree_error(lambda t: t.tensor(x).masked_fill(t.tensor(MASK), number), "without overflow")
    else:
        check(lambda t, x: x.masked_fill(t.tensor(MASK), number), x, grad=False, jit=False)


# -- masks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("f", [
    lambda t, x: x.masked_fill(x > 0, 0), lambda t, x: x.masked_fill(x > 0, float("-inf")),
    lambda t, x: t.masked_fill(x, x > 0, True),
    lambda t, x: x.masked_fill(t.tensor([True, False, True, False]), 1), lambda t, x: x[0].masked_fill(x > 0, 1.5),
    lambda t, x: x.masked_fill(x > 0, x[0, 0]), lambda t, x: x.mT.masked_fill(x.mT > 0, 1),
    lambda t, x: x[0, 0].masked_fill(t.tensor(True), 2),
    lambda t, x: (x * 1).masked_fill_(x > 0, 2), lambda t, x: (x * 1).masked_fill_(x[0] > 0, x[0, 1]),
    lambda t, x: t.masked_scatter(x, x > 0, x * 2),
    lambda t, x: t.masked_scatter(x, t.tensor([[True], [False], [True]]), x.mT),
    lambda t, x: x.int().masked_fill(x > 0, 1.7), lambda t, x: x.bool().masked_fill(x > 0, 2),
])  # fmt: skip
def test_masked(f):
    check(f, X, gradgrad=False)


@pytest.mark.parametrize("f", [
    lambda t, x: t.masked_select(x, x > 0), lambda t, x: x.masked_select(t.tensor([True, False, True, True])),
    lambda t, x: t.masked_select(x[0], x > 0), lambda t, x: t.masked_select(x, x > 99), lambda t, x: t.nonzero(x > 0),
    lambda t, x: t.nonzero(x > 0, as_tuple=True), lambda t, x: x.nonzero(), lambda t, x: t.nonzero(x[0, 0]),
    lambda t, x: t.argwhere(x > 0),
    lambda t, x: t.nonzero(x > 99), lambda t, x: t.nonzero(t.tensor(0)),
    lambda t, x: t.nonzero(t.tensor(3), as_tuple=True),
    lambda t, x: t.where(x > 0), lambda t, x: t.nonzero(t.tensor([float("nan"), 0.0, -0.0, 1j])),
    lambda t, x: t.nonzero(x[:0]),
    lambda t, x: t.nonzero_static(x > 0, size=3), lambda t, x: t.nonzero_static(x > 5, size=3, fill_value=7),
    lambda t, x: t.nonzero(x > 0, out=t.zeros(0, dtype=t.int64)),
])  # fmt: skip
def test_shapes_that_depend_on_values(f):
    check(f, X, gradgrad=False, jit=False)


@pytest.mark.parametrize("name", ["nonzero", "masked_select"])
def test_shapes_that_depend_on_values_cannot_be_traced(name):
    import jax

    def traced(v):
        x = torchlike.from_jax_array(v)
        return (x.nonzero() if name == "nonzero" else x.masked_select(x > 0)).jax()

    with pytest.raises(RuntimeError, match="shape depends on"):
        jax.jit(traced)(X)


# -- embeddings and classes ----------------------------------------------------------------------


def test_embedding():
    check(lambda t, w, i: t.embedding(w, i), X, TWICE)
    check(lambda t, w, i: t.embedding(w, i, 1), X, TWICE.astype(np.int32))
    check(lambda t, w, i: t.embedding(w, i, 1, True), X, TWICE, gradgrad=False)  # PyTorch forgets the scale there
    check(lambda t, w: t.embedding(w, t.tensor(1)), X.astype(np.float16))
    check(lambda t, w: t.embedding(w, t.empty(0, dtype=t.int64)), X, grad=False)


def test_one_hot():
    check(lambda t, x: t.nn.functional.one_hot(x), TWICE, jit=False)
    check(lambda t, x: t.nn.functional.one_hot(x, 5), TWICE)
    check(lambda t, x: t.nn.functional.one_hot(x, num_classes=3), np.array(2))
    check(lambda t, x: t.nn.functional.one_hot(x, 3), np.zeros((0, 2), np.int64))


ERRORS = [
    (lambda t, x: t.index_select(x[:, :0], 0, t.tensor([3])), "INDICES element is out of DATA bounds, id=3 axis_dim=3"),
    (lambda t, x: t.index_select(x[:, :0], 1, t.tensor([0])), "self indexing axis dim should be positive"),
    (lambda t, x: t.gather(x, 0, t.tensor([[4]])), "index 4 is out of bounds for dimension 0 with size 3"),
    (lambda t, x: t.gather(x, 1, t.tensor([[-1]])), "index -1 is out of bounds for dimension 1 with size 4"),
    (lambda t, x: t.gather(x, 1, t.tensor([0])), "same number of dimensions"),
    (
        lambda t, x: t.gather(x, 1, t.tensor([[0]] * 4)),
        "index .4, 1. to be no larger than self .3, 4. apart from dimension 1",
    ),
    (lambda t, x: t.gather(x, 1, t.tensor([[0.0]])), "int32/int64 for index"),
    (lambda t, x: t.gather(x, 3, t.tensor([[0]])), "Dimension out of range"),
    (lambda t, x: t.scatter(x, 1, t.tensor([[7]]), 1.0), "index 7 is out of bounds for dimension 1 with size 4"),
    (lambda t, x: x.scatter_(1, t.tensor([[7]]), 1.0), "index 7 is out of bounds"),
    (lambda t, x: t.scatter(x, 1, t.tensor([[0]]), x.float()), "self.dtype to be equal to src.dtype"),
    (lambda t, x: t.scatter(x, 1, t.tensor([[0, 1, 2]]), x[:1, :2]), "no larger size than src .1, 2."),
    (lambda t, x: t.scatter(x, 1, t.tensor([0]), x), "same number of dimensions as self"),
    (lambda t, x: t.scatter(x, 1, t.tensor([[0]]), x, reduce="mul"), "either add or multiply"),
    (lambda t, x: t.scatter(x, 1, t.tensor([[0]]), 1j), "without overflow"),
    (lambda t, x: t.scatter_reduce(x, 1, t.tensor([[0]]), x, "foo"), "sum, prod, mean, amax or amin, got foo"),
    (lambda t, x: t.scatter_add(x, 1, t.tensor([[9]]), x), "index 9 is out of bounds"),
    (lambda t, x: t.index_select(x, 0, t.tensor([3])), "index out of range in self"),
    (lambda t, x: t.index_select(x, 0, t.tensor([[0]])), "Index is supposed to be a vector"),
    (lambda t, x: t.index_select(x, 0, t.tensor([0.5])), "int32/int64 for index"),
    (lambda t, x: t.index_select(x[0, 0], 0, t.tensor([0, 0])), "can have only 1 value, got 2"),
    (lambda t, x: t.take(x, t.tensor([99])), "tried to access index 99 on a tensor of 12 elements"),
    (lambda t, x: t.take(x[:0], t.tensor([0])), "take from an empty tensor"),
    (lambda t, x: t.take(x, t.tensor([0], dtype=t.int32)), "Expected a long tensor for index, but got Int"),
    (lambda t, x: t.take_along_dim(x, t.tensor([0]), 0), "same number of dimensions, but got 2"),
    (lambda t, x: t.take_along_dim(x, t.tensor([[0.5]]), 0), "should be Long but got"),
    (lambda t, x: t.index_add(x, 0, t.tensor([9]), x[:1]), "index 9 is out of bounds for dimension 0 with size 3"),
    (
        lambda t, x: t.index_add(x, 0, t.tensor([0]), x),
        "Number of indices .1. should be equal to source.size.dim.: .3.",
    ),
    (lambda t, x: t.index_add(x, 0, t.tensor([0]), x[:1].int()), "must have the same scalar type"),
    (lambda t, x: t.index_add(x, 0, t.tensor([0]), x[:1, :2]), "source tensor shape must match self"),
    (lambda t, x: t.index_add(x, 0, t.tensor([[0]]), x[:1]), "supposed to be a vector, but got dim: 2"),
    (lambda t, x: t.index_copy(x, 0, t.tensor([9]), x[:1]), "index 9 is out of bounds"),
    (lambda t, x: t.index_copy(x, 0, t.tensor([0]), x), "Number of indices .1. should be equal"),
    (
        lambda t, x: t.index_copy(x, 0, t.tensor([0]), x[:1].float()),
        "same dtype, but got .self. Double and .source. Float",
    ),
    (lambda t, x: t.index_copy(x, 0, t.tensor(1), x[0]), "dimensionality must match"),
    (lambda t, x: t.index_fill(x, 0, t.tensor([9]), 1), "index 9 is out of bounds"),
    (lambda t, x: t.index_fill(x, 0, t.tensor([[0]]), 1), "vector/scalar"),
    (lambda t, x: t.index_fill(x, 0, t.tensor([0], dtype=t.int32), 1), "int64 for index"),
    (lambda t, x: t.index_fill(x, 0, t.tensor([0]), t.tensor([1.0])), "0-dimensional value tensor"),
    (lambda t, x: t.index_fill(x, 0, t.tensor([0]), 1j), "complex Scalar to non-complex"),
    (lambda t, x: t.index_reduce(x, 0, t.tensor([0]), x[:1], "sum"), "prod, mean, amax or amin but got sum"),
    (lambda t, x: t.put(x, t.tensor([99]), x[0, :1]), "tried to access index 99"),
    (lambda t, x: t.put(x, t.tensor([0]), x[0]), "same number of elements"),
    (lambda t, x: t.put(x, t.tensor([0]), t.tensor([1])), "same dtype"),
    (lambda t, x: x.masked_fill(t.ones(3, 4), 1), "boolean masks, but got mask with dtype float"),
    (lambda t, x: x.masked_fill(x > 0, t.tensor([1.0])), "0-dimensional value tensor"),
    (lambda t, x: x.masked_fill(x > 0, 1j), "without overflow"),
    (lambda t, x: x.masked_fill(x > 0, "a"), "value"),
    (lambda t, x: x.half().masked_fill(x > 0, -1e9), "without overflow"),
    (lambda t, x: x.masked_fill(t.tensor([True, False, True]), 1), "must match the size of tensor b"),
    (lambda t, x: x[0].clone().masked_fill_(x > 0, 1), "doesn't match the broadcast shape .3, 4."),
    (lambda t, x: t.masked_select(x, x), "expected BoolTensor for mask"),
    (lambda t, x: t.masked_scatter(x, x > -99, x[:1]), "Number of elements of source < number of ones in mask"),
    (lambda t, x: t.masked_scatter(x, x > 0, x.float()), "same dtypes"),
    (lambda t, x: t.select_scatter(x, x[0], 0, 5), "index 5 out of range"),
    (lambda t, x: t.select_scatter(x, x[:, 0], 0, 1), "src size = .3., slice size = .4."),
    (lambda t, x: t.embedding(x, t.tensor([0, 3])), "index out of range in self"),
    (lambda t, x: t.embedding(x, t.tensor([-1])), "index out of range in self"),
    (lambda t, x: t.embedding(x, t.tensor([0.5])), "scalar types: Long, Int; but got torch.FloatTensor"),
    (lambda t, x: t.embedding(x[0], t.tensor([0])), "must be 2-D"),
    (lambda t, x: t.nn.functional.one_hot(t.tensor([0, 2]), 2), "smaller than num_classes"),
    (lambda t, x: t.nn.functional.one_hot(t.tensor([-2]), 2), "must be non-negative"),
    (lambda t, x: t.nn.functional.one_hot(t.tensor([1.0])), "index tensor of type LongTensor"),
    (lambda t, x: t.nn.functional.one_hot(t.tensor([], dtype=t.int64)), "Can not infer total number of classes"),
    (lambda t, x: t.unravel_index(t.tensor([1.5]), (3,)), "integer dtype"),
    (lambda t, x: t.unravel_index(t.tensor([1]), (3, 0)), "ZeroDivisionError"),
]


@pytest.mark.parametrize(("f", "match"), ERRORS)
def test_errors(f, match):
    check_error(f, X, match=match)
