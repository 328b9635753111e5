"""Construction, parts, conversion and printing of sparse tensors, as PyTorch's."""

import copy
import io
import pickle

import pytest
import torch
from sparse_kit import C, D, H, S, U, cases, leaf, same
from story_kit import warned

import torchlike

PLACES = [[0, 1, 1], [2, 0, 2]]


@cases(
    S, U, H, C,
    lambda t: t.sparse_coo_tensor(PLACES, [3.0, 4.0, 5.0]),
    lambda t: t.sparse_coo_tensor(PLACES, [3, 4, 5], (2, 3)),
    lambda t: t.sparse_coo_tensor(PLACES, [3, 4, 5], (2, 3), dtype=t.float64),
    lambda t: t.sparse_coo_tensor(PLACES, t.tensor([1j, 2j, 3]), (2, 3)),
    lambda t: t.sparse_coo_tensor(PLACES, t.tensor([True, False, True]), (2, 3)),
    lambda t: t.sparse_coo_tensor(PLACES, t.ones(3, 2, dtype=t.bfloat16), (2, 3, 2)),
    lambda t: t.sparse_coo_tensor(PLACES, [3.0, 4.0, 5.0], (2, 3), requires_grad=True),
    lambda t: t.sparse_coo_tensor(PLACES, [3.0, 4.0, 5.0], (2, 3), is_coalesced=True),
    lambda t: t.sparse_coo_tensor(t.zeros(2, 0), t.zeros(0), (2, 3)),
    lambda t: t.sparse_coo_tensor((2, 3)),
    lambda t: t.sparse_coo_tensor(size=(2, 3), dtype=t.int32),
    lambda t: t.sparse_coo_tensor(t.arange(40).reshape(2, 20), t.ones(20), (20, 40)),
    lambda t: t.sparse_coo_tensor(t.arange(2000).reshape(1, 2000), t.ones(2000), (2000,)),
    lambda t: t.sparse_csr_tensor([0, 1, 3], [0, 1, 2], [1.0, 2, 3]),
    lambda t: t.sparse_csr_tensor(t.tensor([0, 1, 3], dtype=t.int32), t.tensor([0, 1, 2], dtype=t.int32), [1, 2, 3],
                                  (2, 4)),
    lambda t: t.sparse_csr_tensor(crow_indices=[0, 1], col_indices=[1], values=[1.0], size=(1, 3), requires_grad=True),
    lambda t: t.sparse_csc_tensor([0, 1, 2], [0, 1], [1.0, 2]),
    lambda t: t.sparse_compressed_tensor([0, 1, 2], [0, 1], [1.0, 2], (2, 2), layout=t.sparse_csr),
    lambda t: t.sparse.FloatTensor(t.tensor(PLACES), t.tensor([3.0, 4.0, 5.0]), t.Size([2, 3])),
    lambda t: t.sparse.LongTensor(2, 3),
    lambda t: t.sparse.DoubleTensor(t.tensor(PLACES), t.ones(3, dtype=t.float64)),
    lambda t: t.sparse.DoubleTensor(t.tensor(PLACES), t.ones(3, dtype=t.int32), t.Size([2, 3])),
    lambda t: (t.zeros(2, 3, layout=t.sparse_coo), t.empty(2, 3, layout=t.sparse_coo), t.zeros_like(C(t))),
    lambda t: (t.zeros_like(D(t), layout=t.sparse_coo), t.empty_like(S(t)), S(t).new_zeros(2)),
    lambda t: (S(t).new(), S(t).new(2, 3), S(t).new(t.Size([2])), S(t).new(t.tensor([[0, 2]]), t.tensor([3, 4]))),
    lambda t: (S(t).new(t.tensor([[0, 2]]), t.ones(2, dtype=t.float64), (5,)),
               S(t).new(t.tensor([[0, 0]]), t.ones(2).requires_grad_(), t.Size([5]))),
    lambda t: t.sparse.spdiags(D(t), t.tensor([0, 1]), (3, 3)),
    lambda t: t.nn.Parameter(S(t)),
)  # fmt: skip
def test_construction(f):
    same(f)


