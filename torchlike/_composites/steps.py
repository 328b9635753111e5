"""Overloads of aten with more results than the public functions: factorizations, statistics, packed sequences."""

from typing import Any

import torchlike._base.dtypes as dtypes
from torchlike import linalg, sparse
from torchlike._composites._register import made
from torchlike._core.dispatch.bind import FUNCTIONS
from torchlike.nn import functional
from torchlike.nn.utils import rnn

# -- factorizations -------------------------------------------------------------------------------------


def _factored(A: Any) -> Any:
    """LU and pivots of a matrix for its determinant: of the transposed one where that lies by columns, as PyTorch's."""
    return linalg.lu_factor_ex(A.mT if A.is_contiguous() and not A.is_complex() else A)[:2]


@made("_linalg_det(Tensor A) -> (Tensor result, Tensor LU, Tensor pivots)", out="result result LU pivots named",
      saves=(0,))  # fmt: skip
def _det(A: Any) -> Any:
    factors, pivots = _factored(A)
    return linalg.det(A), factors, pivots


@made(
    "_linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet, Tensor LU, Tensor pivots)",
    out="sign sign logabsdet LU pivots named",
    saves=(0,),
)
def _slogdet(A: Any) -> Any:
    factors, pivots = _factored(A)
    return *linalg.slogdet(A), factors, pivots


@made(
    "_linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) "
    "-> (Tensor result, Tensor LU, Tensor pivots, Tensor info)",
    out="result result LU pivots info named",
)
def _solve(A: Any, B: Any, *, left: bool = True, check_errors: bool = False) -> Any:
    result, info = linalg.solve_ex(A, B, left=left, check_errors=check_errors)
    factors, pivots = linalg.lu_factor_ex(A)[:2]
    return result, factors, pivots, info


@made("_lu_with_info(Tensor self, bool pivot=True, bool check_errors=True) -> (Tensor LU, Tensor pivots, Tensor info)")
def _lu(self: Any, pivot: bool = True, check_errors: bool = True) -> Any:
    return tuple(linalg.lu_factor_ex(self, pivot=pivot, check_errors=check_errors))


@made(
    '_linalg_eigh(Tensor A, str UPLO="L", bool compute_v=True) -> (Tensor eigenvalues, Tensor eigenvectors)',
    out="eigenvalues eigenvalues eigenvectors named",
)
def _eigh(A: Any, UPLO: str = "L", compute_v: bool = True) -> Any:
    return tuple(linalg.eigh(A, UPLO)) if compute_v else (linalg.eigvalsh(A, UPLO), A.new_empty(0))


@made(
    "_linalg_svd(Tensor A, bool full_matrices=False, bool compute_uv=True, *, str? driver=None) "
    "-> (Tensor U, Tensor S, Tensor Vh)",
    out="U U S Vh named",
)
def _svd(A: Any, full_matrices: bool = False, compute_uv: bool = True, *, driver: Any = None) -> Any:
    if compute_uv:
        return tuple(linalg.svd(A, full_matrices, driver=driver))
    return A.new_empty(0), linalg.svdvals(A, driver=driver), A.new_empty(0)


# -- losses ---------------------------------------------------------------------------------------------

_REDUCTIONS = ("none", "mean", "sum")
_LOSS = "Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100"


@made(f"cross_entropy_loss({_LOSS}, float label_smoothing=0.) -> Tensor")
def _cross_entropy(
    self: Any, target: Any, weight: Any = None, reduction: int = 1, ignore_index: int = -100, smoothing: float = 0.0
) -> Any:
    return functional.cross_entropy(
        self, target, weight, ignore_index=ignore_index, reduction=_REDUCTIONS[reduction], label_smoothing=smoothing
    )


@made(f"nll_loss_nd({_LOSS}) -> Tensor")
def _nll(self: Any, target: Any, weight: Any = None, reduction: int = 1, ignore_index: int = -100) -> Any:
    return functional.nll_loss(self, target, weight, ignore_index=ignore_index, reduction=_REDUCTIONS[reduction])


