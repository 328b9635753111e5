"""Sums, products and functions of elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from torchlike._base import promotion
from torchlike._core.autograd import node as nodes
from torchlike._core.conversion.convert import host
from torchlike._core.dispatch.dispatch import call
from torchlike._core.sparse import kernels
from torchlike._core.sparse.rules import COMPOSITES, DISTINCT, INPLACE, LOOSE, RULES, WITHIN, recorded, replaced, rule
from torchlike._core.sparse.structure import as_coo, coalesced, emptied, like, masked, numbers, with_values
from torchlike._core.sparse.value import Compressed, Coo, coo_of, layout_name, put_on, unsupported, value
from torchlike._core.tensor.mutation import write_silently
from torchlike._core.tensor.tensor import Tensor, fresh, value_of
from torchlike._decl.op import REGISTRY
from torchlike._executor.immediate import Tracer
from torchlike._executor.level import LevelValue


def merged(t: Tensor) -> Tensor:
    """``t`` with each place once."""
    v = coo_of(t)
    return t if v is None or v.coalesced else fresh(coalesced(v))


def _number(x: Any) -> bool:
    return not isinstance(x, Tensor) or (value(x) is None and not x.ndim)


# -- sums --------------------------------------------------------------------------------------------


@rule("add of values")
def _accumulated(ctx: Any, self: Tensor, other: Tensor) -> Tensor:
    a, b = coo_of(self), coo_of(other)
    if a is None or b is None or a.sparse_dim != b.sparse_dim or self.dtype is not other.dtype:
        if a is not None and value(other) is None:
            self, other = other, self
        return _sum(self, other, 1)
    return fresh(_merged_sum(a, b, 1, self.dtype, gradients=True))


@rule("add.Tensor")
def _add(ctx: Any, self: Any, other: Any, alpha: Any = None) -> Tensor:
    ctx.saves(lambda grad: [grad, grad if alpha is None else grad * alpha, None])
    return _sum(self, other, 1 if alpha is None else alpha)


@rule("sub.Tensor")
def _sub(ctx: Any, self: Any, other: Any, alpha: Any = None) -> Tensor:
    factor = 1 if alpha is None else alpha
    if isinstance(value(self), Compressed) or isinstance(value(other), Compressed):
        raise RuntimeError(f"sub(): unsupported tensor layout: {layout_name(self if value(self) else other)}")
    ctx.saves(lambda grad: [grad, -grad if alpha is None else grad * -alpha, None])
    return _sum(self, other, -factor)


def _demand_same_size(self: Any, other: Any) -> None:
    left, right = (list(x.shape) if isinstance(x, Tensor) else [] for x in (self, other))
    if left != right and isinstance(value(self), Compressed):
        raise RuntimeError(
            f"torch.add: Expected input tensors to have the same shape, but got tensor `self` with shape {left} and "
            f"tensor `other` with shape {right}"
        )
    if left != right:
        kind = "dense-sparse" if coo_of(other) else "op2-sparse"
        raise RuntimeError(
            f"add: expected 'self' and 'other' to have same size, but self has size {left} while other has size "
            f"{right} (FYI: {kind} addition does not currently support broadcasting)"
        )


def _sum(self: Any, other: Any, alpha: Any) -> Tensor:
    if coo_of(self) is not None and value(other) is None:
        raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
    if not isinstance(other, Tensor) or (value(other) is not None and _number(self)):
        left, right = ([], list(other.shape)) if _number(self) else ([], list(self.shape))
        kind = "dense-sparse" if coo_of(other) else "op2-sparse"
        raise RuntimeError(
            f"add: expected 'self' and 'other' to have same size, but self has size {left} while other has size "
            f"{right} (FYI: {kind} addition does not currently support broadcasting)"
        )
    _demand_same_size(self, other)
    kind = promotion.promote_types(self.dtype, other.dtype)
    if value(self) is None or value(other) is None:
        full, part = (self, as_coo(other)) if value(self) is None else (other, as_coo(self))
        part.demand_within()
        if full is other and alpha != 1:
            full, alpha = full * alpha, 1
        return kernels.added(full.to(kind), part.indices, part.values.to(kind), alpha)
    if layout_name(self) != layout_name(other):
        raise unsupported("add of two layouts: add", self, other)
    total = _merged_sum(as_coo(self), as_coo(other), alpha, kind)
    return like(total, self)


def _in_order(v: Coo) -> bool:
    """Whether the places are sorted and distinct, said or not."""
    v.demand_within()
    return v.coalesced or bool(np.all(np.diff(numbers(v)) > 0))


def _merged_sum(a: Coo, b: Coo, alpha: Any, kind: Any, gradients: bool = False) -> Coo:
    left, right = a.values.to(kind), b.values.to(kind)
    right = right if alpha == 1 else (right * alpha).to(kind)
    if a.sparse_dim != b.sparse_dim:
        for v, values, empty in ((a, left, b), (b, right, a)):
            if not empty.nnz:
                return Coo(v.indices, values, v.shape, v.coalesced, v.within)
        raise RuntimeError(
            f"add: expected 'self' and 'other' to have same number of sparse dimensions, but got {a.sparse_dim} and "
            f"{b.sparse_dim}"
        )
    both = a.coalesced and b.coalesced
    if a.indices is b.indices or a.indices._storage is b.indices._storage:
        return Coo(a.indices, left + right, a.shape, both, a.within)
    traced = gradients and any(isinstance(value_of(v.indices), Tracer | LevelValue) for v in (a, b))
    if both or (not traced and _in_order(a) and _in_order(b)):
        return _union(a, b, left, right, both)
    if not traced and a.nnz == b.nnz and np.array_equal(host(a.indices), host(b.indices)):
        return Coo(a.indices, left + right, a.shape, False, a.within)
    indices = kernels.joined(a.indices, b.indices)
    return Coo(indices, kernels.appended(left, right), a.shape, False, a.within and b.within)


def _union(a: Coo, b: Coo, left: Tensor, right: Tensor, both: bool) -> Coo:
    """The sum of two tensors whose places are in order; ``both``: whether both are known to be."""
    mine, others = numbers(a), numbers(b)
    places = np.union1d(mine, others)
    device = left.device
    base = left.new_zeros((len(places), *left.shape[1:]))
    sums = kernels.summed(base, put_on(np.searchsorted(places, mine), device), left)
    sums = kernels.summed(sums, put_on(np.searchsorted(places, others), device), right)
    return Coo(_indices_of(places, a.lengths(), a.indices.device), sums, a.shape, both)


def _indices_of(places: np.ndarray, lengths: tuple[int, ...], device: Any) -> Tensor:
    rows = np.unravel_index(places, lengths) if lengths else ()
    return put_on(np.array(rows, np.int64).reshape(len(lengths), len(places)), device)


# -- products ----------------------------------------------------------------------------------------


@rule("mul.Tensor")
def _mul(ctx: Any, self: Any, other: Any) -> Tensor:
    if not isinstance(self, Tensor) or not isinstance(other, Tensor):
        factor = other if isinstance(self, Tensor) else self
        ctx.saves(lambda grad: [grad * _conjugate(factor) if isinstance(x, Tensor) else None for x in (self, other)])
        return _product(self, other)
    left, right = ctx.needs_input_grad
    alone = [not x.ndim for x in (self, other)]

    def back(grad: Tensor, self: Any, other: Any) -> list[Any]:
        of_self = _to_number(grad * _conjugate(other), alone[0]) if left else None
        return [of_self, _to_number(grad * _conjugate(self), alone[1]) if right else None]

    ctx.saves(back, self=self if right else None, other=other if left else None)
    return _product(self, other)


LOOSE.add("mul")


def _conjugate(x: Any) -> Any:
    if isinstance(x, Tensor):
        if not x.is_complex():
            return x
        return x.conj() if value(x) is None else with_values(x, value(x).values.conj().resolve_conj())
    return x.conjugate() if isinstance(x, complex) else x


def _to_number(grad: Tensor, numbered: bool) -> Tensor:
    return grad.sum() if numbered and grad.ndim else grad


def _product(self: Any, other: Any) -> Tensor:
    if value(self) is None:
        self, other = other, self
    if _number(other):
        return with_values(self, value(self).values * other)
    if value(other) is None:
        v = as_coo(self)
        if tuple(other.shape) != tuple(self.shape):
            if other.ndim > self.ndim:
                raise unsupported("mul by a tensor of more dimensions: mul", self)
            other = other.expand(self.shape)
        return with_values(self, v.values * masked(other, v).values)
    if isinstance(value(self), Compressed) is not isinstance(value(other), Compressed):
        raise unsupported("mul of two layouts: mul", self, other)
    if not (self.ndim and other.ndim):
        many, one = (self, other) if self.ndim else (other, self)
        return with_values(many, value(many).values * value(one).values.sum())
    if tuple(self.shape) != tuple(other.shape):
        raise RuntimeError(
            f"mul(): the sizes of two sparse tensors must be the same, got {list(self.shape)} and {list(other.shape)}"
        )
    first, second = coo_of(self), coo_of(other)
    if first is not None and second is not None and not (first.coalesced and second.coalesced):
        if first.coalesced or not second.coalesced and len(first.values) >= len(second.values):
            first, second = second, first  # the result has the places of the first
        return with_values(fresh(first), first.values * masked(fresh(second), first).values)
    a, b = coalesced(as_coo(self)), coalesced(as_coo(other))
    if a.indices._storage is b.indices._storage:
        return like(Coo(a.indices, a.values * b.values, a.shape, True), self)
    places, mine, others = np.intersect1d(numbers(a), numbers(b), assume_unique=True, return_indices=True)
    left = a.values.index_select(0, put_on(mine, a.values.device))
    right = b.values.index_select(0, put_on(others, a.values.device))
    return like(Coo(_indices_of(places, a.lengths(), a.indices.device), left * right, a.shape, True), self)


@rule("div.Tensor", "div.Tensor_mode", "floor_divide")
def _div(ctx: Any, self: Any, other: Any, rounding_mode: Any = None) -> Tensor:
    v = value(self)
    if isinstance(v, Compressed) or isinstance(value(other), Compressed):
        raise RuntimeError(f"div(): unsupported tensor layout: {layout_name(self if value(self) else other)}")
    if not _number(other) or v is None:
        shape = list(other.shape) if isinstance(other, Tensor) else []
        raise RuntimeError(
            f"Sparse division requires a scalar or zero-dim dense tensor divisor (got shape {shape} for divisor)"
        )
    if isinstance(other, Tensor) and nodes.requires_grad(other):
        raise unsupported("div by a tensor that requires grad: div", self)
    if rounding_mode is not None:
        ctx.saves(lambda grad: [grad * 0, None])
        merged_self = merged(self)
        return with_values(merged_self, value(merged_self).values.div(other, rounding_mode=rounding_mode))
    ctx.saves(lambda grad: [grad / _conjugate(other), None])
    return with_values(self, v.values / other)


def _floor_divide(ctx: Any, self: Any, other: Any) -> Tensor:
    return _div(ctx, self, other, "floor")


RULES["floor_divide"] = _floor_divide
WITHIN.update(("div", "floor_divide"))


# -- functions of each element that keep zeros ----------------------------------------------------------


def _unary(name: str, backward: Any = None, linear: bool = False, layouts: Any = (Coo, Compressed)) -> None:
    """The rule of a function: of each sum of values that share a place, unless it is linear."""

    def f(ctx: Any, self: Tensor, **kwargs: Any) -> Tensor:
        if not isinstance(value(self), layouts):
            raise unsupported(name, self)
        if backward is None:
            ctx.saves(lambda grad: _refuse_gradient(name, self))
        else:
            ctx.saves(backward, self.detach() if linear else self)
        t = self if linear else merged(self)
        return with_values(t, getattr(value(t).values, name)(**kwargs).resolve_neg(), not linear)

    RULES[name] = f
    WITHIN.add(name)
    if not linear:
        DISTINCT.add(name)


def _refuse_gradient(name: str, t: Tensor) -> Any:
    raise unsupported(f"the gradient of {name}", t)


_LINEAR = {"neg": lambda grad, self: [-grad]}
_SMOOTH = {
    "abs": lambda grad, self: [grad * self.sgn()],
    "relu": lambda grad, self: [grad * self.sgn().relu()],
    "sgn": lambda grad, self: [grad * 0],
    "sign": lambda grad, self: [grad * 0],
}
_PLAIN = """asin asinh atan atanh ceil deg2rad erf erfinv expm1 floor frac log1p rad2deg round signbit sin sinh sqrt tan
tanh trunc isnan isinf isposinf isneginf""".split()

for _name, _backward in _LINEAR.items():
    _unary(_name, _backward, linear=True)
for _name, _backward in _SMOOTH.items():
    _unary(_name, _backward)
for _name in _PLAIN:
    _unary(_name)
_unary("nan_to_num", layouts=Coo)
_unary("angle", layouts=Compressed)
_unary("conj_physical", lambda grad, self: [_conjugate(grad)], linear=True)


@rule("pow.Tensor_Scalar", "_pow_special")
def _pow(ctx: Any, self: Tensor, exponent: Any) -> Tensor:
    if isinstance(value(self), Compressed):
        raise RuntimeError(f"pow(): unsupported tensor layout: {layout_name(self)}")
    if isinstance(exponent, Tensor) or not exponent:
        raise RuntimeError("pow(): cannot raise to zeroth power on sparse tensor")
    ctx.saves(
        lambda grad, self: [grad * exponent if exponent == 1 else grad * (self ** (exponent - 1) * exponent), None],
        self,
    )
    t = merged(self)
    return with_values(t, value(t).values ** exponent)


@rule("_conj")
def _conj(ctx: Any, self: Tensor) -> Tensor:
    ctx.saves(lambda grad: [_conjugate(grad)])
    return _conjugate(self)


def _norm(self: Tensor, ord: Any, *rest: Any) -> Tensor:
    if rest[0] not in (None, ()) or rest[1] or isinstance(value(self), Compressed) or self.requires_grad:
        raise unsupported("a norm over some dimensions, or with gradients: linalg_vector_norm", self)
    return call(REGISTRY["linalg_vector_norm"], (coalesced(as_coo(self)).values,), (ord, *rest))


# -- in place --------------------------------------------------------------------------------------------


def _zero_(self: Tensor) -> Tensor:
    v = value(self)
    if isinstance(v, Coo):
        indices = put_on(np.zeros((v.sparse_dim, 0), np.int64), v.indices.device)
        new = Coo(indices, v.values.new_zeros((0, *v.values.shape[1:])), v.shape, True)
    else:
        assert isinstance(v, Compressed)
        new = emptied(v)
        for mine, none in ((v.compressed, new.compressed), (v.plain, new.plain), (v.values, new.values)):
            write_silently(mine.resize_(none.shape), value_of(none))
        new = v  # emptied where it is: detached tensors, which have the same parts, are empty too
    return replaced("zero_", self, recorded("ZeroBackward0", lambda ctx, t: _no_gradient(ctx, new), self))


def _no_gradient(ctx: Any, new: Any) -> Tensor:
    ctx.saves(lambda grad: [None])
    return fresh(new)


def _fill_(self: Tensor, number: Any) -> Tensor:
    v = value(self)
    if not isinstance(v, Compressed) or isinstance(number, Tensor):
        raise unsupported("fill_", self)
    new = value(with_values(self, v.values.clone().fill_(number)))
    return replaced("fill_", self, recorded("FillBackward2", lambda ctx, t: _no_gradient(ctx, new), self))


def _demand_same_entries(self: Tensor, src: Tensor) -> None:
    """RuntimeError where one of two tensors is compressed and the other is not so, or of other numbers of entries."""
    a, b = value(self), value(src)
    if a is None:
        raise RuntimeError(f"copy_sparse_compressed_ expected sparse compressed tensor layout, got {layout_name(self)}")
    if self.layout is not src.layout:
        raise RuntimeError(
            "torch.copy_: copy of sparse compressed tensors having different layouts is not supported. self layout is "
            f"{layout_name(self)} and src layout is {layout_name(src)}"
        )
    if a.nnz != b.nnz:
        raise RuntimeError(
            "torch.copy_: only sparse compressed tensors with the same number of specified elements are supported. "
            f"self has {a.nnz} and src {b.nnz}"
        )
    if (mine := list(self.shape)) != (others := list(src.shape)):
        dim = next((d for d, (x, y) in enumerate(zip(mine, others, strict=False)) if x != y), min(self.ndim, src.ndim))
        raise RuntimeError(
            f"torch.copy_: expected shapes of self and src to match along dimension {dim}, got {mine} and {others}"
        )
    if tuple(a.values.shape) != tuple(b.values.shape):
        raise RuntimeError(
            "torch.copy_: copy of sparse compressed tensors having different block sizes is not supported. values of "
            f"self are {list(a.values.shape)}, of src {list(b.values.shape)}"
        )


def _copy_(self: Tensor, src: Tensor, *rest: Any) -> Tensor:
    if isinstance(value(self), Compressed) or isinstance(value(src), Compressed):
        _demand_same_entries(self, src)
    if value(self) is None or value(src) is None:
        raise RuntimeError(
            "copy_() between dense and sparse Tensors is not implemented! Found self type = "
            f"{layout_name(self)} and src type = {layout_name(src)}"
        )
    if layout_name(self) != layout_name(src):
        raise unsupported("copy_ between layouts: copy_", self, src)

    def f(ctx: Any, src: Tensor) -> Tensor:
        ctx.saves(lambda grad: [grad])
        return with_values(src, value(src).values.to(self.dtype).clone())

    return replaced("copy_", self, recorded("CopyBackwards", f, src))


COMPOSITES["linalg_vector_norm"] = _norm
INPLACE["zero"], INPLACE["copy"], INPLACE["fill"] = _zero_, _copy_, _fill_
