"""What sees a change of a sparse tensor in place: values, transposes, the tensor it was made of, as in PyTorch."""

import pytest
import torch
from sparse_kit import same

import torchlike

PLACES = {"csr": ([0, 2, 3], [0, 2, 1]), "csc": ([0, 1, 2, 3], [0, 1, 0])}


def made(t, kind, values):
    """A matrix [2, 3] of three entries."""
    if kind == "coo":
        return t.sparse_coo_tensor(t.tensor([[0, 0, 1], [0, 2, 1]]), values, (2, 3), is_coalesced=True)
    if kind == "bsr":
        return t.sparse_bsr_tensor(t.tensor([0, 2, 3]), t.tensor([0, 2, 1]), values.reshape(3, 1, 1), (2, 3))
    return getattr(t, f"sparse_{kind}_tensor")(*map(t.tensor, PLACES[kind]), values, (2, 3))


COMPRESSED = {
    "mul": lambda a: a.mul_(2),
    "add": lambda a: a.add_(a.clone()),
    "copy": lambda a: a.copy_(a * 3),
    "fill": lambda a: a.fill_(7),
    "transpose": lambda a: a.transpose(0, 1).mul_(2),
    "transposed twice": lambda a: a.t().t().neg_(),
    "detach": lambda a: a.detach().mul_(2),
    "data": lambda a: a.data.sin_(),
}
BOTH = {
    "neg": lambda a: a.neg_(),
    "sin": lambda a: a.sin_(),
    "relu": lambda a: a.relu_(),
    "values": lambda a: a.values().mul_(2),
    "negative detach": lambda a: a.detach().neg_(),
}
COORDINATES = {
    "div": lambda a: a.div_(2),
    "mul": lambda a: a.mul_(2),
    "add": lambda a: a.add_(a.clone()),
    "copy": lambda a: a.copy_(a * 3),
    "zero": lambda a: a.zero_(),
    "transpose": lambda a: a.t().neg_(),
    "values of transpose": lambda a: a.t()._values().mul_(2),
}
CASES = [
    *[("csr", change) for change in COMPRESSED.values()],
    *[(kind, change) for kind in ("csr", "coo") for change in BOTH.values()],
    *[("coo", change) for change in COORDINATES.values()],
    *[(kind, COMPRESSED[name]) for kind in ("csc", "bsr") for name in ("mul", "transpose")],
]


@pytest.mark.parametrize("kind, change", CASES, ids=[f"{kind}{i}" for i, (kind, _) in enumerate(CASES)])
def test_what_sees_a_change(kind, change):
    def f(t):
        given = t.tensor([1.0, 2.0, 3.0])
        a = made(t, kind, given)
        values, turned = a.values(), a.transpose(0, 1)
        change(a)
        return given, a.to_dense(), values.reshape(-1), turned.to_dense(), a._version, values._version, turned._version

    same(f)


SEEN = [
    ("csr", lambda a: a, lambda a: a.mul_(2)),
    ("csr", lambda a: a, lambda a: a.values().mul_(2)),
    ("csr", lambda a: a, lambda a: a.t().mul_(2)),
    ("csr", lambda a: a.t().t(), lambda a: a.neg_()),
    ("csr", lambda a: a, lambda a: a.detach().values().mul_(2)),
    ("coo", lambda a: a, lambda a: a.values().mul_(2)),
    ("coo", lambda a: a, lambda a: a.t().mul_(2)),
    ("coo", lambda a: a.t().t(), lambda a: a.mul_(2)),
]


@pytest.mark.parametrize("kind, kept, change", SEEN, ids=[f"{kind}{i}" for i, (kind, _, _) in enumerate(SEEN)])
def test_backward_sees_a_change_of_what_it_kept(kind, kept, change):
    for t in (torch, torchlike):
        a = made(t, kind, t.tensor([1.0, 2.0, 3.0]))
        y = kept(a) @ t.ones(3, 2, requires_grad=True)
        change(a)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()


@pytest.mark.parametrize("kind", ["csr", "coo"])
@pytest.mark.parametrize("change", [lambda a: a.mul_(2), lambda a: a.neg_()], ids=["mul", "neg"])
def test_backward_sees_a_change_of_values_it_kept(kind, change):
    for t in (torch, torchlike):
        a = made(t, kind, t.tensor([1.0, 2.0, 3.0]))
        y = a.values() * t.ones(3, requires_grad=True)
        change(a)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()


def grid(t, kind, size=6):
    """A matrix of many entries."""
    x = t.arange(float(size * size)).reshape(size, size)
    x = x * (x % 5 < 2)
    return x.to_sparse(layout=getattr(t, f"sparse_{kind}"), **({"blocksize": (2, 1)} if kind[0] == "b" else {}))


def batch(t, kind, **options):
    return t.stack([t.eye(4), t.eye(4) * 2]).to_sparse(layout=getattr(t, f"sparse_{kind}"), **options)


def numbers(a):
    return a._values() if a.is_sparse else a if str(a.layout) == "torch.strided" else a.values()


