"""Views' layouts and their errors, against PyTorch's, over random programs and chosen cases."""

from __future__ import annotations

import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from layout_cases import agrees, layout_of, outcome, shape_of, strided

from torchlike._base import dims as D
from torchlike._base import geometry as G
from torchlike._base.layout import Layout

aten = torch.ops.aten


def storage_numel(x):
    return x.untyped_storage().nbytes() // x.element_size()


def as_strided(x, size, stride, offset):
    return G.as_strided(layout_of(x), size, stride, offset, storage_numel(x), x.element_size())


def reshaped(make):
    """A helper that gives the shape to reshape to, as the view it makes where there is one."""

    def ours(x, *args):
        lay = layout_of(x)
        shape = make(lay.shape, *args)
        if shape is lay.shape:
            return lay
        return G.view(lay, shape) if G.can_view(lay, shape) else layout_of(torch.empty(shape))

    return ours


def on_layout(function):
    return lambda x, *args: function(layout_of(x), *args)


# name: (PyTorch's call, ours), both of the tensor and the same arguments
VIEWS = {
    "transpose": (torch.transpose, on_layout(G.transpose)),
    "permute": (torch.permute, on_layout(G.permute)),
    "movedim": (torch.movedim, on_layout(G.movedim)),
    "select": (torch.select, on_layout(G.select)),
    "slice": (aten.slice, on_layout(G.slice)),
    "narrow": (torch.narrow, on_layout(G.narrow)),
    "expand": (torch.Tensor.expand, on_layout(G.expand)),
    "squeeze": (torch.squeeze, on_layout(G.squeeze)),
    "unsqueeze": (torch.unsqueeze, on_layout(G.unsqueeze)),
    "unfold": (torch.Tensor.unfold, on_layout(G.unfold)),
    "diagonal": (torch.diagonal, on_layout(G.diagonal)),
    "view": (torch.Tensor.view, on_layout(G.view)),
    "as_strided": (torch.as_strided, as_strided),
    "flatten": (torch.flatten, reshaped(G.flatten_shape)),
    "unflatten": (torch.Tensor.unflatten, reshaped(G.unflatten_shape)),
    "t": (torch.t, on_layout(G.t)),
    "T": (lambda x: x.T, on_layout(G.reverse_dims)),
    "mT": (lambda x: x.mT, on_layout(G.matrix_transpose)),
    "mH": (lambda x: x.mH, on_layout(lambda lay: G.matrix_transpose(lay, "mH"))),
    "adjoint": (torch.adjoint, on_layout(lambda lay: G.matrix_transpose(lay, "adjoint()"))),
    "H": (lambda x: x.H, on_layout(G.hermitian)),
    "view_as_complex": (torch.view_as_complex, on_layout(G.view_as_complex)),
}


# ----- random arguments, mostly good -----


def dim_of(x, rnd):
    n = max(x.dim(), 1)
    return rnd.randint(-n, n - 1) if rnd.random() < 0.95 else rnd.choice([-n - 1, n])


def some_dims(x, rnd):
    return tuple([dim_of(x, rnd) for _ in range(rnd.randint(0, x.dim()))])


def a_permutation(x, rnd):
    order = list(range(x.dim()))
    rnd.shuffle(order)
    return [d - x.dim() if rnd.random() < 0.3 else d for d in order]


