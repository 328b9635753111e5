"""As ``_composed``: statistics, quantiles, integrals, powers and products of matrices, windows of channels."""

from __future__ import annotations

from math import prod
from typing import Any

import torchlike._base.dtypes as dtypes
from torchlike._base.dims import wrap_dim
from torchlike._ops._composed import inv

# -- statistics --------------------------------------------------------------------------------------


def _scalar(aten: Any, like: Any, number: Any, dtype: Any) -> Any:
    return aten.scalar_tensor(number, dtype=dtype, device=like.device, pin_memory=False)


def _holds(aten: Any, truth: Any) -> bool:
    """Whether a condition in a tensor holds, which nobody knows of a meta tensor."""
    ones = aten.new_ones(truth, [], dtype=dtypes.bool, device=truth.device, pin_memory=False)
    return not truth.is_meta and aten.equal(truth, ones)


def cov(aten: Any, self: Any, correction: int, fweights: Any, aweights: Any) -> Any:
    x = aten.view(self, [1, -1]) if self.ndim < 2 else self
    for given in (fweights, aweights):
        if given is not None:
            _holds(aten, aten["ge.Scalar"](aten.min(given), 0))
    weights = fweights if aweights is None else aweights
    if fweights is not None and aweights is not None:
        weights = aten["mul.Tensor"](fweights, aweights)
    if weights is None:
        total = _scalar(aten, x, x.shape[1], dtypes.int64)
    else:
        total = aten.sum(weights)
        _holds(aten, aten["ne.Scalar"](total, 0))
    summed = aten["sum.dim_IntList"](x if weights is None else aten["mul.Tensor"](x, weights), [1])
    mean = aten["div.Tensor"](summed, total)
    freedom = _freedom(aten, x, total, correction, weights, aweights)
    if _holds(aten, aten["le.Scalar"](freedom, 0)):
        freedom = aten.zero_(freedom)
    off = aten["sub.Tensor"](x, aten.unsqueeze(mean, 1))
    turned = aten.t(off if weights is None else aten["mul.Tensor"](off, weights))
    turned = aten._conj(turned) if turned.is_complex() else turned
    return aten.squeeze(aten["div.Tensor"](aten.mm(off, turned), freedom))


def _freedom(aten: Any, x: Any, total: Any, correction: int, weights: Any, aweights: Any) -> Any:
    """What the squares are divided by."""
    if weights is None:
        return _scalar(aten, x, x.shape[1] - correction, dtypes.int64)
    if not correction:
        return total
    if aweights is None:
        return aten["sub.Scalar"](total, correction)
    squares = aten["mul.Scalar"](aten.sum(aten["mul.Tensor"](weights, aweights)), correction)
    return aten["sub.Tensor"](total, aten["div.Tensor"](squares, total))


def corrcoef(aten: Any, self: Any) -> Any:
    found = cov(aten, self, 1, None, None)
    if not found.ndim:
        return aten["div.Tensor"](found, found)
    part = lambda t, i: aten["select.int"](aten.view_as_real(t), t.ndim, i)  # noqa: E731
    spread = aten.diagonal(found)
    spread = aten.sqrt(part(spread, 0) if found.is_complex() else spread)
    found = aten["div.Tensor"](found, aten.view(spread, [-1, 1]))
    found = aten["div.Tensor"](found, aten.view(spread, [1, -1]))
    if not found.is_complex():
        return aten.clamp(found, -1, 1)
    imaginary, real = (aten.clamp(part(found, i), -1, 1) for i in (1, 0))
    return aten.complex(real, imaginary)


def quantile(nan: bool, aten: Any, self: Any, q: Any, dim: int | None, keepdim: bool, interpolation: str) -> Any:
    """The quantiles, of the elements that are not ``nan`` with it."""
    q = _scalar(aten, self, q, self.dtype) if isinstance(q, float | int) else q
    rows, shape = _in_rows(aten, self, dim, keepdim)
    rows = aten.view(aten.sort(rows)[0], [*shape, rows.shape[-1]])
    ranks = (_ranks_beside_nan if nan else _ranks)(aten, rows, q, [*shape, max(q.numel(), 1)])
    if interpolation in ("lower", "higher", "nearest"):
        ranks = aten[{"lower": "floor_", "higher": "ceil_", "nearest": "round_"}[interpolation]](ranks)
    below = aten._to_copy(ranks, dtype=dtypes.int64)
    found = aten.gather(rows, -1, below)
    if interpolation in ("linear", "midpoint"):
        weights = aten["sub.Tensor"](ranks, below) if interpolation == "linear" else aten.full_like(ranks, 0.5)
        above = aten._to_copy(aten.ceil_(ranks), dtype=dtypes.int64)
        found = aten["lerp_.Tensor"](found, aten.gather(rows, -1, above), weights)
    if q.ndim:
        found = aten.transpose_(aten.unsqueeze_(found, 0), 0, -1)
    return aten["squeeze_.dim"](found, -1)