@cases(
    lambda t: t.sparse_coo_tensor(PLACES, [1.0, 2.0], (2, 3)),
    lambda t: t.sparse_coo_tensor(PLACES, [1.0, 2.0, 3.0], (2, 3, 4)),
    lambda t: t.sparse_coo_tensor([0, 1], [1.0, 2.0], (2, 3)),
    lambda t: t.sparse_coo_tensor([[0, -1]], [1.0, 2.0]),
    lambda t: t.sparse_coo_tensor([[0, 5]], [1.0, 2.0], (2,), check_invariants=True),
    lambda t: t.sparse_coo_tensor(PLACES, t.ones(3, 2), (2, 3, 4)),
    lambda t: t.sparse_csr_tensor([0, 1, 3], [0, 1, 7], [1.0, 2, 3], (2, 3), check_invariants=True),
    lambda t: t.sparse_csr_tensor([0, 1, 2], [0, 1, 2], [1.0, 2, 3], (2, 3), check_invariants=True),
    lambda t: t.sparse_csr_tensor([0, 1], [0, 1, 2], [1.0, 2, 3], (2, 3), check_invariants=True),
    lambda t: t.sparse_csr_tensor([1, 1, 3], [0, 1, 2], [1.0, 2, 3], (2, 3), check_invariants=True),
    lambda t: t.sparse_csr_tensor([0, 1, 3], [0, 2, 1], [1.0, 2, 3], (2, 3), check_invariants=True),
    lambda t: t.ones(2, layout=t.sparse_coo),
    lambda t: S(t).new([2, 3]), lambda t: S(t).new(t.ones(2)), lambda t: S(t).new(t.ones(1, 2), t.ones(2), 5),
    lambda t: S(t).new(S(t)), lambda t: S(t).new((2, 3)),
    lambda t: t.rand(2, layout=t.sparse_coo),
    lambda t: t.ones_like(S(t)),
    lambda t: t.full_like(S(t), 2.0),
    lambda t: t.rand_like(S(t)),
    lambda t: t.eye(2, layout=t.sparse_csr),
)
def test_refused_construction(f):
    same(f, refuses=True)


def test_invariants():
    def f(t):
        check = t.sparse.check_sparse_tensor_invariants
        seen = [check.is_enabled()]
        with check():
            seen.append(check.is_enabled())
            try:
                t.sparse_coo_tensor([[5]], [1.0], (2,))
            except RuntimeError as error:
                seen.append(str(error))
        check.enable()
        seen.append(check.is_enabled())
        check.disable()
        return seen, check.is_enabled(), check(enable=True)(check.is_enabled)()

    same(f)


def test_index_outside():
    """PyTorch reads beyond the memory; here the first call that needs the indices refuses."""
    for make, way in (
        (lambda: torchlike.sparse_coo_tensor([[0, 5]], [1.0, 2.0], (2,)), lambda x: x.to_dense()),
        (lambda: torchlike.sparse_coo_tensor([[0, 5], [0, 0]], [1.0, 2.0], (2, 2)), lambda x: x @ torchlike.ones(2, 1)),
        (lambda: torchlike.sparse_csr_tensor([0, 1, 2], [0, 9], [1.0, 2.0], (2, 2)), lambda x: x.to_dense()),
    ):
        with pytest.raises(RuntimeError, match="size|fit"):
            way(make())