def a_view_size(x, rnd):
    """Factors of the number of elements near the shape, with ones put in and one -1 perhaps."""
    size = list(x.shape)
    if len(size) > 1 and rnd.random() < 0.5:
        at = rnd.randrange(len(size) - 1)
        size[at : at + 2] = [size[at] * size[at + 1]]
    if size and rnd.random() < 0.5:
        at = rnd.randrange(len(size))
        factor = rnd.choice([f for f in range(1, size[at] + 1) if size[at] % f == 0] or [1])
        size[at : at + 1] = [factor, size[at] // factor]
    for _ in range(rnd.choice([0, 0, 1, 2])):
        size.insert(rnd.randint(0, len(size)), 1)
    if size and rnd.random() < 0.2:
        size[rnd.randrange(len(size))] = rnd.choice([-1, -1, -1, 0, 2, -2])
    return size


def an_expansion(x, rnd):
    size = [rnd.choice([-1, n, n if n != 1 else rnd.randint(0, 4)]) for n in x.shape]
    if size and rnd.random() < 0.1:
        size[rnd.randrange(len(size))] = rnd.randint(0, 4)
    return [rnd.randint(0, 3) for _ in range(rnd.choice([0, 0, 1, 2]))] + size[rnd.random() < 0.05 :]


def a_stride(x, rnd):
    n = rnd.randint(0, 3)
    size, stride = [rnd.randint(0, 3) for _ in range(n)], [rnd.randint(0, 3) for _ in range(n)]
    return size, stride, rnd.choice([None, 0, 1, 5])


END = (None, *range(-5, 6))
PARTS = ((1, -1), (2, -1), (-1,), (3,), (0, -1), (2, 2))

ARGUMENTS = {
    "transpose": lambda x, rnd: (dim_of(x, rnd), dim_of(x, rnd)),
    "permute": lambda x, rnd: (a_permutation(x, rnd) if rnd.random() < 0.9 else some_dims(x, rnd),),
    "movedim": lambda x, rnd: (dims := some_dims(x, rnd), a_permutation(x, rnd)[: len(dims)]),
    "select": lambda x, rnd: (dim_of(x, rnd), rnd.randint(-3, 2)),
    "slice": lambda x, rnd: (dim_of(x, rnd), rnd.choice(END), rnd.choice(END), rnd.choice([1, 1, 2, 3, 0])),
    "narrow": lambda x, rnd: (dim_of(x, rnd), rnd.randint(-3, 3), rnd.randint(-1, 3)),
    "expand": lambda x, rnd: (an_expansion(x, rnd),),
    "squeeze": lambda x, rnd: rnd.choice([(), (dim_of(x, rnd),), (some_dims(x, rnd),)]),
    "unsqueeze": lambda x, rnd: (rnd.randint(-x.dim() - 2, x.dim() + 1),),
    "unfold": lambda x, rnd: (dim_of(x, rnd), rnd.randint(-1, 3), rnd.randint(0, 3)),
    "diagonal": lambda x, rnd: (rnd.randint(-3, 3), dim_of(x, rnd), dim_of(x, rnd)),
    "view": lambda x, rnd: (a_view_size(x, rnd),),
    "as_strided": a_stride,
    "flatten": lambda x, rnd: (dim_of(x, rnd), dim_of(x, rnd)),
    "unflatten": lambda x, rnd: (dim_of(x, rnd), rnd.choice(PARTS)),
}


def check(name, x, args):
    theirs, ours = VIEWS[name]
    want, got = outcome(lambda: theirs(x, *args)), outcome(lambda: ours(x, *args))
    assert agrees(want, got), f"{name}{args} of {layout_of(x)}: expected {want!r}, got {got!r}"
    return want


@pytest.mark.parametrize("name", VIEWS)
@given(seed=st.integers(0, 2**32))
def test_a_view_of_any_layout(name, seed):
    rnd = random.Random(seed)
    for _ in range(20):
        x = strided(shape_of(rnd), rnd)
        check(name, x, ARGUMENTS.get(name, lambda x, rnd: ())(x, rnd))


@given(seed=st.integers(0, 2**32))
def test_views_of_views(seed):
    rnd = random.Random(seed)
    x = strided(shape_of(rnd), rnd)
    for _ in range(60):
        name = rnd.choice(list(ARGUMENTS))
        result = check(name, x, ARGUMENTS[name](x, rnd))
        if isinstance(result, torch.Tensor) and result.dim() < 7 and 0 < result.numel() < 1000:
            x = result


S, A, E, B = torch.zeros(()), torch.zeros(2, 3), torch.zeros(0, 3), torch.zeros(2, 3, 4)
CASES = [
    ("transpose", S, 0, -1), ("transpose", S, 0, 1), ("transpose", A, 0, 2), ("transpose", A, -3, 0),
    ("permute", S, ()), ("permute", S, (0,)), ("permute", A, (0,)), ("permute", A, (0, -2)),
    ("permute", A, (0, 2)), ("permute", A, (0, 0)),
    ("movedim", S, (0,), (-1,)), ("movedim", S, (), ()), ("movedim", S, (0,), (1,)),
    ("movedim", B, (0, 1), (1,)), ("movedim", B, (0, -3), (1, 2)), ("movedim", B, (0, 1), (1, 1)),
    ("movedim", B, (0, 3), (1, 1)),
    ("select", S, 0, 0), ("select", S, 5, 0), ("select", E, 0, 0), ("select", A, -1, 3),
    ("select", A, 0, -3),
    ("slice", S, 0), ("slice", S, 3, 0, 1, 0), ("slice", A, 3, 0, 1, 0), ("slice", A, 0, 0, 2, 0),
    ("slice", A, 0, 0, 2, -1), ("slice", A, 1, 5, 2), ("slice", A, 1, 2, 1, 2), ("slice", A, 1, -9, 9),
    ("narrow", S, 0, 0, 1), ("narrow", S, 3, 0, -1), ("narrow", A, 3, 0, -1), ("narrow", A, 2, 0, 1),
    ("narrow", A, 0, 3, 0), ("narrow", A, 0, 2, 0), ("narrow", A, 0, -3, 1), ("narrow", A, 0, 1, 2),
    ("expand", S, (2, 3)), ("expand", S, (1,)), ("expand", S, ()), ("expand", A, ()), ("expand", A, (3,)),
    ("expand", A, (-1, 2, 3)), ("expand", A, (2, 4)), ("expand", A, (2, -2)), ("expand", A, (2, 0)),
    ("expand", torch.zeros(1, 3), (0, -1)), ("expand", E, (1, 0, 3)), ("expand", torch.zeros(3), (1, 1, 3)),
    ("squeeze", S, 0), ("squeeze", S, 1), ("squeeze", S, (0,)), ("squeeze", S, (0, -1)), ("squeeze", A, ()),
    ("squeeze", A, 2), ("squeeze", A, (0, 0, 5)), ("squeeze", A, (5, 0, 0)),
    ("squeeze", torch.zeros(1, 2, 1), (0, -1)),
    ("unsqueeze", S, -1), ("unsqueeze", S, 1), ("unsqueeze", S, -2), ("unsqueeze", A, 3),
    ("unsqueeze", A, -4),
    ("unfold", S, 0, 0, 1), ("unfold", S, 0, 1, 5), ("unfold", S, 0, 2, 1), ("unfold", S, 1, 1, 1),
    ("unfold", A, 0, 3, 1), ("unfold", A, 0, -1, 0), ("unfold", A, 0, 1, 0), ("unfold", E, 0, 0, 2),
    ("diagonal", S), ("diagonal", S, 0, 0, 0), ("diagonal", A, 0, 0, -2), ("diagonal", A, 0, 2, 0),
    ("diagonal", A, 5), ("diagonal", A, -2), ("diagonal", B, 1, 2, 0), ("diagonal", torch.zeros(3)),
    ("view", A, (4,)), ("view", A, (-1, -1)), ("view", A, (-2, 3)), ("view", A, (4, -1)),
    ("view", A, (0, -1)), ("view", A, (-3, -2)), ("view", A.t(), (-1,)), ("view", A.t(), (3, 1, 2)),
    ("view", E, (0, -1)), ("view", E, (3, -1)), ("view", E, (0, 5)), ("view", S, ()), ("view", S, (1, 1)),
    ("view", S, (-1,)), ("view", E.t(), (3, 0)), ("view", E.t(), (0, 3)),
    ("as_strided", A, (2, 2), (1,), 0), ("as_strided", A, (2, 2), (-1, 1), 0),
    ("as_strided", A, (2,), (1,), -1), ("as_strided", A, (7,), (1,), 0), ("as_strided", A, (0,), (2,), 100),
    ("as_strided", A, (), (), 6), ("as_strided", A, (), (), 5), ("as_strided", A[1], (3,), (1,), None),
    ("as_strided", A[1], (4,), (1,), None), ("as_strided", A.double(), (7, 2), (1, 3), 0),
    ("flatten", S), ("flatten", S, 0, 1), ("flatten", A, 1, 0), ("flatten", A, -3), ("flatten", B, 0, 1),
    ("flatten", B.transpose(0, 1), 0, 1), ("flatten", B.transpose(0, 1), 2, 2),
    ("unflatten", S, 0, (1,)), ("unflatten", S, 1, (1,)), ("unflatten", A, 1, ()),
    ("unflatten", A, 1, (-1, 2)), ("unflatten", A, -1, (2, 2)), ("unflatten", A, 1, (-1, -1)),
    ("unflatten", A, 1, (-1, 0)), ("unflatten", A, 1, (-2, -3)), ("unflatten", E, 0, (-1, 0)),
    ("unflatten", E, 0, (0, 2)),
    ("t", S), ("t", B), ("T", S), ("T", B), ("mT", S), ("mT", torch.zeros(3)), ("mT", B),
    ("mH", torch.zeros(3)), ("adjoint", torch.zeros(3)), ("H", S), ("H", torch.zeros(3)), ("H", A), ("H", B),
    ("view_as_complex", S), ("view_as_complex", A), ("view_as_complex", torch.zeros(2, 3).t()),
    ("view_as_complex", torch.zeros(3, 3)[:, :2]), ("view_as_complex", torch.zeros(3, 4)[:, 1:3]),
    ("view_as_complex", torch.zeros(1, 5)[:, :2]), ("view_as_complex", torch.zeros(0, 3)[:, :2]),
    ("view_as_complex", torch.zeros(5, 2)[1:]), ("view_as_complex", torch.zeros(2, 0, 2)),
    ("view_as_complex", torch.zeros(2).expand(3, 2)),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]}-{tuple(c[1].shape)}-{c[2:]}")