def _in_rows(aten: Any, self: Any, dim: int | None, keepdim: bool) -> tuple[Any, list[int]]:
    """The elements of each quantile in the last dimension, and the shape of the result for one of them."""
    n = self.ndim
    if dim is None:
        return self if n == 1 else aten.reshaped(self, [self.numel()]), [1] * n if keepdim else []
    dim = wrap_dim(dim, n)
    shape = [*self.shape]
    if not n:
        return aten["transpose.int"](aten.unsqueeze(self, -1), dim, -1), shape
    shape[dim : dim + 1] = [1] if keepdim else []
    if dim == n - 1:
        return self, shape
    return aten["transpose.int"](aten.unsqueeze(self, -1), dim, -1), shape


def _ranks(aten: Any, rows: Any, q: Any, shape: list[int]) -> Any:
    last = rows.shape[-1] - 1
    ranks = aten["mul.Scalar"](q, last)
    lost = aten["any.dim"](aten.isnan(rows), -1, True)
    ranks = ranks if [*ranks.shape] == shape else aten.expand(ranks, shape)
    lost = lost if [*lost.shape] == shape else aten.expand(lost, shape)
    return aten["masked_fill.Scalar"](ranks, lost, last)


def _ranks_beside_nan(aten: Any, rows: Any, q: Any, shape: list[int]) -> Any:
    there = aten.logical_not_(aten.isnan(rows))
    ranks = aten["mul.Tensor"](q, aten["sub.Scalar"](aten["sum.dim_IntList"](there, [-1], True), 1))
    return aten["masked_fill_.Scalar"](ranks, aten["lt.Scalar"](ranks, 0), 0)


# -- integrals ---------------------------------------------------------------------------------------


def _pairs(aten: Any, t: Any, dim: int) -> tuple[Any, Any]:
    """All but the last and all but the first of one dimension."""
    return aten["slice.Tensor"](t, dim, 0, -1), aten["slice.Tensor"](t, dim, 1)


def integral(total: bool, aten: Any, y: Any, x: Any, dim: int) -> Any:
    dim = wrap_dim(dim, y.ndim)
    if x.ndim == 1:
        x = aten.view(x, [len(x) if i == dim else 1 for i in range(y.ndim)])
    elif x.ndim < y.ndim:
        x = aten.view(x, [1] * (y.ndim - x.ndim) + [*x.shape])
    left, right = _pairs(aten, x, dim)
    width = aten["sub.Tensor"](right, left)
    area = aten["mul.Tensor"](aten["add.Tensor"](*_pairs(aten, y, dim)), width)
    area = aten["sum.dim_IntList"](area, [dim]) if total else aten.cumsum(area, dim)
    return aten["div.Scalar"](area, 2.0)


def even_integral(total: bool, aten: Any, y: Any, dx: float, dim: int) -> Any:
    if not total:
        pairs = aten["add.Tensor"](*_pairs(aten, y, dim))
        return aten.cumsum(aten["mul.Scalar"](pairs, dx / 2), dim)
    last, first = aten["select.int"](y, dim, -1), aten["select.int"](y, dim, 0)
    ends = aten["mul.Scalar"](aten["add.Tensor"](last, first), 0.5)
    return aten["mul.Scalar"](aten["sub.Tensor"](aten["sum.dim_IntList"](y, [dim]), ends), float(dx))


# -- matrices ----------------------------------------------------------------------------------------


def vander(aten: Any, x: Any, N: int | None) -> Any:
    x = x if x.ndim else aten.unsqueeze(x, -1)
    n = x.shape[-1] if N is None else N
    powers = aten.cumprod(aten.expand(aten.unsqueeze(x, -1), [*x.shape, n - 1]), -1)
    return aten.cat([aten.new_ones(powers, [*x.shape, 1]), powers], -1)


def _product(aten: Any, a: Any, b: Any) -> Any:
    """``a @ b`` of equally many square matrices."""
    if a.ndim == 2:
        return aten.mm(a, b)
    shape = [*a.shape]
    flat = [prod(shape[:-2]), *shape[-2:]]
    a, b = (aten.reshaped(aten.expand(t, shape), flat) for t in (a, b))
    return aten._unsafe_view(aten.bmm(a, b), shape)


def matrix_power(aten: Any, self: Any, n: int) -> Any:
    if n < 0:
        return matrix_power(aten, inv(aten, self), -n) if n < -1 else inv(aten, self)
    if n < 2:
        copy = aten.packed(self)
        if n:
            return copy
        eye = aten.eye(self.shape[-1], dtype=self.dtype, device=self.device, pin_memory=False)
        return aten.copy_(copy, eye)
    if n == 3:
        return _product(aten, _product(aten, self, self), self)
    power, found = None, None
    while n:
        power = self if power is None else _product(aten, power, power)
        if n % 2:
            found = power if found is None else _product(aten, found, power)
        n //= 2
    return found


