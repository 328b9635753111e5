"""Layouts torch.sparse_bsr and torch.sparse_bsc: parts, conversions, products and gradients, as PyTorch's."""

import io
import pickle

import numpy as np
import pytest
import torch
from sparse_kit import cases, leaf, same

import torchlike


def E(t, dtype=None):
    """A dense matrix [4, 4], one of whose blocks of [2, 2] is empty."""
    return t.tensor([[1.0, 0, 2, 3], [4, 5, 0, 0], [0, 0, 6, 7], [0, 0, 0, 8]], dtype=dtype)


def R(t, dtype=None):
    """Of layout torch.sparse_bsr, in square blocks."""
    return E(t, dtype).to_sparse_bsr((2, 2))


def K(t, dtype=None):
    """Of layout torch.sparse_bsc, in square blocks."""
    return E(t, dtype).to_sparse_bsc((2, 2))


def W(t):
    """A matrix [4, 6] in blocks of [2, 3]."""
    return t.arange(1.0, 25).reshape(4, 6).to_sparse_bsr((2, 3))


def M(t):
    """A dense matrix [4, 2]."""
    return t.arange(8.0).reshape(4, 2)


def V(t):
    """A vector [4]."""
    return t.arange(4.0)


BLOCKS = [[[1, 2], [3, 4]], [[5, 6], [7, 8]]]


@cases(
    R, K, W,
    lambda t: W(t).to_sparse_bsc((2, 3)),
    lambda t: (leaf(R(t)), R(t).detach(), R(t).clone(), R(t).cpu(), R(t).double(), K(t).int()),
    lambda t: (R(t).crow_indices(), R(t).col_indices(), K(t).ccol_indices(), K(t).row_indices(), R(t).values()),
    lambda t: (R(t)._nnz(), R(t).sparse_dim(), R(t).dense_dim(), R(t).is_sparse, R(t).is_sparse_csr, R(t).layout),
    lambda t: (R(t).to_dense(), K(t).to_dense(), W(t).to_dense(), W(t).to_sparse(), K(t).to_sparse_coo()),
    lambda t: (W(t).to_sparse_bsc((2, 3)).to_sparse(), W(t).to_sparse_bsc((2, 3)).to_dense(), len(W(t))),
    lambda t: (R(t).to_sparse_bsc((2, 2)), K(t).to_sparse_bsr((2, 2)), R(t).to_sparse_bsr((2, 2)), W(t).t(), W(t).mT),
    lambda t: (W(t).transpose(0, 1), W(t).transpose(0, 0), W(t).t().t(), W(t).t().to_dense()),
    lambda t: [getattr(E(t).to_sparse(layout=x), f"to_sparse_{b}")((2, 2)) for b in ("bsr", "bsc")
               for x in (t.sparse_coo, t.sparse_csr, t.sparse_csc)],
    lambda t: (E(t).to_sparse_bsr(2), E(t).to_sparse_bsc((4, 1)), t.zeros(4, 4).to_sparse_bsr((2, 2))),
    lambda t: E(t).to_sparse(layout=t.sparse_bsr, blocksize=(2, 2)),
    lambda t: E(t).bool().to_sparse_bsr((2, 2)),
    lambda t: (R(t, t.complex64).conj(), R(t, t.complex64) @ M(t).to(t.complex64)),
    lambda t: t.sparse_bsr_tensor([0, 1, 2], [0, 1], BLOCKS),
    lambda t: t.sparse_bsc_tensor(t.tensor([0, 1, 2]), t.tensor([0, 1]), t.ones(2, 2, 3), (4, 6), dtype=t.float64),
    lambda t: t.sparse_bsr_tensor(crow_indices=[0, 1], col_indices=[0], values=t.ones(1, 2, 2), requires_grad=True),
    lambda t: t.sparse_bsc_tensor(ccol_indices=[0, 1], row_indices=[0], values=t.ones(1, 2, 2)),
    lambda t: t.sparse_bsr_tensor(*[t.tensor(x, dtype=t.int32) for x in ([0, 1, 2], [0, 1])], t.ones(2, 2, 2)),
    lambda t: t.sparse_compressed_tensor([0, 1, 2], [0, 1], t.ones(2, 2, 2), (4, 4), layout=t.sparse_bsc),
    lambda t: (t.zeros_like(R(t)), t.ones_like(K(t)), t.ones_like(R(t), dtype=t.int32), t.empty_like(R(t))._nnz()),
    lambda t: (t.ones_like(E(t).to_sparse_csr()), t.zeros_like(E(t).to_sparse_csc())),
    lambda t: (pickle.loads(pickle.dumps(W(t))), t.testing.assert_close(W(t), W(t))),
)  # fmt: skip
def test_parts(f):
    same(f)