def test_chosen(case):
    name, x, *args = case
    check(name, x, args)


@pytest.mark.parametrize("size", [(-2, 3), (-5, 3), (3, -2, 3)])
def test_expand_refuses_negative_sizes(size):
    with pytest.raises(RuntimeError, match=r"The expanded size of the tensor \(-\d\)"):
        G.expand(layout_of(torch.zeros(1, 3)), size)


def test_as_strided_refuses_negative_sizes():
    with pytest.raises(RuntimeError, match=r"sizes must be non-negative, got sizes=\[-2\]"):
        G.as_strided(Layout((2,), (1,)), (-2,), (1,), 0, 2)


# ----- the storage seen as another dtype -----


@given(seed=st.integers(0, 2**32))
def test_complex_parts(seed):
    rnd = random.Random(seed)
    for _ in range(20):
        x = strided(shape_of(rnd), rnd)
        z = torch.zeros(4000, dtype=torch.complex64).as_strided(x.shape, x.stride(), rnd.randint(0, 3))
        lay = layout_of(z)
        assert G.view_as_real(lay) == layout_of(torch.view_as_real(z))
        assert G.real(lay) == layout_of(z.real)
        assert G.imag(lay) == layout_of(z.imag)


DTYPES = {torch.int8: "Char", torch.int16: "Short", torch.float32: "Float", torch.complex128: "ComplexDouble"}


