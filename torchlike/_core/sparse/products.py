"""Matrix products."""

from __future__ import annotations

from typing import Any

from torchlike._core.autograd import node as nodes
from torchlike._core.dispatch.bind import FUNCTIONS
from torchlike._core.sparse import kernels
from torchlike._core.sparse.arithmetic import _conjugate, merged
from torchlike._core.sparse.rules import COMPOSITES, rule
from torchlike._core.sparse.structure import as_coo, coalesced, compress, like, places_of, with_values, zeros
from torchlike._core.sparse.value import Compressed, Coo, coo_of, layout_name, unsupported, value
from torchlike._core.tensor.tensor import Tensor, fresh, sparse_csr
from torchlike._executor.sparse import refuse


def adjoint(t: Tensor) -> Tensor:
    """The conjugate transpose of a matrix."""
    return _conjugate(t.t())


def _demand_matrices(name: str, left: Tensor, right: Tensor) -> None:
    if left.ndim != 2 or right.ndim != 2:
        raise RuntimeError(f"{name}: matrices expected, got {left.ndim}D and {right.ndim}D tensors")
    if left.shape[1] != right.shape[0]:
        raise RuntimeError(
            f"{name}: mat1 and mat2 shapes cannot be multiplied ({left.shape[0]}x{left.shape[1]} and "
            f"{right.shape[0]}x{right.shape[1]})"
        )
    if left.dtype is not right.dtype:
        raise RuntimeError(f"{name}: expected m1 and m2 to have the same dtype, but got: {left.dtype} != {right.dtype}")


def multiplied(base: Tensor | None, left: Tensor, right: Tensor, name: str = "mm") -> Tensor:
    """``base`` (zeros if None) plus the product of two matrices, one of them sparse at least."""
    _demand_matrices(name, left, right)
    a, b = value(left), value(right)
    if a is not None and b is not None:
        rows = isinstance(a, Compressed) and isinstance(b, Compressed) and not a.block and not b.block
        if not rows and layout_name(left) != layout_name(right):
            raise RuntimeError(
                f"{name}: computation on CPU is not implemented for {layout_name(left)} @ {layout_name(right)}; "
                "convert one with .to_sparse_coo() or .to_sparse_csr()"
            )
        product = _both_sparse(coalesced(as_coo(left)), coalesced(as_coo(right)))
        if isinstance(a, Compressed) and isinstance(b, Compressed) and a.block:
            return fresh(compress(product, a.layout, (a.block[0], b.block[1])))
        return fresh(compress(product, sparse_csr)) if rows else like(product, left)
    if isinstance(a, Compressed) and a.block:
        return _by_blocks(base, a, right)
    if a is None:
        if isinstance(b, Compressed) and b.block:
            other = value(right.t())
            assert isinstance(other, Compressed)
            return _by_blocks(None if base is None else base.t(), other, left.t()).t().contiguous()
        turned = as_coo(right)
        turned = Coo(turned.indices.flip(0), turned.values, tuple(right.shape)[::-1], False, turned.within)
        product = _by_rows(None if base is None else base.t(), turned, left.t()).t()
        return product.contiguous() if base is not None or isinstance(b, Compressed) else product
    return _by_rows(base, as_coo(left), right)


def _by_blocks(base: Tensor | None, v: Compressed, right: Tensor) -> Tensor:
    v.demand_within()
    base = zeros((v.shape[0], right.shape[1]), right) if base is None else base
    return kernels.block_product(base, places_of(v), v.values, right)


def _by_rows(base: Tensor | None, v: Coo, right: Tensor) -> Tensor:
    v.demand_within()
    if base is None:
        base = zeros((v.shape[0], right.shape[1]), right)
    if v.sparse_dim != 2:
        raise RuntimeError(
            f"addmm: matrices expected, got {v.sparse_dim}D tensor of {v.ndim - v.sparse_dim} dense dims"
        )
    return kernels.product(base, v.indices, v.values, right)


def _both_sparse(a: Coo, b: Coo) -> Coo:
    """The product of two coalesced matrices: a pair for each entry of ``a`` and entry of ``b`` in the row it names."""
    if a.sparse_dim != 2 or b.sparse_dim != 2:
        refuse("product with a hybrid tensor, mm() of two sparse tensors")
    from_, to = kernels.row_range(b.indices[0].contiguous(), a.indices[1].contiguous())
    counts = to - from_
    mine = counts.new_tensor(range(0)) if not a.nnz else _repeated(counts)
    starts = counts.cumsum(0) - counts
    places = _counting(mine) - starts.index_select(0, mine) + from_.index_select(0, mine)
    indices = kernels.stacked(a.indices[0].index_select(0, mine), b.indices[1].index_select(0, places))
    values = a.values.index_select(0, mine) * b.values.index_select(0, places)
    return coalesced(Coo(indices, values, (a.shape[0], b.shape[1])))


def _repeated(counts: Tensor) -> Tensor:
    return _counting(counts).repeat_interleave(counts)