def multi_dot(aten: Any, tensors: Any) -> Any:
    first, *_, last = tensors
    shape = [*first.shape[:-1], *last.shape[1:]]
    chain = list(tensors)
    if first.ndim == 1:
        chain[0] = aten.unsqueeze(first, 0)
    if last.ndim == 1:
        chain[-1] = aten.unsqueeze(last, -1)
    sizes = [chain[0].shape[0], *[t.shape[1] for t in chain]]
    return aten.view(_chained(aten, chain, _order(sizes), 0, len(chain) - 1), shape)


def _order(sizes: list[int]) -> dict[tuple[int, int], int]:
    """{(first, last): after which matrix a chain is cut}, with the fewest multiplications."""
    n = len(sizes) - 1
    cost, cut = {(i, i): 0 for i in range(n)}, {}
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            costs = [cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1] for k in range(i, j)]
            cost[i, j] = min(costs)
            cut[i, j] = i + costs.index(cost[i, j])
    return cut


def _chained(aten: Any, chain: Any, cut: dict[tuple[int, int], int], i: int, j: int) -> Any:
    if i == j:
        return chain[i]
    k = cut[i, j]
    left, right = _chained(aten, chain, cut, i, k), _chained(aten, chain, cut, k + 1, j)
    return aten.mm(left, right)


def svd(aten: Any, A: Any, full_matrices: bool, driver: str | None) -> Any:
    return aten._linalg_svd(A, full_matrices, True, driver=driver)


def svdvals(aten: Any, A: Any, driver: str | None) -> Any:
    return aten._linalg_svd(A, False, A.requires_grad, driver=driver)[1]


def ldl_factor(aten: Any, self: Any, hermitian: bool) -> Any:
    factors, pivots, info = aten.linalg_ldl_factor_ex(self, hermitian=hermitian)
    aten._linalg_check_errors(info, "torch.linalg.ldl_factor", is_matrix=self.ndim == 2)
    return factors, pivots


def solve_ex(aten: Any, A: Any, B: Any, left: bool, check_errors: bool) -> Any:
    result, _, _, info = aten._linalg_solve_ex(A, B, left=left, check_errors=check_errors)
    return result, info


def matrix_rank(aten: Any, self: Any, atol: Any, rtol: Any, hermitian: bool) -> Any:
    place: Any = {"device": self.device}
    rank = aten["empty.memory_format"]([*self.shape[:-2]], dtype=dtypes.int64, **place)
    atol, rtol = _tolerances(aten, self, atol, rtol, place)
    if not self.numel():
        return aten["fill_.Scalar"](rank, 0)
    if hermitian:
        values = aten.abs(aten._linalg_eigh(self, "L", False)[0])
        largest = aten.amax(values, [-1], True)
    else:
        values = aten._linalg_svd(self, False, False)[1]
        largest = aten["slice.Tensor"](values, -1, 0, 1)
    relative = aten["mul.Tensor"](aten.unsqueeze(rtol, -1), largest)
    least = aten.maximum(aten.unsqueeze(atol, -1), relative)
    return aten["sum.dim_IntList"](aten["gt.Tensor"](values, least), [-1])


def _tolerances(aten: Any, self: Any, atol: Any, rtol: Any, place: Any) -> tuple[Any, Any]:
    """Both as tensors; the relative one is by default that of the dtype, 0 beside an absolute one."""
    fine = dtypes.finfo(self.dtype).eps * max(self.shape[-2:])
    full = lambda x: aten.full([], float(x), dtype=dtypes.float64, **place)  # noqa: E731
    zeros = lambda dtype: aten.zeros([], dtype=dtype, **place)  # noqa: E731
    numbers = [x is None or isinstance(x, float | int) for x in (atol, rtol)]
    if atol is None and rtol is None:
        return zeros(dtypes.float64), full(fine)
    if all(numbers):
        return full(atol or 0.0), full((0.0 if atol else fine) if rtol is None else rtol)
    if numbers[0]:
        return zeros(dtypes.float64) if atol is None else full(atol), rtol
    if rtol is None:
        usual = full(fine)
        none = zeros(dtypes.float64)
        return atol, aten["where.self"](aten["gt.Scalar"](atol, 0), none, usual)
    return atol, (zeros(atol.dtype) if rtol == 0 else full(rtol)) if numbers[1] else rtol


