"""``x[index]`` and ``x[index] = value``, against PyTorch: values, views, gradients, errors."""

import warnings

import jax
import numpy as np
import pytest
import torch
from oracle import check, check_error

import torchlike

X = np.arange(24.0).reshape(2, 3, 4)
ROW = np.arange(4.0)
SCALAR = np.array(5.0)
EMPTY = np.zeros((2, 0, 3))
I2 = np.array([1, 0])

BASIC = [
    lambda t, x: x[0], lambda t, x: x[-1], lambda t, x: x[1, 2, 3], lambda t, x: x[0, -1], lambda t, x: x[:],
    lambda t, x: x[...], lambda t, x: x[()], lambda t, x: x[None], lambda t, x: x[:, None], lambda t, x: x[..., None],
    lambda t, x: x[1:], lambda t, x: x[:, ::2], lambda t, x: x[:, 1:3, ::3], lambda t, x: x[..., 1],
    lambda t, x: x[0, ...],
    lambda t, x: x[0, ..., 1], lambda t, x: x[..., ...], lambda t, x: x[5:9], lambda t, x: x[-1:-5],
    lambda t, x: x[:-1],
    lambda t, x: x[None, :, None, 0], lambda t, x: x[np.int64(1)], lambda t, x: x[t.tensor(1)],
    lambda t, x: x[0:2, 0:3],
    lambda t, x: x[True], lambda t, x: x[False], lambda t, x: x[:, True],
    lambda t, x: x[True, 0], lambda t, x: x[0, True], lambda t, x: x[(0, 1)], lambda t, x: x[[slice(0, 1), 0]],
    lambda t, x: x[np.array(1)], lambda t, x: x.permute(2, 0, 1)[1], lambda t, x: x.permute(2, 0, 1)[1:, 0],
]  # fmt: skip

ADVANCED = [
    lambda t, x: x[[0, 1]], lambda t, x: x[[1]], lambda t, x: x[[[0, 1]]], lambda t, x: x[range(2)], lambda t, x: x[[]],
    lambda t, x: x[[0, 1], [0, 2]], lambda t, x: x[:, [2, 0]], lambda t, x: x[..., [3, -1]], lambda t, x: x[0, [1, 1]],
    lambda t, x: x[[0, 1], :, [1, 2]], lambda t, x: x[[0, 1], None, [1, 2]], lambda t, x: x[None, [0, 1]],
    lambda t, x: x[:, [[0, 1], [2, 2]]], lambda t, x: x[[[0], [1]], [[0, 2]]], lambda t, x: x[[0, 1], 1:],
    lambda t, x: x[1:, [0, 2]],
    lambda t, x: x[np.array([1, 0])], lambda t, x: x[np.array([1, 0], np.int32), 1], lambda t, x: x[0:1, None, [0, 1]],
    lambda t, x: x[:, [-1, -3]], lambda t, x: x[True, [0, 1]], lambda t, x: x[[0, [1]]], lambda t, x: x[[0.5]],
    lambda t, x: x[[True, False]], lambda t, x: x[:, [True, False, True]],
    lambda t, x: x[np.arange(24).reshape(2, 3, 4) % 5 == 0], lambda t, x: x[..., np.array([True, False, False, True])],
    lambda t, x: x[np.ones((2, 3), bool), 0], lambda t, x: x[np.ones((2, 3), bool), 1:],
    lambda t, x: x[np.zeros((2, 3), bool)],
    lambda t, x: x[[True, False], :, [True, True, False, False]], lambda t, x: x[[True, True], [0, 2]],
    lambda t, x: x.permute(2, 0, 1)[:, [0, 1]], lambda t, x: x.permute(2, 1, 0)[:, :, [0, 1]],
    lambda t, x: x.mT[[1, 0]],
    lambda t, x: x.permute(2, 1, 0)[[True, False, True, True]], lambda t, x: x.expand(2, 2, 3, 4)[[1], :, [0]],
    lambda t, x: x.permute(2, 1, 0)[[[0], [1]], [0, 1]],
]  # fmt: skip


@pytest.mark.parametrize("f", [*BASIC, *ADVANCED])
def test_reading(f):
    check(f, X, gradgrad=False, jit=False)


@pytest.mark.parametrize("cases", [BASIC, ADVANCED], ids=["views", "copies"])
def test_reading_traced_and_twice_differentiated(cases):
    check(lambda t, x: [f(t, x * x) for f in cases], X)


def test_slices_of_tensors():
    check(lambda t, x: x[t.tensor(0) : t.tensor(1), :: t.tensor(2)], X, jit=False)


