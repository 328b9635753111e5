"""Joining, repeating, turning, padding, filling and copying, against PyTorch."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from oracle import check, check_error

import torchlike
from torchlike.interop import to_jax

X = np.arange(12.0).reshape(3, 4)
Y = np.random.RandomState(0).randn(3, 4)
V = np.arange(3.0)
CUBE = np.arange(24.0).reshape(2, 3, 4)
SCALAR = np.array(2.0)

JOINS = [
    lambda t, x, y: t.cat([x, y]), lambda t, x, y: t.cat((x, y), 1), lambda t, x, y: t.cat([x, y], dim=-1),
    lambda t, x, y: t.concat([x, y[:1]]), lambda t, x, y: t.concatenate([x[:, :1], y], axis=1),
    lambda t, x, y: t.cat([x]),
    lambda t, x, y: t.cat([x, t.empty(0, dtype=t.float64), y]), lambda t, x, y: t.cat([x[:0], y]),
    lambda t, x, y: t.cat([x.mT, y.mT]),
    lambda t, x, y: t.cat([x.int(), y]), lambda t, x, y: t.cat([x.half(), t.ones(3, 4, dtype=t.bfloat16)]),
    lambda t, x, y: t.stack([x, y]), lambda t, x, y: t.stack([x, y], -1), lambda t, x, y: t.stack((x, y, x), dim=1),
    lambda t, x, y: t.stack([x[0, 0], y[0, 0]]), lambda t, x, y: t.stack([x.float(), y]),
    lambda t, x, y: t.stack([x.mT, y.mT]),
    lambda t, x, y: t.hstack([x, y]), lambda t, x, y: t.hstack([x[0], y[1]]),
    lambda t, x, y: t.hstack([x[0, 0], y[0, 0]]),
    lambda t, x, y: t.vstack([x, y]), lambda t, x, y: t.vstack((x[0], y[1])),
    lambda t, x, y: t.row_stack([x[0, 0], y[0, 0]]),
    lambda t, x, y: t.dstack([x, y]), lambda t, x, y: t.dstack([x[0], y[0]]),
    lambda t, x, y: t.column_stack([x, y[:, 0]]),
    lambda t, x, y: t.column_stack([x[0], y[0]]), lambda t, x, y: t.block_diag(x, y[0], y[0, 0]),
    lambda t, x, y: t.block_diag(),
    lambda t, x, y: t.cartesian_prod(x[0], y[0]), lambda t, x, y: t.cartesian_prod(x[0]),
    lambda t, x, y: t.combinations(x[0]),
    lambda t, x, y: t.combinations(x[0], 3, with_replacement=True), lambda t, x, y: t.combinations(x[0], 0),
    lambda t, x, y: t.combinations(x[0], 5), lambda t, x, y: t.meshgrid(x[0], y[:, 0], indexing="ij"),
    lambda t, x, y: t.meshgrid(x[0], y[:, 0], x[0], indexing="xy"),
    lambda t, x, y: t.meshgrid([x[0], y[0, 0]], indexing="ij"),
    lambda t, x, y: t.broadcast_tensors(x, y[0], y[0, 0]), lambda t, x, y: t.broadcast_to(x[0], (2, 3, 4)),
    lambda t, x, y: t.atleast_1d(x[0, 0], y), lambda t, x, y: t.atleast_2d(x[0]),
    lambda t, x, y: t.atleast_3d([x[0], y, x[0, 0]]),
]  # fmt: skip

TURNS = [
    lambda t, x: t.flip(x, (0,)), lambda t, x: x.flip(0, -1), lambda t, x: x.flip([]), lambda t, x: x.mT.flip(0),
    lambda t, x: t.fliplr(x), lambda t, x: t.flipud(x), lambda t, x: t.roll(x, 1), lambda t, x: x.roll(-2, 1),
    lambda t, x: t.roll(x, (1, 2), (0, 1)), lambda t, x: t.roll(x, shifts=7, dims=0), lambda t, x: t.roll(x[0, 0], 1),
    lambda t, x: t.rot90(x), lambda t, x: t.rot90(x, 2), lambda t, x: x.rot90(-1, (1, 0)), lambda t, x: x.rot90(4),
    lambda t, x: x.repeat(2, 1), lambda t, x: x.repeat((1, 2, 3)), lambda t, x: x.repeat(0, 1),
    lambda t, x: x[0, 0].repeat(3),
    lambda t, x: t.tile(x, (2,)), lambda t, x: x.tile(2, 1, 2), lambda t, x: x.tile(()),
    lambda t, x: t.repeat_interleave(x, 2), lambda t, x: x.repeat_interleave(2, dim=1),
    lambda t, x: x.repeat_interleave(0, 0),
    lambda t, x: x[0, 0].repeat_interleave(3), lambda t, x: x.hsplit(2), lambda t, x: t.arange(12.0).hsplit(3),
    lambda t, x: t.vsplit(x, [1]),
    lambda t, x: t.isin(x, x[0]), lambda t, x: t.isin(x, 3, invert=True), lambda t, x: t.isin(2.0, x),
    lambda t, x: t.isin(x, x[:0]),
]  # fmt: skip


@pytest.mark.parametrize("f", JOINS)
def test_joins(f):
    check(f, X, Y, gradgrad=False, jit=False)


@pytest.mark.parametrize("f", TURNS)
def test_turns(f):
    check(f, X, gradgrad=False, jit=False)


SPREAD = ("broadcast_to", "hsplit", "vsplit", "dsplit", "sum_to_size", "squeeze_")
SPREADINGS = [
    ((), {}), ((0, 1), {}), ((0, 2), {}), ((1, 2, 1), {}), (((1, 2, 4),), {"size": 3}), ((1, 2), {"size": (1, 2)}),
    (("a",), {}), ((1.5, 2), {}), ((True, 2), {}), (([1, 2, 4],), {}), ((), {"size": (1, 2, 1)}),
    ((), {"indices": (1, 2)}),
    ((), {"sections": 1}), ((), {"dim": 0}), ((0, 2), {"dim": 1}),
]  # fmt: skip


@pytest.mark.parametrize("name", SPREAD)
def test_sizes_and_places_are_given_one_by_one(name):
    def shapes(lib, args, named):
        try:
            out = getattr(lib.zeros(1, 2, 4), name)(*args, **named)
        except (TypeError, IndexError, RuntimeError) as error:
            return TypeError if isinstance(error, TypeError) else Exception
        return [tuple(t.shape) for t in (out if isinstance(out, tuple) else [out])]

    for args, named in SPREADINGS:
        if name != "squeeze_" or args != (1.5, 2):
            assert shapes(torchlike, args, named) == shapes(torch, args, named), (args, named)


def test_traced_and_twice_differentiated():
    check(lambda t, x, y: [f(t, x * x, y) for f in JOINS], X, Y)
    check(lambda t, x: [f(t, x * x) for f in TURNS], X)


def test_vander():
    """PyTorch's own cannot be differentiated: it writes over what it needs."""
    for args in ((), (2, True), (0,), (6, False)):
        check(lambda t, x: t.vander(x, *args), V, grad=False)  # noqa: B023
    check(lambda t, x: (t.vander(x.long()), t.vander(x > 1), t.vander(x.half())), V, grad=False)
    x = torchlike.tensor([0.0, 2.0], requires_grad=True)
    torchlike.vander(x, 3).sum().backward()
    assert x.grad.tolist() == [1.0, 5.0]