def pinv(aten: Any, self: Any, atol: Any, rtol: Any, hermitian: bool) -> Any:
    if isinstance(atol, float | int) or isinstance(rtol, float | int):
        full = lambda x: aten.full([], float(x), dtype=dtypes.float64, device=self.device, pin_memory=False)  # noqa: E731
        atol, rtol = (full(x or 0.0) if x is None or isinstance(x, float | int) else x for x in (atol, rtol))
    return aten["linalg_pinv.atol_rtol_tensor"](self, atol=atol, rtol=rtol, hermitian=hermitian)


# -- copies and windows ------------------------------------------------------------------------------


def isin(aten: Any, self: Any, test_elements: Any, invert: bool) -> Any:
    kinds = ["Scalar" if isinstance(x, float | int) else "Tensor" for x in (self, test_elements)]
    return aten["isin." + "_".join(kinds)](self, test_elements, invert=invert)


def diagonal_copy(aten: Any, self: Any, diagonal: int) -> Any:
    return aten.diagonal_copy(self, diagonal)


def repeat_interleave(aten: Any, self: Any, repeats: int, dim: int | None) -> Any:
    x = self if dim is not None or self.ndim == 1 else aten.reshaped(self, [self.numel()])
    dim = wrap_dim(dim or 0, x.ndim)
    before, n, after = [*x.shape[:dim]], x.shape[dim], [*x.shape[dim + 1 :]]
    wide = aten.expand(aten.unsqueeze(x, dim + 1), [*before, n, repeats, *after])
    return aten.view(aten.packed(wide), [*before, n * repeats, *after])


def pad_circular(aten: Any, self: Any, pad: Any) -> Any:
    sides = {self.ndim - 1 - i: (pad[2 * i], pad[2 * i + 1]) for i in range(len(pad) // 2)}
    shape = [n + sum(sides.get(i, (0, 0))) for i, n in enumerate(self.shape)]
    out = aten.new_empty(self, shape, dtype=self.dtype, device=self.device, pin_memory=False)
    inner, given = out, self
    for dim, (low, high) in sides.items():
        inner = aten["slice.Tensor"](inner, dim, max(low, 0), shape[dim] - max(high, 0))
        given = aten["slice.Tensor"](given, dim, max(-low, 0), self.shape[dim] - max(-high, 0))
    aten.copy_(inner, given)
    for dim, (low, high) in sides.items():
        n, end = shape[dim], shape[dim] - max(high, 0)
        for to, source, length in ((0, end - low, low), (n - high, max(low, 0), high)):
            if length > 0:
                there = aten["slice.Tensor"](out, dim, to, to + length)
                aten.copy_(there, aten["slice.Tensor"](out, dim, source, source + length))
    return out


def local_response_norm(aten: Any, input: Any, size: int, alpha: float, beta: float, k: float) -> Any:
    squares, edges, shape = aten["mul.Tensor"](input, input), [size // 2, (size - 1) // 2], [*input.shape]
    if input.ndim == 3:
        padded = aten.constant_pad_nd(aten.unsqueeze(squares, 1), [0, 0, *edges], 0.0)
        mean = aten["squeeze.dim"](aten.avg_pool2d(padded, [size, 1], [1, 1]), 1)
    else:
        rows = aten.view(squares, [shape[0], 1, *shape[1:3], prod(shape[3:])])
        padded = aten.constant_pad_nd(rows, [0, 0, 0, 0, *edges], 0.0)
        mean = aten["squeeze.dim"](aten.avg_pool3d(padded, [size, 1, 1], [1, 1, 1]), 1)
        mean = aten.view(mean, shape)
    scale = aten["add.Tensor"](aten["mul.Tensor"](mean, alpha), k)
    return aten["div.Tensor"](input, aten["pow.Tensor_Scalar"](scale, beta))


# -- losses, not reduced -----------------------------------------------------------------------------


def kl_div_log(aten: Any, self: Any, target: Any) -> Any:
    gap = aten["sub.Tensor"](target, self)
    return aten["mul.Tensor"](aten.exp(target), gap)


def gaussian_nll_loss(aten: Any, input: Any, target: Any, var: Any, eps: float) -> Any:
    negative = aten.any(aten["lt.Scalar"](var, 0))
    if not var.is_meta and aten._local_scalar_dense(negative):
        raise ValueError("var has negative entry/entries; gaussian_nll_loss takes variances")
    var = aten.unrecorded("clamp_", aten.clone(var), eps)
    logarithm = aten.log(var)
    squares = aten["pow.Tensor_Scalar"](aten["sub.Tensor"](input, target), 2)
    losses = aten["add.Tensor"](logarithm, aten["div.Tensor"](squares, var))
    return aten["mul.Tensor"](losses, 0.5)


def multilabel_margin_loss(aten: Any, self: Any, target: Any, reduction: int) -> Any:
    return aten.multilabel_margin_loss_forward(self, target, reduction)[0]