PARTS = {
    "row": (lambda t: grid(t, "csr"), lambda a: a[1]),
    "column": (lambda t: grid(t, "csr"), lambda a: a.select(1, 3)),
    "column of csc": (lambda t: grid(t, "csc"), lambda a: a[:, 0]),
    "row of blocks": (lambda t: grid(t, "bsr"), lambda a: a[1]),
    "column of blocks": (lambda t: grid(t, "bsc"), lambda a: a.select(1, 1)),
    "no entries": (lambda t: t.eye(3, 5).to_sparse_csr(), lambda a: a.select(1, 4)),
    "matrix of a batch": (lambda t: batch(t, "csr"), lambda a: a[1]),
    "blocks of a batch": (lambda t: batch(t, "bsc", blocksize=(2, 2)), lambda a: a[1]),
    "dense dimension": (lambda t: t.ones(3, 3, 2).to_sparse_csr(dense_dim=1), lambda a: a.select(2, 1)),
    "hybrid row": (lambda t: t.ones(3, 3, 2).to_sparse_csr(dense_dim=1), lambda a: a[1]),
    "coordinates": (lambda t: grid(t, "coo"), lambda a: a[1]),
    "dense dimension of coordinates": (lambda t: t.ones(3, 2, 2).to_sparse(1), lambda a: a.select(2, 1)),
    "unsqueeze": (lambda t: grid(t, "coo"), lambda a: a.unsqueeze(1)),
    "permute": (lambda t: grid(t, "coo"), lambda a: a.permute(1, 0)),
    "permute of dense dimensions": (
        lambda t: t.arange(12.0).reshape(3, 2, 2).to_sparse(1),
        lambda a: a.permute(0, 2, 1),
    ),
    "transpose": (lambda t: grid(t, "coo"), lambda a: a.transpose(0, 1)),
    "transposed rows": (lambda t: grid(t, "csr"), lambda a: a.t()),
    "values": (lambda t: grid(t, "csr"), lambda a: a.values()),
}


@pytest.mark.parametrize("change", ["the part", "the whole"])
@pytest.mark.parametrize("make, part", PARTS.values(), ids=PARTS)
def test_parts_are_views(make, part, change):
    def f(t):
        a = make(t)
        p = part(a)
        numbers(p if change == "the part" else a).mul_(10)
        return a.to_dense(), p.to_dense(), p._version, a._version, p._is_view(), p._base is a

    same(f)


@pytest.mark.parametrize("kind, dim, index", [("csc", 0, 0), ("bsr", 1, 0), ("csr", 1, 1)])
def test_no_view_of_scattered_entries(kind, dim, index):
    same(lambda t: grid(t, kind, 7 if kind == "csc" else 6).select(dim, index), refuses=True)


REPLACING = {
    "mul": lambda a: a.mul_(3),
    "add": lambda a: a.add_(a.clone()),
    "copy": lambda a: a.copy_(a.clone().mul(2)),
    "zero": lambda a: a.zero_(),
    "resize": lambda a: a.resize_as_((a.to_dense().new_ones(8, 8)).to_sparse(layout=a.layout)),
    "neg": lambda a: a.neg_(),
}


@pytest.mark.parametrize(
    "kind, apart",
    [
        *[(k, f) for k in ("coo", "csr") for f in (lambda a: a.detach(), lambda a: a.data)],
        ("coo", lambda a: given_data(a)),
    ],
)
@pytest.mark.parametrize("change", REPLACING.values(), ids=REPLACING)
def test_what_replaces_the_parts_of_a_detached_tensor(kind, change, apart):
    def f(t):
        a = grid(t, kind)
        d = apart(a)
        change(d)
        return a.to_dense(), d.to_dense(), d._version, a._version

    same(f)


def given_data(a):
    b = a.clone()
    b.data = a
    return b


SIZES = [(8, 9), (8, 6), (2, 6), (6, 10), (0, 6), (2, 3), (4,), (6, 6)]


@pytest.mark.parametrize("size", SIZES)
def test_resize(size):
    def f(t):
        a = grid(t, "csr")
        a.resize_(size)
        return a, a._nnz(), a._version

    same(f, refuses=size in ((2, 3), (4,)))


def test_resize_of_batches():
    def f(t):
        a = batch(t, "csr")
        a.resize_(2, 4, 7)
        b = batch(t, "csr")
        b.resize_(6, 7)
        return a, b, a._nnz()

    same(f)


def test_changes_of_views_that_gradients_would_follow():
    for t in (torch, torchlike):
        a = grid(t, "coo").requires_grad_()
        with pytest.raises(RuntimeError, match="view"):
            a.t().mul_(2)


@pytest.mark.parametrize("layout", ["csr", "csc", "bsr", "bsc"])
def test_lists_without_entries(layout):
    values = [[[]]] if layout[0] == "b" else []
    same(lambda t: getattr(t, f"sparse_{layout}_tensor")([0, 0], [], values, (2, 2)).values())


@pytest.mark.parametrize("kind, options", [("csr", {}), ("bsr", {"blocksize": (2, 2)})])
def test_transposed_batches_are_copies(kind, options):
    def f(t):
        a = t.ones(2, 3, 4, 4).to_sparse(layout=getattr(t, f"sparse_{kind}"), **options)
        b = a.transpose(0, 1)
        b.values().mul_(10)
        return a.values().sum(), b.values().sum(), b.values().stride()

    same(f)
