"""Batches of compressed matrices, and those whose elements are parts of dense dimensions, as PyTorch's."""

import io

import pytest
import torch
from sparse_kit import cases, leaf, same

import torchlike


def B(t, make="sparse_csr_tensor"):
    """Two matrices [2, 3] of three entries each."""
    starts, places = t.tensor([[0, 2, 3], [0, 1, 3]]), t.tensor([[0, 1, 0], [1, 0, 2]])
    return getattr(t, make)(starts, places, t.arange(6.0).reshape(2, 3) + 1)


def N(t, make="sparse_csc_tensor"):
    """Matrices in a batch [2, 3]."""
    parts = t.tensor([0, 2, 3]), t.tensor([0, 1, 0])
    starts, places = [x.repeat(6, 1).reshape(2, 3, -1) for x in parts]
    return getattr(t, make)(starts, places, t.arange(18.0).reshape(2, 3, 3))


def H(t, make="sparse_csr_tensor"):
    """A matrix whose elements are pairs."""
    return getattr(t, make)(t.tensor([0, 2, 3]), t.tensor([0, 1, 0]), t.arange(6.0).reshape(3, 2) + 1)


def R(t, make="sparse_bsr_tensor"):
    """Two matrices in blocks [2, 3], whose elements are pairs."""
    starts, places = t.tensor([[0, 1, 2]] * 2), t.tensor([[0, 1]] * 2)
    return getattr(t, make)(starts, places, t.arange(48.0).reshape(2, 2, 2, 3, 2))


def D(t):
    """Two dense matrices [4, 2] of as many entries."""
    return t.tensor([[[1.0, 0], [0, 2], [3, 0], [0, 0]], [[0, 3], [4, 0], [0, 5], [0, 0]]])


ALL = (B, N, H, R, lambda t: B(t, "sparse_csc_tensor"), lambda t: R(t, "sparse_bsc_tensor"))


def through(x, save, load):
    """``x`` after saving and loading."""
    save(x, file := io.BytesIO())
    file.seek(0)
    return load(file)


def sides(t, x):
    """All parts of a compressed tensor."""
    by_rows = x.layout in (t.sparse_csr, t.sparse_bsr)
    return (x.crow_indices(), x.col_indices()) if by_rows else (x.ccol_indices(), x.row_indices())


@pytest.mark.parametrize("make", ALL, ids=list("bnhrcs"))
@cases(
    lambda t, x: (x, x.to_dense(), x.to_sparse(), x.shape, x.ndim, x.numel(), *sides(t, x), x.values()),
    lambda t, x: (x.sparse_dim(), x.dense_dim(), x._nnz(), x.layout, x.clone(), x.detach(), leaf(x)),
    lambda t, x: (-x, x * 2, x + x, x.sum(), x.double(), x.to(t.complex64), x.clone().zero_(), x.sgn(), x.abs()),
    lambda t, x: (t.ones_like(x), t.zeros_like(x), t.empty_like(x).values().shape, x.clone().copy_(x * 2)),
    lambda t, x: through(x, t.save, t.load),
    lambda t, x: (x.clone().mul_(2), t.full_like(x, 3), x.to_dense().sparse_mask(x)),
)  # fmt: skip
def test_uses(make, f):
    same(lambda t: f(t, make(t)))


@cases(
    lambda t: (B(t).to_sparse_csc(), B(t).to_sparse_csr(), N(t).to_sparse_csr(), H(t).to_sparse_csc()),
    lambda t: (D(t).to_sparse_csr(), D(t).to_sparse_csc(), D(t).to_sparse_csr(dense_dim=1), D(t).to_sparse_csc(1)),
    lambda t: (D(t).to_sparse_bsr((2, 1)), D(t).to_sparse_bsc((2, 1)), D(t).to_sparse_bsc((2, 2)).to_dense()),
    lambda t: (D(t).to_sparse_bsr((2, 1), dense_dim=1), H(t).to_sparse_bsr((1, 2)), R(t).to_sparse_bsc((2, 3))),
    lambda t: (D(t).bool().to_sparse_bsr((2, 2)), D(t).to_sparse(layout=t.sparse_csr, dense_dim=1)),
    lambda t: (B(t).transpose(1, 2), N(t).transpose(0, 1), B(t).transpose(0, 0), R(t)[0].values(), B(t)[1], N(t)[1][2]),
    lambda t: (B(t).select(0, -1), H(t).select(2, 1), H(t).select(0, 1), N(t)[0], B(t).transpose(1, 2).transpose(1, 2)),
    lambda t: t.zeros(3, 0, 2).to_sparse_csr(),
    lambda t: [t.empty(2, 3, 4, layout=x).shape for x in (t.sparse_csr, t.sparse_csc)],
    lambda t: t.sparse_csr_tensor(t.zeros(2, 3, 3).long(), t.zeros(2, 3, 0).long(), t.zeros(2, 3, 0), (2, 3, 2, 4)),
    lambda t: [t.randn_like(x).values().shape for x in (B(t), H(t), R(t))],
    lambda t: t.randn_like(B(t), dtype=t.float64).to_dense() != 0,
    lambda t: t.randn_like(B(t), requires_grad=True).requires_grad,
)  # fmt: skip
def test_forms(f):
    same(f)