@pytest.mark.parametrize("old", DTYPES)
@pytest.mark.parametrize("new", DTYPES)
@given(seed=st.integers(0, 2**32))
def test_view_dtype(old, new, seed):
    rnd = random.Random(seed)
    for _ in range(10):
        x = strided(shape_of(rnd, 3), rnd)
        if rnd.random() < 0.7:
            x = torch.zeros(*x.shape, rnd.choice([8, 16, 24, 3]))[..., rnd.choice([0, 0, 8, 1]) :]
        x = torch.zeros(4000, dtype=old).as_strided(x.shape, x.stride(), x.storage_offset())
        sizes = old.itemsize, new.itemsize, DTYPES[old], DTYPES[new]
        want = outcome(lambda x=x: x.view(new))
        got = outcome(lambda x=x, sizes=sizes: G.view_dtype(layout_of(x), *sizes))
        assert agrees(want, got), (layout_of(x), want, got)


# ----- dimension and size arguments -----


@pytest.mark.parametrize("ndim", range(4))
@pytest.mark.parametrize("dim", range(-5, 5))
def test_wrap_dim(ndim, dim):
    x = torch.zeros((1,) * ndim)
    got = outcome(lambda: D.wrap_dim(dim, ndim))
    want = outcome(lambda: x.cumsum(dim))
    assert agrees(want if isinstance(want, Exception) else dim % max(ndim, 1), got)
    strict, want = outcome(lambda: D.wrap_dim(dim, ndim, scalar_ok=False)), outcome(lambda: x.unbind(dim))
    assert agrees(want if isinstance(want, Exception) else dim % max(ndim, 1), strict)