@pytest.mark.parametrize("f", [
    lambda t, x: x[...], lambda t, x: x[()], lambda t, x: x[None], lambda t, x: x[True], lambda t, x: x[False],
    lambda t, x: x[..., None], lambda t, x: x[t.tensor(True)] if isinstance(x, torch.Tensor) else x[True],
])  # fmt: skip
def test_no_dimensions(f):
    check(f, SCALAR)


@pytest.mark.parametrize(
    "f", [lambda t, x: x[[0, 0]], lambda t, x: x[:, []], lambda t, x: x[:, :, [2]], lambda t, x: x[1]]
)
def test_empty(f):
    check(f, EMPTY, stride=False)  # numpy gives an empty array other strides


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_index_tensors_traced(dtype):
    """Index tensors are runtime values: they may be tracers."""
    check(lambda t, x, i: x[i], X, I2.astype(dtype))
    check(lambda t, x, i: x[:, 1, i], X, I2.astype(dtype))
    check(lambda t, x, i: x[i], X, np.array(1, dtype))


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16", "complex64"])
def test_dtypes(dtype):
    check(lambda t, x: (x[1], x[[1, 0]], x[..., ::2], x[np.ones((2, 3), bool)]), (X > 3).astype(dtype))


def test_uint8_masks():
    check(lambda t, x: x[t.tensor([1, 0], dtype=t.uint8)], X, jit=False)
    with pytest.warns(UserWarning, match="uint8 is now deprecated"):
        torchlike.ones(2)[torchlike.tensor([1, 0], dtype=torchlike.uint8)]
    check(lambda t, x: x[t.tensor(1, dtype=t.uint8)], X, jit=False)


def chain(t):
    names, node = [], t.grad_fn
    while node is not None:
        names.append(node.name().rpartition("::")[2])
        node = node.next_functions[0][0] if node.next_functions else None
    return names