@cases(
    lambda t, x: x.to_dense(),
    lambda t, x: x.values(),
    lambda t, x: (x * 3).to_dense(),
    lambda t, x: x.clone().to_sparse_coo().to_dense(),
)
def test_gradients(f):
    def run(t):
        x = leaf(H(t))
        y = f(t, x)
        return t.autograd.grad((y * y).sum(), x)

    same(run)


def test_gradients_of_batches():
    values = torchlike.arange(6.0).reshape(2, 3).requires_grad_()
    x = torchlike.sparse_csr_tensor(B(torchlike).crow_indices(), B(torchlike).col_indices(), values)
    (x.to_dense() ** 2).sum().backward()
    assert values.grad.tolist() == (2 * values).tolist()


@cases(
    lambda t: t.tensor([[[1.0, 0], [0, 0]], [[0, 3], [4, 0]]]).to_sparse_csr(),
    lambda t: t.tensor([[[1.0, 0], [0, 0]], [[0, 3], [4, 0]]]).to_sparse_bsr((1, 1)),
    lambda t: B(t).to_sparse_bsr((1, 1)),
    lambda t: B(t).transpose(0, 1),
    lambda t: H(t).transpose(0, 1),
    lambda t: B(t).select(1, 0),
    lambda t: B(t) @ t.ones(3, 2),
    lambda t: B(t) / 2,
    lambda t: B(t) - B(t),
    lambda t: B(t).t(),
    lambda t: B(t).to_dense().copy_(B(t)),
    lambda t: t.empty_like(B(t), layout=t.strided),
    lambda t: t.rand_like(B(t)),
)
def test_refused(f):
    same(f, refuses=True)


def blocks(t, *size):
    """A dense matrix [4, 4] in blocks."""
    return t.eye(4).to_sparse_bsr(size)


@pytest.mark.parametrize(
    "into, source, message",
    [
        (B, lambda t: B(t).to_sparse_csc(), "having different layouts is not supported"),
        (B, lambda t: B(t).to_dense(), "having different layouts is not supported"),
        (B, lambda t: t.ones(3), "having different layouts is not supported"),
        (B, lambda t: D(t).to_sparse_csr(), "expected shapes of self and src to match along dimension 1"),
        (lambda t: t.eye(2).to_sparse_csr(), lambda t: t.ones(2, 2).to_sparse_csr(), "the same number of specified"),
        (lambda t: t.eye(2).to_sparse_csr(), lambda t: t.ones(3, 2).to_sparse_csr(), "the same number of specified"),
        (lambda t: blocks(t, 1, 4), lambda t: blocks(t, 4, 1), "having different block sizes is not supported"),
    ],
)
def test_what_copies_must_have(into, source, message):
    for t in (torch, torchlike):
        with pytest.raises(RuntimeError, match=message):
            into(t).copy_(source(t))


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda c, p, v: (c, p[0], v, None), "dimensionalities must be equal but got 2 and 1"),
        (lambda c, p, v: (c, p, v[0], None), r"sum of batch and block dimensionalities \(=1 \+ 0\) but got 1"),
        (lambda c, p, v: (c[:1], p, v, (2, 2, 3)), "must be equal to tensor batch dimensions"),
        (lambda c, p, v: (c, p, v, (3, 2, 3)), "must be equal to tensor batch dimensions"),
        (lambda c, p, v: (c, p, v[:, :2], None), r"must be equal to nnz \(=2\) as defined by values.shape\[1\]"),
        (lambda c, p, v: (c[0], p[0], v[0], (2,)), r"tensor dimensionality must be sum of batch, base, and dense"),
        (lambda c, p, v: (c[0, 0], p[0], v[0], (2, 3)), "must have dimensionality >= 1 but got 0"),
        (lambda c, p, v: (c + 1, p, v, (2, 2, 3)), r"`crow_indices\[..., 0\] == 0` is not satisfied"),
        (lambda c, p, v: (c, p + 1, v, (2, 2, 3)), r"`0 <= col_indices < ncols` is not satisfied"),
    ],
)
def test_parts_are_checked(change, message):
    for t in (torch, torchlike):
        parts = change(B(t).crow_indices(), B(t).col_indices(), B(t).values())
        with pytest.raises(RuntimeError, match=message):
            t.sparse_csr_tensor(*[x for x in parts if x is not None], check_invariants=True)


def test_parts_unchecked_are_checked_where_they_are_read():
    b = B(torchlike)
    wrong = torchlike.sparse_csr_tensor(b.crow_indices() + 1, b.col_indices(), b.values(), (2, 2, 3))
    with pytest.raises(RuntimeError, match="do not fit its size"):
        wrong.to_dense()