def test_counts_in_a_tensor():
    check(lambda t, x: t.repeat_interleave(x, t.tensor([1, 0, 2]), 0), X, jit=False)
    check(lambda t, x: t.repeat_interleave(x[0], t.tensor([1, 0, 2, 1], dtype=t.int32)), X, jit=False)
    check(lambda t, x: t.repeat_interleave(x, t.tensor(2)), X, jit=False)
    check(lambda t, x: t.repeat_interleave(x, t.tensor([2]), 1), X, jit=False)
    check(lambda t, n: t.repeat_interleave(n), np.array([1, 2, 0]), jit=False)
    check(lambda t, x, n: t.repeat_interleave(x, n, 0, output_size=3), X, np.array([1, 0, 2]))


def test_shapes():
    assert torchlike.broadcast_shapes((3, 1), 4, (1,)) == torch.broadcast_shapes((3, 1), 4, (1,))
    assert torchlike.broadcast_shapes() == ()


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16", "complex64"])
def test_dtypes(dtype):
    check(
        lambda t, x: [
            t.cat([x, x]), t.stack([x, x]), x.flip(0), x.roll(1), x.rot90(), x.repeat(2, 2), t.block_diag(x, x),
            x.repeat_interleave(2), t.nn.functional.pad(x, (1, 1)), t.cat([x, t.ones(1, 4)]),
        ], (X > 3).astype(dtype), gradgrad=False, jit=False,
    )  # fmt: skip


