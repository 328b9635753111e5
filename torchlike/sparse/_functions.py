"""``torch.sparse``: functions whose gradients have the places of their sparse arguments only."""

import builtins
from collections.abc import Sequence
from typing import Any

import numpy as np

from torchlike._base import dtypes
from torchlike._base.dims import wrap_dim
from torchlike._base.dtypes import dtype as DType
from torchlike._base.state import state
from torchlike._core.conversion.convert import host
from torchlike._core.dispatch.bind import FUNCTIONS
from torchlike._core.overrides.torch_function import publish as _publish
from torchlike._core.sparse import products, shapes, structure
from torchlike._core.sparse.rules import recorded, written
from torchlike._core.sparse.value import Compressed, coo_of, layout_name, put_on, unsupported, value
from torchlike._core.tensor.mutation import write
from torchlike._core.tensor.tensor import Tensor, sparse_csr, strided


def mm(mat1: Tensor, mat2: Tensor, reduce: str = "sum") -> Tensor:
    """The product of matrices, ``mat1`` or both sparse; the gradient of a sparse one has its places only.

    Args:
        mat1, mat2: [n, m] and [m, k]. The result is sparse if both are.
        reduce: ``"sum"``, or of a CSR matrix with a dense one ``"mean"``, ``"amax"`` or ``"amin"``: what is made of the
            products of each row, of its elements alone; 0 of a row without elements.

    Raises:
        RuntimeError: sizes or dtypes that do not fit, another ``reduce``. NotImplementedError: a layout that has none.

    >>> import torchlike as torch
    >>> torch.sparse.mm(torch.eye(2).to_sparse(), torch.ones(2, 1))
    tensor([[1.],
            [1.]])
    """
    if reduce != "sum":
        return _reduced(mat1, mat2, reduce)
    if value(mat1) is not None and value(mat2) is not None:
        node = "SparseSparseMatmulBackward0"
        return recorded(node, products.sparse_matmul, mat1, mat2)
    if value(mat1) is None:
        return FUNCTIONS["mm"](mat1, mat2)
    base = structure.zeros((mat1.shape[0], mat2.shape[-1]), mat2)
    return recorded("SparseAddmmBackward0", products.sparse_addmm, base, mat1, mat2, 0, 1)


def _reduced(mat1: Tensor, mat2: Tensor, reduce: str) -> Tensor:
    """A product whose sums are means, maxima or minima of the products there are; of equal ones the first counts."""
    if mat1.layout is not sparse_csr:
        raise NotImplementedError(f"torch.sparse.mm(): reduce={reduce!r} takes a CSR matrix, but got {mat1.layout}")
    if mat2.layout is not strided:
        raise RuntimeError(f"torch.sparse.mm(): reduce={reduce!r} takes a dense second matrix, but got {mat2.layout}")
    if reduce not in ("mean", "amax", "amin"):
        known = "has not been enabled" if reduce == "prod" else "must be sum, mean, amax or amin"
        raise RuntimeError(f"torch.sparse.mm(): reduce argument {known}, but got {reduce!r}")
    columns = mat1.col_indices().to(dtypes.int64)
    products = mat1.values().unsqueeze(1) * mat2[columns]
    counts = mat1.crow_indices().to(dtypes.int64).diff()
    rows = FUNCTIONS["repeat_interleave"](counts).unsqueeze(1).expand(products.shape)
    zeros = products.new_zeros(mat1.shape[0], products.shape[1])
    if reduce == "mean":
        return zeros.scatter_add(0, rows, products) / counts.clamp(min=1).unsqueeze(1)
    values = products.detach()
    best = zeros.scatter_reduce(0, rows, values, reduce, include_self=False)
    places = FUNCTIONS["arange"](len(columns), device=columns.device).unsqueeze(1).expand(products.shape)
    last = len(columns)
    places = places.masked_fill((values != best.gather(0, rows)) & (values == values), last)
    first = FUNCTIONS["full_like"](best, last, dtype=dtypes.int64).scatter_reduce(0, rows, places, "amin")
    if not last:
        return zeros
    return products.gather(0, first.clamp(max=last - 1)).masked_fill((counts == 0).unsqueeze(1), 0)


def addmm(mat: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1.0, alpha: float = 1.0) -> Tensor:
    """``beta * mat + alpha * (mat1 @ mat2)`` with ``mat1`` sparse, whose gradient has its places only."""
    if value(mat1) is None and value(mat2) is None and value(mat) is None:
        return FUNCTIONS["addmm"](mat, mat1, mat2, beta=beta, alpha=alpha)
    return recorded("SparseAddmmBackward0", products.sparse_addmm, mat, mat1, mat2, beta, alpha)