@cases(
    lambda t: R(t).ccol_indices(), lambda t: K(t).crow_indices(), lambda t: R(t).indices(), lambda t: R(t).numpy(),
    lambda t: R(t).stride(), lambda t: R(t).is_contiguous(), lambda t: R(t).type(), lambda t: R(t).coalesce(),
    lambda t: R(t).to_sparse_csr(), lambda t: K(t).to_sparse_csc(), lambda t: R(t).to_sparse_bsr((1, 1)),
    lambda t: E(t).to_sparse_bsr((3, 2)), lambda t: E(t).to_sparse_bsr((0, 2)), lambda t: E(t).to_sparse_bsr((2,)),
    lambda t: E(t).to_sparse_bsr(), lambda t: E(t).to_sparse(layout=t.sparse_bsr), lambda t: R(t).item(),
    lambda t: E(t).to_sparse(layout=t.sparse_csr, blocksize=(2, 2)), lambda t: R(t) @ t.ones(3, 2),
    lambda t: R(t) @ M(t).double(), lambda t: R(t) - R(t), lambda t: R(t) / 2, lambda t: R(t).exp(),
    lambda t: R(t) ** 2,
    lambda t: R(t).sum(0), lambda t: R(t).to_dense(t.float64), lambda t: t.cat([R(t), R(t)]), lambda t: R(t).view(-1),
    lambda t: R(t) @ E(t).to_sparse_csr(), lambda t: t.empty(4, 4, layout=t.sparse_bsr), lambda t: R(t) + 1,
    lambda t: t.sparse.softmax(R(t), 1), lambda t: t.sparse.sampled_addmm(R(t), M(t), M(t).t()),
    lambda t: t.sparse_bsr_tensor([0, 1, 2], [0, 1], t.ones(2)),
    lambda t: t.sparse_bsr_tensor([0, 1, 2], [0, 1], t.ones(2, 2)),
    lambda t: t.sparse_bsr_tensor([0, 1, 2], [0, 1], t.ones(2, 2, 3), (5, 7), check_invariants=True),
    lambda t: t.sparse_bsr_tensor([0, 1, 2], [0, 1], t.ones(2, 2, 3), (8, 12), check_invariants=True),
    lambda t: t.sparse_bsc_tensor([0, 1, 2], [0, 5], t.ones(2, 2, 2), (4, 4), check_invariants=True),
    lambda t: t.sparse_bsr_tensor([0, 2, 2], [1, 0], t.ones(2, 2, 2), (4, 4), check_invariants=True),
    lambda t: t.sparse_bsr_tensor([1, 1, 2], [1, 0], t.ones(2, 2, 2), (4, 4), check_invariants=True),
    lambda t: t.sparse_bsr_tensor([0, 1, 2], [0, 1], t.ones(3, 2, 2), (4, 4), check_invariants=True),
)  # fmt: skip
def test_refused(f):
    same(f, refuses=True)


@cases(
    lambda t: (R(t) @ M(t), M(t).t() @ K(t), R(t) @ V(t), V(t) @ K(t), t.sparse.mm(R(t), M(t))),
    lambda t: (t.addmm(t.ones(4, 2), R(t), M(t), beta=2, alpha=3), t.addmm(t.ones(2), R(t), M(t))),
    lambda t: t.addmm(t.ones(2, 4), M(t).t(), K(t), beta=2, alpha=3),
    lambda t: (t.addmv(t.ones(4), R(t), V(t), beta=2, alpha=3), R(t).mv(V(t))),
    lambda t: (t.nn.functional.linear(M(t).t(), R(t)), t.nn.functional.linear(M(t).t(), R(t), V(t))),
    lambda t: t.addmv(t.ones(4), E(t).to_sparse_csr(), V(t), beta=2, alpha=3),
    lambda t: (V(t) @ E(t).to_sparse_csr(), V(t) @ E(t).to_sparse(), E(t).to_sparse().mT, E(t).to_sparse_csr().mT),
    lambda t: (R(t) * 2, K(t) * t.tensor(3.0), -R(t), R(t).abs(), K(t).sin(), R(t).relu(), R(t).sqrt(), K(t).isnan()),
    lambda t: (R(t).sin_(), K(t).mul_(2), R(t).zero_(), R(t).copy_(R(t) * 2), R(t).fill_(2), R(t).sum(), K(t)[:, 0]),
    lambda t: (E(t).to_sparse_csr().zero_(), E(t).to_sparse_csr().fill_(3), t.ones(4, 4).sparse_mask(K(t))),
    lambda t: [x := R(t), x.values().mul_(2), x][2],
)  # fmt: skip
def test_operators(f):
    same(f)