# -- padding -------------------------------------------------------------------------------------


def pad(*args, **kwargs):
    return lambda t, x: t.nn.functional.pad(x, *args, **kwargs)


@pytest.mark.parametrize("f", [
    pad((1, 2)), pad((1, 2, 0, 1), value=5), pad((-1, 1)), pad((-1, -2, 3, -1), "constant", 2.5), pad(()), pad((0, 0)),
    pad([1, 1], mode="constant", value=None), pad((1, 2), "reflect"), pad((3, 0), "reflect"), pad((-1, 2), "reflect"),
    pad((1, 2), "replicate"), pad((5, -1), "replicate"), pad((1, 2), "circular"), pad((-1, 2), "circular"),
    pad((4, 4), "circular"),
    lambda t, x: t.constant_pad_nd(x, (1, 1), 2), lambda t, x: t.nn.functional.pad(x.mT, (1, 0)),
    lambda t, x: t.nn.functional.pad(x.int(), (1, 1), value=1.5),
    lambda t, x: t.nn.functional.pad(x > 1, (1, 1), value=1),
    lambda t, x: t.nn.functional.pad(x[0, 0], ()),
])  # fmt: skip
def test_pad(f):
    check(f, X)


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_pad_more_dimensions(mode):
    check(pad((1, 0, 1, 2), mode), CUBE)
    check(pad((1, 2, 1, 0), mode), CUBE[None])
    check(pad((0, 1, 1, 1, 1, 0), mode), CUBE[None])


ERRORS = [
    (lambda t, x: t.cat([]), "non-empty list of Tensors"),
    (lambda t, x: t.cat([x, x[0]]), "same number of dimensions: got 2 and 1"),
    (lambda t, x: t.cat([x, x.mT]), "Expected size 4 but got size 3 for tensor number 1"),
    (lambda t, x: t.cat([x[0, 0]]), "zero-dimensional tensor .at position 0. cannot be concatenated"),
    (lambda t, x: t.cat([x, x], 5), "Dimension out of range"),
    (lambda t, x: t.cat(x), "argument 'tensors'"),
    (lambda t, x: t.cat([x, 3]), "element 1"),
    (lambda t, x: t.stack([]), "non-empty TensorList"),
    (lambda t, x: t.stack([x, x[0]]), "equal size, but got .3, 4. at entry 0 and .4. at entry 1"),
    (lambda t, x: t.stack([x, x], 4), "Dimension out of range"),
    (lambda t, x: t.hstack([]), "non-empty TensorList"),
    (lambda t, x: t.block_diag(x[None]), "2 or fewer dimensions. Input 0 has 3"),
    (lambda t, x: t.cartesian_prod(x), "Expect a 1D vector, but got shape .3, 4."),
    (lambda t, x: t.combinations(x), "Expect a 1D vector"),
    (lambda t, x: t.combinations(x[0], -1), "non-negative number, but got -1"),
    (lambda t, x: t.meshgrid(x, indexing="ij"), "Expected 0D or 1D tensor"),
    (lambda t, x: t.meshgrid(x[0], x[0].int(), indexing="ij"), "same dtype"),
    (lambda t, x: t.meshgrid(x[0], indexing="foo"), 'one of "xy" or "ij", but received: foo'),
    (lambda t, x: t.meshgrid(), "non-empty TensorList"),
    (lambda t, x: t.broadcast_tensors(x, x[0, :3]), "must match the size of tensor b .3."),
    (lambda t, x: t.broadcast_shapes((-1,)), "negative length"),
    (lambda t, x: t.flip(x, (0, 0)), "dim 0 appears multiple times"),
    (lambda t, x: t.flip(x, (5,)), "Dimension out of range"),
    (lambda t, x: t.flip(x, 0), "must be tuple of ints, not int"),
    (lambda t, x: t.fliplr(x[0]), "must be >= 2-d"),
    (lambda t, x: t.flipud(x[0, 0]), "must be >= 1-d"),
    (lambda t, x: t.roll(x, (1, 2)), "shifts and dimensions must align. shifts: 2, dims:0"),
    (lambda t, x: t.roll(x, 1, 5), "Dimension out of range"),
    (lambda t, x: t.rot90(x[0]), "total dims >= 2"),
    (lambda t, x: t.rot90(x, 1, (0, 0)), "rotation dims to be different"),
    (lambda t, x: t.rot90(x, 1, (0,)), "total rotation dims == 2"),
    (lambda t, x: x.repeat(2), "can not be smaller than number of dimensions"),
    (lambda t, x: x.repeat(-1, 1), "negative dimension -3"),
    (lambda t, x: x.repeat_interleave(-2), "must be non-negative"),
    (lambda t, x: x.repeat_interleave(t.tensor([1, 2]), 0), "same size as input along dim"),
    (lambda t, x: x[0].repeat_interleave(t.tensor([1, 2, -1, 0])), "repeats can not be negative"),
    (lambda t, x: x[0].repeat_interleave(t.tensor([[1]])), "0-dim or 1-dim tensor"),
    (lambda t, x: x[0].repeat_interleave(t.ones(4)), "not implemented for 'Float'"),
    (lambda t, x: x[0].repeat_interleave(t.tensor([1, 1, 1, 1]), output_size=5), "does not match required size"),
    (lambda t, x: t.vander(x), "one-dimensional"),
    (lambda t, x: t.hsplit(x, 3), "not divisible by the split_size 3"),
    (lambda t, x: t.isin(x > 0, x), "Unsupported input type"),
    (lambda t, x: t.isin(1, 2), "isin"),
    (lambda t, x: x.new_full(2, 3), "argument 'size'.* must be tuple of ints, not int"),
    (lambda t, x: x.copy_(x, 1), "argument 'non_blocking'.* must be bool, not int"),
    (lambda t, x: t.dist(x, 1.0), "argument 'other'.* must be Tensor, not float"),
    (pad((1,)), "must be divisible by 2"),
    (pad((1,) * 6), "less than or equal to two times the input dimension but got padding length 6"),
    (pad((1,) * 6, "reflect"), "less than or equal to two times the input dimension but got padding length 6"),
    (pad((-3, -3)), "negative"),
    (pad((1, 1), "foo"), "Unrecognised padding mode foo"),
    (pad((4, 0), "reflect"), "less than the corresponding input dimension, but got: padding .4, 0. at dimension 1"),
    (pad((5, 0), "circular"), "wrapping around more than once"),
    (pad((1, 1, 1, 1), "reflect"), "Padding size 4 is not supported for 2D input tensor"),
    (pad((1, 1), "reflect", 3), "doesn't take in value argument"),
    (pad((1, 1), value=1j), "must be float, not complex"),
    (pad((1.0, 1)), "pad"),
]