def sum(input: Tensor, dim: int | Sequence[int] | None = None, dtype: DType | None = None) -> Tensor:
    """The sum of a tensor of layout ``torch.sparse_coo``, over all or some dimensions; its gradient is sparse.

    The result is dense where all sparse dimensions are summed, else sparse.

    >>> import torchlike as torch
    >>> torch.sparse.sum(torch.eye(2).to_sparse())
    tensor(2.)
    """
    if dim is None:
        return input.coalesce().values().sum(dtype=dtype)
    if coo_of(input) is None:
        raise unsupported("torch.sparse.sum over dimensions", input)
    t = input if dtype is None else input.to(dtype)
    dims = [dim] if isinstance(dim, int) else list(dim)
    if not dims:
        raise RuntimeError("torch.sparse.sum: dim of input tensor cannot be empty")
    wrapped = builtins.sum([[wrap_dim(d, t.ndim)] for d in dims], [])
    if len(set(wrapped)) < len(wrapped):
        raise RuntimeError(f"dim {wrapped[0]} appears multiple times in the list of dims")
    return recorded("SparseSumBackward0", lambda ctx, t: shapes.sum_dims(ctx, t, tuple(sorted(wrapped))), t)


def _softmax(name: str, input: Tensor, dim: int, dtype: DType | None, log: bool) -> Tensor:
    if value(input) is None:
        raise RuntimeError(f"{name}: expected a sparse tensor, got one of layout torch.strided")
    t = input if dtype is None else input.to(dtype)
    node = "SparseLogSoftmaxBackward0" if log else "SparseSoftmaxBackward0"
    return recorded(node, lambda ctx, t: shapes.softmax(ctx, t, dim, log), t)


def softmax(input: Tensor, dim: int, *, dtype: DType | None = None) -> Tensor:
    """The softmax along ``dim`` over the entries of a tensor of layout ``torch.sparse_coo``; the rest is as -inf."""
    return _softmax("softmax", input, dim, dtype, False)


def log_softmax(input: Tensor, dim: int, *, dtype: DType | None = None) -> Tensor:
    """The logarithm of :func:`softmax`."""
    return _softmax("log_softmax", input, dim, dtype, True)


def sampled_addmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1.0, alpha: float = 1.0, out: Tensor | None = None
) -> Tensor:
    """``beta * input + alpha * (mat1 @ mat2)`` at the places of ``input``, a matrix of layout ``torch.sparse_csr``."""
    v = value(input)
    if not isinstance(v, Compressed) or v.block:
        raise RuntimeError(f"sampled_addmm: Expected self to have layout SparseCsr, got {layout_name(input)}")
    if out is not None and state.grad and any([t.requires_grad for t in (input, mat1, mat2, out)]):
        raise RuntimeError(
            "sparse_sampled_addmm(): functions with out=... arguments don't support automatic differentiation, but one "
            "of the arguments requires grad."
        )
    result = recorded("SparseSampledAddmmBackward0", products.sampled_addmm, input, mat1, mat2, beta, alpha)
    if out is None:
        return result
    if out.layout is not sparse_csr:
        raise RuntimeError(f"sampled_addmm: Expected result to have sparse csr layout, but got {layout_name(out)}")
    if out.dtype is not input.dtype:
        raise RuntimeError(
            f"sampled_addmm: Expected result and self to have the same dtype, but got {out.dtype} and {input.dtype}"
        )
    write(out, written(out, result, True))
    return out


def spdiags(diagonals: Tensor, offsets: Tensor, shape: tuple[int, int], layout: Any = None) -> Tensor:
    """A sparse matrix with the rows of ``diagonals`` on the diagonals ``offsets``; element j is in column j."""
    rows = diagonals if diagonals.ndim == 2 else diagonals.unsqueeze(0)
    numbers = host(offsets).reshape(-1)
    if len(numbers) != rows.shape[0]:
        raise RuntimeError(
            f"Number of diagonals ({rows.shape[0]}) does not match the number of offsets ({len(numbers)})"
        )
    if len(set(numbers.tolist())) != len(numbers):
        raise RuntimeError(f"Offset tensor contains duplicate values: {numbers.tolist()}")
    places = [
        (i, j - int(k), j)
        for i, k in enumerate(numbers)
        for j in range(min(rows.shape[1], shape[1]))
        if 0 <= j - int(k) < shape[0]
    ]
    found = np.array(places, np.int64).reshape(-1, 3).T
    values = rows[put_on(found[0], rows.device), put_on(found[2], rows.device)]
    t = FUNCTIONS["sparse_coo_tensor"](put_on(found[1:], rows.device), values, shape)
    return t if layout is None else t.to_sparse(layout=layout)


def spsolve(input: Tensor, other: Tensor, *, left: bool = True) -> Tensor:
    """NotImplementedError: use ``torch.linalg.solve(input.to_dense(), other)``."""
    raise NotImplementedError("torch.sparse.spsolve() is not supported; use torch.linalg.solve(A.to_dense(), b)")


_NAMES = ("addmm", "log_softmax", "mm", "sampled_addmm", "softmax", "spdiags", "spsolve", "sum")
globals().update(_publish("torch.sparse", {name: globals()[name] for name in _NAMES}))