@cases(
    *[lambda t, x=x, n=n: (lambda a: a() if callable(a) else a)(getattr(x(t), n))
      for x in (S, U, H, C) for n in (
          "shape", "layout", "is_sparse", "is_sparse_csr", "dtype", "device", "ndim", "requires_grad", "is_leaf",
          "numel", "dim", "size", "__len__", "_nnz", "sparse_dim", "dense_dim", "element_size", "is_floating_point",
          "to_dense", "detach", "clone", "double", "int", "cpu", "storage_offset", "is_complex")],
    lambda t: (S(t).indices(), S(t).values(), U(t)._indices(), U(t)._values(), S(t).is_coalesced(), S(t).type()),
    lambda t: (C(t).crow_indices(), C(t).col_indices(), C(t).values()),
    lambda t: (S(t).to_sparse_csc().ccol_indices(), S(t).to_sparse_csc().row_indices(), C(t).to_sparse_csc()),
    lambda t: (U(t).coalesce(), H(t).coalesce(), S(t).coalesce().is_coalesced(), S(t).is_contiguous(), S(t).stride()),
    lambda t: (D(t).to_sparse(), D(t).to_sparse(1), D(t).to_sparse_csr(), D(t).to_sparse(layout=t.sparse_csc)),
    lambda t: (U(t).to_sparse_csr(), C(t).to_sparse_coo(), C(t).to_sparse(), C(t).to_sparse_csr()),
    lambda t: (D(t).to_dense(), D(t).sparse_dim(), D(t).dense_dim(), D(t).is_sparse, t.strided),
    lambda t: [t.tensor(x).to_sparse() for x in (0.0, 2.0, [0, 7, 0], [[0.0, 0.0]])],
    lambda t: t.eye(2).to_sparse().resize_as_sparse_(t.ones(3, 4).to_sparse()),
    lambda t: t.resize_as_sparse_(t.eye(2).to_sparse(), t.ones(2, 3).to_sparse()),
    lambda t: (H(t).new().resize_as_(H(t)), U(t).resize_as_(t.ones(5, 6).to_sparse()), t.resize_as_(S(t).new(), H(t))),
    lambda t: [getattr(H(t), n)(H(t).shape) for n in ("new", "new_empty", "new_zeros")],
    lambda t: [getattr(t, n)(H(t)) for n in ("empty_like", "zeros_like")],
    lambda t: t.sparse_coo_tensor(size=(2, 2)).resize_as_sparse_(t.ones(1, 1, 1).to_sparse()).shape,
    lambda t: (U(t).sparse_resize_((3, 4), 2, 0), U(t).sparse_resize_and_clear_((3, 4), 2, 0), U(t)._coalesced_(True)),
    lambda t: (isinstance(S(t), t.sparse.FloatTensor), isinstance(S(t), t.FloatTensor), type(S(t)) is t.Tensor),
    lambda t: (isinstance(t.sparse_csr, t.layout), repr(t.sparse_bsr), t.is_tensor(S(t))),
    lambda t: (copy.deepcopy(U(t)), copy.deepcopy(S(t)), copy.deepcopy(leaf(S(t)))),
    lambda t: pickle.loads(pickle.dumps(U(t))),
)  # fmt: skip
def test_parts(f):
    same(f)


@cases(
    lambda t: U(t).indices(), lambda t: U(t).values(), lambda t: C(t).indices(), lambda t: C(t)._indices(),
    lambda t: S(t).crow_indices(), lambda t: C(t).is_coalesced(), lambda t: D(t).coalesce(), lambda t: D(t).indices(),
    lambda t: D(t).values(), lambda t: D(t)._nnz(), lambda t: D(t).crow_indices(), lambda t: S(t).numpy(),
    lambda t: S(t).tolist(), lambda t: S(t).nbytes, lambda t: S(t).untyped_storage(), lambda t: S(t).data_ptr(),
    lambda t: S(t).contiguous(), lambda t: C(t).stride(), lambda t: bool(S(t)), lambda t: S(t).item(),
    lambda t: S(t).to_dense(t.float64), lambda t: S(t).__setitem__(0, 1.0), lambda t: S(t)[:, 1:],
    lambda t: S(t).resize_(2, 3), lambda t: S(t).resize_as_(t.ones(2, 3)), lambda t: H(t).resize_as_(S(t)),
)  # fmt: skip
def test_refused_parts(f):
    same(f, refuses=True)


def test_aliases():
    """The parts are the tensor's own memory."""

    def f(t):
        x = U(t)
        x._values().mul_(2)
        y = x.detach()
        y._values().add_(1)
        z = x.clone()
        z._values().zero_()
        return x, y, z, copy.deepcopy(x)._values().fill_(7), x

    same(f)


@pytest.mark.parametrize("make", [S, U, H, C])
def test_files(make):
    """What one library has saved the other loads."""
    for ours, theirs in ((torchlike, torch), (torch, torchlike)):
        for safe in (True, False):
            file = io.BytesIO()
            ours.save({"x": make(ours)}, file)
            file.seek(0)
            x = theirs.load(file, weights_only=safe)["x"]
            assert repr(x) == repr(make(theirs))
            assert x.layout is make(theirs).layout


@pytest.mark.parametrize("args", [lambda t: (t.tensor(PLACES), t.ones(3), (2, 3)), lambda t: (2, 3)])
def test_constructors_of_old_say_so(args):
    def f(t):
        t.set_warn_always(True)
        try:
            return warned(lambda: t.sparse.FloatTensor(*args(t)), "is deprecated")
        finally:
            t.set_warn_always(False)

    said = f(torchlike)
    assert said == f(torch)[: len(said)] == ["UserWarning: is deprecated"]  # PyTorch says more, of checks