@pytest.mark.parametrize(("f", "match"), ERRORS)
def test_errors(f, match):
    check_error(f, X, match=match)


# -- filling and copying -------------------------------------------------------------------------


def changed(name, *args):
    def f(t, x, *more):
        y = x * 2
        z = y[1]
        out = getattr(z, name)(*args, *more)
        assert out is z
        return y, z

    return f


@pytest.mark.parametrize("f", [
    changed("fill_", 3), changed("fill_", True), changed("zero_"), changed("copy_", 5), changed("fill_", float("nan")),
    lambda t, x: t.fill(x, 2), lambda t, x: t.fill(x, x[0, 0]), lambda t, x: (x * 2).fill_(x[0, 1]),
    lambda t, x: (x * 2).copy_(x[0]),
    lambda t, x: (x * 2).copy_(x[:, :1]), lambda t, x: x.int().copy_(x), lambda t, x: (x * 2).copy_(x.int()),
    lambda t, x: t.zeros(2).expand(3, 2).fill_(1), lambda t, x: t.zeros(3, 4).fill_diagonal_(5),
    lambda t, x: t.zeros(7, 2).fill_diagonal_(5, True),
    lambda t, x: t.zeros(2, 2, 2).fill_diagonal_(1.5), lambda t, x: (x * 1).fill_diagonal_(0),
    lambda t, x: t.zero_(x * 1),
])  # fmt: skip
def test_filling(f):
    check(f, X, gradgrad=False)


def test_copying():
    check(changed("copy_"), X, Y[0])
    check(changed("copy_"), X, SCALAR)
    check(changed("fill_"), X, SCALAR)
    check(changed("copy_"), X, Y[0].astype(np.float32), gradgrad=False)
    check(changed("copy_"), X + 0j, Y[0], gradgrad=False)
    check(changed("copy_"), X, Y[0] + 1j, gradgrad=False, grad=False)