# -- batch norm that changes nothing --------------------------------------------------------------------

_STATISTICS = "Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var"
_MOVED = "Tensor running_mean_out, Tensor running_var_out"


@made(
    f"_native_batch_norm_legit_functional({_STATISTICS}, bool training, float momentum, float eps) "
    f"-> (Tensor, Tensor, Tensor, {_MOVED})"
)
def _normalized(
    input: Any, weight: Any, bias: Any, mean: Any, var: Any, training: bool, momentum: float, eps: float
) -> Any:
    mean, var = mean.clone(), var.clone()
    found = FUNCTIONS["native_batch_norm"](input, weight, bias, mean, var, training, momentum, eps)
    return *found, mean, var


@made(
    f"_batch_norm_with_update_functional({_STATISTICS}, float momentum, float eps) "
    f"-> (Tensor, Tensor, Tensor, Tensor, {_MOVED})"
)
def _updated(input: Any, weight: Any, bias: Any, mean: Any, var: Any, momentum: float, eps: float) -> Any:
    *found, mean, var = _normalized(input, weight, bias, mean, var, True, momentum, eps)
    return *found, input.new_empty(0, dtype=dtypes.uint8), mean, var


# -- packed sequences -----------------------------------------------------------------------------------


@made("_pack_padded_sequence(Tensor input, Tensor lengths, bool batch_first) -> (Tensor, Tensor)", out=True)
def _packed(input: Any, lengths: Any, batch_first: bool) -> Any:
    found = rnn.pack_padded_sequence(input, lengths, batch_first)
    return found.data, found.batch_sizes


@made(
    "_pad_packed_sequence(Tensor data, Tensor batch_sizes, bool batch_first, Scalar padding_value, int total_length) "
    "-> (Tensor, Tensor)"
)
def _padded(data: Any, batch_sizes: Any, batch_first: bool, padding_value: float, total_length: int) -> Any:
    packed = rnn.PackedSequence(data, batch_sizes)
    length = total_length if total_length > 0 else None
    return rnn.pad_packed_sequence(packed, batch_first, padding_value, length)


# -- lists ----------------------------------------------------------------------------------------------

made("_foreach_zero(Tensor[] self) -> Tensor[] self_out")(lambda self: [FUNCTIONS["zeros_like"](t) for t in self])
made("_foreach_copy(Tensor[] self, Tensor[] src, bool non_blocking=False) -> Tensor[] self_out")(
    lambda self, src, non_blocking=False: [t.clone().copy_(s) for t, s in zip(self, src, strict=True)]
)

# -- sparse tensors -------------------------------------------------------------------------------------

made("_sparse_sum(Tensor self) -> Tensor")(lambda self: sparse.sum(self))
made("_sparse_sum.dtype(Tensor self, *, ScalarType dtype) -> Tensor")(
    lambda self, *, dtype: sparse.sum(self, dtype=dtype)
)
made("_sparse_sum.dim(Tensor self, int[1] dim) -> Tensor")(lambda self, dim: sparse.sum(self, dim))
made("_sparse_sum.dim_dtype(Tensor self, int[1] dim, *, ScalarType dtype) -> Tensor")(
    lambda self, dim, *, dtype: sparse.sum(self, dim, dtype=dtype)
)
for _name in ("softmax", "log_softmax"):
    made(f"_sparse_{_name}.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor")(
        lambda self, dim, dtype=None, _n=_name: getattr(sparse, _n)(self, dim, dtype=dtype)
    )
    made(f"_sparse_{_name}(Tensor self, int dim, bool half_to_float) -> Tensor")(
        lambda self, dim, half_to_float, _n=_name: getattr(sparse, _n)(self, dim)
    )
made("_sparse_mm.reduce(Tensor sparse, Tensor dense, str reduce) -> Tensor")(
    lambda first, dense, reduce: sparse.mm(first, dense, reduce)
)
made("sparse_sampled_addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor")(
    sparse.sampled_addmm
)
made("_sparse_sparse_matmul(Tensor self, Tensor other) -> Tensor")(lambda self, other: self @ other)