@pytest.mark.parametrize("dims", [(), (0,), (0, -1), (0, 0), (0, -2), (0, 0, 5), (5, 0, 0), (1, -2)])
def test_wrap_dims(dims):
    want = outcome(lambda: torch.zeros(2, 3).squeeze(dims))
    got = outcome(lambda: D.wrap_dims(dims, 2))
    assert agrees(want if isinstance(want, Exception) else [d % 2 for d in dims], got)


@given(seed=st.integers(0, 2**32))
def test_broadcast_shapes(seed):
    rnd = random.Random(seed)
    for _ in range(40):
        shape = shape_of(rnd)
        shapes = [tuple([rnd.choice([n, n, n, 1]) for n in shape]) for _ in "abc"]
        shapes[0] = shapes[0][rnd.randint(0, len(shape)) :]
        if rnd.random() < 0.3 and shapes[1]:
            shapes[1] = (*shapes[1][:-1], rnd.randint(0, 4))
        want = outcome(lambda s=shapes: tuple(torch.addcmul(*[torch.zeros(n) for n in s]).shape))
        got = outcome(lambda s=shapes: D.broadcast_shapes(*s))
        assert agrees(want, got), (shapes, want, got)


def lengths(pieces, dim):
    return [piece.shape[dim] for piece in pieces]


@pytest.mark.parametrize("length", [0, 1, 3, 10])
@pytest.mark.parametrize("count", [-2, -1, 0, 1, 2, 3, 4, 6, 11])
def test_split_sizes(length, count):
    x = torch.zeros(2, length)
    for theirs, ours in (
        (lambda: lengths(x.split(count, 1), 1), lambda: D.split_sizes(length, count)),
        (lambda: lengths(x.chunk(count, 1), 1), lambda: D.chunk_sizes(length, count)),
        (lambda: lengths(x.tensor_split(count, 1), 1), lambda: tensor_split(length, count)),
        (lambda: lengths(x.hsplit(count), 1), lambda: hsplit(length, count)),
    ):
        want, got = outcome(theirs), outcome(ours)
        assert agrees(want, got), (want, got)


def tensor_split(length, sections):
    points = D.tensor_split_points(length, sections)
    pieces = zip([0, *points], [*points, None], strict=True)
    return lengths([G.slice(Layout((2, length), (length, 1)), 1, a, b) for a, b in pieces], 1)


def hsplit(length, sections):
    D.check_even_split("hsplit", length, D.numpy_split_dim("hsplit", 2), sections)
    return tensor_split(length, sections)


@pytest.mark.parametrize("points", [(), (1, 2), (-1,), (2, 1), (5,), (5, -5), (0, 3)])
def test_tensor_split_at_points(points):
    assert tensor_split(3, points) == lengths(torch.zeros(2, 3).tensor_split(points, 1), 1)


@pytest.mark.parametrize("sizes", [(1, 2), (3,), (0, 3, 0), (1, 1), (-1, 4), (4, -1), ()])
def test_split_with_sizes(sizes):
    want = outcome(lambda: lengths(torch.zeros(2, 3).split(sizes, 1), 1))
    assert agrees(want, outcome(lambda: D.check_split_sizes(3, sizes, 1)))


@pytest.mark.parametrize("name", ["split", "chunk"])
@pytest.mark.parametrize("dim", [0, 1, 5])
def test_split_of_a_scalar(name, dim):
    want = outcome(lambda: getattr(torch, name)(S, 1, dim))
    assert agrees(want, outcome(lambda: D.split_dim(name, 0, dim)))


@pytest.mark.parametrize("name", ["hsplit", "vsplit", "dsplit"])
@pytest.mark.parametrize("ndim", range(4))
def test_numpy_split_dim(name, ndim):
    want = outcome(lambda: getattr(torch, name)(torch.zeros((2,) * ndim), 2))
    got = outcome(lambda: D.numpy_split_dim(name, ndim))
    if isinstance(want, Exception):
        assert agrees(want, got)
    else:
        assert lengths(want, got) == [1, 1]