CASTS = [-1.0, 300.0, 1e10, -1e10, float("nan"), float("inf"), -float("inf"), 70000.5, -1.7, 0.0]


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "int64", "bool"])
@pytest.mark.parametrize("source", ["float32", "float64", "float16"])
def test_copies_of_numbers_that_do_not_fit(dtype, source):
    with np.errstate(over="ignore"):
        x = np.array(CASTS).astype(source)
    check(lambda t, x: t.zeros(len(CASTS), dtype=getattr(t, dtype)).copy_(x), x, grad=False, jit=False)


@pytest.mark.parametrize(("f", "match"), [
    (lambda t, x: x.fill_(t.zeros(1)), "0-dimension value tensor but got tensor with 1 dimensions"),
    (lambda t, x: x.fill_(1j), "without overflow"),
    (lambda t, x: x.fill_("a"), "fill_"),
    (lambda t, x: t.zeros(2, dtype=t.uint8).fill_(300), "uint8_t without overflow"),
    (lambda t, x: t.zeros(2, dtype=t.int32).fill_(2**40), "int without overflow"),
    (lambda t, x: t.zeros(2, dtype=t.int32).fill_(float("nan")), "int without overflow"),
    (lambda t, x: t.zeros(2, dtype=t.float16).fill_(1e6), "Half without overflow"),
    (lambda t, x: x.copy_(t.zeros(3)), "must match"),
    (lambda t, x: x.copy_(t.zeros(2, 3, 4)), "shape"),
    (lambda t, x: x.copy_([1, 2]), "argument 'other' .position 1. must be Tensor, not list"),
    (lambda t, x: x[0].fill_diagonal_(1), "dimensions must larger than 1"),
    (lambda t, x: t.zeros(2, 3, 2).fill_diagonal_(1), "equal length"),
])  # fmt: skip
def test_filling_errors(f, match):
    check_error(f, X, match=match)


def test_versions():
    for lib in (torch, torchlike):
        x = lib.zeros(3)
        x.fill_(1)
        x.copy_(lib.ones(3))
        x.zero_()
        x.detach().fill_(2)
        assert x._version == 4
        assert x.tolist() == [2.0] * 3


# -- a tensor's own geometry ---------------------------------------------------------------------


@pytest.mark.parametrize("f", [
    lambda t, x: x.t_(), lambda t, x: x.unsqueeze_(0), lambda t, x: x.unsqueeze_(-1), lambda t, x: x.transpose_(0, 1),
    lambda t, x: x.unsqueeze_(1).squeeze_(), lambda t, x: x.unsqueeze_(1).squeeze_(1),
    lambda t, x: x.unsqueeze_(0).squeeze_((0, 1)),
    lambda t, x: x.swapaxes_(0, 1), lambda t, x: x.swapdims_(0, 1).t_(), lambda t, x: x.as_strided_((2, 2), (1, 4)),
])  # fmt: skip
def test_views_in_place(f):
    def g(t, x):
        y = x * 2
        out = f(t, y)
        assert out is y
        y.mul_(3)
        return y, y[0] * 2

    check(g, X, gradgrad=False)


def test_views_in_place_of_a_leaf():
    for f in (lambda x: x.t_(), lambda x: x.unsqueeze_(0)):
        with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
            f(torchlike.ones(2, 2, requires_grad=True))


@pytest.mark.parametrize("f", [
    lambda t, x: x.resize_(2, 6), lambda t, x: x.resize_((12,)), lambda t, x: x.resize_(5),
    lambda t, x: x.mT.resize_(2, 2),
    lambda t, x: x[1:].resize_(2), lambda t, x: x.resize_as_(t.zeros(4, 3)), lambda t, x: x.resize_(0),
    lambda t, x: x.resize_(()),
    lambda t, x: t.zeros(3, dtype=t.float64).set_(x), lambda t, x: x.set_(),
    lambda t, x: t.zeros(3, dtype=t.float64).set_(x[1:].mT),
])  # fmt: skip
def test_resize_and_set(f):
    check(f, X, grad=False)


def test_resize_grows():
    for lib in (torch, torchlike):
        x = lib.arange(3.0)
        assert x.resize_(2, 3) is x
        assert x.shape == (2, 3)
        assert x[0].tolist() == [0.0, 1.0, 2.0]
        with pytest.raises(RuntimeError, match="cannot resize variables that require grad"):
            lib.ones(2, requires_grad=True).resize_(3)