@pytest.mark.parametrize("f", [*BASIC, *ADVANCED])
def test_graph_and_layout(f):
    """The same chain of nodes, storage offset and aliasing as in PyTorch."""
    ours, theirs = torchlike.tensor(X, requires_grad=True), torch.tensor(X, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        a, b = f(torchlike, ours), f(torch, theirs)
    assert chain(a) == chain(b)
    assert a.storage_offset() == b.storage_offset()
    assert a._is_view() == b._is_view()


ERRORS = [
    (lambda t, x: x[2], "index 2 is out of bounds for dimension 0 with size 2"),
    (lambda t, x: x[-3], "index -3 is out of bounds"),
    (lambda t, x: x[0, 7], "index 7 is out of bounds for dimension 1 with size 3"),
    (lambda t, x: x[None, ..., 9], "index 9 is out of bounds for dimension 2 with size 4"),
    (lambda t, x: x[t.tensor(5)], "index 5 is out of bounds"),
    (lambda t, x: x[t.tensor([0, 5])], "index 5 is out of bounds for dimension 0 with size 2"),
    (lambda t, x: x[:, t.tensor([-4])], "index -4 is out of bounds for dimension 1 with size 3"),
    (lambda t, x: x[0, 0, 0, 0], "too many indices for tensor of dimension 3"),
    (lambda t, x: x[[0], [0], [0], [0]], "too many indices"),
    (lambda t, x: x[t.ones(2, 3, 4, 1, dtype=t.bool)], "too many indices"),
    (lambda t, x: x[::-1], "step must be greater than zero"),
    (lambda t, x: x[::0], "slice step cannot be zero"),
    (lambda t, x: x[0.5:1], "slice indices must be integers or None or have an __index__ method"),
    (lambda t, x: x[1.5], "only integers, slices .* are valid indices .got float"),
    (lambda t, x: x[{}], "got dict"),
    (lambda t, x: x["a"], "invalid data type 'str'"),
    (lambda t, x: x[t.tensor([0.0])], "tensors used as indices must be long, int, byte or bool tensors"),
    (lambda t, x: x[t.tensor([0], dtype=t.int16)], "tensors used as indices"),
    (lambda t, x: x[t.tensor([0, 1]), t.tensor([0, 1, 2])], "could not be broadcast together with shapes .2., .3."),
    (lambda t, x: x[t.tensor([True])], "shape of the mask .1. at index 0 does not match .* .2, 3, 4. at index 0"),
    (lambda t, x: x[:, t.ones(2, dtype=t.bool)], "mask .2. at index 0 .* at index 1"),
    (lambda t, x: x[0, 0, 0][0], "invalid index of a 0-dim tensor"),
    (lambda t, x: x[0, 0, 0][:], "slice.. cannot be applied to a 0-dim tensor"),
    (lambda t, x: t.empty(0, 3)[t.tensor([0])], "out of bounds for dimension with size 0"),
    (lambda t, x: x.__delitem__(0), "does not support deleting"),
    (lambda t, x: x.__setitem__(9, 1), "index 9 is out of bounds"),
    (
        lambda t, x: x.__setitem__(0, t.arange(5.0)),
        "expanded size of the tensor .4. must match .* .5. at non-singleton",
    ),
    (lambda t, x: x.__setitem__(0, t.ones(2, 3, 4)), "shape"),
    (lambda t, x: x.__setitem__(0, 1j), "cannot be converted to type (float|double) without overflow"),
    (lambda t, x: x.__setitem__(0, "a"), "can't assign a str to a torch.DoubleTensor"),
    (lambda t, x: x.__setitem__(0, [1, 2]), "can't assign a list"),
    (lambda t, x: x.__setitem__(0, None), "can't assign a NoneType"),
    (lambda t, x: x.__setitem__(t.tensor([7]), 1.0), "index 7 is out of bounds for dimension 0 with size 2"),
    (lambda t, x: x.__setitem__(t.tensor([0]), t.tensor(1)), "source and destination dtypes match, got Double .* Long"),
    (
        lambda t, x: x.__setitem__(t.tensor([0]), t.ones(5, dtype=t.float64)),
        "value tensor of shape .5. cannot be broadcast",
    ),
    (
        lambda t, x: x.__setitem__(t.tensor([True, False]), t.ones(2, 3, 4, dtype=t.float64)),
        "cannot be broadcast .* .1, 3, 4.",
    ),
]


@pytest.mark.parametrize(("f", "match"), ERRORS)
def test_errors(f, match):
    check_error(f, X, match=match)


# -- assignment ----------------------------------------------------------------------------------


def assigned(index, value):
    def f(t, x, *v):
        y = x * 1
        y[index(t) if callable(index) else index] = value(t) if callable(value) else v[0] if v else value
        return y

    return f


WHERE = [
    0, -1, (0, 1), (0, 1, 2), slice(None), ..., (), None, slice(0, 1), (slice(None), 1), (..., 2),
    (slice(None), slice(None, None, 2)), (slice(None), None, 0), True, [0, 1], [1], (0, [0, 2]),
    ([0, 1], slice(None), [1, 2]), ([0, 1], [2, 1]),
    (slice(None), [2, 0]),
    (..., [0, 3]), [True, False], (slice(None), [True, False, True]), np.arange(24).reshape(2, 3, 4) % 3 == 0,
    (np.ones((2, 3), bool), 1), ([True, False], 0), (None, [1]), np.array([1, 0]), (slice(1, 1),), [],
]  # fmt: skip


@pytest.mark.parametrize("index", WHERE, ids=str)
def test_assign_number(index):
    check(assigned(index, 3.5), X, gradgrad=False, jit=False)
    check(assigned(index, 7), X.astype(np.int32), grad=False, jit=False)


@pytest.mark.parametrize("index", WHERE, ids=str)
def test_assign_tensor(index):
    shape = torch.zeros(2, 3, 4)[index].shape
    check(assigned(index, None), X, np.random.RandomState(0).randn(*shape), gradgrad=False, jit=False)


def test_assign_traced_and_twice_differentiated():
    check(lambda t, x, v: [assigned(i, None)(t, x * x, v * v) for i in WHERE], X, np.array(2.5))


@pytest.mark.parametrize(("index", "shape"), [
    (0, (1, 1, 3, 4)), (0, (4,)), (0, (3, 1)), ([0, 1], (4,)), ([0, 1], (1, 2, 3, 4)), ((0, [0, 2]), (2, 1)),
    (slice(None), (1,)),
    ([True, False], (3, 1)), ((slice(None), [0, 0]), (2, 2, 4)),
], ids=str)  # fmt: skip
def test_assign_broadcast(index, shape):
    check(assigned(index, None), X, np.random.RandomState(0).randn(*shape), gradgrad=False, jit=False)


def test_assign_casts_to_the_target():
    for dtype in ("int32", "float32", "uint8", "bool", "complex128"):
        check(assigned((0, 0), None), X, ROW.astype(dtype), gradgrad=False, jit=False)
        check(assigned((0, 0), None), X.astype(np.int64), ROW.astype(dtype), grad=False, jit=False)
    check(assigned(lambda t: t.tensor(X > 3), lambda t: t.tensor(5)), X, jit=False)


def test_assign_through_a_view_of_a_view():
    def f(t, x, v):
        y = x * 2
        z = y.transpose(0, 1)[1:]
        z[0, :, 1] = v
        y[1][2] = v[0]
        return y, z

    check(f, X, np.array([10.0, 20.0]))


def test_assign_at_repeated_places():
    """The last value wins, and each value gets the gradient of its place."""
    check(assigned([0, 0, 1], None), X[0], np.arange(12.0).reshape(3, 4))


def test_assign_traced_masks():
    """A mask may be a tracer where one value is written, and says so where it may not."""
    check(lambda t, x, m: assigned(lambda _: m, 0.0)(t, x), X, X > 3)
    check(lambda t, x, m, v: assigned(lambda _: m, lambda _: v)(t, x), X, X > 3, np.array(2.0))
    check(lambda t, x, m: assigned(lambda _: (slice(None), m), 0.0)(t, x), X, np.array([True, False, True]))

    with pytest.raises(RuntimeError, match="shape depends on the mask's values"):
        jax.jit(lambda m: torchlike.ones(2)[torchlike.from_jax_array(m)].jax())(np.array([True, False]))


@pytest.mark.parametrize("index", [0, slice(0, 1), [0], (0, 1), (slice(None), [True, False, True]), ...], ids=str)
def test_leaves_are_not_written(index):
    for lib in (torch, torchlike):
        x = lib.tensor(X, requires_grad=True)
        with pytest.raises(
            RuntimeError, match="a (view of a )?leaf Variable that requires grad is being used in an in-place"
        ):
            x[index] = 1.0
        with lib.no_grad():
            x[index] = 1.0
        assert x._version == 1


def test_versions_and_aliases():
    for lib in (torch, torchlike):
        x = lib.zeros(2, 2)
        y, z = x[0], x.detach()
        x[0, 1] = 5.0
        x[1] = lib.ones(2)
        y[0] = 7
        assert (x._version, y._version, z._version) == (3, 3, 3)
        assert z.tolist() == [[7.0, 5.0], [1.0, 1.0]]
        assert y.tolist() == [7.0, 5.0]


def test_loops_compile_once():
    """An index is a runtime value: the kernels of the first turn serve every turn."""
    x, total = torchlike.arange(50.0), torchlike.zeros(50)
    read = write = None
    for i in range(50):
        total[i] = x[i] + 1
        if i == 1:
            read, write = _kernels()
    assert _kernels() == (read, write)
    assert total.tolist() == [i + 1.0 for i in range(50)]


def _kernels():
    from torchlike._core.conversion import indexing
    from torchlike._core.tensor import views

    return len(views._readers), len(indexing._assigners)


# -- index_put -----------------------------------------------------------------------------------


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("indices", [([0, 0, 1],), ([0, 1], [2, 2]), ([[0], [1]], [0, 1, 2])], ids=str)
def test_index_put(indices, accumulate):
    shape = X[tuple(np.array(i) for i in indices)].shape
    v = np.random.RandomState(0).randn(*shape)
    put = lambda t, x, v: t.index_put(x, [t.tensor(i) for i in indices], v, accumulate)  # noqa: E731
    check(put, X, v, jit=False)
    check(
        lambda t, x, v: (x * 1).index_put_([t.tensor(i) for i in indices], v, accumulate=accumulate),
        X,
        v,
        gradgrad=False,
    )
    check(
        lambda t, x, v: x.index_put(indices=[t.tensor(i) for i in indices], values=v, accumulate=accumulate),
        X,
        v[..., :1],
        gradgrad=False,
        jit=False,
    )


def test_index_put_of_masks_and_bools():
    check(lambda t, x, v: x.index_put((t.tensor([True, False]),), v), X, np.ones((1, 3, 4)), jit=False)
    check(
        lambda t, x: x.index_put((t.tensor([0, 0]),), t.tensor([False, True]), accumulate=True), np.array([True, False])
    )


@pytest.mark.parametrize(("f", "match"), [
    (lambda t, x: x.index_put((t.tensor([0]),), 1.0), "argument 'values'"),
    (lambda t, x: x.index_put(t.tensor([0]), t.tensor(1.0)), "argument 'indices'"),
    (lambda t, x: x.index_put((t.tensor([9]),), t.tensor(1.0, dtype=t.float64)), "index 9 is out of bounds"),
    (lambda t, x: x.index_put((t.tensor([0]),) * 4, t.tensor(1.0, dtype=t.float64)), "too many indices"),
    (lambda t, x: x.index_put((t.tensor([0.5]),), t.tensor(1.0, dtype=t.float64)), "tensors used as indices"),
    (lambda t, x: x.index_put_((t.tensor([0]),), t.tensor(1)), "dtypes match"),
])  # fmt: skip
def test_index_put_errors(f, match):
    check_error(f, X, match=match)


def _of_its_own(t):
    w = t.arange(6.0).reshape(2, 3)
    w[w > 2] = w[0, 1]
    w[w < 1] = w[1:, 2]
    return w


def test_an_element_of_the_tensor_itself_fills_a_mask():
    assert _of_its_own(torchlike).tolist() == _of_its_own(torch).tolist()