@cases(
    lambda t: [x := leaf(E(t)), y := x.to_sparse_bsr((2, 2)), y, y.to_dense().backward(E(t) * 3), x.grad][2:],
    lambda t: [x := leaf(E(t)), y := x.to_sparse_bsc((2, 2)), y, y.to_dense().backward(E(t) * 3), x.grad][2:],
    lambda t: [v := leaf(t.ones(2, 2, 2)), x := t.sparse_bsr_tensor([0, 1, 2], [0, 1], v, (4, 4)), x,
               x.to_dense().backward(E(t)), v.grad][2:],
    lambda t: [v := leaf(t.ones(2, 2, 2)), x := t.sparse_bsc_tensor([0, 2, 2], [0, 1], v, (4, 4)), x,
               x.to_dense().backward(E(t)), v.grad][2:],
    lambda t: [x := leaf(R(t)), y := x @ V(t), y, y.sum().backward(), x.grad][2:],
    lambda t: [x := leaf(K(t)), y := M(t).t() @ x, y, y.sum().backward(), x.grad][2:],
    lambda t: [x := leaf(R(t)), y := x.sum(), y, y.backward(), x.grad][2:],
    lambda t: [x(leaf(W(t))) for x in (lambda w: w * 2, lambda w: w.t(), lambda w: w.to_dense(),
                                           lambda w: w.values(), lambda w: w.to_sparse(), lambda w: w.clone())],
)  # fmt: skip
def test_gradients(f):
    same(f)


@pytest.mark.parametrize("make", [R, K, W, lambda t: W(t).t()])
def test_what_pytorch_has_no_kernels_for(make):
    """Products from both sides, sums, and gradients of the parts, against dense matrices."""
    x = make(torchlike).to(torchlike.float64)
    full, n, m = x.to_dense(), *x.shape
    right = torchlike.linspace(-1, 1, m * 3, dtype=torchlike.float64).reshape(m, 3)
    left = torchlike.linspace(-1, 1, n * 3, dtype=torchlike.float64).reshape(3, n)
    for f in (
        lambda a, r, s: a @ r, lambda a, r, s: s @ a, lambda a, r, s: a + a, lambda a, r, s: a * a.t().t(),
        lambda a, r, s: (a @ other_layout(a.t())) @ s.t(), lambda a, r, s: a.sin() @ r,
    ):  # fmt: skip
        close(f(x, right, left), f(full, right, left))
    for f in (lambda a, r, s: a @ r, lambda a, r, s: s @ a, lambda a, r, s: (a * 3).to_dense() @ r):
        ours, theirs = ([leaf(z) for z in (a, right, left)] for a in (x, full))
        f(*ours).sin().sum().backward()
        f(*theirs).sin().sum().backward()
        for a, b in zip(ours[1:], theirs[1:], strict=True):
            assert (a.grad is None) == (b.grad is None)
            if b.grad is not None:
                close(a.grad, b.grad)
        there = (full != 0) if ours[0].grad.layout is not torchlike.strided else torchlike.ones_like(full)
        close(ours[0].grad.to_dense() * there, theirs[0].grad * there)


def other_layout(x):
    """A sparse matrix by rows for one by columns, and the other way around."""
    if x.layout is torchlike.strided:
        return x
    size = x.values().shape[1:]
    return x.to_sparse_bsr(size) if x.layout is torchlike.sparse_bsc else x.to_sparse_bsc(size)


def close(ours, theirs):
    """Two tensors have the same elements."""
    np.testing.assert_allclose(ours.to_dense().detach().numpy(), theirs.to_dense().detach().numpy(), atol=1e-12)


@pytest.mark.parametrize("make", [R, K, W])
def test_files(make):
    """What one library has saved the other loads."""
    for ours, theirs in ((torchlike, torch), (torch, torchlike)):
        file = io.BytesIO()
        ours.save({"x": make(ours)}, file)
        file.seek(0)
        x = theirs.load(file)["x"]
        assert repr(x) == repr(make(theirs))
        assert x.layout is make(theirs).layout


def test_what_there_is_not():
    t = torchlike
    for f in (
        lambda: t.ones_like(E(t).to_sparse()),
        lambda: E(t).to_sparse().fill_(1),
    ):
        with pytest.raises(NotImplementedError, match="sparse_coo"):
            f()
    unsorted = t.sparse_bsr_tensor([0, 1, 3], [0, 1], t.ones(2, 2, 2), (4, 4))  # as PyTorch, not looked at yet
    for f in (unsorted.to_dense, lambda: unsorted @ M(t), lambda: M(t).t() @ unsorted):
        with pytest.raises(RuntimeError, match="do not fit its size"):
            f()