def _grown(t, x, y):
    x.resize_(8)
    x[0] = 9
    y[1, 1] = 7
    return [x[:4].tolist(), y.tolist(), x.data_ptr() == y.data_ptr()]


def _grown_again(t, x, y):
    seen = []
    for n in (6, 9):
        x.resize_(n)[0] = n
        y[1, 1] = n + 1
        z = y.detach()
        z.resize_(n + 1)[2] = -n
        seen += [x[:4].tolist(), y.tolist(), z[:4].tolist()]
    return seen


def _grown_as_integers(t, x, y):
    bits = x.view(t.int32)
    bits.resize_(6)[0] = 1065353216
    y[0, 1] = 2
    return [x.tolist(), y.tolist(), bits[:4].tolist()]


def _grown_part(t, x, y):
    part = x[2:]
    part.resize_(6)[0] = 5
    x[3] = 6
    return [part[:2].tolist(), y.tolist()]


def _grown_by_out(t, x, y):
    for n in (5, 7):
        with warnings.catch_warnings(record=True):
            warnings.simplefilter("always")
            t.cat([t.ones(2), t.full((n - 2,), 2.0)], out=x)
        x[0] = n
    return [x.tolist(), y.tolist()]


def _grown_with_numpy(t, x, y):
    x.resize_(8)
    array = x.numpy()
    with pytest.raises(RuntimeError, match="not resizable"):
        x.resize_(20)
    array[0] = 3
    return y.tolist()


def _grown_what_is_saved(t, x, y):
    w = t.ones(4, requires_grad=True)
    loss = (w * x).sum()
    y.resize_(8)[0] = 3
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.parametrize("story", [
    _grown, _grown_again, _grown_as_integers, _grown_part, _grown_by_out, _grown_with_numpy, _grown_what_is_saved,
])  # fmt: skip
def test_growing_keeps_what_is_shared(story):
    found = []
    for lib in (torch, torchlike):
        x = lib.arange(4.0)
        found.append(story(lib, x, x.view(2, 2)))
    assert found[0] == found[1]


def test_growing_in_programs():
    def grown(x, b):
        v = b[:2]
        b.resize_(8)
        b[0] = 5
        return v + x[:2]

    def alone(x):
        b = x * 2
        b.resize_(8)
        c = x * 3
        c.t_().resize_(9)
        return b[:3] + c[:3]

    x, b = torchlike.ones(3), torchlike.ones(3)
    assert torchlike.compile(grown)(x, b).tolist() == [6.0, 2.0]
    assert b[:3].tolist() == [5.0, 1.0, 1.0]
    with pytest.raises(RuntimeError, match="larger than the storage that others show"):
        torchlike.compile(grown, fullgraph=True)(x, torchlike.ones(3))
    assert torchlike.compile(alone, fullgraph=True)(x).tolist() == [5.0, 5.0, 5.0]
    with pytest.raises(NotImplementedError, match="clone"):
        jax.jit(to_jax(lambda x: grown(x, x * 2)))(jnp.ones(3))
    assert jax.jit(to_jax(alone))(jnp.ones(3)).tolist() == [5.0, 5.0, 5.0]


def test_set_shares_storage():
    for lib in (torch, torchlike):
        x, y = lib.zeros(2), lib.arange(3.0)
        x.set_(y)
        x[0] = 7.0
        assert y.tolist() == [7.0, 1.0, 2.0]


COPIES = {
    "alias": (), "as_strided": ((2, 2), (1, 4)), "diagonal": (1,), "expand": ((2, 3, 4),), "narrow": (1, 1, 2),
    "permute": ((1, 0),), "select": (1, 2), "slice": (1, 0, None, 2), "squeeze": (), "t": (), "transpose": (0, 1),
    "unfold": (1, 2, 1), "unsqueeze": (0,), "view": ((4, 3),), "split": (2, 1), "split_with_sizes": ([1, 3], 1),
    "unbind": (1,),
}  # fmt: skip


@pytest.mark.parametrize("name", COPIES)
def test_copies_of_views(name):
    check(
        lambda t, x: getattr(t, name + "_copy")(x, *COPIES[name]),
        X,
        gradgrad=False,
        jit=False,
    )
    x = torchlike.tensor(X)
    out = getattr(torchlike, name + "_copy")(x, *COPIES[name])
    for part in out if isinstance(out, tuple) else (out,):
        part.zero_()
    assert x.tolist() == X.tolist()