def _counting(t: Tensor) -> Tensor:
    return t.new_ones(t.shape[0]).cumsum(0) - 1


@rule("mm")
def _mm(ctx: Any, self: Tensor, mat2: Tensor) -> Tensor:
    left, right = ctx.needs_input_grad

    def back(grad: Tensor, self: Any, mat2: Any) -> list[Any]:
        return [grad.mm(adjoint(mat2)) if left else None, adjoint(self).mm(grad) if right else None]

    ctx.saves(back, self=self if right else None, mat2=mat2 if left else None)
    return multiplied(None, self, mat2)


def _matmul(self: Tensor, other: Tensor) -> Tensor:
    if not isinstance(self, Tensor) or not isinstance(other, Tensor):
        raise TypeError(
            f"matmul(): both operands must be Tensor, got {type(self).__name__} and {type(other).__name__}; numbers "
            "multiply by *"
        )
    if self.ndim == 2 and other.ndim == 2:
        return self.mm(other)
    if self.ndim == 2 and other.ndim == 1:
        return self.mv(other)
    if self.ndim == 1 and other.ndim == 2 and value(self) is None:
        return self.unsqueeze(0).mm(other).squeeze(0)
    if self.ndim == 3 and other.ndim == 3:
        return self.bmm(other)
    raise unsupported("matmul of these shapes: matmul", self, other)


def _linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    if input.ndim == 1 and bias is None and value(input) is None:
        return weight.mv(input)
    return input.mm(weight.t()) if bias is None else FUNCTIONS["addmm"](bias, input, weight.t())


COMPOSITES["matmul"], COMPOSITES["linear"] = _matmul, _linear


@rule("addmm")
def _addmm(ctx: Any, self: Tensor, mat1: Tensor, mat2: Tensor, beta: Any = None, alpha: Any = None) -> Tensor:
    _, left, right = ctx.needs_input_grad[:3]
    beta, alpha = 1 if beta is None else beta, 1 if alpha is None else alpha
    shape = tuple(self.shape)

    def back(grad: Tensor, mat1: Any, mat2: Any) -> list[Any]:
        return [
            _spread_back(grad, shape) * beta,
            grad.mm(adjoint(mat2)) * alpha if left else None,
            adjoint(mat1).mm(grad) * alpha if right else None,
            None,
            None,
        ]

    ctx.saves(back, mat1=mat1 if right else None, mat2=mat2 if left else None)
    return _scaled_sum(self, mat1, mat2, beta, alpha, "addmm")


def _scaled_sum(self: Tensor, mat1: Tensor, mat2: Tensor, beta: Any, alpha: Any, name: str) -> Tensor:
    _demand_matrices(name, mat1, mat2)
    if value(self) is None:
        base = self.expand(mat1.shape[0], mat2.shape[1])
        base = zeros(base.shape, mat1) if beta == 0 else base if beta == 1 else base * beta
        both = value(mat1) is not None and value(mat2) is not None
        if both and coo_of(mat1) is not None:
            raise unsupported(f"a dense tensor plus the product of two sparse ones: {name}", mat1, mat2)
        if alpha == 1 and not both:
            return multiplied(base.contiguous(), mat1, mat2, name)
        return base + multiplied(None, mat1, mat2, name) * alpha
    product = multiplied(None, mat1, mat2, name)
    if value(product) is None:
        raise unsupported(f"a sparse tensor plus a dense product: {name}", self)
    return self * beta + product * alpha


def _spread_back(grad: Tensor, shape: tuple[int, ...]) -> Tensor:
    return grad if tuple(grad.shape) == shape or value(grad) is not None else grad.sum_to_size(shape)


@rule("mv")
def _mv(ctx: Any, self: Tensor, vec: Tensor) -> Tensor:
    left, right = ctx.needs_input_grad
    if value(vec) is not None or vec.ndim != 1:
        raise unsupported("mv with a sparse vector: mv", vec)

    def back(grad: Tensor, self: Any, vec: Any) -> list[Any]:
        return [grad.outer(_conjugate(vec)) if left else None, adjoint(self).mv(grad) if right else None]

    ctx.saves(back, self=self if right else None, vec=vec if left else None)
    return multiplied(None, self, vec.unsqueeze(1), "mv").squeeze(1)


@rule("addmv")
def _addmv(ctx: Any, self: Tensor, mat: Tensor, vec: Tensor, beta: Any = None, alpha: Any = None) -> Tensor:
    _, left, right = ctx.needs_input_grad[:3]
    beta, alpha = 1 if beta is None else beta, 1 if alpha is None else alpha
    if value(vec) is not None or value(self) is not None or vec.ndim != 1:
        raise unsupported("addmv but of a sparse matrix and dense vectors: addmv", self, mat, vec)
    shape = tuple(self.shape)

    def back(grad: Tensor, mat: Any, vec: Any) -> list[Any]:
        return [
            _spread_back(grad, shape) * beta,
            grad.outer(_conjugate(vec)) * alpha if left else None,
            adjoint(mat).mv(grad) * alpha if right else None,
            None,
            None,
        ]

    ctx.saves(back, mat=mat if right else None, vec=vec if left else None)
    column = self.expand(mat.shape[0]).unsqueeze(1)
    return _scaled_sum(column, mat, vec.unsqueeze(1), beta, alpha, "addmv").squeeze(1)


