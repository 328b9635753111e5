"""The calls that PyTorch makes of operators which it composes of others: what dispatch modes see of them.

Each function is ``aten={"calls": ...}`` of the declaration that refers to it: (calls of aten, *arguments) -> result.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nan, pi, prod
from typing import Any

import torchlike._base.dtypes as dtypes
from torchlike._base.dims import broadcast_shapes, wrap_dims

ALPHA, SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946  # of selu


def renamed(name: str) -> Callable[..., Any]:
    """One call of the same arguments, of another name."""
    return lambda aten, *arguments: aten[name](*arguments)


def selu(aten: Any, self: Any) -> Any:
    return aten.elu(self, ALPHA, SCALE)


def selu_(aten: Any, self: Any) -> Any:
    return aten.elu_(self, ALPHA, SCALE)


def relu6(aten: Any, self: Any) -> Any:
    return aten.hardtanh(self, 0, 6)


def relu6_(aten: Any, self: Any) -> Any:
    return aten.hardtanh_(self, 0, 6)


def softmin(aten: Any, self: Any, dim: int, dtype: Any) -> Any:
    return aten._softmax(aten.cast(aten.neg(self), dtype), dim, False)


def log_sigmoid(aten: Any, self: Any) -> Any:
    return aten.log_sigmoid_forward(self)[0]


def softsign(aten: Any, self: Any) -> Any:
    return aten["div.Tensor"](self, aten["add.Tensor"](aten.abs(self), 1))


def tanhshrink(aten: Any, self: Any) -> Any:
    return aten["sub.Tensor"](self, aten.tanh(self))


def prelu(aten: Any, self: Any, weight: Any) -> Any:
    shape = [1, weight.numel()][2 - min(self.ndim, 2) :] + [1] * (self.ndim - 2)
    return aten._prelu_kernel(self, weight if list(weight.shape) == shape else aten.view(weight, shape))


# -- comparisons -------------------------------------------------------------------------------------


def isfinite(aten: Any, self: Any) -> Any:
    if not (self.is_floating_point() or self.is_complex()):
        return aten.ones_like(self, dtype=dtypes.bool, pin_memory=False)
    finite = aten["ne.Scalar"](aten.abs(self), inf)
    return aten["mul.Tensor"](aten["eq.Tensor"](self, self), finite)


def isreal(aten: Any, self: Any) -> Any:
    if self.is_complex():
        return aten["eq.Scalar"](aten["select.int"](aten.view_as_real(self), self.ndim, 1), 0)
    return aten.ones_like(self, dtype=dtypes.bool)


def isclose(aten: Any, self: Any, other: Any, rtol: float, atol: float, equal_nan: bool) -> Any:
    close = aten["eq.Tensor"](self, other)
    if equal_nan and (self.is_floating_point() or self.is_complex()):
        both = aten["bitwise_and.Tensor"](aten.isnan(self), aten.isnan(other))
        close = aten["bitwise_or_.Tensor"](close, both)
    if rtol == 0 and atol == 0:
        return close
    if not (other.is_floating_point() or other.is_complex()):
        other = aten._to_copy(other, dtype=dtypes.get_default_dtype())
    allowed = aten["add.Scalar"](aten.abs(aten["mul.Scalar"](other, rtol)), atol)
    gap = aten.abs(aten["sub.Tensor"](self, other))
    near = aten["bitwise_and_.Tensor"](isfinite(aten, gap), aten["le.Tensor"](gap, allowed))
    return aten["bitwise_or_.Tensor"](close, near)


def msort(aten: Any, self: Any) -> Any:
    return aten.sort(self, 0)[0]


def argsort(aten: Any, self: Any, dim: int, descending: bool) -> Any:
    return aten.sort(self, dim, descending)[1]


def argsort_stable(aten: Any, self: Any, stable: bool, dim: int, descending: bool) -> Any:
    return aten["sort.stable"](self, stable=stable, dim=dim, descending=descending)[1]


# -- shapes ------------------------------------------------------------------------------------------


def tile(aten: Any, self: Any, dims: Any) -> Any:
    return aten.repeat(self, [1] * (self.ndim - len(dims)) + [*dims])


def take_along_dim(aten: Any, self: Any, indices: Any, dim: int) -> Any:
    n = self.shape[dim] if self.ndim else 1
    return aten.gather(self, dim, aten["remainder.Scalar"](indices, n))


def kron(aten: Any, self: Any, other: Any) -> Any:
    n = max(self.ndim, other.ndim)
    a = [1] * (n - self.ndim) + [*self.shape]
    b = [1] * (n - other.ndim) + [*other.shape]
    left = aten._unsafe_view(self, [s for x in a for s in (x, 1)])
    right = aten._unsafe_view(other, [s for x in b for s in (1, x)])
    return aten._unsafe_view(aten["mul.Tensor"](left, right), [x * y for x, y in zip(a, b, strict=True)])


def tensordot(aten: Any, self: Any, other: Any, dims_self: Any, dims_other: Any) -> Any:
    left, right = wrap_dims(dims_self, self.ndim), wrap_dims(dims_other, other.ndim)
    for i, j in zip(left, right, strict=True):
        if self.shape[i] != other.shape[j]:
            one = self if self.shape[i] == 1 else other
            summed = aten["sum.dim_IntList"](other if one is self else self, [j if one is self else i], True)
            self, other = (self, summed) if one is self else (summed, other)
    rows = [i for i in range(self.ndim) if i not in left]
    columns = [j for j in range(other.ndim) if j not in right]
    size, kept = [self.shape[i] for i in rows], [other.shape[j] for j in columns]
    shared = prod([self.shape[i] for i in left])
    if prod(size) == prod(kept) == 1:
        first, second = aten.permute(self, [*rows, *dims_self]), aten.permute(other, [*dims_other, *columns])
        return aten.view(_inner(aten, first, second), size + kept)
    first = aten.reshaped(aten.permute(self, [*rows, *dims_self]), [prod(size), shared])
    second = aten.reshaped(aten.permute(other, [*dims_other, *columns]), [shared, prod(kept)])
    return aten.view(aten.mm(first, second), size + kept)


def _inner(aten: Any, first: Any, second: Any) -> Any:
    """The sum of the products of all elements."""
    if first.is_contiguous() and second.is_contiguous():
        return aten.dot(*(t if t.ndim == 1 else aten.view(t, [t.numel()]) for t in (first, second)))
    second, first = aten.squeeze(second), aten.squeeze(first)
    return aten.sum(aten["mul.Tensor"](first, second))


def inner(aten: Any, self: Any, other: Any) -> Any:
    if not self.ndim or not other.ndim:
        return aten["mul.Tensor"](self, other)
    if self.ndim == 1 and other.ndim == 1:
        return aten.view(aten.dot(aten.permute(self, [-1]), aten.permute(other, [-1])), [])
    return tensordot(aten, self, other, [-1], [-1])


def diff(aten: Any, self: Any, n: int, dim: int, prepend: Any, append: Any) -> Any:
    if n == 0:
        return aten.copy_(aten.zeros_like(self), self)
    joined = [t for t in (prepend, self, append) if t is not None]
    out = aten.cat(joined, dim) if len(joined) > 1 else self
    length = out.shape[dim]
    for _ in range(min(n, length)):
        low, high = aten["slice.Tensor"](out, dim, 0, length - 1), aten["slice.Tensor"](out, dim, 1, length)
        out = aten.logical_xor(high, low) if out.dtype is dtypes.bool else aten["sub.Tensor"](high, low)
        length -= 1
    return out


# -- windows -----------------------------------------------------------------------------------------


def avg_pool1d(aten: Any, self: Any, size: Any, stride: Any, padding: Any, ceil: bool, counts: bool) -> Any:
    rows = aten.unsqueeze(self, -2)
    given = ([1, *x] if x else [] for x in (size, stride))
    return aten["squeeze.dim"](aten.avg_pool2d(rows, *given, [0, *padding], ceil, counts), -2)


def max_pool1d(aten: Any, self: Any, size: Any, stride: Any, padding: Any, dilation: Any, ceil: bool) -> Any:
    rows = aten.unsqueeze(self, -2)
    given = [1, *size], [1, *stride] if stride else [], [0, *padding], [1, *dilation], ceil
    return tuple([aten["squeeze.dim"](t, -2) for t in aten.max_pool2d_with_indices(rows, *given)])


def adaptive_avg_pool1d(aten: Any, self: Any, output_size: Any) -> Any:
    return aten["squeeze.dim"](aten._adaptive_avg_pool2d(aten.unsqueeze(self, -2), [1, *output_size]), -2)


def adaptive_avg_pool1d_whole(aten: Any, self: Any) -> Any:
    return aten["squeeze.dim"](aten["mean.dim"](aten.unsqueeze(self, -2), [-1, -2], True), -2)


def adaptive_max_pool1d(aten: Any, self: Any, output_size: Any) -> Any:
    values, indices = aten.adaptive_max_pool2d(aten.unsqueeze(self, -2), [1, *output_size])
    indices = aten["squeeze.dim"](indices, -2)
    return aten["squeeze.dim"](values, -2), indices


def max_unpool(aten: Any, self: Any, indices: Any, output_size: Any) -> Any:
    if len(output_size) == 1:
        columns = aten.unsqueeze(self, -1), aten.unsqueeze(indices, -1)
        return aten["squeeze.dim"](aten.max_unpool2d(*columns, [*output_size, 1]), -1)
    if len(output_size) == 2:
        return aten.max_unpool2d(self, indices, output_size)
    return aten["torchlike", "_max_unpool"](self, indices, output_size)  # max_unpool3d takes strides, too


# -- sums and distances ------------------------------------------------------------------------------


def nanmean(aten: Any, self: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    dim = None if dim is None else [*dim]
    there = aten.logical_not_(aten["ne.Tensor"](*[aten.detach(self)] * 2))
    count = aten["sum.dim_IntList"](there, dim, keepdim)
    return aten["div.Tensor"](aten.nansum(self, dim, keepdim, dtype=dtype), count)


def pairwise_distance(aten: Any, x1: Any, x2: Any, p: float, eps: float, keepdim: bool) -> Any:
    apart = aten["add.Scalar"](aten["sub.Tensor"](x1, x2), eps)
    return aten["norm.ScalarOpt_dim"](apart, p, [apart.ndim - 1], keepdim)


def vecdot(aten: Any, x: Any, y: Any, dim: int) -> Any:
    if x.ndim == 1 and y.ndim == 1:
        return aten.vdot(x, y)
    x = aten.clone(aten._conj(x)) if x.is_complex() else x
    return aten["sum.dim_IntList"](aten["mul.Tensor"](x, y), [dim])


def normalize(aten: Any, self: Any, dim: int, eps: float) -> Any:
    length = aten.clamp_min(aten.linalg_vector_norm(self, 2, [dim], True), eps)
    return aten["div.Tensor"](self, aten.expand(length, [*self.shape]))


def cosine_similarity(aten: Any, x1: Any, x2: Any, dim: int, eps: float) -> Any:
    shape = [*broadcast_shapes(tuple(x1.shape), tuple(x2.shape))]
    x2, x1 = (x if [*x.shape] == shape else aten.expand(x, shape) for x in (x2, x1))
    lengths = []
    for x in (x1, x2):
        lengths.append(aten.clone(aten.linalg_vector_norm(x, 2, [dim], True)))
    least = aten.scalar_tensor(eps, dtype=lengths[0].dtype, device=x1.device, pin_memory=False)
    lengths = [aten.unrecorded("clamp_min_.Tensor", n, least) for n in lengths]
    second, first = (aten["div.Tensor"](x, n) for x, n in zip((x2, x1), lengths[::-1], strict=True))
    return aten["sum.dim_IntList"](aten["mul.Tensor"](first, second), [dim])


# -- losses, not reduced -----------------------------------------------------------------------------


def l1_loss(aten: Any, self: Any, target: Any) -> Any:
    return aten.abs(aten["sub.Tensor"](self, target))


def kl_div(aten: Any, self: Any, target: Any) -> Any:
    product = aten["mul.Tensor"](target, self)
    return aten["sub.Tensor"](aten["xlogy.Tensor"](target, target), product)


def margin_ranking_loss(aten: Any, input1: Any, input2: Any, target: Any, margin: float) -> Any:
    gap = aten["sub.Tensor"](input1, input2)
    product = aten["mul.Tensor"](aten.neg(target), gap)
    return aten.clamp_min_(aten["add.Scalar"](product, margin), 0)


def _less(aten: Any, number: float, t: Any) -> Any:
    """``number - t``."""
    return aten["sub_.Tensor"](aten["fill_.Scalar"](aten.empty_like(t), number), t)


def hinge_embedding_loss(aten: Any, self: Any, target: Any, margin: float) -> Any:
    zeros = aten.zeros_like(self)
    near = aten.clamp_min_(_less(aten, margin, self), 0)
    first = aten["where.self"](aten["ne.Scalar"](target, 1), near, zeros)
    second = aten["where.self"](aten["ne.Scalar"](target, -1), self, zeros)
    return aten["add.Tensor"](first, second)


def cosine_embedding_loss(aten: Any, input1: Any, input2: Any, target: Any, margin: float) -> Any:
    dim, least = [target.ndim], 9.999999960041972e-13  # 1e-12 of float32
    dot = aten["sum.dim_IntList"](aten["mul.Tensor"](input1, input2), dim)
    squares = (aten["sum.dim_IntList"](aten["mul.Tensor"](x, x), dim) for x in (input1, input2))
    lengths = aten.sqrt_(aten["mul.Tensor"](*[aten["add.Scalar"](x, least) for x in squares]))
    cosine = aten["div.Tensor"](dot, lengths)
    zeros = aten.zeros_like(cosine)
    apart = _less(aten, 1, cosine)
    near = aten.clamp_min_(aten["sub.Scalar"](cosine, margin), 0)
    first = aten["where.self"](aten["eq.Scalar"](target, 1), apart, zeros)
    second = aten["where.self"](aten["eq.Scalar"](target, -1), near, zeros)
    return aten["add.Tensor"](first, second)


def poisson_nll_loss(log_input: bool, full: bool, aten: Any, input: Any, target: Any, eps: float) -> Any:
    if log_input:
        product = aten["mul.Tensor"](target, input)
        losses = aten["sub.Tensor"](aten.exp(input), product)
    else:
        logarithm = aten.log(aten["add.Scalar"](input, eps))
        losses = aten["sub.Tensor"](input, aten["mul.Tensor"](target, logarithm))
    if not full:
        return losses
    half = aten["mul.Scalar"](aten.log(aten["mul.Scalar"](target, 2 * pi)), 0.5)
    stirling = aten["sub.Tensor"](aten["mul.Tensor"](target, aten.log(target)), target)
    stirling = aten["add.Tensor"](stirling, half)
    stirling = aten["masked_fill.Scalar"](stirling, aten["le.Scalar"](target, 1), 0)
    return aten["add_.Tensor"](losses, stirling)


def multilabel_soft_margin_loss(aten: Any, self: Any, target: Any, weight: Any) -> Any:
    there = aten["mul.Tensor"](target, log_sigmoid(aten, self))
    others = aten["rsub.Scalar"](target, 1)
    absent = aten["mul.Tensor"](others, log_sigmoid(aten, aten.neg(self)))
    losses = aten.neg(aten["add.Tensor"](there, absent))
    losses = losses if weight is None else aten["mul.Tensor"](losses, weight)
    return aten["div.Tensor"](aten["sum.dim_IntList"](losses, [self.ndim - 1]), self.shape[-1])


def triplet_margin_loss(
    swap: bool, aten: Any, anchor: Any, positive: Any, negative: Any, margin: float, p: float, eps: float
) -> Any:
    near = pairwise_distance(aten, anchor, positive, p, eps, False)
    far = pairwise_distance(aten, anchor, negative, p, eps, False)
    far = aten.minimum(far, pairwise_distance(aten, positive, negative, p, eps, False)) if swap else far
    return aten.clamp_min(aten["sub.Tensor"](aten["add.Scalar"](near, margin), far), 0)


# -- products ----------------------------------------------------------------------------------------


def bilinear(aten: Any, input1: Any, input2: Any, weight: Any, bias: Any) -> Any:
    left, right = (aten.reshaped(t, [t.numel() // max(t.shape[-1], 1), t.shape[-1]]) for t in (input1, input2))
    out = aten._trilinear(left, weight, right, [1, 3], [0], [1, 2], [2, 3])
    out = aten.view(out, [*input1.shape[:-1], weight.shape[0]])
    return out if bias is None else aten["add.Tensor"](out, bias)


def fft_c2r(aten: Any, self: Any, dim: Any, normalization: int, last_dim_size: int) -> Any:
    whole = aten.clone(self) if self.is_conj() else self  # its elements are not conjugated one by one
    return aten._fft_c2r(whole, dim, normalization, last_dim_size)


def conj_physical(aten: Any, self: Any) -> Any:
    return aten._conj_physical(self) if self.is_complex() else aten.conj_physical(self)


# -- matrices ----------------------------------------------------------------------------------------


def cross(aten: Any, self: Any, other: Any, dim: int | None) -> Any:
    return aten.linalg_cross(self, other, dim=self.shape.index(3) if dim is None else dim)


def qr(aten: Any, self: Any, some: bool) -> Any:
    return aten.linalg_qr(self, "reduced" if some else "complete")


def det(aten: Any, A: Any) -> Any:
    return aten._linalg_det(A)[0]


def slogdet(aten: Any, A: Any) -> Any:
    return aten._linalg_slogdet(A)[:2]


def logdet(aten: Any, A: Any) -> Any:
    sign, log = aten._linalg_slogdet(A)[:2]
    if A.is_complex():
        return aten["add.Tensor"](aten.log(sign), log)
    negative = aten["eq.Scalar"](sign, -1)
    return aten["where.self"](negative, aten.scalar_tensor(nan, dtype=A.dtype, device=A.device, pin_memory=False), log)


def eigh(aten: Any, self: Any, UPLO: str) -> Any:
    return aten._linalg_eigh(self, UPLO, True)


def eigvalsh(aten: Any, self: Any, UPLO: str) -> Any:
    return aten._linalg_eigh(self, UPLO, self.requires_grad)[0]


def eigvals(aten: Any, self: Any) -> Any:
    return aten.linalg_eig(self)[0]


def cholesky(aten: Any, self: Any, upper: bool) -> Any:
    factor, info = aten.linalg_cholesky_ex(self, upper=upper)
    aten._linalg_check_errors(info, "linalg.cholesky", is_matrix=self.ndim == 2)
    return factor


def inv(aten: Any, A: Any) -> Any:
    inverse, info = aten.linalg_inv_ex(A)
    aten._linalg_check_errors(info, "linalg.inv", is_matrix=A.ndim == 2)
    return inverse


def solve(aten: Any, A: Any, B: Any, left: bool) -> Any:
    solution, _, _, info = aten._linalg_solve_ex(A, B, left=left)
    aten._linalg_check_errors(info, "torch.linalg.solve", is_matrix=A.ndim == 2)
    return solution


def lu_factor(aten: Any, A: Any, pivot: bool) -> Any:
    factors, pivots, info = aten.linalg_lu_factor_ex(A, pivot=pivot)
    aten._linalg_check_errors(info, "torch.linalg.lu_factor", is_matrix=A.ndim == 2)
    return factors, pivots