@rule("bmm")
def _bmm(ctx: Any, self: Tensor, mat2: Tensor) -> Tensor:
    left, right = ctx.needs_input_grad
    v = coo_of(self)
    if v is None or value(mat2) is not None or v.sparse_dim != 3:
        raise unsupported("bmm but of a sparse COO tensor and a dense one: bmm", self, mat2)
    if mat2.ndim != 3 or tuple(self.shape)[::2] != tuple(mat2.shape)[:2]:
        raise RuntimeError(f"bmm: the sizes {list(self.shape)} and {list(mat2.shape)} do not fit")

    def back(grad: Tensor, self: Any, mat2: Any) -> list[Any]:
        of_self = grad.bmm(_conjugate(mat2).transpose(1, 2)) if left else None
        return [of_self, _conjugate(self.transpose(1, 2)).bmm(grad) if right else None]

    ctx.saves(back, self=self if right else None, mat2=mat2 if left else None)
    v.demand_within()
    base = zeros((v.shape[0], v.shape[1], mat2.shape[2]), mat2)
    return kernels.batched_product(base, v.indices, v.values, mat2)


def sparse_addmm(ctx: Any, self: Tensor, mat1: Tensor, mat2: Tensor, beta: Any, alpha: Any) -> Tensor:
    """As ``addmm``, where the gradient of the sparse matrix has its places only."""
    _, left, right = ctx.needs_input_grad[:3]
    shape = tuple(self.shape)

    def back(grad: Tensor, mat1: Any, mat2: Any) -> list[Any]:
        if left and value(mat1) is None:
            raise RuntimeError(
                "sparse_addmm_sparse_backward: unsupported combination of layouts, grad: Strided, mat1: Strided, mat2: "
                f"{layout_name(mat2)}; torch.addmm() has a gradient there"
            )
        of_mat1 = masked_product(grad, adjoint(mat2), mat1) * alpha if left else None
        return [
            _spread_back(grad, shape) * beta,
            of_mat1,
            adjoint(mat1).mm(grad) * alpha if right else None,
            None,
            None,
        ]

    ctx.saves(back, mat1=mat1 if left or right else None, mat2=mat2 if left else None)
    return _scaled_sum(self, mat1, mat2, beta, alpha, "addmm")


def masked_product(left: Tensor, right: Tensor, mask: Tensor) -> Tensor:
    """The elements of ``left @ right``, of dense matrices, at the places of ``mask``."""
    mask = merged(mask)  # a gradient at a place is that of all values that share it
    v = as_coo(mask)
    if nodes.requires_grad(left) or nodes.requires_grad(right):
        return (left @ right).sparse_mask(mask)
    return with_values(mask, kernels.inner(left, right, v.indices))


def sampled_addmm(ctx: Any, self: Tensor, mat1: Tensor, mat2: Tensor, beta: Any, alpha: Any) -> Tensor:
    """The product of two dense matrices at the places of ``self``, added to it."""
    first, left, right = ctx.needs_input_grad[:3]

    def back(grad: Tensor, self: Tensor, mat1: Any, mat2: Any) -> list[Any]:
        grad = grad.sparse_mask(self)
        return [
            grad * _conjugate(beta) if first else None,
            grad.mm(adjoint(mat2)) * _conjugate(alpha) if left else None,
            adjoint(mat1).mm(grad) * _conjugate(alpha) if right else None,
            None,
            None,
        ]

    ctx.saves(back, self.detach(), mat1 if right else None, mat2 if left else None)
    product = value(masked_product(mat1, mat2, self)).values
    return with_values(self, value(self).values.mul(beta) + product.mul(alpha))


def sparse_matmul(ctx: Any, mat1: Tensor, mat2: Tensor) -> Tensor:
    """The product of two sparse matrices, whose gradients have the places of the operands only."""
    left, right = ctx.needs_input_grad

    def back(grad: Tensor, mat1: Tensor, mat2: Tensor) -> list[Any]:
        return [
            _at(grad.mm(adjoint(mat2)), mat1) if left else None,
            _at(adjoint(mat1).mm(grad), mat2) if right else None,
        ]

    ctx.saves(back, mat1, mat2)
    return multiplied(None, mat1, mat2)


def _at(t: Tensor, mask: Tensor) -> Tensor:
    if value(t) is None or isinstance(value(mask), Compressed):
        return t
    v = coo_of(mask)
    return t.sparse_mask(mask if v is None or v.coalesced else mask.coalesce())
